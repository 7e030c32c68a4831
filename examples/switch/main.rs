//! What changes if a server's `use tokio::time` becomes `use timingwheel::time`?
//!
//! `cargo run --release -p timingwheel-examples --example switch`, or with `-- --help` for the settings and
//! `-- --short` for a quick look.
//!
//! This is all that changes:
//!
//! ```diff
//! - use tokio::time;
//! + use timingwheel::time;
//! ```
//!
//! `server.rs` is compiled twice: in `on_tokio.rs` and in `on_wheel.rs`, which differ in that line. Each serves the same
//! clients over TCP on loopback, in a runtime of its own. The server bounds each request with a timeout, moves a sleep
//! with each request to notice silent peers, and ticks. It has to do the same on both, and as its clients
//! asked, and no timer may be early. Otherwise the program says so and exits with 1.

#![allow(clippy::duplicate_mod, reason = "that the same code runs on both is the point")]

mod on_tokio;
mod on_wheel;

mod books;
#[path = "../shared/compared.rs"]
mod compared;
#[path = "../shared/limits.rs"]
mod limits;
mod load;
#[path = "../shared/machine.rs"]
mod machine;
mod report;
mod run;

fn main() -> std::process::ExitCode {
    run::main()
}

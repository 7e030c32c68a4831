//! How do I give an operation one deadline, and each of its reads and writes a limit, and what does that cost?
//!
//! `cargo run --release -p timingwheel-examples --example kv_client`, or with `-- --help` for the settings and `-- --short` for a quick look.
//!
//! A client of a key-value server has many connections. An operation on one of them is two writes and two reads. The
//! function below is what such a client would write. `ways.rs` has the same with tokio's timeouts, with those of a wheel by
//! name, with one timer that is moved by hand, with that and a cancellation token, and without limits. All of them run in
//! turn, on more and more workers, over loopback or in memory; a table tells how many operations a second each did. If an
//! operation failed, or the wheel's own counts say that its limits were not there, the program says so and exits with 1.

use std::io;
use std::time::Duration;

use timingwheel_deadline::Deadline;

/// For all of an operation.
const OPERATION: Duration = Duration::from_secs(10);
/// For each read and write.
const EACH: Duration = Duration::from_secs(5);

/// Gets a value. The deadline is the operation's: whoever has a clone of it may cancel the operation.
async fn get<S: Stream>(deadline: &Deadline, server: &mut Connection<S>) -> io::Result<()> {
    deadline.run_within(EACH, server.write_header()).await??;
    deadline.run_within(EACH, server.write_key()).await??;
    deadline.run_within(EACH, server.read_header()).await??;
    deadline.run_within(EACH, server.read_value()).await??;
    Ok(())
}

mod run;
mod server;
mod ways;

use server::{Connection, Stream};

fn main() -> std::process::ExitCode {
    run::main()
}

//! Does a wheel keep what it promises for an hour at full speed, on a machine that stalls?
//!
//! `cargo run --release -p timingwheel-examples --example soak -- --minutes 60`; a minute without the setting, or with
//! `-- --help` for the others and `-- --short` for a quick look.
//!
//! The functions below are what a program can check of its own wheel at any time. Here they are called again and again
//! while tasks use one wheel in every way: sleeps, timeouts, deadlines that move, timers that are dropped on other
//! workers, intervals, guarded connections, streams, and now and then fifty thousand timers at once and wheels that are
//! made and dropped. Meanwhile workers stall at random, sometimes all of them together. No timer may be early, and the
//! process may take no more memory than when it was warm. If something does not hold the program says so and exits
//! with 1.

use std::time::Duration;

use timingwheel::{Stats, TimingWheel};
use tokio::time::timeout;

/// Whether each timer is accounted for. Each shard is counted under its lock, so this holds at full speed too.
fn is_accounted_for(Stats { armed, fired, cancelled, pending, .. }: &Stats) -> bool {
    *armed == fired + cancelled + *pending as u64
}

/// Whether timers go on firing: one of a millisecond does so within a time that is long for a stalled machine too.
async fn goes_on_firing(wheel: &TimingWheel, within: Duration) -> bool {
    // On tokio's timers, which tell of a wheel that stands still.
    timeout(within, wheel.sleep(Duration::from_millis(1))).await.is_ok()
}

mod books;
mod checks;
mod connections;
#[path = "../shared/ledger.rs"]
mod ledger;
#[path = "../shared/limits.rs"]
mod limits;
mod load;
#[path = "../shared/machine.rs"]
mod machine;
mod report;
mod run;
mod settings;
mod stalls;

fn main() -> std::process::ExitCode {
    run::main()
}

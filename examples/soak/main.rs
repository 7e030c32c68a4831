//! Does a wheel keep its promises for an hour at full speed, on a machine that stalls?
//!
//! `cargo run --release -p timingwheel-examples --example soak -- --minutes 60`, or without it for one minute. `-- --help`
//! lists the settings, and `-- --short` is a quick look.
//!
//! A program can check its own wheel at any time by the functions below. Here they run again and again, while tasks use one
//! wheel in every way: sleeps, timeouts, moved deadlines, timers that are dropped on other workers, intervals, guarded
//! connections and streams. Now and then come fifty thousand timers at once, and wheels that are made and dropped. Meanwhile
//! workers stall at random, sometimes all together. If a timer is early, or the process takes more memory than when it was
//! warm, the program says so and exits with 1.

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

//! How do I run cooldowns and buffs in a game loop?
//!
//! `cargo run --release -p timingwheel-examples --example game`, or with `-- --help` for the settings and `-- --short`
//! for a quick look.
//!
//! All that will happen is in one `DelayQueue`, and the loop takes out what is due once a frame, without awaiting it.
//! Jobs would be tasks, which run on all threads in any order, so that the world would need a lock. From a queue the
//! loop itself applies everything, in the order of the deadlines, to a world that it alone holds; and of thousands of
//! pending effects the wheel sees one timer. A frame that comes late changes nothing but when things happen: a poison's
//! next tick follows from the deadline of the one before, and what a long frame missed is made up for in order.
//!
//! `play` and `next_due` are all that a program needs; the rest is a world. Characters cast spells: each has a cooldown
//! for its caster, and a buff for its target, which is begun or refreshed, can be dispelled, and may tick. A plain map
//! tells what should happen when. If something happens before its time, out of order, when the map says otherwise, or
//! never, the program says so and exits with 1.

use std::ops::ControlFlow;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use timingwheel::TimingWheel;
use timingwheel::time::{DelayQueue, MissedTickBehavior, delay_queue::Expired};
use tokio::task::unconstrained;

/// Makes a frame again and again, until it breaks. A long one is followed by the next whole one: that makes up for all
/// that was due meanwhile.
async fn play<E>(
    wheel: &TimingWheel,
    length: Duration,
    mut frame: impl FnMut() -> Result<ControlFlow<()>, E>,
) -> Result<(), E> {
    let mut ticks = wheel.interval(length);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        if frame()?.is_break() {
            return Ok(());
        }
    }
}

/// The next of the events that are due, in the order of their ticks. It does not wait for more.
fn next_due<T>(events: &mut DelayQueue<T>) -> Option<Expired<T>> {
    // Without tokio's budget for a task, as a frame wants all there are.
    unconstrained(events.next()).now_or_never().flatten()
}

mod books;
#[path = "../shared/ledger.rs"]
mod ledger;
#[path = "../shared/limits.rs"]
mod limits;
#[path = "../shared/machine.rs"]
mod machine;
mod run;
mod world;

#[tokio::main]
async fn main() -> std::process::ExitCode {
    run::main().await
}

//! How do I run cooldowns and buffs in a game loop?
//!
//! `cargo run --release -p timingwheel-examples --example game`, or with `-- --help` for the settings and `-- --short`
//! for a quick look.
//!
//! All future events are in one `DelayQueue`. Once a frame the loop takes out the due ones, without awaiting. Jobs would be
//! tasks, which run on all threads in any order, so the world would need a lock. From a queue the loop itself applies all
//! events to its world, in the order of their deadlines, and the wheel has one timer for thousands of them. A late frame
//! delays events, and changes nothing else: a poison's next tick follows from the deadline of the last, and a long frame
//! makes up for missed events in order.
//!
//! `play` and `next_due` are all that a program needs; the rest is a world. Characters cast spells: each has a cooldown
//! for its caster, and a buff for its target, which can be refreshed or dispelled, and may tick. A plain map has the events
//! that should happen. If an event comes before its time, out of order, never, or against the map, the program says so and
//! exits with 1.

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

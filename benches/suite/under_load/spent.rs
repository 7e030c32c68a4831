//! What a process takes for each thing that it does again and again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::support::{Scale, context_switches, cpu_time};

/// Until all tasks are at it.
const LEAD: Duration = Duration::from_millis(200);
const WATCHED: Duration = Duration::from_millis(600);
/// Longer than a task waits between two things that it does.
const WATCHED_IN_TEST: Duration = Duration::from_millis(300);
/// Many short ones, as a busy machine disturbs some of them.
const ROUNDS: usize = 9;

#[derive(Clone, Copy, Debug)]
pub(super) struct Spent {
    /// For each, in nanoseconds.
    pub(super) cpu: f64,
    /// Context switches for a thousand of them, as there may be far fewer than one for each.
    pub(super) switches: f64,
}

/// How often a thing was done. Relaxed: it is read while the tasks run, and after all have been joined.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How many rounds are compared.
pub(super) fn rounds_of(scale: Scale) -> usize {
    if scale.is_test() { 1 } else { ROUNDS }
}

/// Watches tasks that count what they do, from a thread that is none of their runtime's.
pub(super) fn spent(scale: Scale, done: &Count) -> Spent {
    let look = || (cpu_time(), context_switches(), done.get());
    thread::sleep(scale.length(LEAD));
    let before = look();
    thread::sleep(if scale.is_test() { WATCHED_IN_TEST } else { WATCHED });
    let after = look();
    let done = (after.2 - before.2) as f64;
    let switches = (after.1 - before.1) as f64;
    Spent { cpu: (after.0 - before.0).as_nanos() as f64 / done, switches: switches * 1e3 / done }
}

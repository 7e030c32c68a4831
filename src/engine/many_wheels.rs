//! Notices a thread that turns many wheels in each millisecond.
//!
//! A lone timer fires at its deadline, so each wheel is turned at a time of its own, and each turn wakes a worker. With a hundred
//! wheels on a runtime that took most of a timer's cost. So on a thread that turns [`MANY`] wheels within a millisecond, turns
//! are set to the ends of ticks, which all wheels with equal ticks have in common. Then one wake-up serves many wheels, and each
//! timer is still late by less than a tick.
//!
//! Threads share nothing here, so wheels of other runtimes change nothing. A wheel counts once in a millisecond. So one wheel
//! is turned at its timers' deadlines, however short they are.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::wheel::Nanos;

const MANY: u32 = 4;
/// For how many milliseconds this is remembered: the workers of a runtime take turns in looking at the poller.
const REMEMBERED: u64 = 16;
/// Milliseconds are counted as so many bits of nanoseconds, which spares a division.
const MILLI_BITS: u32 = 20;

/// What a thread has turned.
#[derive(Clone, Copy)]
struct Turned {
    milli: u64,
    /// How many wheels in this millisecond.
    wheels: u32,
    /// Before this millisecond they are many.
    many_until: u64,
}

thread_local!(static TURNED: Cell<Turned> = const { Cell::new(Turned { milli: 0, wheels: 0, many_until: 0 }) });

/// Notes that this thread turns a wheel at `now`. `last` keeps the millisecond of the wheel's last turn.
pub(super) fn note(now: Nanos, last: &AtomicU64) {
    let milli = now.0 >> MILLI_BITS;
    // Relaxed, and no swap: if two threads turn the wheel at the same time, both may count it.
    if last.load(Ordering::Relaxed) == milli {
        return;
    }
    last.store(milli, Ordering::Relaxed);
    let note = |turned: Turned| {
        let wheels = if turned.milli == milli { turned.wheels + 1 } else { 1 };
        let many_until = if wheels < MANY { turned.many_until } else { milli + REMEMBERED };
        Turned { milli, wheels, many_until }
    };
    // A thread that is about to end keeps nothing any more.
    _ = TURNED.try_with(|turned| turned.set(note(turned.get())));
}

/// Whether this thread has turned many wheels shortly before `now`. Never in a model, in which all threads are one.
pub(super) fn are_turned(now: Nanos) -> bool {
    let are_many = |turned: &Cell<Turned>| now.0 >> MILLI_BITS < turned.get().many_until;
    !cfg!(all(test, loom)) && TURNED.try_with(are_many).unwrap_or(false)
}

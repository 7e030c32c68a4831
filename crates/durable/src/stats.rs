//! What durable timers have done so far, and how they do.

use std::time::Duration;

use jiff::SignedDuration;
use timingwheel::monitor::Histogram;

/// Counts since the [start](crate::Builder::start) and what holds now, from [`Durable::stats`](crate::Durable::stats).
///
/// How many timers there are in all is the store's to say: [`Durable::count`](crate::Durable::count).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Timers in memory: those on the wheel, and those that are due and wait for a handler.
    pub armed: usize,
    /// Timers that have begun and not ended, those included that wait out the last moment before their time.
    pub begun: usize,
    /// Timers that were saved.
    pub saved: u64,
    /// Saves that went to the store together: `saved / save_batches` is how many at a time.
    pub save_batches: u64,
    /// Times that the store was asked for what is near.
    pub loads: u64,
    /// Timers that were loaded.
    pub loaded: u64,
    /// Attempts whose handler was called.
    pub attempts: u64,
    /// Timers that are done.
    pub done: u64,
    /// Attempts that failed, or asked for another, and are made again.
    pub retried: u64,
    /// Timers that were put off by their handlers.
    pub snoozed: u64,
    /// Timers that were put aside.
    pub buried: u64,
    /// Occurrences of series that were missed, and left out.
    pub skipped: u64,
    /// Pending runs of series that were planned anew, as their rule would not plan them like that: by a clock that had been
    /// wrong, or because zone data has changed.
    pub replanned: u64,
    /// Timers that were put aside by the store, because they are damaged and cannot be read.
    pub damaged: u64,
    /// Timers that were saved here although their kind has no handler here, and others have.
    pub saved_unhandled: u64,
    /// A timer that is overdue, and of a kind without a handler here. It is looked for every five minutes.
    pub unhandled: Option<Unhandled>,
    /// Timers that were taken back between their begin and their time, because they were cancelled or moved.
    pub taken_back: u64,
    /// Handlers that panicked. The panic hook has reported each.
    pub panicked: u64,
    /// Results that were refused, because another owner had followed.
    pub fenced: u64,
    /// Calls of the store that failed: saves, and what the runner asks for by itself, such as loads, begins and renewals.
    ///
    /// Cancels, moves and lists are not counted. Their callers have the errors.
    pub store_errors: u64,
    /// Times that a clock was found to have been set.
    pub clock_set: u64,
    /// How late handlers were called, by the wall clock.
    pub lateness: Histogram,
    /// How long the first timer has been due that has not begun, as far as is known here.
    pub behind: Duration,
    /// How far ahead of their due times timers are begun now, because a begin takes that long.
    pub ahead: Duration,
    /// Shards that were taken over from instances that were silent for too long.
    pub takeovers: u64,
    /// How many shards this instance has, and how many there are. One that shares nothing, or
    /// has no handlers, has (0, 0).
    pub shards: (u32, u32),
    /// Times that this instance has told the store that it lives.
    pub renewals: u64,
    /// How much was left of the time in which this instance may begin timers, when it last renewed its lease. At zero
    /// it begins none.
    pub lease_margin: Duration,
    /// Times that this instance was silent for too long, and joined again.
    pub rejoined: u64,
    /// How far the clock by which timers are due is ahead of the instance's own.
    pub clock_offset: SignedDuration,
    /// Looks for what other instances have stored that found nothing.
    pub empty_scans: u64,
    /// Whether another owner has followed: then nothing more begins here.
    pub lost: bool,
    /// Whether one of its tasks has panicked, as by a clock or a store of the user's: the program has to start again.
    pub failed: bool,
    /// Whether it was stopped.
    pub stopped: bool,
}

/// A timer that nobody handles, from [`Stats::unhandled`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unhandled {
    /// The kind, for which [`Builder::on`](crate::Builder::on) was not called.
    pub kind: String,
    /// How long its first timer was overdue when it was looked for: more than two minutes.
    pub overdue: Duration,
}

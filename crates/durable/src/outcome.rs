//! What became of calls that come against the handler.

use crate::id::TimerId;

/// What became of a cancel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// The timer is gone: no handler is called for it.
    Removed,
    /// Its handler has been called, for this attempt, and may have ended by now. Nothing follows that: no other attempt, and
    /// no other occurrence of its series. Only if the process dies before the attempt ends, it is made again.
    ///
    /// Where instances share a store, another one may have begun the timer and not called the handler yet. If that gives the
    /// timer back, as when it stops, the handler is not called: to cancel once more then answers [`Removed`](Self::Removed).
    Running(u32),
    /// There is no such timer: it is done, was removed before, or never was.
    NotFound,
}

/// What became of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// It is due at another time now. Its id is what it was.
    Moved(TimerId),
    /// Its handler has been called, for this attempt.
    Running(u32),
    /// There is no such timer.
    NotFound,
}

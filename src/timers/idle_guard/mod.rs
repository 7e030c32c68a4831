//! A stream with limits on how long reads and writes may wait.

// | file | what it has |
// |---|---|
// | `make` | `wheel.idle_guard(stream)` |
// | `options` | how a guard's limits are set and asked for |
// | `io` | what passes through: the stream is asked, then its wait ends or goes on |
// | `waits` | the waits of both directions, and the one timer that wakes whoever waits |
// | `traffic` | what a byte that passes does: waits end, and silence begins anew |
// | `deadlines` | when each limit passes, while traffic flows and in silence, and who has not answered |
// | `changes` | what becomes of waits when a limit is set |
// | `limits` | limits and marks in few bytes |
// | `wakers` | whom the timer wakes, where two tasks wait |
// | `direction` | reading and writing |
// | `idle_events` | `IdleEvents`, which tell of silence |
// | `last_use_for_events` | when a byte passed last, as those events are told |

mod changes;
mod deadlines;
mod direction;
pub(crate) mod idle_events;
mod io;
mod last_use_for_events;
mod limits;
mod make;
mod options;
mod traffic;
mod waits;
mod wakers;

use std::fmt;
use std::pin::Pin;

use pin_project_lite::pin_project;
use waits::Waits;

pin_project! {
    /// A stream with limits on how long reads and writes may wait, from
    /// [`TimingWheel::idle_guard`](crate::TimingWheel::idle_guard).
    ///
    /// | limit | what it bounds | expires |
    /// |---|---|---|
    /// | [read](Self::with_read_limit) | how long reads wait without a byte | even while bytes are written |
    /// | [write](Self::with_write_limit) | how long writing, flushing and shutting down wait without progress | even while bytes are read |
    /// | [idle](Self::with_idle_limit) | how long a read or a write waits while no byte passes in either direction | only while both directions are silent |
    ///
    /// A wait begins when an operation finds the stream not ready. It ends when one in the same direction is ready. So the
    /// time between a read that was ready and the next does not count, because the peer is not to blame for it. A large
    /// buffer may take any time to write as long as the peer takes some of it within each limit.
    ///
    /// With a read limit, a ping that is written does not prolong the wait for its answer. So use that limit to find a
    /// dead peer. Use the idle limit for streams that may be quiet in one direction for long, as in a proxy.
    /// `copy_bidirectional` always reads both sides, so a read limit would cut a long download: the client sends nothing
    /// meanwhile.
    ///
    /// To act on silence rather than to fail, for instance to send a heartbeat, use [`idle_events`](Self::idle_events).
    ///
    /// A limit bounds a gap, not a request: a peer that sends a byte now and then can prolong a request for ever. To
    /// bound the request, put a [`timeout`](crate::TimingWheel::timeout) round it.
    ///
    /// hyper's server waits for a read also while a handler runs. So set only the write limit under hyper, and
    /// `header_read_timeout` for reading.
    ///
    /// An operation always polls the stream first, and looks at the deadline only if the stream is not ready. So bytes
    /// that have arrived are read, even if the limit has passed since.
    ///
    /// # Precision
    /// As [`sleep`](crate::TimingWheel::sleep): an operation never returns an error early. With
    /// a limit of zero, an operation that would wait fails at once. With a [tolerance](Self::with_tolerance) the error is
    /// late by less than that. If the task is polled more than a second after its timer woke it, as after a suspend, the
    /// wait gets a whole new limit.
    ///
    /// # Errors
    /// When a limit has passed, the operation that waits returns an [`io::Error`](std::io::Error) of kind
    /// [`TimedOut`](std::io::ErrorKind::TimedOut) with an [`Elapsed`](crate::Elapsed) in it, whose text tells which
    /// limit and how long that is. The stream is left as it is, and the next operation starts anew. If reader and writer
    /// are two tasks, the idle limit ends the wait of only one of them with an error; the other's wait begins anew.
    ///
    /// If the wheel has ended or is full, an operation that has to wait returns an error of
    /// kind [`Other`](std::io::ErrorKind::Other) with an [`Elapsed`](crate::Elapsed) that has a
    /// [`reason`](crate::Elapsed::reason). An operation that has no limit waits even then.
    ///
    /// # Cancel safety
    /// That of the stream's own operations.
    ///
    /// Nothing tells a guard that an operation was dropped. So its timer wakes the task when half of the limit has
    /// passed, and again at the end. A live operation is polled then, and its wait goes on unchanged. If no operation
    /// is polled within a second, the operation was dropped: its wait no longer counts, and the next operation has the
    /// whole limit.
    ///
    /// - In a `select!` loop that drops a read and begins another again and again, silence counts from the first of
    ///   them. The limit finds a dead peer there too.
    /// - A handler may drop a read and work for longer than the limit. The next read waits for the whole limit.
    /// - A handler that works for less than half of the limit leaves the rest of it to the next read.
    ///   [`restart`](Self::restart) gives that read the whole limit.
    ///
    /// # Panics
    /// Only if the stream does.
    ///
    /// # Cost
    /// An operation that is ready touches neither the clock nor the timer. One that has to wait reads the clock once,
    /// and nothing is allocated. The first wait registers the timer. Later waits reuse it while a quarter of the limit
    /// is left, so the timer may wake the last waiter once for nothing. Dropping the guard removes the timer.
    ///
    /// A guard takes 64 bytes beside its stream if one task uses it, and if it has a read limit, a write limit, or the
    /// same limit for both. It allocates once for different limits, an idle limit, idle events, or halves of
    /// [`tokio::io::split`] that wait in different tasks. With an idle limit or idle events an operation that is ready
    /// reads the clock.
    ///
    /// The idea to count from the first poll that has to wait comes from the crate `tokio-io-timeout`.
    #[must_use = "a guard does nothing unless the stream is used through it"]
    pub struct IdleGuard<S> {
        #[pin]
        stream: S,
        waits: Waits,
    }
}

impl<S> IdleGuard<S> {
    /// The stream within.
    #[must_use]
    pub const fn get_ref(&self) -> &S {
        &self.stream
    }

    /// The stream within. Reads and writes through this reference have no limit, and end no wait.
    #[must_use]
    pub const fn get_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// The stream within, pinned. Reads and writes through this reference have no limit, and end no wait.
    #[must_use]
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut S> {
        self.project().stream
    }

    /// The stream within, now without limits.
    #[must_use]
    pub fn into_inner(self) -> S {
        self.stream
    }
}

impl<S: fmt::Debug> fmt::Debug for IdleGuard<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stream, waits: _ } = self;
        f.debug_struct("IdleGuard")
            .field("stream", stream)
            .field("read_limit", &self.read_limit())
            .field("write_limit", &self.write_limit())
            .field("idle_limit", &self.idle_limit())
            .finish_non_exhaustive()
    }
}

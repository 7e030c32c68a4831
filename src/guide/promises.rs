//! What you may rely on.
//!
//! Each promise has tests that fail when it is broken.
//!
//! # Never early
//!
//! No sleep, timeout, tick or item is due before its deadline. Deadlines are kept to the nanosecond, by
//! the clock of the wheel's runtime. This holds for any tick, any load, and any order in which timers are made and moved.
//!
//! # Late by less than a tick, or two on a busy wheel
//!
//! A timer fires at the end of the [tick](crate::Builder::tick) in which its deadline lies, or before. A timer that is
//! alone in its tick fires at its deadline. But if another timer, with a later deadline in that tick, was cancelled, the
//! first may fire as late as at that later deadline. A timer whose deadline has passed when it is made is ready at its
//! first poll.
//!
//! A busy wheel is turned only once in two ticks, which takes less CPU time. There a timer may be late by one tick more,
//! even one that is alone in its tick. A turn that fires 32 timers makes the wheel busy. If the runtime is idle between
//! turns, eight timers suffice. After a turn that covered two ticks, both numbers double. A wheel with a tick of more than
//! a millisecond is never busy, nor is one whose clock can be paused.
//!
//! Add the delay that tokio's own timers would have on the same runtime, because a worker turns both when it parks. On
//! a busy runtime that delay is the time until a worker has polled 61 tasks, and until the task itself is polled. If
//! one worker blocks while another is idle, the watchdog has the wheel turned within some 10 ms. If the system gives no
//! thread for the watchdog, [`Stats::unwatched`](crate::Stats::unwatched) tells, and the wheel asks again.
//!
//! On a [paused clock](crate#in-tests) an idle jump may add up to two milliseconds, as tokio's own rounding does.
//!
//! # Late by less than a tolerance
//!
//! A timer with a [tolerance](crate::Tolerance) is late by less than its tolerance plus the machine's wake-up time, or
//! by as much as a timer without one, whichever is more. If the tolerance is at least a seventh of the delay, the timer
//! waits in one place of a wheel with 32 slots or more, unless it is reset.
//!
//! # Exactly once, and none lost
//!
//! An armed timer fires once, is dropped, or learns that the wheel has ended. Threads may arm, move and drop timers in any
//! order while others turn the wheel: no timer is lost, and none becomes late because of it.
//!
//! # Moving counts
//!
//! A [reset](crate::Sleep::reset) takes effect at once, whether to later, to earlier or to the past. No poll is needed after
//! it. An overdue timer that is moved to another instant in the past fires at the end of its tick at the latest.
//!
//! # Any deadline, any uptime
//!
//! A deadline may be any instant, with a tick of any length. Those within [292 years](crate::Sleep::deadline) of the start
//! of the process, before it and after it, are told as they were set. A timer beyond them never fires, and nothing
//! overflows.
//!
//! # A timer by name has the wheel of the runtime that awaits it
//!
//! A timer by the names of [`time`](crate::time) belongs to the runtime on which it is first found pending, which tokio's
//! does to the runtime on which it was made. Until then it holds nothing. A task that goes on using such timers may stay on
//! one wheel although its code enters another runtime. A timer that is first found pending outside of every runtime panics.
//!
//! # A dropped timer is gone
//!
//! A dropped timer counts as cancelled at once, and wakes nobody. Its entry and its waker go with it, or soon after.
//!
//! Up to 14 dropped timers in each shard keep their entries and wakers, for at most a second. New timers take over some
//! of them, and the others are taken out together. With a [bound](crate::Builder::max_pending), and where the clock can
//! be paused, all go at once.
//!
//! Where the docs say so under *Cancel safety*, you may drop a pending future and call the method again: nothing is lost.
//!
//! # A stale key harms nobody
//!
//! A key of the [core](crate::wheel::Hierarchy) finds nothing once its entry is gone, even when another entry has taken
//! its place. The same holds for a key of a [`DelayQueue`](crate::time::DelayQueue) whose item is gone.
//!
//! # Memory follows what is pending
//!
//! A pending timer takes 80 bytes, its future included. A warm wheel allocates nothing for it, unless more than 64
//! timers stand in its slot.
//!
//! After a burst of timers the wheel gives the memory back, in pages of 1,024 entries. A page stays while it holds an
//! entry, and new entries fill such a page first. A bucket keeps the memory of its keys, 8 bytes each, until it is
//! emptied. Then it keeps room for 64 keys. The number of buckets is levels times slots.
//!
//! # A bound is a bound
//!
//! With [`max_pending`](crate::Builder::max_pending) there are never more timers pending than the bound, on any number
//! of threads. A timer's permit is free again when the timer ends. Whoever is refused learns it, by an error or a panic.
//! Timeouts and hyper's sleeps wait by tokio's timers instead.
//!
//! # The end is told
//!
//! A wheel ends by [`shutdown`](crate::TimingWheel::shutdown), with its runtime, or with the last of its handles and
//! futures. Everything that is pending is then woken. Every operation that can return an [`Error`](crate::Error)
//! returns one. A sleep panics with the reason, unless its deadline has come. A timeout and a sleep of hyper's wait by
//! tokio's timer, so that no limit passes before its time. No timer waits for ever,
//! and none of the wheel's own tasks is left. The watchdog's thread ends with the last wheel of the process.
//!
//! A runtime that nobody runs has not ended, so neither has its wheel: see [what is not
//! promised](#what-is-not-promised).
//!
//! # Wakers may do anything
//!
//! The wheel clones, wakes and drops wakers while it holds no lock, so a waker may do anything to the wheel. If one
//! panics, no other timer is lost.
//!
//! # Panics are written down
//!
//! Each method, or the type that it returns, says under *Panics* when it panics. The main cases are:
//!
//! - [`TimingWheel::new`], if the wheel cannot be built,
//! - awaiting a sleep or a tick whose wheel has ended or is full,
//! - a call that runs or drops code of yours which panics,
//! - a period or a chunk size of zero,
//! - in the core, a number of slots beyond the limits, and a batch of zero.
//!
//! Settings of a wheel beyond their limits are errors.
//!
//! # A paused clock is followed
//!
//! A wheel on a current-thread runtime follows tokio's paused clock with nothing set. Timers then fire as tokio's own do,
//! but for the [differences](crate::migration#differences).
//!
//! # What is not promised
//!
//! - An order among timers that are due in the same tick.
//! - Lateness on a runtime that does not run, because all of its workers block or the process is stopped. Timers that
//!   came due meanwhile fire when the runtime runs again.
//! - Anything on a current-thread runtime while nobody runs it by `block_on`. Its park turns the wheel, so nothing fires,
//!   not even on other threads. Only [`Stats::overdue`](crate::Stats::overdue) shows it.
//! - Timers when memory runs out: Rust then aborts the process. [`max_pending`](crate::Builder::max_pending) keeps timers
//!   from taking all of it.
//! - Whether time counts while the machine is suspended. It counts if tokio's clock counts it.
//! - Timers in the child of a `fork` on wheels that it has from its parent: the child has no worker that turns them. Wheels
//!   of runtimes that the child makes work as ever, and the parent notices nothing of the child.
//!
//! [`TimingWheel::new`]: crate::TimingWheel::new

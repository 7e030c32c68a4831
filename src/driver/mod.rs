//! The driver: the one task of a wheel. It sleeps until the earliest bucket expires, advances, and wakes.

mod paused_clock;
#[cfg(all(test, not(loom)))]
mod tests;
mod wake;

use std::pin::{Pin, pin};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use paused_clock::PausedClock;

use crate::alarm::Alarm;
use crate::clock::Clock;
use crate::shard::{Shard, Turn, only_spares_hold};
use crate::wheel::{Nanos, Progress, Resolution};

/// Entries handed out or moved under one hold of a shard's lock. It keeps a hold in the order of 10 µs.
const BATCH: usize = 256;

/// A driver that is so late may have been held up together with its whole runtime.
const STALL: Duration = Duration::from_millis(1);

/// How long it then waits, at the most, for the runtime to look at its sockets: another task of the worker that it is
/// deferred on may go on stalling.
const INPUT_WITHIN: Duration = Duration::from_millis(5);

/// How long after the last handle went the driver looks again whether timers are left, and how long it then waits at
/// the most until it does once more; see `shard::reference`.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
const LOOK_AGAIN_AT_THE_LATEST: Duration = Duration::from_secs(60);

/// What there is to turn. It keeps no shard alive: the driver ends when nobody else holds one.
#[derive(Debug)]
pub(crate) struct Shards(Box<[Weak<Shard>]>);

/// When to turn.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// The last of the shards' next expirations that lie in one tick with the first: so there is one turn for a tick.
    at: Nanos,
    /// A guess at the time of the turn after that.
    then: Nanos,
}

impl Shards {
    pub(crate) fn new(shards: &[Arc<Shard>]) -> Self {
        Self(shards.iter().map(Arc::downgrade).collect())
    }

    fn alive(&self) -> impl Iterator<Item = Arc<Shard>> {
        self.0.iter().filter_map(Weak::upgrade)
    }

    /// Hands out at most a batch from each shard and wakes it. It was to be done `due_since` then.
    fn turn(&self, now: Nanos, due_since: Nanos, expired: &mut Vec<Waker>) -> Turn {
        let mut all = Turn::Ended;
        for shard in self.alive() {
            let turn = shard.turn(now, due_since, BATCH, expired);
            wake::all(expired, shard.notes());
            all = match (all, turn) {
                (Turn::More, _) | (_, Turn::More) => Turn::More,
                (Turn::Until(a), Turn::Until(b)) => Turn::Until(a.min(b)),
                (Turn::Until(next), Turn::Ended) | (Turn::Ended, Turn::Until(next)) => Turn::Until(next),
                (Turn::Ended, Turn::Ended) => Turn::Ended,
            };
        }
        all
    }

    /// The plan for shards of which the first has something to do at `first`. Borrows `alive`, to hold them meanwhile.
    fn plan(&self, first: Nanos, resolution: Resolution, alive: &mut Vec<Arc<Shard>>) -> Plan {
        alive.extend(self.alive());
        let last = last_in_tick_of(first, resolution, alive.iter().map(|shard| shard.next_expiration()));
        // What was discarded does not wait for the end of a tick, which may be long.
        let at = alive.iter().map(|shard| shard.clear_by()).fold(last, Nanos::min);
        let after = || alive.iter().map(|shard| shard.expiration_after(at));
        let then = after().min().unwrap_or(Nanos::MAX);
        let plan = Plan { at, then: last_in_tick_of(then, resolution, after()) };
        alive.clear();
        plan
    }

    /// Whether a shard has something to do before `time`.
    fn any_before(&self, time: Nanos) -> bool {
        self.alive().any(|shard| shard.next_turn() < time)
    }

    /// Whether no timer is left, once no handle is.
    fn are_unused(&self) -> bool {
        self.0.iter().all(only_spares_hold)
    }

    /// Ends every shard and wakes what is pending. Returns how much that was.
    pub(crate) fn end(&self) -> usize {
        let mut pending = Vec::new();
        let mut count = 0;
        for shard in self.alive() {
            loop {
                let (ended, progress) = shard.end(BATCH, &mut pending);
                count += ended;
                wake::all(&mut pending, shard.notes());
                if progress == Progress::Done {
                    break;
                }
            }
        }
        count
    }
}

/// The last of `times` that lie in the same tick as `first`.
fn last_in_tick_of(first: Nanos, resolution: Resolution, times: impl Iterator<Item = Nanos>) -> Nanos {
    let end = resolution.end_of_tick(first);
    // A shard without a time is no reason to wait for the end of time, whose tick may be long.
    times.filter(|&time| time <= end && time < Nanos::MAX).fold(first, Nanos::max)
}

/// The task. Ready when the wheel has ended; dropped before, with its runtime, it ends the wheel.
#[derive(Debug)]
pub(crate) struct Driver {
    shards: Arc<Shards>,
    alarm: Arc<Alarm>,
    clock: Clock,
    resolution: Resolution,
    /// Where the clock can be paused.
    paused_clock: Option<PausedClock>,
    expired: Vec<Waker>,
    /// Empty but while a plan is made, so that none allocates.
    alive: Vec<Arc<Shard>>,
    /// Since when there has been something to do that is not done. Where the clock can be paused, for ever: there what
    /// has passed is not registered.
    due_since: Nanos,
    /// The last poll let others run: the driver was not woken.
    yielded: bool,
    /// When to look again whether a timer is left, once no handle is, and how long after the last time that is.
    next_look: Option<(Nanos, Duration)>,
}

impl Driver {
    pub(crate) fn new(shards: Arc<Shards>, alarm: Arc<Alarm>, clock: Clock, resolution: Resolution) -> Self {
        let paused_clock =
            alarm.is_pausable().then(|| PausedClock::new(shards.clone(), alarm.clone(), clock));
        Self {
            shards,
            alarm,
            clock,
            resolution,
            paused_clock,
            expired: Vec::new(),
            alive: Vec::new(),
            due_since: Nanos::ZERO,
            yielded: false,
            next_look: None,
        }
    }

    /// Whether the driver is so late that the whole runtime may have stalled. Input that arrived in the meantime
    /// then waits at its sockets. A clock that was moved by hand is not late.
    fn may_have_stalled(&mut self, now: Nanos) -> bool {
        if self.paused_clock.is_some() {
            // An inserter may have woken the driver long ago, of which the thread knows nothing.
            self.shards.any_before(now.before(STALL)) && !self.alarm.look_at_clock()
        } else {
            let late_by = self.alarm.take_lateness();
            self.due_since = now.before(late_by);
            late_by > STALL
        }
    }

    /// Whether no timer is left, once no handle is.
    fn is_unused(&mut self, now: Nanos) -> bool {
        let (at, pause) = self.next_look.get_or_insert((now.after(LOOK_AGAIN), LOOK_AGAIN));
        if *at <= now {
            *pause = (*pause * 2).min(LOOK_AGAIN_AT_THE_LATEST);
            *at = now.after(*pause);
        }
        self.shards.are_unused()
    }

    /// When to turn if a shard has something to do at `first`. Where the clock may be paused, just then.
    fn plan(&mut self, first: Nanos) -> Plan {
        match self.paused_clock {
            Some(_) => Plan { at: first, then: Nanos::MAX },
            None => self.shards.plan(first, self.resolution, &mut self.alive),
        }
    }

    /// Arms everything that can wake the driver for what is due at `first`, and tells whether it may sleep.
    fn sleep_until(&mut self, first: Nanos) -> bool {
        let is_paused = self.alarm.look_at_clock();
        let Plan { mut at, then } = self.plan(first);
        if let Some((next_look, _)) = self.next_look
            // A paused clock would go on to that time.
            && !is_paused
        {
            at = at.min(next_look);
        }
        self.alarm.arm(at, then);
        // Armed first, looked second; see `alarm`. What has come since, in the same tick but later, can wait.
        let may_sleep = !self.shards.any_before(first);
        match &mut self.paused_clock {
            Some(paused_clock) if may_sleep => paused_clock.arm(at).is_pending(),
            _ => may_sleep,
        }
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let yielded = std::mem::take(&mut this.yielded);
        if !yielded {
            this.alarm.notes().woken();
        }
        loop {
            this.alarm.look(cx.waker());
            // The waker is registered first, so whoever notes something later wakes the driver again.
            this.alarm.notes().tell();
            let now = this.clock.now();
            if this.alarm.is_orphaned() && this.is_unused(now) {
                return Poll::Ready(());
            }
            if !yielded && this.may_have_stalled(now) {
                this.yielded = true;
                this.alarm.notes().stalled();
                // Comes back when the runtime has looked at its sockets, or by the thread, to any worker.
                this.alarm.arm_thread(now.after(INPUT_WITHIN));
                return pin!(tokio::task::yield_now()).poll(cx);
            }
            match this.shards.turn(now, this.due_since, &mut this.expired) {
                Turn::Ended => return Poll::Ready(()),
                Turn::More => {
                    this.yielded = true;
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Turn::Until(first) => {
                    if this.sleep_until(first) {
                        return Poll::Pending;
                    }
                }
            }
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.shards.end();
        self.alarm.end();
        self.alarm.notes().ended();
    }
}

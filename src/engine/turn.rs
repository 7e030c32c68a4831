//! A turn of the wheel: who makes it and when, what it does, and when the next one is.
//!
//! **The runtime's park turns the wheel.** When a worker parks, or polls the runtime's input between two tasks, it calls
//! the wakers of timers that are due. One of these timers is the wheel's (see [`alarm`](super::alarm)). Its waker turns the
//! wheel at once: it hands out the timers that are due, wakes their tasks, and sets the alarm for the next turn. The tasks
//! that it wakes are only queued.
//!
//! | when | who turns |
//! |---|---|
//! | the timer in the runtime's park is due | its waker |
//! | a turn has used up its budget | the timerfd's waker when the poller is polled next; without a timerfd, or where the clock can be paused, the driver's task |
//! | an inserter sets tokio's timer, and finds it due already; the last timer is dropped while the clock is paused | the driver's task |
//! | a worker blocks, and nobody polls the poller | the watchdog wakes the driver's task; the worker that runs this task parks next, and turns in its park |
//! | the wheel is being made | the thread that makes it |
//!
//! **The driver's task turns nothing as a rule.** It turns only if it was woken for that, which the alarm tells. It notices
//! when nothing holds a shard any more. The runtime drops it when the runtime ends, and it then ends the wheel.
//!
//! | the wheel ends | because |
//! |---|---|
//! | when its runtime is shut down | the runtime drops the driver's task |
//! | at `shutdown` | all shards have ended, so the driver's task is ready |
//! | after the last handle and the last timer | they have dropped the shards, so the driver's task is ready |
//!
//! There is a turn for each tick in which a timer is due; for a busy wheel, one for two ticks (see [`Pace`]).
//!
//! | time of a turn | is |
//! |---|---|
//! | `now` | when the turn reads the clock |
//! | `due` | the time at which the turn should have been made: the alarm's, or that of a request |
//! | `due_since` | the earliest time at which a timer of this turn may have become due: the same as `due`, or, if the turn covers two ticks, the end of the first if that is earlier; zero where the clock may jump |
//! | `at` | the next turn's, by the [`Plan`] of what the shards have to do |
//! | `not_before` | the earliest time of the next turn, if the wheel is busy |

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use super::alarm::{Alarm, ParkTimers};
use super::shard::Shard;
use crate::platform::clock::{Clock, stopwatch};
use crate::platform::sync::{Mutex, lock};
use crate::platform::wakers::contained;
use crate::telemetry::counters::Counters;
use crate::wheel::{Nanos, Progress, Resolution};

/// A turn that is later than this was held up, and perhaps its whole runtime with it.
const STALL: Duration = Duration::from_millis(10);

/// How many entries are handed out or moved under one hold of a shard's lock. So a hold takes some 10 µs.
const BATCH: usize = 256;

/// What all turners of a wheel share. They are the wakers below, which the runtime's park calls, and the driver's task.
///
/// It keeps no shard alive: the driver ends when nothing else holds one.
#[derive(Debug)]
pub(crate) struct Turner {
    shards: Box<[Weak<Shard>]>,
    /// The shard with which the next turn begins: the one after the shard in which a budget last ran out. Relaxed: two
    /// turns at the same time may begin with the same shard.
    first: AtomicUsize,
    pub(crate) alarm: Arc<Alarm>,
    clock: Clock,
    resolution: Resolution,
    /// Since when the turn was due that was counted as a stall last. All turns of one backlog are due since one time.
    stalled_since: AtomicU64,
    /// How many turns in a row came in time, see [`Pace`].
    in_time: AtomicU32,
    /// Empty between two turns. It is kept for its memory.
    expired: Mutex<Vec<Waker>>,
    /// No turn and no inserter touches it.
    guest: StdMutex<Guest>,
    /// Relaxed: only the driver's task touches it.
    alarm_has_ended: AtomicBool,
}

/// A value that the driver's task keeps as long as its runtime keeps the task.
#[derive(Debug, Default)]
enum Guest {
    #[default]
    None,
    Here(Box<dyn fmt::Debug + Send>),
    /// The task has ended, and keeps nothing.
    Gone,
}

/// What a turn of all shards found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AllShards {
    /// More is due than the budget allowed.
    More,
    /// All that was due has been handed out, and this is left.
    Done(Plan),
    /// All have ended.
    Ended,
}

impl Turner {
    pub(crate) fn new(
        shards: &[Arc<Shard>],
        alarm: Arc<Alarm>,
        clock: Clock,
        resolution: Resolution,
    ) -> Self {
        Self {
            shards: shards.iter().map(Arc::downgrade).collect(),
            first: AtomicUsize::new(0),
            alarm,
            clock,
            resolution,
            stalled_since: AtomicU64::new(u64::MAX),
            in_time: AtomicU32::new(0),
            expired: Mutex::new(Vec::new()),
            guest: StdMutex::default(),
            alarm_has_ended: AtomicBool::new(false),
        }
    }

    /// Has the driver's task keep `guest`, even after the wheel's end, and drop it when the runtime drops the task. Gives
    /// it back if that has happened.
    pub(crate) fn keep(&self, guest: Box<dyn fmt::Debug + Send>) -> Option<Box<dyn fmt::Debug + Send>> {
        let mut place = self.guest();
        if matches!(*place, Guest::Gone) {
            return Some(guest);
        }
        *place = Guest::Here(guest);
        None
    }

    /// Takes out what the driver's task keeps; `None` if the runtime has dropped it. The task of an ended wheel then ends.
    pub(crate) fn take_guest(&self) -> Option<Box<dyn fmt::Debug + Send>> {
        let Guest::Here(guest) = std::mem::replace(&mut *self.guest(), Guest::Gone) else { return None };
        self.alarm.driver.wake();
        Some(guest)
    }

    /// Lets go of the runtime and its timers, of the timers once.
    fn end_alarm(&self) {
        if self.alarm_has_ended.swap(true, Ordering::Relaxed) {
            drop(self.alarm.driver.take());
        } else {
            self.alarm.end();
        }
    }

    fn guest(&self) -> std::sync::MutexGuard<'_, Guest> {
        self.guest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the park of the current runtime, which has so many workers, turn the wheel. Returns the driver's task, which the
    /// caller has to spawn.
    ///
    /// # Panics
    /// As tokio does, if the runtime lacks the I/O driver or the timers that are needed.
    #[track_caller]
    pub(crate) fn begin(self: &Arc<Self>, workers: usize) -> Driver {
        let by_fd = Arc::new(ByTimerFd(self.clone())).into();
        let by_tokio = Arc::new(ByTokio(self.clone())).into();
        let (tick, counters) = (self.resolution.tick(), &self.alarm.counters);
        let timers = ParkTimers::of_current_runtime(self.clock, tick, counters, by_fd, by_tokio);
        self.alarm.begin(timers, workers);
        // After this turn inserters set the timers themselves, even before the task is first polled.
        self.turn();
        Driver { turner: self.clone() }
    }

    /// Turns the wheel, and sets the alarm for the next turn. If the budget ran out, the rest is done soon.
    pub(crate) fn turn(&self) {
        let alarm = &*self.alarm;
        alarm.counters.turned();
        // Taken out of the lock, because wakers are users' code, which must not run under it.
        let mut expired = std::mem::take(&mut *lock(&self.expired));
        let mut budget = Budget::of_a_turn(self.clock);
        self.clock.look_for_pause();
        let mut first = None;
        loop {
            let due = alarm.begin_turn();
            let now = self.clock.now();
            let (pace, is_idle) = *first.get_or_insert_with(|| {
                (Pace::of_this_turn(due, alarm.not_before()), note_in_time(&self.in_time, due, now))
            });
            let due = due.unwrap_or(now).min(now);
            self.note_stall(due, now);
            // Where the clock may jump no timer is registered whose deadline has passed.
            let due_since =
                if self.clock.may_jump() { Nanos::ZERO } else { pace.due_since(due, self.resolution) };
            match self.turn_shards(now, due_since, &mut budget, &mut expired) {
                // Whoever ended the last shard has woken the driver's task.
                AllShards::Ended => break,
                AllShards::More => {
                    alarm.set_for_rest(due);
                    break;
                }
                AllShards::Done(plan) => {
                    // Where the clock can be paused, tests expect each turn on time.
                    let (at, not_before) = if self.clock.is_pausable {
                        (plan.first, Nanos::ZERO)
                    } else {
                        (plan.at, pace.next_not_before(now, budget.fired, is_idle, self.resolution))
                    };
                    let is_due = alarm.set_next_turn(at, not_before);
                    // The next turn is published before the shards are checked; see `alarm`. A timer that came meanwhile and
                    // is due in the same tick, but after `first`, can wait.
                    if !is_due && !self.alive().any(|shard| shard.next_turn() < plan.first) {
                        break;
                    }
                }
            }
        }
        *lock(&self.expired) = expired;
    }

    /// Hands out the timers that are due, as far as the budget reaches, and wakes their tasks.
    pub(super) fn turn_shards(
        &self,
        now: Nanos,
        due_since: Nanos,
        budget: &mut Budget,
        expired: &mut Vec<Waker>,
    ) -> AllShards {
        let mut plan = Plan::NOTHING;
        // Leftovers do not wait for the end of their tick, because a tick may be long.
        let mut clear_by = Nanos::MAX;
        let mut all_ended = true;
        let first = self.first.load(Ordering::Relaxed);
        for n in 0..self.shards.len() {
            let number = (first + n) % self.shards.len();
            let Some(shard) = self.shards[number].upgrade() else { continue };
            loop {
                if shard.next_turn() <= now && !budget.take_batch() {
                    self.first.store(number + 1, Ordering::Relaxed);
                    return AllShards::More;
                }
                let progress = shard.turn(now, due_since, BATCH, expired);
                budget.fired += expired.len();
                wake_all(expired, &self.alarm.counters);
                if progress == Progress::Done {
                    break;
                }
            }
            if !shard.has_ended() {
                plan = plan.with(shard.next_expiration(), self.resolution);
                clear_by = clear_by.min(shard.clear_by());
                all_ended = false;
            }
        }
        if all_ended {
            return AllShards::Ended;
        }
        AllShards::Done(Plan { first: plan.first.min(clear_by), at: plan.at.min(clear_by) })
    }

    fn note_stall(&self, due: Nanos, now: Nanos) {
        // On a clock that was moved by hand a turn is not late.
        if due < now.before(STALL) && !self.clock.is_paused() {
            // Relaxed: it only says whether to count.
            let is_counted = self.stalled_since.swap(due.0, Ordering::Relaxed) == due.0;
            if !is_counted {
                self.alarm.counters.stalled();
            }
        }
    }

    fn alive(&self) -> impl Iterator<Item = Arc<Shard>> {
        self.shards.iter().filter_map(Weak::upgrade)
    }

    /// Ends every shard, and wakes the tasks of all pending timers, and then the driver's. Returns how many timers these
    /// were.
    pub(crate) fn end(&self) -> usize {
        let mut pending = Vec::new();
        let mut count = 0;
        for shard in self.alive() {
            loop {
                let (ended, progress) = shard.end(BATCH, &mut pending);
                count += ended;
                wake_all(&mut pending, &self.alarm.counters);
                if progress == Progress::Done {
                    break;
                }
            }
        }
        self.alarm.driver.wake();
        self.alarm.counters.ended();
        count
    }
}

/// Wakes and drops all of `wakers`. A waker that panics harms no other, and its panic is counted.
fn wake_all(wakers: &mut Vec<Waker>, counters: &Counters) {
    let mut wakers = wakers.drain(..);
    while !contained(|| wakers.by_ref().for_each(Waker::wake)) {
        counters.waker_panicked();
    }
}

/// The waker that the runtime's poller calls when the timerfd has fired.
struct ByTimerFd(Arc<Turner>);

impl Wake for ByTimerFd {
    fn wake(self: Arc<Self>) {
        // Before the turn, so that the timerfd also calls for the time that the turn sets.
        self.0.alarm.await_timer_fd();
        self.0.turn();
    }
}

/// The waker that tokio calls when its timer is due.
struct ByTokio(Arc<Turner>);

impl Wake for ByTokio {
    fn wake(self: Arc<Self>) {
        let is_left = self.0.alarm.leave_to_setter();
        if !is_left {
            self.0.turn();
        }
    }
}

/// The driver's task. It is ready when the wheel has ended, and it keeps nothing for others. If its runtime drops it before,
/// it ends the wheel.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) turner: Arc<Turner>,
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let turner = &self.turner;
        turner.alarm.driver.register(cx.waker());
        // The waker has been registered before, so what is noted after this wakes the task again.
        turner.alarm.counters.send_events();
        // The watchdog's wake-up sets nothing: then it is the worker that turns, in its next park.
        if turner.alarm.is_awake() {
            turner.turn();
        }
        if turner.alive().any(|shard| !shard.has_ended()) {
            return Poll::Pending;
        }
        // A task that only keeps its guest needs none of the runtime's timers.
        turner.end_alarm();
        turner.alarm.driver.register(cx.waker());
        if matches!(*turner.guest(), Guest::Here(_)) { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.turner.end();
        self.turner.end_alarm();
        let guest = std::mem::replace(&mut *self.turner.guest(), Guest::Gone);
        drop(guest);
    }
}

/// How much a turn may do before other tasks run: so many batches, each of 256 steps of a hierarchy, or so long. A batch
/// that has begun wakes all of its tasks, however long their wakers take.
pub(super) struct Budget {
    batches: usize,
    /// False where the clock can be paused: there nothing may depend on how long the turn takes.
    is_timed: bool,
    /// Set when the first batch is done, so that a turn of one batch reads no clock.
    until: Option<Instant>,
    /// How many timers the turn has handed out.
    fired: usize,
}

impl Budget {
    const BATCHES: usize = 16;
    const TIME: Duration = Duration::from_millis(1);

    pub(super) const fn of_a_turn(clock: Clock) -> Self {
        Self { batches: Self::BATCHES, is_timed: !clock.is_pausable, until: None, fired: 0 }
    }

    /// Takes one batch, and returns whether the turn may do it. It may always do the first one.
    pub(super) fn take_batch(&mut self) -> bool {
        if self.batches < Self::BATCHES && self.is_timed {
            let now = stopwatch();
            if now >= *self.until.get_or_insert(now + Self::TIME) {
                return false;
            }
        }
        let has_batch = self.batches > 0;
        self.batches -= usize::from(has_batch);
        has_batch
    }
}

/// When to turn next: once for a tick, whatever number of shards has something to do in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// When the first shard has something to do.
    pub(super) first: Nanos,
    /// The last of the shards' next expirations that lie in the same tick as `first`.
    pub(super) at: Nanos,
}

impl Plan {
    const NOTHING: Self = Self { first: Nanos::MAX, at: Nanos::MAX };

    /// The plan with one more shard, which has something to do at `next`.
    fn with(self, next: Nanos, resolution: Resolution) -> Self {
        let first = self.first.min(next);
        let end = resolution.end_of_tick(first);
        // A shard that never has something to do is left out. The last tick may be long, so other times may lie in one
        // tick with the end of time.
        let in_tick = |time: Nanos| (time <= end && time < Nanos::MAX).then_some(time);
        let at = in_tick(self.at).max(in_tick(next)).unwrap_or(first);
        Self { first, at }
    }
}

/// How many ticks a turn covers: two on a busy wheel.
///
/// A turn has a price that does not depend on how many tasks it wakes: the poller returns, the timer is set anew, another
/// worker is woken to help, and both look for work and go back to sleep. So where many timers fire in each tick, the wheel
/// is turned half as often, and each timer waits half a tick longer on average. tokio, which rounds up twice, is as late.
///
/// It is the wheel that is busy here, by its timers. The runtime may be idle between turns, which makes a turn dearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    EachTick,
    /// The turn before found the wheel busy, and allowed no turn before this time.
    TwoTicks(Nanos),
}

impl Pace {
    /// A wheel is busy after a turn that has handed out so many timers, or twice as many if the turn covered two ticks.
    pub(super) const BUSY: usize = 32;
    /// The same on a runtime that is idle between turns: there a turn costs more than the tasks that it wakes.
    pub(super) const BUSY_IF_IDLE: usize = 8;
    /// A wheel with a longer tick is turned seldom enough.
    const LONGEST_TICK: Duration = Duration::from_millis(1);

    /// The pace of a turn that was due since `due`, where the turn before has left `not_before`.
    pub(super) fn of_this_turn(due: Option<Nanos>, not_before: Nanos) -> Self {
        // A turn that is due later than that did not have to wait.
        if due.is_some_and(|due| due <= not_before) { Self::TwoTicks(not_before) } else { Self::EachTick }
    }

    /// The earliest time at which a timer of this turn may have begun to wait. As a rule that is `due`. If the turn
    /// covers two ticks, it is the end of the first of them, if that is earlier.
    pub(super) fn due_since(self, due: Nanos, resolution: Resolution) -> Nanos {
        match self {
            Self::EachTick => due,
            Self::TwoTicks(not_before) => due.min(not_before.before(resolution.tick())),
        }
    }

    /// For a turn at `now` that has handed out `fired` timers: the time before which there need be no other turn. Zero if
    /// the wheel is not busy.
    pub(super) fn next_not_before(
        self,
        now: Nanos,
        fired: usize,
        is_idle: bool,
        resolution: Resolution,
    ) -> Nanos {
        let busy = if is_idle { Self::BUSY_IF_IDLE } else { Self::BUSY };
        let busy = match self {
            Self::EachTick => busy,
            Self::TwoTicks(_) => busy * 2,
        };
        if fired < busy || resolution.tick() > Self::LONGEST_TICK {
            return Nanos::ZERO;
        }
        // A time on a border belongs to the ticks that end there, and they are over.
        resolution.end_of_pair(now)
    }
}

/// A turn that comes so soon after its time was called by a worker that slept.
const IN_TIME: Duration = Duration::from_micros(150);
/// After so many of them in a row the runtime is idle between turns.
pub(super) const TURNS_IN_TIME: u32 = 8;

/// A turn comes at `now`. Returns whether the runtime is idle between turns. Where workers are busy, turns come when one
/// looks for input, which is late by half a millisecond or so: to turn the wheel less often saves nothing there.
pub(super) fn note_in_time(in_a_row: &AtomicU32, due: Option<Nanos>, now: Nanos) -> bool {
    // Relaxed: it only says how often to turn.
    let before = in_a_row.load(Ordering::Relaxed);
    let turns = match due {
        Some(due) if now.before(IN_TIME) > due => 0,
        Some(due) if due <= now => before.saturating_add(1),
        // A turn that was not due yet, as the driver's task may make it, says nothing.
        _ => before,
    };
    in_a_row.store(turns, Ordering::Relaxed);
    turns >= TURNS_IN_TIME
}

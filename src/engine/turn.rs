//! A turn of the wheel: who makes it and when, what it does, and when the next one is.
//!
//! **The runtime's park turns the wheel.** When a worker parks, or polls the runtime's input between two tasks, it calls
//! the wakers of timers that are due. One of these timers is the wheel's (see [`park_timer`](super::park_timer)). Its waker
//! turns the wheel at once: it hands out the timers that are due, wakes their tasks, and sets the alarm for the next turn. The
//! tasks that it wakes are only queued.
//!
//! | when | who turns |
//! |---|---|
//! | the park's timer is due | the park, by the timer's waker |
//! | a turn has used up its budget | the park, when the timer can call next; on a current-thread runtime without a timerfd, the driver's task |
//! | an inserter finds that tokio's timer is due already | the park, in tokio's next tick; on a current-thread runtime the driver's task |
//! | the last timer is dropped while the clock is paused | the driver's task |
//! | a worker blocks, and nobody polls the poller | the watchdog has another worker run an empty task; that worker parks next, and turns in its park |
//! | the wheel is being made | the thread that makes it |
//!
//! **The driver's task turns nothing as a rule.** It turns only if it was woken for that, which the alarm tells. It notices
//! when nothing holds a shard any more. The runtime drops it when the runtime ends, and it then ends the wheel.
//!
//! **A panic in a turn ends the wheel.** It is a defect of this crate, because users' code is contained. After it nobody
//! would set the alarm again, and all timers would wait for ever in silence. So all of them are woken, and find the end.
//!
//! | the wheel ends | because |
//! |---|---|
//! | when its runtime is shut down | the runtime drops the driver's task |
//! | at `shutdown` | all shards have ended, so the driver's task is ready |
//! | after the last handle and the last timer | they have dropped the shards, so the driver's task is ready |
//! | if a turn panics, or if its paused clock comes to the end of time | the turner ends it, as `shutdown` does |
//!
//! There is a turn for each tick in which a timer is due; for a busy wheel, one for two ticks (see [`Pace`]).
//!
//! | time of a turn | is |
//! |---|---|
//! | `now` | when the turn reads the clock |
//! | `due` | the time at which the turn should have been made: the alarm's, or that of a request |
//! | `at` | the next turn's, by the [`Plan`] of what the shards have to do |
//! | `not_before` | the earliest time of the next turn, if the wheel is busy |

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as StdMutex, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use super::alarm::{Alarm, LONGEST_SHORT_TICK};
use super::many_wheels;
use super::park_timer::ParkTimer;
use super::shard::Shard;
use crate::platform::clock::{Clock, stopwatch};
use crate::platform::sync::{Mutex, lock, lock_hidden};
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
    /// The millisecond of the last turn.
    last_milli: AtomicU64,
    /// Since when the turn was due that was counted as a stall last. All turns of one backlog are due since one time.
    stalled_since: AtomicU64,
    /// Empty between two turns. It is kept for its memory.
    expired: Mutex<Vec<Waker>>,
    /// No turn and no inserter touches it.
    guest: StdMutex<Guest>,
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
    pub(crate) fn new(shards: &[Arc<Shard>], alarm: Arc<Alarm>, clock: Clock) -> Self {
        Self {
            shards: shards.iter().map(Arc::downgrade).collect(),
            first: AtomicUsize::new(0),
            alarm,
            clock,
            last_milli: AtomicU64::new(0),
            stalled_since: AtomicU64::new(u64::MAX),
            expired: Mutex::new(Vec::new()),
            guest: StdMutex::default(),
        }
    }

    /// Has the driver's task keep `guest`, even after the wheel's end, and drop it when the runtime drops the task. Gives
    /// it back if that has happened.
    pub(crate) fn keep(&self, guest: Box<dyn fmt::Debug + Send>) -> Option<Box<dyn fmt::Debug + Send>> {
        let mut place = lock_hidden(&self.guest);
        if matches!(*place, Guest::Gone) {
            return Some(guest);
        }
        *place = Guest::Here(guest);
        None
    }

    /// Takes out what the driver's task keeps; `None` if the runtime has dropped it. The task of an ended wheel then ends.
    pub(crate) fn take_guest(&self) -> Option<Box<dyn fmt::Debug + Send>> {
        let Guest::Here(guest) = std::mem::replace(&mut *lock_hidden(&self.guest), Guest::Gone) else {
            return None;
        };
        self.alarm.driver.wake();
        Some(guest)
    }

    /// Has the park of the current runtime, which has so many workers, turn the wheel. Returns the driver's task, which the
    /// caller has to spawn.
    ///
    /// # Panics
    /// As tokio does, if the runtime lacks the I/O driver or the timers that are needed.
    #[track_caller]
    pub(crate) fn begin(self: &Arc<Self>, workers: usize) -> Driver {
        let (tick, counters) = (self.alarm.resolution.tick(), &self.alarm.counters);
        let timer = ParkTimer::of_current_runtime(&self.clock, tick, counters, self.clone().into());
        self.alarm.begin(timer, workers);
        // After this turn inserters set the timers themselves, even before the task is first polled.
        self.turn();
        Driver { turner: self.clone() }
    }

    /// Turns the wheel, and sets the alarm for the next turn. If the budget ran out, the rest is done soon. If that panics,
    /// ends the wheel.
    pub(crate) fn turn(&self) {
        if !contained(|| self.turn_and_set_alarm()) {
            self.end();
        }
    }

    fn turn_and_set_alarm(&self) {
        let alarm = &*self.alarm;
        alarm.counters.turned();
        // Taken out of the lock, because wakers are users' code, which must not run under it.
        let mut expired = std::mem::take(&mut *lock(&self.expired));
        let mut budget = Budget::of_a_turn(&self.clock);
        self.clock.look_for_pause();
        let mut pace = None;
        loop {
            let due = alarm.begin_turn();
            let now = self.clock.now();
            if now == Clock::LAST {
                self.end();
                break;
            }
            many_wheels::note(now, &self.last_milli);
            let pace = *pace.get_or_insert_with(|| Pace::of_this_turn(due, alarm.not_before()));
            let due = due.unwrap_or(now).min(now);
            self.note_stall(due, now);
            // Where the clock may jump no timer is armed whose deadline has passed.
            let longest_wait = if self.clock.may_jump() {
                Nanos::MAX
            } else {
                pace.longest_wait(due, now, alarm.resolution)
            };
            match self.turn_shards(now, longest_wait, &mut budget, &mut expired) {
                // The thread that ended the last shard has woken the driver's task.
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
                        (plan.at, pace.next_not_before(now, budget.fired, alarm.resolution))
                    };
                    let will_not_call = alarm.set_next_turn(at, not_before);
                    // The next turn is published before the shards are checked; see `alarm`. A timer that came meanwhile and
                    // is due in the same tick, but after `first`, can wait.
                    if !will_not_call && !self.alive().any(|shard| shard.next_turn() < plan.first) {
                        break;
                    }
                }
            }
        }
        *lock(&self.expired) = expired;
    }

    /// Hands out the timers that are due, as far as the budget reaches, and wakes their tasks. None of them has waited for
    /// longer than `longest_wait`, unless it was armed too late.
    pub(super) fn turn_shards(
        &self,
        now: Nanos,
        longest_wait: Nanos,
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
                let progress = shard.turn(now, longest_wait, BATCH, expired);
                budget.fired += expired.len();
                wake_all(expired, &self.alarm.counters);
                if progress == Progress::Done {
                    break;
                }
            }
            if !shard.has_ended() {
                plan = plan.with(shard.next_expiration(), self.alarm.resolution);
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
        let mut count = 0;
        for shard in self.alive() {
            // A shard in which a turn has panicked may do so again.
            contained(|| {
                let mut pending = Vec::new();
                loop {
                    let (ended, progress) = shard.end(BATCH, &mut pending);
                    count += ended;
                    wake_all(&mut pending, &self.alarm.counters);
                    if progress == Progress::Done {
                        break;
                    }
                }
            });
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

/// As the waker of the park's timer.
impl Wake for Turner {
    fn wake(self: Arc<Self>) {
        self.turn();
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
        turner.alarm.counters.send_noted();
        if turner.alarm.is_awake() {
            turner.turn();
        }
        if turner.alive().any(|shard| !shard.has_ended()) {
            return Poll::Pending;
        }
        // A task that only keeps its guest needs none of the runtime's timers.
        turner.alarm.end();
        turner.alarm.driver.register(cx.waker());
        if matches!(*lock_hidden(&turner.guest), Guest::Here(_)) { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.turner.end();
        self.turner.alarm.end();
        let guest = std::mem::replace(&mut *lock_hidden(&self.turner.guest), Guest::Gone);
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

    pub(super) const fn of_a_turn(clock: &Clock) -> Self {
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    EachTick,
    /// The turn before found the wheel busy, so this one had to wait.
    TwoTicks,
}

impl Pace {
    /// A wheel is busy after a turn that has handed out so many timers for each tick that it covered.
    pub(super) const BUSY: usize = 32;

    /// The pace of a turn that was due since `due`, where the turn before has left `not_before`.
    pub(super) fn of_this_turn(due: Option<Nanos>, not_before: Nanos) -> Self {
        // A turn that is due later than that did not have to wait.
        if due.is_some_and(|due| due <= not_before) { Self::TwoTicks } else { Self::EachTick }
    }

    const fn ticks(self) -> u8 {
        match self {
            Self::EachTick => 1,
            Self::TwoTicks => 2,
        }
    }

    /// How long a timer that was armed in time may have waited for a turn at `now` that was due since `due`. It lies in
    /// a tick that this turn covers.
    pub(super) fn longest_wait(self, due: Nanos, now: Nanos, resolution: Resolution) -> Nanos {
        (0..self.ticks()).fold(Nanos(now.0.saturating_sub(due.0)), |wait, _| wait.after(resolution.tick()))
    }

    /// For a turn at `now` that has handed out `fired` timers: the time before which there need be no other turn. Zero if
    /// the wheel is not busy.
    pub(super) fn next_not_before(self, now: Nanos, fired: usize, resolution: Resolution) -> Nanos {
        if fired < Self::BUSY * usize::from(self.ticks()) || resolution.tick() > LONGEST_SHORT_TICK {
            return Nanos::ZERO;
        }
        // A time on a border belongs to the ticks that end there, and they are over.
        resolution.end_of_pair(now)
    }
}

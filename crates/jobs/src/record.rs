//! The record of a job, which the wheel, the task and the handles share.
//!
//! A record has one lock, round its [`State`]. No code of a user's runs under it, nor is a timer touched: arming, moving
//! or dropping one may drop wakers of strangers. So whoever touches the timer takes it in hand, and others leave word:
//!
//! | stage | who has the timer | what would run | next |
//! |---|---|---|---|
//! | `InHand` | the thread that arms, moves or polls it | in the slot | `Waits`, `Runs` or `Over`, by that thread; `Over`, by a cancel |
//! | `Waits` | the record | in the slot | `InHand`, by the wheel or a reset; `Over`, by a cancel |
//! | `Runs` | nobody: there is none | in the slot, then in the task | `InHand` or `Over`, by the task |
//! | `Over` | nobody | gone, or in the slot for whoever hands it back | none |
//!
//! The wheel's waker for a job is the record itself. It runs none of the job: it spawns the task.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use timingwheel::time::sleep_until;
use timingwheel::{Error, Sleep, TimingWheel, Tolerance};
use tokio::runtime::{Handle, Id};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::error::{JobError, Refused};
use crate::info::{JobInfo, JobState, Join};
use crate::jobs::Key;
use crate::schedule::{NextRun, PendingRun, Previous, Replanned, Schedule, after_now};
use crate::table::Table;
use crate::task::{self, Task, Tell, Unrun, Work};
use crate::{contained, lock};

/// A job. `S` is a [`Slot`], or what a handle knows of one.
pub(crate) struct Record<S: ?Sized> {
    /// The wheel's, on which the job runs.
    runtime: Option<Id>,
    state: Mutex<State>,
    pub(crate) slot: S,
}

/// The part of a record that knows the job's types.
pub(crate) struct Slot<K, W: Work> {
    pub(crate) key: K,
    pub(crate) hash: u64,
    /// Weak: a job that could not run stays listed, and must not keep the list.
    pub(crate) table: Weak<Table<K>>,
    /// The job's code, while it waits.
    work: Mutex<Option<(W, Tell<W::Output>)>>,
}

/// The operations that every slot has. They run user code, so never under a lock.
pub(crate) trait AnySlot: Send + Sync {
    /// Drops what the job would run; if the job is done by that, its handle is told.
    fn clear(&self, state: JobState);
    /// The job, which is at this address, is over.
    fn over(&self, job: *const (), state: JobState);
}

/// A slot that is found by its key.
pub(crate) trait Keyed<K>: AnySlot {
    fn key(&self) -> &K;
    fn give_back(&self) -> Option<Unrun>;
}

impl<K, W: Work> Slot<K, W> {
    pub(crate) fn put(&self, given: W::Given, tell: Tell<W::Output>) {
        *lock(&self.work) = Some((W::new(given), tell));
    }

    fn take(&self) -> Option<(W, Tell<W::Output>)> {
        lock(&self.work).take()
    }
}

impl<K: Key, W: Work> AnySlot for Slot<K, W> {
    fn clear(&self, state: JobState) {
        let Some((work, tell)) = self.take() else { return };
        let output = work.output().filter(|_| state == JobState::Done);
        // Whoever is told, also by the loss of the other end, finds it dropped.
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(work)));
        if let Some(output) = output {
            task::tell(tell, Ok(output));
        }
        dropped.unwrap_or_else(|panic| resume_unwind(panic));
    }

    fn over(&self, job: *const (), state: JobState) {
        if let Some(table) = self.table.upgrade() {
            table.over(self.hash, job, state);
        }
    }
}

impl<K: Key, W: Work> Keyed<K> for Slot<K, W> {
    fn key(&self) -> &K {
        &self.key
    }

    fn give_back(&self) -> Option<Unrun> {
        self.take()?.0.give_back()
    }
}

struct State {
    stage: Stage,
    /// Until when the job waits; after that only if it waited and could not run.
    due: Option<Instant>,
    /// Of a job that repeats, until it is over.
    plan: Option<Box<Plan>>,
    joins: Vec<oneshot::Sender<JobState>>,
}

enum Stage {
    InHand(Word),
    Waits(Hand),
    /// The work is in the slot until the task takes it.
    Runs {
        order: Order,
        /// The task's, once it has begun this run.
        task: Option<Waker>,
    },
    Over(JobState, Option<Error>),
}

/// A request to the thread that has the timer in hand: to move it, and then to poll it.
#[derive(Clone, Copy, Default)]
struct Word {
    /// And whether a user asks for that.
    to: Option<(Instant, bool)>,
    poll: bool,
}

impl Word {
    const POLL: Self = Self { to: None, poll: true };
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    None,
    /// This run is the last.
    Stop,
    /// This run ends where it next waits, and is the last.
    Abort,
}

/// How a job ends for somebody who cancels it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cancel {
    Pending,
    /// And what it would run stays in the slot.
    KeepWork,
    /// Also a run that is going on.
    Abort,
}

/// The runs to come of a job that repeats.
pub(crate) struct Plan {
    wheel: TimingWheel,
    /// `None` while the task asks it.
    schedule: Option<Box<dyn Schedule>>,
    tolerance: Option<Tolerance>,
    /// When the next run is due, or the one that is going on was, and until when the job waits for it: later, if it may be
    /// late.
    due: Instant,
    waits_until: Instant,
    /// Somebody else than the schedule has said when the run is due.
    is_users: bool,
    /// To where the user has moved the next run during this one.
    moved: Option<Instant>,
    refusals: u64,
}

impl Plan {
    /// A plan and its first run. `None` if the schedule has not even one.
    pub(crate) fn new(wheel: &TimingWheel, mut schedule: Box<dyn Schedule>) -> Option<(Box<Self>, Sleep)> {
        let due = schedule.next(Previous::at(after_now(wheel, Duration::ZERO)))?;
        let mut plan = Box::new(Self {
            wheel: wheel.clone(),
            tolerance: schedule.tolerance(),
            schedule: Some(schedule),
            due,
            waits_until: due,
            is_users: false,
            moved: None,
            refusals: 0,
        });
        let sleep = plan.sleep();
        Some((plan, sleep))
    }

    /// A timer for the next run.
    fn sleep(&mut self) -> Sleep {
        let sleep = self.wheel.sleep_until(self.due);
        let sleep = match self.tolerance {
            Some(tolerance) => sleep.with_tolerance(tolerance),
            None => sleep,
        };
        self.waits_until = sleep.deadline();
        sleep
    }
}

/// A timer, and the waker that it wakes.
pub(crate) struct Hand {
    sleep: Sleep,
    waker: Waker,
    /// When the run is due that the timer is set for, and whether somebody else than the schedule has said so.
    due: Instant,
    is_users: bool,
}

type Polled = Poll<Result<(), Error>>;

impl Hand {
    fn poll(&mut self) -> Polled {
        self.sleep.poll_wait(&mut Context::from_waker(&self.waker))
    }
}

fn is_refused(polled: &Polled) -> bool {
    matches!(polled, Poll::Ready(Err(error)) if error.is_at_capacity())
}

/// How the task goes on after a run.
pub(crate) enum GoOn {
    /// With the next run, which is due.
    Now,
    /// Not: the job waits, with its work, or was ended by others.
    Later,
    /// Not: it has come to its end, or could not go on.
    Over(Result<(), JobError>),
}

type Guard<'a> = MutexGuard<'a, State>;

impl<K: Key, W: Work> Record<Slot<K, W>> {
    /// A new job without its work, unless the wheel refuses it. The caller has its timer in hand: the job does not run before
    /// the timer is [worked at](Self::work_at).
    pub(crate) fn new(
        wheel: &TimingWheel,
        sleep: Sleep,
        (key, hash, table): (K, u64, Weak<Table<K>>),
        mut plan: Option<Box<Plan>>,
    ) -> Result<(Arc<Self>, Hand), Refused> {
        let record = Arc::new(Self {
            runtime: wheel.runtime_id(),
            state: Mutex::new(State::new(Stage::InHand(Word::POLL), Some(sleep.deadline()))),
            slot: Slot { key, hash, table, work: Mutex::new(None) },
        });
        let due = plan.as_ref().map_or(sleep.deadline(), |plan| plan.due);
        let mut hand = Hand { sleep, waker: Waker::from(record.clone()), due, is_users: false };
        if let Some(schedule) = plan.as_mut().and_then(|plan| plan.schedule.as_mut()) {
            let record: Arc<Record<dyn AnySlot>> = record.clone();
            schedule.attach(PendingRun::of(&record));
        }
        let refused = match hand.poll() {
            Poll::Ready(Err(error)) => Some(error),
            Poll::Ready(Ok(())) if wheel.is_ended() => Some(Error::shutdown()),
            _ => None,
        };
        if let Some(error) = refused {
            return Err(Refused::by_wheel(error, wheel));
        }
        record.lock().plan = plan;
        Ok((record, hand))
    }

    /// A job that is over before it began.
    pub(crate) fn over(wheel: &TimingWheel, key: K, state: JobState) -> Arc<Self> {
        let slot = Slot { key, hash: 0, table: Weak::new(), work: Mutex::new(None) };
        let state = Mutex::new(State::new(Stage::Over(state, None), None));
        Arc::new(Self { runtime: wheel.runtime_id(), state, slot })
    }

    /// Asks the schedule whether the run that is about to begin is left out, if the schedule has planned it. A user's code,
    /// so not under the lock.
    pub(crate) fn leaves_out(&self) -> bool {
        let schedule =
            self.lock().plan.as_mut().filter(|plan| !plan.is_users).and_then(|plan| plan.schedule.take());
        let Some(mut schedule) = schedule else { return false };
        let is_left_out = schedule.leaves_out();
        if let Some(plan) = &mut self.lock().plan {
            plan.schedule = Some(schedule);
        }
        is_left_out
    }

    /// Goes on after a run of a job that repeats: as its user has said during the run, or else as the run has `answered`.
    /// The schedule is a user's code, so it is not asked under the lock.
    pub(crate) fn go_on(
        self: &Arc<Self>,
        started: Instant,
        answered: NextRun,
        work: &mut Option<W>,
        tell: &mut Tell<W::Output>,
    ) -> GoOn {
        let mut state = self.lock();
        let Some(plan) = &mut state.plan else { return GoOn::Later };
        let Some(mut schedule) = plan.schedule.take() else { return GoOn::Later };
        let missed =
            started.saturating_duration_since(plan.waits_until) > MISSED_AFTER.max(plan.wheel.tick());
        let previous = Previous { due: plan.due, started, ended: Instant::now(), missed };
        drop(state);
        let next = answered.or_by(&mut *schedule, previous);
        let tolerance = schedule.tolerance();
        let mut state = self.lock();
        let State { stage: stage @ Stage::Runs { .. }, plan: Some(plan), due, .. } = &mut *state else {
            return GoOn::Later;
        };
        (plan.schedule, plan.tolerance) = (Some(schedule), tolerance);
        plan.is_users = plan.moved.is_some() || answered != NextRun::BySchedule;
        let next = match plan.moved.take().or(next) {
            _ if !matches!(stage, Stage::Runs { order: Order::None, .. }) => Err(Err(JobError::cancelled())),
            None => Err(Ok(())),
            Some(_) if plan.wheel.is_ended() => {
                Err(Err(Refused::by_wheel(Error::shutdown(), &plan.wheel).into()))
            }
            Some(next) => Ok(next),
        };
        let next = match next {
            Ok(next) => next,
            Err(over) => {
                // So that nobody who comes before the task's end is told to be in time.
                *stage = Stage::Runs { order: Order::Stop, task: None };
                return GoOn::Over(over);
            }
        };
        (plan.due, plan.waits_until) = (next, next);
        if next <= Instant::now() {
            *stage = Stage::Runs { order: Order::None, task: None };
            return GoOn::Now;
        }
        let (sleep, is_users) = (plan.sleep(), plan.is_users);
        *due = Some(plan.waits_until);
        *stage = Stage::InHand(Word::POLL);
        *lock(&self.slot.work) = work.take().map(|work| (work, tell.take()));
        drop(state);
        let mut hand = Hand { sleep, waker: Waker::from(self.clone()), due: next, is_users };
        if is_refused(&hand.poll()) {
            // The runtime's own wheel keeps the time.
            hand.sleep = sleep_until(hand.sleep.deadline());
            if let Some(plan) = &mut self.lock().plan {
                plan.refusals += 1;
            }
        }
        self.work_at(hand);
        GoOn::Later
    }
}

/// How late a run is, at least, that counts as missed: as the tick of an interval.
const MISSED_AFTER: Duration = Duration::from_millis(5);

/// By the wheel: the job is due, or the wheel has ended; or by whoever has found that the job is due.
impl<K: Key, W: Work> Wake for Record<Slot<K, W>> {
    fn wake(self: Arc<Self>) {
        let state = self.lock();
        if !matches!(state.stage, Stage::Runs { .. }) {
            self.request(state, Word::POLL);
            return;
        }
        drop(state);
        // Nothing, if the task has it.
        if let Some(work) = self.slot.take() {
            tokio::spawn(Task::new(self, work).run());
        }
    }
}

impl<S: AnySlot + ?Sized> Record<S> {
    fn lock(&self) -> Guard<'_> {
        lock(&self.state)
    }

    /// Does with the timer what is asked, or leaves word for whoever has it in hand. Tells whether a move was in time.
    fn request(&self, mut state: Guard<'_>, word: Word) -> bool {
        match mem::replace(&mut state.stage, Stage::InHand(word)) {
            Stage::Waits(hand) => {
                drop(state);
                return self.work_at(hand);
            }
            Stage::InHand(before) => {
                let word = Word { to: word.to.or(before.to), poll: word.poll || before.poll };
                state.stage = Stage::InHand(word);
            }
            stage => state.stage = stage,
        }
        true
    }

    /// Does with the timer in hand what is asked of it, and puts it down. Tells whether the first move was in time.
    pub(crate) fn work_at(&self, mut hand: Hand) -> bool {
        let (mut polled, mut is_in_time, mut wait) = (Poll::Pending, None, Duration::from_millis(1));
        loop {
            let mut state = self.lock();
            let Stage::InHand(word) = &mut state.stage else {
                // Ended meanwhile. The hand is dropped without the lock.
                let over = state.info().state;
                drop(state);
                self.slot.over(ptr::from_ref(self).cast(), over);
                if over == JobState::Done {
                    // By its schedule, maybe before it had its work.
                    self.slot.clear(over);
                }
                break;
            };
            if let Some((to, is_users)) = word.to.take() {
                drop(state);
                let moved = self.move_in_hand(&mut hand, to, is_users);
                polled = moved.unwrap_or(polled);
                is_in_time.get_or_insert(moved.is_some());
                continue;
            }
            if mem::take(&mut word.poll) {
                drop(state);
                polled = hand.poll();
                continue;
            }
            match polled {
                Poll::Pending => {
                    state.stage = Stage::Waits(hand);
                    break;
                }
                Poll::Ready(Err(error)) => {
                    self.end(state, JobState::CouldNotRun, Some(error), false);
                    break;
                }
                Poll::Ready(Ok(())) if state.plan.as_ref().is_some_and(|plan| plan.wheel.is_ended()) => {
                    self.end(state, JobState::CouldNotRun, Some(Error::shutdown()), false);
                    break;
                }
                Poll::Ready(Ok(())) if Handle::try_current().ok().map(|here| here.id()) == self.runtime => {
                    state.stage = Stage::Runs { order: Order::None, task: None };
                    state.due = None;
                    drop(state);
                    // Which spawns the task.
                    hand.waker.wake();
                    break;
                }
                Poll::Ready(Ok(())) => {
                    drop(state);
                    // Only the wheel can spawn it. Its clock may be ahead of this thread's, where tests pause it.
                    hand.sleep.reset_after(wait);
                    wait *= 2;
                    polled = hand.poll();
                }
            }
        }
        is_in_time.unwrap_or(true)
    }

    /// Moves a timer that the caller has in hand, and notes until when the job waits. If the wheel is full, and the timer
    /// is coming due and would need a new place, it stays: then the wheel has woken the job or is about to.
    fn move_in_hand(&self, hand: &mut Hand, to: Instant, is_users: bool) -> Option<Polled> {
        let before = hand.sleep.deadline();
        Pin::new(&mut hand.sleep).reset(to);
        let polled = Some(hand.poll()).filter(|polled| !is_refused(polled));
        if polled.is_some() {
            (hand.due, hand.is_users) = (to, is_users);
        } else {
            Pin::new(&mut hand.sleep).reset(before);
        }
        let mut state = self.lock();
        // Unless somebody has asked for another time since.
        if matches!(state.stage, Stage::InHand(Word { to: None, .. })) {
            let waits_until = hand.sleep.deadline();
            state.due = Some(waits_until);
            if let Some(plan) = &mut state.plan {
                // A run that is moved to the past has missed nothing.
                let is_past = matches!(polled, Some(Poll::Ready(_)));
                let due = if is_past { hand.due.max(Instant::now()) } else { hand.due };
                (plan.is_users, plan.due, plan.waits_until) = (hand.is_users, due, waits_until.max(due));
            }
        }
        polled
    }

    /// Ends a job, which leaves the list, and then tells whoever waits for its end: who is told finds it there no more. Drops
    /// what it has, without the lock.
    fn end(&self, mut state: Guard<'_>, over: JobState, error: Option<Error>, keeps_work: bool) {
        let was_pending = state.is_pending();
        if error.is_none() {
            state.due = None;
        }
        let stage = mem::replace(&mut state.stage, Stage::Over(over, error));
        let (plan, joins) = (state.plan.take(), mem::take(&mut state.joins));
        drop(state);
        // Whoever cancels a job that waits has taken it out of the list.
        if !was_pending || over != JobState::Cancelled {
            self.slot.over(ptr::from_ref(self).cast(), over);
        }
        for join in joins {
            contained(|| _ = join.send(over));
        }
        drop(stage);
        if !keeps_work {
            // It may panic; the plan, which has the schedule, is dropped all the same.
            self.slot.clear(over);
        }
        drop(plan);
    }

    pub(crate) fn info(&self) -> JobInfo {
        self.lock().info()
    }

    /// Why the job has no output.
    pub(crate) fn error(&self, wheel: &TimingWheel) -> JobError {
        match self.lock().stage {
            Stage::Over(_, Some(error)) => Refused::by_wheel(error, wheel).into(),
            _ => JobError::cancelled(),
        }
    }

    pub(crate) fn join(&self) -> Join {
        let (tell, told) = oneshot::channel();
        let mut state = self.lock();
        if let Stage::Over(state, _) = state.stage {
            _ = tell.send(state);
        } else {
            // Those of tasks that do not wait any more.
            if state.joins.len() == state.joins.capacity() {
                state.joins.retain(|join| !join.is_closed());
            }
            state.joins.push(tell);
        }
        Join::new(told)
    }

    /// Ends a job as `how` says, for its handle, or for whoever has taken it out of the list. Returns how it was found, and
    /// whether this has made a difference.
    pub(crate) fn cancel(&self, how: Cancel) -> (JobInfo, bool) {
        let mut state = self.lock();
        let (info, repeats) = (state.info(), state.plan.is_some());
        let is_changed = match &mut state.stage {
            Stage::Waits(_) | Stage::InHand(_) if how == Cancel::KeepWork => {
                contained(|| self.end(state, JobState::Cancelled, None, true));
                true
            }
            Stage::Waits(_) | Stage::InHand(_) => {
                self.end(state, JobState::Cancelled, None, false);
                true
            }
            Stage::Runs { order, task } if how == Cancel::Abort && *order != Order::Abort => {
                *order = Order::Abort;
                let task = task.take();
                drop(state);
                if let Some(task) = task {
                    task.wake();
                }
                true
            }
            Stage::Runs { order: order @ Order::None, .. } if repeats => {
                *order = Order::Stop;
                true
            }
            Stage::Runs { .. } | Stage::Over(..) => false,
        };
        (info, is_changed)
    }

    /// Moves the next run, for a user, and tells whether it is due then.
    pub(crate) fn reset(&self, to: Instant) -> bool {
        self.move_run(self.lock(), true, to)
    }

    /// Moves a pending run; or notes the move for the run after one that is going on, if a user asks for that. Tells whether
    /// it was in time.
    fn move_run(&self, mut guard: Guard<'_>, is_users: bool, to: Instant) -> bool {
        let State { stage, plan, .. } = &mut *guard;
        match (stage, plan) {
            (Stage::Runs { order: Order::None, .. }, Some(plan)) if is_users => {
                plan.moved = Some(to);
                return true;
            }
            (Stage::Runs { .. } | Stage::Over(..), _) => return false,
            (_, Some(plan)) => (plan.is_users, plan.due, plan.waits_until) = (is_users, to, to),
            (_, None) => {}
        }
        guard.due = Some(to);
        let is_moved = self.request(guard, Word { to: Some((to, is_users)), poll: false });
        // The wheel may have ended.
        is_moved && !matches!(self.lock().stage, Stage::Over(_, Some(_)))
    }

    /// Changes the schedule's answer, unless the user has moved the run.
    pub(crate) fn replan(&self, next: Option<Instant>) -> Replanned {
        let state = self.lock();
        let is_done = match (state.plan.as_ref().filter(|_| state.is_pending()), next) {
            (None, _) => false,
            (Some(plan), _) if plan.is_users => return Replanned::MovedByUser,
            (Some(_), Some(next)) => self.move_run(state, false, next),
            (Some(_), None) => {
                self.end(state, JobState::Done, None, false);
                true
            }
        };
        if is_done { Replanned::Done } else { Replanned::NotPending }
    }

    /// A poll of the task begins. Tells whether its run goes on; `task` is woken if that changes.
    pub(crate) fn goes_on(&self, task: &Waker) -> bool {
        let mut state = self.lock();
        let Stage::Runs { order, task: known } = &mut state.stage else { return false };
        // Whoever cancels a job that repeats is told that no further run begins.
        if *order == Order::Abort || (*order == Order::Stop && known.is_none()) {
            return false;
        }
        // tokio's, and so neither cloned nor dropped by code of a user's.
        if !known.as_ref().is_some_and(|known| known.will_wake(task)) {
            *known = Some(task.clone());
        }
        true
    }

    /// The task is at its end.
    pub(crate) fn finish(&self, over: JobState, error: Option<Error>) {
        let state = self.lock();
        if matches!(state.stage, Stage::Runs { .. }) {
            self.end(state, over, error, false);
        }
    }
}

impl State {
    const fn new(stage: Stage, due: Option<Instant>) -> Self {
        Self { stage, due, plan: None, joins: Vec::new() }
    }

    const fn is_pending(&self) -> bool {
        matches!(self.stage, Stage::InHand(_) | Stage::Waits(_))
    }

    fn info(&self) -> JobInfo {
        let state = match self.stage {
            Stage::InHand(_) | Stage::Waits(_) => JobState::Pending,
            Stage::Runs { .. } => JobState::Running,
            Stage::Over(state, _) => state,
        };
        JobInfo { state, due: self.due, refusals: self.plan.as_ref().map_or(0, |plan| plan.refusals) }
    }
}

//! What the wheel, the task and the handles of one job share.
//!
//! A record has one lock, round its [`State`]. No code of a user's runs under it, nor is a timer touched: arming, moving
//! or dropping one may drop wakers of strangers. So whoever touches the timer takes it in hand, and others leave word:
//!
//! | stage | who has the timer | what would run | next |
//! |---|---|---|---|
//! | `InHand` | the thread that arms, moves or polls it | in the slot | `Waits`, `Runs` or `Over`, by that thread; `Over`, by a cancel |
//! | `Waits` | the record | in the slot | `InHand`, by the wheel or a reset; `Over`, by a cancel |
//! | `Runs` | nobody: there is none | in the slot, then in the task | `InHand` or `Over`, by the task |
//! | `Over` | nobody | gone, or in the slot for a [`StoppedJob`](crate::StoppedJob) | none |
//!
//! The wheel's waker for a job is the record itself. It runs none of the job: it spawns the task.

use std::mem;
use std::pin::Pin;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use timingwheel::{Error, Sleep, TimingWheel, Tolerance};
use tokio::runtime::{Handle, Id};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use crate::error::{JobError, TryRunError};
use crate::info::{JobInfo, JobState, Join};
use crate::jobs::{Key, Table};
use crate::schedule::{NextRun, PendingRun, Previous, Replanned, Schedule, after_now};
use crate::task::{Task, Tell, Unrun, Work};
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
    /// What the job runs, while it waits.
    work: Mutex<Option<(W, Tell<W::Output>)>>,
}

/// What every record can do with its slot. User code runs in these, so never under a lock.
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
    fn take(&self) -> Option<(W, Tell<W::Output>)> {
        lock(&self.work).take()
    }
}

impl<K: Key, W: Work> AnySlot for Slot<K, W> {
    fn clear(&self, state: JobState) {
        let Some((work, mut tell)) = self.take() else { return };
        if let Some(output) = work.output().filter(|_| state == JobState::Done) {
            tell.tell(Ok(output));
        }
        // Whoever is told by the loss of the other end finds it dropped.
        drop(work);
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
        Some(self.take()?.0.give_back())
    }
}

struct State {
    stage: Stage,
    /// When the next run is due, or the one that is going on was.
    due: Instant,
    /// Until when the job waits: a little longer than until it is due, if it may be late.
    waits_until: Instant,
    /// Of a job that repeats, until it is over.
    plan: Option<Box<Plan>>,
    joins: Vec<oneshot::Sender<JobState>>,
}

enum Stage {
    InHand(Word),
    Waits(Hand),
    /// What would run is in the slot until the task takes it.
    Runs {
        order: Order,
        /// The task's, once it has begun this run.
        task: Option<Waker>,
    },
    Over {
        state: JobState,
        error: Option<Error>,
        /// When it was due, if it waited for that.
        due: Option<Instant>,
    },
}

/// What is asked of the thread that has the timer in hand.
#[derive(Clone, Copy, Default)]
enum Word {
    #[default]
    Nothing,
    Poll,
    Move(Instant, Option<Tolerance>),
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

/// Who has said when a run is due.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetBy {
    Schedule,
    User,
}

/// What a job that repeats knows of its runs to come.
pub(crate) struct Plan {
    wheel: TimingWheel,
    /// `None` while the task asks it.
    schedule: Option<Box<dyn Schedule>>,
    tolerance: Option<Tolerance>,
    set_by: SetBy,
    /// What was said during a run about the next one.
    said: Option<(Option<Instant>, SetBy)>,
    /// The schedule was changed during a run.
    is_changed: bool,
    refusals: u64,
}

impl Plan {
    /// A plan and its first run. `None` if the schedule has not even one.
    pub(crate) fn new(wheel: &TimingWheel, mut schedule: Box<dyn Schedule>) -> Option<(Box<Self>, Instant)> {
        let first = schedule.next(Previous::at(after_now(wheel, Duration::ZERO)))?;
        let plan = Self {
            wheel: wheel.clone(),
            tolerance: schedule.tolerance(),
            schedule: Some(schedule),
            set_by: SetBy::Schedule,
            said: None,
            is_changed: false,
            refusals: 0,
        };
        Some((Box::new(plan), first))
    }
}

/// A timer, and the waker that it wakes.
pub(crate) struct Hand {
    sleep: Sleep,
    may_be_late: bool,
    waker: Waker,
}

type Polled = Poll<Result<(), Error>>;

impl Hand {
    fn new(sleep: Sleep, tolerance: Option<Tolerance>, waker: Waker) -> Self {
        let sleep = match tolerance {
            Some(tolerance) => sleep.with_tolerance(tolerance),
            None => sleep,
        };
        Self { sleep, may_be_late: tolerance.is_some(), waker }
    }

    fn poll(&mut self) -> Polled {
        self.sleep.poll_wait(&mut Context::from_waker(&self.waker))
    }

    fn set(&mut self, to: Instant, tolerance: Option<Tolerance>) {
        let sleep = Pin::new(&mut self.sleep);
        match tolerance {
            Some(tolerance) => sleep.reset_with_tolerance(to, tolerance),
            // A plain reset would keep the tolerance.
            None if self.may_be_late => sleep.reset_with_tolerance(to, Tolerance::time(Duration::ZERO)),
            None => sleep.reset(to),
        }
        self.may_be_late = tolerance.is_some();
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
    /// A new job, with its timer in hand: it does not run before the timer is [worked at](Self::work_at). Gives its work
    /// back if the wheel refuses it.
    pub(crate) fn new(
        wheel: &TimingWheel,
        (sleep, tolerance): (Sleep, Option<Tolerance>),
        (key, hash, table): (K, u64, Weak<Table<K>>),
        work: (W, Tell<W::Output>),
        mut plan: Option<Box<Plan>>,
    ) -> Result<(Arc<Self>, Hand), TryRunError<W::Given>> {
        let due = sleep.deadline();
        let tolerance = plan.as_ref().map_or(tolerance, |plan| plan.tolerance);
        let mut hand = Hand::new(sleep, tolerance, Waker::noop().clone());
        let waits_until = hand.sleep.deadline();
        let record = Arc::new(Self {
            runtime: wheel.runtime_id(),
            state: Mutex::new(State::new(Stage::InHand(Word::Poll), due, waits_until)),
            slot: Slot { key, hash, table, work: Mutex::new(Some(work)) },
        });
        hand.waker = Waker::from(record.clone());
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
            return Err(record.give_back(JobError::could_not_run(error, wheel)));
        }
        record.lock().plan = plan;
        Ok((record, hand))
    }

    /// What a job would have run that was refused.
    pub(crate) fn give_back(&self, reason: JobError) -> TryRunError<W::Given> {
        TryRunError::new(reason, self.slot.take().expect("it has not begun").0.into_given())
    }

    /// A job that is over before it began.
    pub(crate) fn over(wheel: &TimingWheel, key: K, state: JobState) -> Arc<Self> {
        let stage = Stage::Over { state, error: None, due: None };
        let now = Instant::now();
        let slot = Slot { key, hash: 0, table: Weak::new(), work: Mutex::new(None) };
        Arc::new(Self { runtime: wheel.runtime_id(), state: Mutex::new(State::new(stage, now, now)), slot })
    }

    /// Asks the schedule whether the run that is about to begin is left out, if the schedule has planned it. A user's code,
    /// so not under the lock.
    pub(crate) fn leaves_out(&self) -> bool {
        let planned = |plan: &&mut Box<Plan>| !plan.is_changed && plan.set_by == SetBy::Schedule;
        let schedule = self.lock().plan.as_mut().filter(planned).and_then(|plan| plan.schedule.take());
        let Some(mut schedule) = schedule else { return false };
        let is_left_out = schedule.leaves_out();
        // If another has come meanwhile, this one is dropped without the lock.
        if let Some(plan) = self.lock().plan.as_mut().filter(|plan| !plan.is_changed) {
            plan.schedule = Some(schedule);
        }
        is_left_out
    }

    /// Goes on after a run of a job that repeats: as its user or a new schedule has said during the run, or else as the run
    /// has `answered`. The schedule is a user's code, so it is not asked under the lock. If the job is to wait, the work is
    /// taken from the task.
    pub(crate) fn go_on(
        self: &Arc<Self>,
        started: Instant,
        answered: NextRun,
        work: Pin<&mut W>,
        tell: &mut Tell<W::Output>,
    ) -> GoOn {
        let mut state = self.lock();
        let due = state.due;
        let late = started.saturating_duration_since(state.waits_until);
        let Some(plan) = &mut state.plan else { return GoOn::Later };
        let missed = late > MISSED_AFTER.max(plan.wheel.tick());
        let mut asked = if plan.is_changed { None } else { plan.schedule.take() };
        drop(state);
        let previous = Previous { due, started, ended: Instant::now(), missed };
        let (next, tolerance) = match &mut asked {
            Some(schedule) => (answered.or_by(&mut **schedule, previous), schedule.tolerance()),
            None => (None, None),
        };
        let by = if answered == NextRun::BySchedule { SetBy::Schedule } else { SetBy::User };
        // What it replaces is dropped without the lock.
        let mut state = self.lock();
        let State { stage, plan: Some(plan), due, waits_until, .. } = &mut *state else { return GoOn::Later };
        let Stage::Runs { order, .. } = *stage else { return GoOn::Later };
        if !mem::take(&mut plan.is_changed) {
            (plan.schedule, plan.tolerance) = (asked.take(), tolerance);
        }
        match plan.said.take().unwrap_or((next, by)) {
            _ if order != Order::None => GoOn::Over(Err(JobError::cancelled())),
            (None, _) => GoOn::Over(Ok(())),
            _ if plan.wheel.is_ended() => {
                GoOn::Over(Err(JobError::could_not_run(Error::shutdown(), &plan.wheel)))
            }
            (Some(next), by) => {
                (*due, *waits_until, plan.set_by) = (next, next, by);
                if next <= Instant::now() {
                    *stage = Stage::Runs { order: Order::None, task: None };
                    return GoOn::Now;
                }
                *stage = Stage::InHand(Word::Poll);
                let (wheel, tolerance) = (plan.wheel.clone(), plan.tolerance);
                *lock(&self.slot.work) = work.take().map(|work| (work, mem::replace(tell, Tell::NOBODY)));
                drop(state);
                self.wait(&wheel, next, tolerance);
                GoOn::Later
            }
        }
    }

    /// Puts a job back into the wheel. If that is full, the job is woken all the same, and then needs no place any more.
    fn wait(self: &Arc<Self>, wheel: &TimingWheel, due: Instant, tolerance: Option<Tolerance>) {
        let mut hand = Hand::new(wheel.sleep_until(due), tolerance, Waker::from(self.clone()));
        let is_refused = is_refused(&hand.poll());
        let waits_until = hand.sleep.deadline();
        let mut state = self.lock();
        state.waits_until = waits_until;
        if let Some(plan) = &mut state.plan {
            plan.refusals += u64::from(is_refused);
        }
        drop(state);
        if is_refused {
            let job = Arc::downgrade(self);
            tokio::spawn(async move {
                sleep_until(waits_until).await;
                _ = job.upgrade().map(Wake::wake);
            });
        }
        self.work_at(hand);
    }
}

/// How late a run is, at least, that counts as missed: as the tick of an interval.
const MISSED_AFTER: Duration = Duration::from_millis(5);

/// By the wheel: the job is due, or the wheel has ended; or by whoever has found that the job is due.
impl<K: Key, W: Work> Wake for Record<Slot<K, W>> {
    fn wake(self: Arc<Self>) {
        let state = self.lock();
        if !matches!(state.stage, Stage::Runs { .. }) {
            self.request(state, Word::Poll);
            return;
        }
        drop(state);
        // Nothing, if the task has it.
        if let Some(work) = self.slot.take() {
            tokio::spawn(Task::new(self, work));
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
                self.work_at(hand)
            }
            Stage::InHand(before @ Word::Move(..)) if matches!(word, Word::Poll) => {
                state.stage = Stage::InHand(before);
                true
            }
            Stage::InHand(_) => true,
            stage => {
                state.stage = stage;
                true
            }
        }
    }

    /// Does with the timer in hand what is asked of it, and puts it down. Tells whether the first move was in time.
    pub(crate) fn work_at(&self, mut hand: Hand) -> bool {
        let (mut polled, mut is_in_time, mut soon) = (Poll::Pending, None, None);
        loop {
            let mut state = self.lock();
            let Stage::InHand(word) = &mut state.stage else {
                // Ended meanwhile; by its schedule maybe before it was listed. What the hand has is dropped without the lock.
                let over = state.info().state;
                drop(state);
                self.slot.over(ptr::from_ref(self).cast(), over);
                break;
            };
            match (mem::take(word), polled) {
                (Word::Move(to, tolerance), _) => {
                    drop(state);
                    let is_moved;
                    (polled, is_moved) = self.move_in_hand(&mut hand, to, tolerance);
                    is_in_time.get_or_insert(is_moved);
                }
                (Word::Poll, _) => {
                    drop(state);
                    polled = hand.poll();
                }
                (Word::Nothing, Poll::Ready(Ok(()))) => {
                    if state.plan.as_ref().is_some_and(|plan| plan.wheel.is_ended()) {
                        self.end(state, JobState::CouldNotRun, Some(Error::shutdown()), false);
                        break;
                    }
                    if Handle::try_current().ok().map(|here| here.id()) == self.runtime {
                        state.stage = Stage::Runs { order: Order::None, task: None };
                        drop(state);
                        // Which spawns the task.
                        hand.waker.wake();
                        break;
                    }
                    drop(state);
                    // Only the wheel can spawn it. Its clock may be ahead of this thread's, where tests pause it.
                    let wait = soon.map_or(Duration::from_millis(1), |before| 2 * before);
                    soon = Some(wait);
                    Pin::new(&mut hand.sleep).reset_after(wait);
                    polled = hand.poll();
                }
                (Word::Nothing, Poll::Ready(Err(error))) if !error.is_at_capacity() || soon.is_some() => {
                    self.end(state, JobState::CouldNotRun, Some(error), false);
                    break;
                }
                // A timer that is refused a place comes due without one.
                (Word::Nothing, _) => {
                    state.stage = Stage::Waits(hand);
                    break;
                }
            }
        }
        is_in_time.unwrap_or(true)
    }

    /// Moves a timer that the caller has in hand, and notes until when the job waits. If the wheel is full, and the timer
    /// is coming due and would need a new place, it stays: then the wheel is about to wake the job.
    fn move_in_hand(&self, hand: &mut Hand, to: Instant, tolerance: Option<Tolerance>) -> (Polled, bool) {
        let before = hand.sleep.deadline();
        hand.set(to, tolerance);
        let polled = hand.poll();
        let is_moved = !is_refused(&polled);
        if !is_moved {
            hand.set(before, None);
        }
        let mut state = self.lock();
        // Unless somebody has asked for another time since.
        if matches!(&state.stage, Stage::InHand(Word::Nothing | Word::Poll)) {
            if !is_moved {
                state.due = before;
            }
            state.waits_until = hand.sleep.deadline();
            if is_moved && polled.is_ready() {
                // A run that is moved to the past has missed nothing.
                state.due = state.due.max(Instant::now());
            }
        }
        (polled, is_moved)
    }

    /// Ends a job, which leaves the list, and then tells whoever waits for its end: who is told finds it there no more. Drops
    /// what it has, without the lock.
    fn end(&self, mut state: Guard<'_>, over: JobState, error: Option<Error>, keeps_work: bool) {
        let was_pending = state.is_pending();
        let due = (was_pending && error.is_some()).then_some(state.waits_until);
        let stage = mem::replace(&mut state.stage, Stage::Over { state: over, error, due });
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
            Stage::Over { error: Some(error), .. } => JobError::could_not_run(error, wheel),
            _ => JobError::cancelled(),
        }
    }

    pub(crate) fn join(&self) -> Join {
        let (tell, told) = oneshot::channel();
        let mut state = self.lock();
        if let Stage::Over { state, .. } = state.stage {
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
            Stage::Runs { .. } | Stage::Over { .. } => false,
        };
        (info, is_changed)
    }

    /// Moves the next run, for a user, and tells whether it is due then.
    pub(crate) fn reset(&self, to: Instant, tolerance: Option<Tolerance>) -> bool {
        self.move_run(self.lock(), SetBy::User, to, tolerance)
    }

    /// Lets a pending job be late.
    pub(crate) fn let_be_late(&self, tolerance: Tolerance) {
        let state = self.lock();
        let due = state.due;
        // A repeating job has the tolerance of its schedule.
        if state.plan.is_none() && due > Instant::now() {
            self.move_run(state, SetBy::User, due, Some(tolerance));
        }
    }

    /// Moves a pending run; or notes the move for the run after one that is going on, if a user asks for that. Tells whether
    /// it was in time.
    fn move_run(&self, mut guard: Guard<'_>, by: SetBy, to: Instant, tolerance: Option<Tolerance>) -> bool {
        let State { stage, plan, .. } = &mut *guard;
        let tolerance = plan.as_ref().map_or(tolerance, |plan| plan.tolerance);
        match (stage, plan) {
            (Stage::Runs { order: Order::None, .. }, Some(plan)) if by == SetBy::User => {
                plan.said = Some((Some(to), by));
                return true;
            }
            (Stage::Runs { .. } | Stage::Over { .. }, _) => return false,
            (_, Some(plan)) => plan.set_by = by,
            (_, None) => {}
        }
        (guard.due, guard.waits_until) = (to, to);
        let is_moved = self.request(guard, Word::Move(to, tolerance));
        // The wheel may have ended.
        is_moved && !matches!(self.lock().stage, Stage::Over { error: Some(_), .. })
    }

    /// Changes the schedule's answer, unless the user has moved the run.
    pub(crate) fn replan(&self, next: Option<Instant>) -> Replanned {
        let state = self.lock();
        match state.plan.as_ref().filter(|_| state.is_pending()).map(|plan| plan.set_by) {
            None => return Replanned::NotPending,
            Some(SetBy::User) => return Replanned::MovedByUser,
            Some(SetBy::Schedule) => {}
        }
        let is_done = match next {
            Some(next) => self.move_run(state, SetBy::Schedule, next, None),
            None => {
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

impl Record<dyn AnySlot> {
    /// Goes over to another schedule, which is asked for its first run, and tells whether that was in time.
    pub(crate) fn set_schedule(self: &Arc<Self>, mut schedule: Box<dyn Schedule>) -> bool {
        let Some(wheel) = self.lock().plan.as_ref().map(|plan| plan.wheel.clone()) else { return false };
        let first = schedule.next(Previous::at(after_now(&wheel, Duration::ZERO)));
        let tolerance = schedule.tolerance();
        schedule.attach(PendingRun::of(self));
        let mut state = self.lock();
        let is_running = matches!(state.stage, Stage::Runs { order: Order::None, .. });
        if !is_running && !state.is_pending() {
            return false;
        }
        let Some(plan) = &mut state.plan else { return false };
        let before = plan.schedule.replace(schedule);
        // What the user has asked for before is over with the schedule.
        (plan.tolerance, plan.set_by) = (tolerance, SetBy::Schedule);
        if is_running {
            plan.is_changed = true;
            plan.said = Some((first, SetBy::Schedule));
        }
        drop(state);
        let is_in_time = is_running || self.replan(first) != Replanned::NotPending;
        drop(before);
        is_in_time
    }
}

impl State {
    const fn new(stage: Stage, due: Instant, waits_until: Instant) -> Self {
        Self { stage, due, waits_until, plan: None, joins: Vec::new() }
    }

    const fn is_pending(&self) -> bool {
        matches!(self.stage, Stage::InHand(_) | Stage::Waits(_))
    }

    fn info(&self) -> JobInfo {
        let (state, due) = match self.stage {
            Stage::InHand(_) | Stage::Waits(_) => (JobState::Pending, Some(self.waits_until)),
            Stage::Runs { .. } => (JobState::Running, None),
            Stage::Over { state, due, .. } => (state, due),
        };
        JobInfo { state, due, refusals: self.plan.as_ref().map_or(0, |plan| plan.refusals) }
    }
}

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

use futures::future::{AbortHandle, AbortRegistration};
use timingwheel::time::sleep_until;
use timingwheel::{Error, Sleep, TimingWheel, Tolerance};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::error::{JobError, Kind, Refused};
use crate::info::{JobInfo, JobState, Join};
use crate::jobs::Key;
use crate::schedule::{Next, PendingRun, Previous, Replanned};
use crate::table::Table;
use crate::task::{Task, Tell, Unrun, Work, unrun};
use crate::{caught, lock};

/// A job. `S` is a [`Slot`], or what a handle knows of one.
pub(crate) struct Record<S: ?Sized> {
    pub(crate) wheel: TimingWheel,
    /// The key's.
    pub(crate) hash: u64,
    state: Mutex<State>,
    pub(crate) slot: S,
}

/// The part of a record that knows the job's types.
pub(crate) struct Slot<K, W: Work> {
    pub(crate) key: K,
    /// Weak: a job that could not run stays listed, and must not keep the list.
    table: Weak<Table<K>>,
    /// The job's code, while it waits.
    work: Mutex<Option<(W, Tell<W::Output>)>>,
}

/// The operations that every slot has. They run user code, so never under a lock.
pub(crate) trait AnySlot: Send + Sync {
    /// Drops what the job would run; if the job is done by that, its handle is told.
    fn clear(&self, state: JobState);
    /// The job with this hash, which is at this address, is over.
    fn over(&self, hash: u64, job: *const (), state: JobState);
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
        let Some((mut work, tell)) = self.take() else { return };
        let output = if state == JobState::Done { work.output() } else { None };
        // Whoever is told, also by the loss of the other end, finds it dropped.
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(work)));
        if let (Some(tell), Some(output)) = (tell, output) {
            _ = tell.send(Ok(output));
        }
        dropped.unwrap_or_else(|panic| resume_unwind(panic));
    }

    fn over(&self, hash: u64, job: *const (), state: JobState) {
        if let Some(table) = self.table.upgrade() {
            table.over(hash, job, state);
        }
    }
}

impl<K: Key, W: Work> Keyed<K> for Slot<K, W> {
    fn key(&self) -> &K {
        &self.key
    }

    fn give_back(&self) -> Option<Unrun> {
        self.take().map(|(work, _)| unrun(work))
    }
}

#[derive(Default)]
struct State {
    stage: Stage,
    /// When the run is due that the job waits for, or that is going on.
    due: Option<Instant>,
    /// Until when the job waits for that run: later than `due` if it may be late. Stays at the end only if the job waited and
    /// could not run.
    waits_until: Option<Instant>,
    /// Somebody else than the schedule has said when the run is due.
    is_users: bool,
    /// The job, which has its work, runs again and again.
    repeats: bool,
    refusals: u32,
    joins: Vec<oneshot::Sender<JobState>>,
}

enum Stage {
    InHand(Word),
    Waits(Hand),
    /// The work is in the slot until the task takes it.
    Runs {
        /// No further run begins.
        is_last: bool,
        /// To where the user has moved the next one.
        moved: Option<Instant>,
        /// Ends the run where it next waits, once.
        abort: Option<AbortHandle>,
        /// For the task that is to be spawned, once.
        start: Option<AbortRegistration>,
    },
    Over(JobState, Option<Error>),
}

impl Default for Stage {
    fn default() -> Self {
        Self::InHand(Word::default())
    }
}

/// A request to the thread that has the timer in hand: to move it, and then to poll it.
#[derive(Clone, Copy, Default)]
struct Word {
    /// And whether a user asks for that.
    to: Option<(Instant, bool)>,
    poll: bool,
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

/// A timer, and the waker that it wakes.
pub(crate) struct Hand {
    sleep: Sleep,
    waker: Waker,
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

/// A new job's timer, in the hand of whoever armed it, and when the run is due.
pub(crate) struct Armed {
    pub(crate) hand: Hand,
    due: Instant,
    pub(crate) polled: Polled,
}

/// The first timer of a job, and when the run is due; `None` if it has no run at all.
pub(crate) type First = Option<(Sleep, Instant)>;

type Guard<'a> = MutexGuard<'a, State>;

impl<K: Key, W: Work> Record<Slot<K, W>> {
    /// A job that is still to be armed and started.
    pub(crate) fn new(wheel: &TimingWheel, key: K, hash: u64, table: Weak<Table<K>>) -> Arc<Self> {
        let slot = Slot { key, table, work: Mutex::new(None) };
        Arc::new(Self { wheel: wheel.clone(), hash, state: Mutex::default(), slot })
    }

    /// Arms a new job's timer, which the caller then has in hand, unless the wheel refuses it. `None` if there is no run.
    pub(crate) fn arm(self: &Arc<Self>, first: First, work: &mut W) -> Result<Option<Armed>, Refused> {
        let refused = |error| Err(Refused::by_wheel(&self.wheel, error));
        let Some((sleep, due)) = first else {
            return if self.wheel.is_ended() { refused(Error::shutdown()) } else { Ok(None) };
        };
        work.attach(PendingRun::of(self.clone()));
        let mut hand = Hand { sleep, waker: self.clone().into() };
        match hand.poll() {
            Poll::Ready(Err(error)) => refused(error),
            Poll::Ready(Ok(())) if self.wheel.is_ended() => refused(Error::shutdown()),
            polled => Ok(Some(Armed { hand, due, polled })),
        }
    }

    /// Gives a job its code. Whoever has armed it then [works at](Self::work_at) its timer: the job does not run before.
    pub(crate) fn give(&self, armed: Option<&Armed>, work: W, tell: Tell<W::Output>) {
        *lock(&self.slot.work) = Some((work, tell));
        let mut state = self.lock();
        state.repeats = W::REPEATS;
        if let Some(Armed { hand, due, .. }) = armed {
            state.wait_until(&hand.sleep, *due);
        }
    }

    /// Goes on after a run: as its user has said during the run, or else as `next` says. Takes the work
    /// if there is a next run.
    pub(crate) fn go_on(
        self: &Arc<Self>,
        next: Next,
        work: &mut Option<(W, Tell<W::Output>)>,
    ) -> Result<(), JobError> {
        let mut state = self.lock();
        let Stage::Runs { is_last, moved, .. } = &mut state.stage else { return Ok(()) };
        let moved = moved.take();
        // Nobody who comes before the task's end is told to be in time.
        if mem::replace(is_last, true) && state.repeats {
            return Err(JobError(Kind::Cancelled));
        }
        let Some(due) = moved.or(next.due) else { return Ok(()) };
        let sleep = timer(&self.wheel, due, next.tolerance);
        state.wait_until(&sleep, due);
        state.is_users = moved.is_some() || next.is_users;
        let run = mem::take(&mut state.stage);
        *lock(&self.slot.work) = work.take();
        drop(state);
        drop(run);
        let mut hand = Hand { sleep, waker: self.clone().into() };
        let mut polled = hand.poll();
        if is_refused(&polled) {
            // The runtime's own wheel keeps the time.
            hand.sleep = sleep_until(hand.sleep.deadline());
            polled = hand.poll();
            let mut state = self.lock();
            state.refusals = state.refusals.saturating_add(1);
        }
        self.work_at(hand, polled);
        Ok(())
    }
}

/// A timer for a run that may be late.
pub(crate) fn timer(wheel: &TimingWheel, due: Instant, tolerance: Option<Tolerance>) -> Sleep {
    let sleep = wheel.sleep_until(due);
    match tolerance {
        Some(tolerance) => sleep.with_tolerance(tolerance),
        None => sleep,
    }
}

/// How late a run is, at least, that counts as missed: as the tick of an interval.
const MISSED_AFTER: Duration = Duration::from_millis(5);

/// By the wheel: the job is due, or the wheel has ended; or by whoever has found that the job is due.
impl<K: Key, W: Work> Wake for Record<Slot<K, W>> {
    fn wake(self: Arc<Self>) {
        let mut state = self.lock();
        let Stage::Runs { start, .. } = &mut state.stage else {
            self.request(state, Word { to: None, poll: true });
            return;
        };
        // Nothing, if the task has it.
        let start = start.take();
        drop(state);
        if let Some(abort) = start {
            let work = self.slot.take();
            tokio::spawn(Task::new(self, work).run(abort));
        }
    }
}

impl<S: AnySlot + ?Sized> Record<S> {
    fn lock(&self) -> Guard<'_> {
        lock(&self.state)
    }

    /// Does with the timer of a pending job what is asked, or leaves word for whoever has it in hand. Tells whether there was
    /// one, and a move was in time.
    fn request(&self, mut state: Guard<'_>, word: Word) -> bool {
        match mem::replace(&mut state.stage, Stage::InHand(word)) {
            Stage::Waits(hand) => {
                drop(state);
                self.work_at(hand, Poll::Pending)
            }
            Stage::InHand(before) => {
                state.stage =
                    Stage::InHand(Word { to: word.to.or(before.to), poll: word.poll || before.poll });
                true
            }
            stage => {
                state.stage = stage;
                false
            }
        }
    }

    /// Does with the timer in hand what is asked of it, and puts it down. Tells whether the first move was in time.
    pub(crate) fn work_at(&self, mut hand: Hand, mut polled: Polled) -> bool {
        let (mut is_in_time, mut wait) = (None, Duration::from_millis(1));
        loop {
            let mut state = self.lock();
            let Stage::InHand(word) = &mut state.stage else {
                // Ended meanwhile. The hand is dropped without the lock.
                drop(state);
                return is_in_time.unwrap_or(true);
            };
            if let Some((to, is_users)) = word.to {
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
            let error = match polled {
                Poll::Pending => {
                    state.stage = Stage::Waits(hand);
                    return is_in_time.unwrap_or(true);
                }
                Poll::Ready(Err(error)) => error,
                Poll::Ready(Ok(())) if self.wheel.is_ended() => Error::shutdown(),
                Poll::Ready(Ok(()))
                    if Handle::try_current().ok().map(|here| here.id()) == self.wheel.runtime_id() =>
                {
                    let (abort, start) = AbortHandle::new_pair();
                    let (is_last, abort, start) = (!state.repeats, Some(abort), Some(start));
                    state.stage = Stage::Runs { is_last, moved: None, abort, start };
                    drop(state);
                    // Which spawns the task.
                    hand.waker.wake();
                    return is_in_time.unwrap_or(true);
                }
                Poll::Ready(Ok(())) => {
                    drop(state);
                    // Only the wheel can spawn it. Its clock may be ahead of this thread's, where tests pause it.
                    hand.sleep.reset_after(wait);
                    wait *= 2;
                    polled = hand.poll();
                    continue;
                }
            };
            self.end(state, JobState::CouldNotRun, Some(error));
            self.slot.clear(JobState::CouldNotRun);
            return false;
        }
    }

    /// Moves a timer that the caller has in hand, and notes when the job is due. If the wheel is full, and the timer is coming
    /// due and would need a new place, it stays: then the wheel has woken the job or is about to.
    fn move_in_hand(&self, hand: &mut Hand, to: Instant, is_users: bool) -> Option<Polled> {
        let before = hand.sleep.deadline();
        Pin::new(&mut hand.sleep).reset(to);
        let polled = Some(hand.poll()).filter(|polled| !is_refused(polled));
        if polled.is_none() {
            Pin::new(&mut hand.sleep).reset(before);
        }
        let mut state = self.lock();
        // Else it has ended meanwhile, and is not due any more.
        if let Stage::InHand(word) = &mut state.stage {
            if word.to == Some((to, is_users)) {
                word.to = None;
            }
            if let Some(polled) = polled {
                // A run that is moved to the past has missed nothing.
                let due = if polled.is_ready() { to.max(Instant::now()) } else { to };
                state.wait_until(&hand.sleep, due);
                state.is_users = is_users;
            }
        }
        polled
    }

    /// Ends a job, which leaves the list, and then tells whoever waits for its end: who is told finds it there no more. What it
    /// would run stays in the slot.
    fn end(&self, mut state: Guard<'_>, over: JobState, error: Option<Error>) {
        debug_assert!(!matches!(state.stage, Stage::Over(..)), "a job ends once");
        let was_pending = matches!(state.stage, Stage::InHand(_) | Stage::Waits(_));
        if !was_pending || error.is_none() {
            state.waits_until = None;
        }
        let stage = mem::replace(&mut state.stage, Stage::Over(over, error));
        let joins = mem::take(&mut state.joins);
        drop(state);
        // Whoever cancels a job that waits has taken it out of the list.
        if !was_pending || over != JobState::Cancelled {
            self.slot.over(self.hash, ptr::from_ref(self).cast(), over);
        }
        for join in joins {
            _ = caught(|| join.send(over));
        }
        drop(stage);
    }

    pub(crate) fn info(&self) -> JobInfo {
        self.lock().info()
    }

    /// Why the job has no output.
    pub(crate) fn error(&self) -> JobError {
        match self.lock().stage {
            Stage::Over(_, Some(error)) => Refused::by_wheel(&self.wheel, error).into(),
            _ => JobError(Kind::Cancelled),
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
        Join(told)
    }

    /// Ends a job as `how` says, for its handle, or for whoever has taken it out of the list. Returns how it was found, and
    /// whether this has made a difference.
    pub(crate) fn cancel(&self, how: Cancel) -> (JobInfo, bool) {
        let mut state = self.lock();
        let info = state.info();
        let is_changed = match &mut state.stage {
            Stage::Waits(_) | Stage::InHand(_) => {
                self.end(state, JobState::Cancelled, None);
                if how != Cancel::KeepWork {
                    self.slot.clear(JobState::Cancelled);
                }
                true
            }
            Stage::Runs { is_last, abort, .. } if how == Cancel::Abort => {
                *is_last = true;
                let abort = abort.take();
                drop(state);
                abort.map(|abort| abort.abort()).is_some()
            }
            Stage::Runs { is_last, .. } => !mem::replace(is_last, true),
            Stage::Over(..) => false,
        };
        (info, is_changed)
    }

    /// Moves the next run, for a user, and tells whether it is due then. During a run this is the one after it, if the job
    /// repeats.
    pub(crate) fn reset(&self, to: Instant) -> bool {
        let mut state = self.lock();
        if let Stage::Runs { is_last: false, moved, .. } = &mut state.stage {
            *moved = Some(to);
            return true;
        }
        self.request(state, Word { to: Some((to, true)), poll: false })
    }

    /// Changes the schedule's answer, unless the user has moved the run.
    pub(crate) fn replan(&self, next: Option<Instant>) -> Replanned {
        let state = self.lock();
        let is_users = match state.stage {
            Stage::InHand(Word { to: Some((_, is_users)), .. }) if state.repeats => is_users,
            Stage::InHand(_) | Stage::Waits(_) if state.repeats => state.is_users,
            _ => return Replanned::NotPending,
        };
        let is_done = match next {
            _ if is_users => return Replanned::MovedByUser,
            Some(next) => self.request(state, Word { to: Some((next, false)), poll: false }),
            None => {
                self.end(state, JobState::Done, None);
                self.slot.clear(JobState::Done);
                true
            }
        };
        if is_done { Replanned::Done } else { Replanned::NotPending }
    }

    /// Whether the schedule has planned the run that is about to begin; `None` if no further run begins.
    pub(crate) fn begins(&self) -> Option<bool> {
        let state = self.lock();
        let is_cancelled = state.repeats && matches!(state.stage, Stage::Runs { is_last: true, .. });
        (!is_cancelled).then_some(!state.is_users)
    }

    /// The run that ends now.
    pub(crate) fn previous(&self, started: Instant) -> Previous {
        let State { due, waits_until, .. } = *self.lock();
        let late = started.saturating_duration_since(waits_until.unwrap_or(started));
        let missed = late > MISSED_AFTER.max(self.wheel.tick());
        Previous { due: due.unwrap_or(started), started, ended: Instant::now(), missed }
    }

    /// The job, which has no timer, is over: it could not go on, or is done.
    pub(crate) fn finish(&self, over: JobState, error: Option<Error>) {
        self.end(self.lock(), over, error);
        self.slot.clear(over);
    }
}

impl State {
    /// The job waits by this timer for a run.
    fn wait_until(&mut self, sleep: &Sleep, due: Instant) {
        (self.due, self.waits_until) = (Some(due), Some(sleep.deadline().max(due)));
    }

    fn info(&self) -> JobInfo {
        let (state, due) = match self.stage {
            Stage::InHand(Word { to: Some((to, _)), .. }) => (JobState::Pending, Some(to)),
            Stage::InHand(_) | Stage::Waits(_) => (JobState::Pending, self.waits_until),
            Stage::Runs { .. } => (JobState::Running, None),
            Stage::Over(over, _) => (over, self.waits_until),
        };
        JobInfo { state, due, refusals: self.refusals.into() }
    }
}

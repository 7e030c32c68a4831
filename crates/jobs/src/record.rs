//! The record of a job, which the wheel, the task and the handles share.
//!
//! A record has one lock, round its [`State`]. No code of a user's runs under it, nor is a timer touched: arming, moving
//! or dropping one may drop wakers of strangers. So whoever touches the timer takes it in hand, and others leave word:
//!
//! | stage | who has the timer | the job's code | next |
//! |---|---|---|---|
//! | `InHand` | the thread that arms, moves or polls it | in the state, once the job is added | `Waits`, `Runs` or `Over`, by that thread; `Over`, by a cancel |
//! | `Waits` | the record | in the state | `InHand`, by the wheel or a reset; `Over`, by a cancel |
//! | `Runs` | nobody: there is none | in the task | `InHand` or `Over`, by the task |
//! | `Over` | nobody | gone | none |
//!
//! The wheel's waker for a job is the record itself. It runs none of the job: it spawns the task.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::AbortHandle;
use futures::task::{ArcWake, waker_ref};
use timingwheel::time::sleep_until;
use timingwheel::{Error, Sleep, TimingWheel};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::error::{JobError, Kind, Refused};
use crate::info::{JobInfo, JobState, Join};
use crate::jobs::Key;
use crate::schedule::{Next, Previous, Replanned};
use crate::table::Table;
use crate::task::{Task, Tell, Unrun, Work, unrun};
use crate::{caught, lock};

/// A job.
pub(crate) struct Record<K, W: Work> {
    wheel: TimingWheel,
    pub(crate) key: K,
    /// The key's.
    pub(crate) hash: u64,
    /// Weak: a job that could not run stays listed, and must not keep the list.
    table: Weak<Table<K>>,
    state: Mutex<State<W>>,
}

/// A job whose code is of any type.
pub(crate) trait AnyJob: Send + Sync {
    fn wheel(&self) -> &TimingWheel;

    fn info(&self) -> JobInfo;

    /// Why the job has no output.
    fn error(&self) -> JobError;

    fn join(&self) -> Join;

    /// Ends a job that is pending, or with `aborts` also a run that is going on; for its handle, or for whoever has taken it
    /// out of the list. Returns how it was found, and whether this has made a difference.
    fn cancel(&self, aborts: bool) -> (JobInfo, bool);

    /// Cancels a job, and hands its code back if it was pending.
    fn stop(&self) -> (JobInfo, Option<Unrun>);

    /// Moves the next run, for a user, and tells whether it is due then. During a run this is the one after it, if the job
    /// repeats.
    fn reset(self: Arc<Self>, to: Instant) -> bool;

    /// Changes the schedule's answer, unless the user has moved the run.
    fn replan(self: Arc<Self>, next: Option<Instant>) -> Replanned;
}

/// The code of a job, and who awaits its output.
pub(crate) type Code<W> = (W, Tell<<W as Work>::Output>);

struct State<W: Work> {
    stage: Stage,
    /// While the job waits. A new job gets it as it is added.
    code: Option<Code<W>>,
    /// When the run is due that the job waits for, or that is going on, if its timer does not tell.
    due: Option<Instant>,
    /// Until when the job waits for that run: later than `due` if it may be late. While nobody has taken the timer in hand, only
    /// the timer tells. Stays at the end only if the job waited and could not run.
    waits_until: Option<Instant>,
    /// Somebody else than the schedule has said when the run is due.
    is_users: bool,
    refusals: u32,
    joins: Vec<oneshot::Sender<JobState>>,
}

enum Stage {
    InHand(Word),
    Waits(Sleep),
    Runs {
        /// No further run begins.
        is_last: bool,
        /// To where the user has moved the next one.
        moved: Option<Instant>,
        /// Ends the run where it next waits, once.
        abort: Option<AbortHandle>,
    },
    Over(JobState, Option<Error>),
}

/// A request to the thread that has the timer in hand: to move it, and then to poll it.
#[derive(Clone, Copy, Default)]
struct Word {
    to: Option<Move>,
    poll: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Move {
    to: Instant,
    is_users: bool,
}

type Polled = Poll<Result<(), Error>>;

fn is_refused(polled: &Polled) -> bool {
    matches!(polled, Poll::Ready(Err(error)) if error.is_at_capacity())
}

/// A timer in the hand of whoever has armed it.
pub(crate) type Armed = (Sleep, Polled);

/// The first timer of a job, and when the run is due if the timer does not tell; `None` if it has no run at all.
pub(crate) type First = Option<(Sleep, Option<Instant>)>;

/// A timer for a run that may be late.
pub(crate) fn timer(wheel: &TimingWheel, due: Instant, tolerance: Option<Duration>) -> Sleep {
    let sleep = wheel.sleep_until(due);
    match tolerance {
        Some(tolerance) => sleep.with_tolerance(tolerance),
        None => sleep,
    }
}

/// How late a run is, at least, that counts as missed: as the tick of an interval.
const MISSED_AFTER: Duration = Duration::from_millis(5);

impl<K: Key, W: Work> Record<K, W> {
    /// A job that is still to be armed and added.
    pub(crate) fn new(
        wheel: &TimingWheel,
        first: &First,
        key: K,
        hash: u64,
        table: Weak<Table<K>>,
    ) -> Arc<Self> {
        let state = State {
            stage: Stage::InHand(Word::default()),
            code: None,
            due: first.as_ref().and_then(|(_, due)| *due),
            waits_until: None,
            is_users: false,
            refusals: 0,
            joins: Vec::new(),
        };
        Arc::new(Self { wheel: wheel.clone(), key, hash, table, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, State<W>> {
        lock(&self.state)
    }

    fn poll(self: &Arc<Self>, sleep: &mut Sleep) -> Polled {
        sleep.poll_unconstrained(&mut Context::from_waker(&waker_ref(self)))
    }

    /// Arms a new job's timer, which the caller then has in hand, unless the wheel refuses it. `None` if there is no run.
    pub(crate) fn arm(self: &Arc<Self>, first: First, work: &mut W) -> Result<Option<Armed>, Refused> {
        let refused = |error| Err(Refused::by_wheel(&self.wheel, error));
        let Some((mut sleep, _)) = first else {
            return if self.wheel.is_ended() { refused(Error::shutdown()) } else { Ok(None) };
        };
        work.attach(self);
        match self.poll(&mut sleep) {
            Poll::Ready(Err(error)) => refused(error),
            Poll::Ready(Ok(())) if self.wheel.is_ended() => refused(Error::shutdown()),
            polled => Ok(Some((sleep, polled))),
        }
    }

    /// Gives a new job its code, and puts its timer down. If there is something to do with the timer, the caller
    /// [works at](Self::work_at) it: the job does not run before.
    pub(crate) fn give(&self, code: Code<W>, (sleep, polled): Armed) -> Option<Armed> {
        let mut state = self.lock();
        state.code = Some(code);
        if polled.is_pending() && matches!(state.stage, Stage::InHand(Word { to: None, poll: false })) {
            state.stage = Stage::Waits(sleep);
            return None;
        }
        state.waits_until = Some(state.until(&sleep));
        Some((sleep, polled))
    }

    /// Goes on after a run: as its user has said during the run, or else as `next` says. Takes the code if there is a next
    /// run.
    pub(crate) fn go_on(self: &Arc<Self>, next: Next, code: &mut Option<Code<W>>) -> Result<(), JobError> {
        let mut state = self.lock();
        let Stage::Runs { is_last, moved, .. } = &mut state.stage else { return Ok(()) };
        let moved = moved.take();
        // Nobody who comes before the task's end is told to be in time.
        if mem::replace(is_last, true) && W::REPEATS {
            return Err(JobError(Kind::Cancelled));
        }
        // A run that is moved to the past has missed nothing.
        let moved = moved.map(|to| to.max(self.wheel.current_time()));
        let Some(due) = moved.or(next.due) else { return Ok(()) };
        let mut sleep = timer(&self.wheel, due, next.tolerance);
        state.due = Some(due);
        state.waits_until = Some(state.until(&sleep));
        state.is_users = moved.is_some() || next.is_users;
        state.code = code.take();
        let run = mem::replace(&mut state.stage, Stage::InHand(Word::default()));
        drop(state);
        drop(run);
        let mut polled = self.poll(&mut sleep);
        if is_refused(&polled) {
            // The runtime's own wheel keeps the time.
            sleep = sleep_until(sleep.deadline());
            polled = self.poll(&mut sleep);
            let mut state = self.lock();
            state.refusals = state.refusals.saturating_add(1);
        }
        self.work_at((sleep, polled));
        Ok(())
    }

    /// Does with the timer of a pending job what is asked, or leaves word for whoever has it in hand. Tells whether there was
    /// one, and a move was in time.
    fn request(self: &Arc<Self>, mut state: MutexGuard<'_, State<W>>, word: Word) -> bool {
        match mem::replace(&mut state.stage, Stage::InHand(word)) {
            Stage::Waits(sleep) => {
                // A move notes that when it is made.
                if word.to.is_none() {
                    state.note_until(&sleep);
                }
                drop(state);
                self.work_at((sleep, Poll::Pending))
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
    pub(crate) fn work_at(self: &Arc<Self>, (mut sleep, mut polled): Armed) -> bool {
        let (mut moved, mut is_in_time, mut wait) = (None, None, Duration::from_millis(1));
        loop {
            let mut state = self.lock();
            if let Some((made, is_made)) = moved.take() {
                is_in_time.get_or_insert(is_made);
                if let Stage::InHand(word) = &mut state.stage {
                    word.to = word.to.filter(|to| *to != made);
                    if is_made {
                        // A run that is moved to the past has missed nothing.
                        let is_late = polled.is_ready();
                        state.due =
                            Some(if is_late { made.to.max(self.wheel.current_time()) } else { made.to });
                        state.is_users = made.is_users;
                        state.waits_until = None;
                    }
                    state.note_until(&sleep);
                }
            }
            let Stage::InHand(word) = &mut state.stage else {
                // Ended meanwhile. The timer is dropped without the lock.
                drop(state);
                return is_in_time.unwrap_or(true);
            };
            if let Some(to) = word.to {
                drop(state);
                let before = sleep.deadline();
                Pin::new(&mut sleep).reset(to.to);
                let now = self.poll(&mut sleep);
                // If the wheel is full, and the timer is coming due and would need a new place, it stays: then the wheel
                // has woken the job or is about to.
                let is_made = !is_refused(&now);
                if is_made {
                    polled = now;
                } else {
                    Pin::new(&mut sleep).reset(before);
                }
                moved = Some((to, is_made));
                continue;
            }
            if mem::take(&mut word.poll) {
                drop(state);
                polled = self.poll(&mut sleep);
                continue;
            }
            let error = match polled {
                Poll::Pending => {
                    state.stage = Stage::Waits(sleep);
                    return is_in_time.unwrap_or(true);
                }
                Poll::Ready(Err(error)) => error,
                Poll::Ready(Ok(())) if self.wheel.is_ended() => Error::shutdown(),
                Poll::Ready(Ok(()))
                    if Handle::try_current().ok().map(|here| here.id()) == Some(self.wheel.runtime_id()) =>
                {
                    let (abort, start) = AbortHandle::new_pair();
                    state.stage = Stage::Runs { is_last: !W::REPEATS, moved: None, abort: Some(abort) };
                    let code = state.code.take();
                    drop(state);
                    tokio::spawn(Task { record: self.clone(), code }.run(start));
                    return is_in_time.unwrap_or(true);
                }
                Poll::Ready(Ok(())) => {
                    drop(state);
                    // Only the wheel can spawn it. Its clock may be ahead of this thread's, where tests pause it.
                    sleep.reset_after(wait);
                    wait *= 2;
                    polled = self.poll(&mut sleep);
                    continue;
                }
            };
            self.end(state, JobState::CouldNotRun, Some(error), true);
            return false;
        }
    }

    /// Ends a job. It leaves the list, unless it was taken out before. After that those who wait for its end are told, so they
    /// do not find it there. At last its code is dropped.
    fn end(
        &self,
        mut state: MutexGuard<'_, State<W>>,
        over: JobState,
        error: Option<Error>,
        is_listed: bool,
    ) {
        debug_assert!(!matches!(state.stage, Stage::Over(..)), "a job ends once");
        let was_pending = matches!(state.stage, Stage::InHand(_) | Stage::Waits(_));
        if !was_pending || error.is_none() {
            state.waits_until = None;
        }
        let stage = mem::replace(&mut state.stage, Stage::Over(over, error));
        let (joins, code) = (mem::take(&mut state.joins), state.code.take());
        drop(state);
        if is_listed && let Some(table) = self.table.upgrade() {
            table.over(self.hash, ptr::from_ref(self).cast(), over);
        }
        for join in joins {
            _ = caught(|| join.send(over));
        }
        drop(stage);
        if let Some(code) = code {
            discard(code, over);
        }
    }

    /// The job, which has no timer, is over: it was refused, could not go on, or is done.
    pub(crate) fn finish(&self, over: JobState, error: Option<Error>) {
        self.end(self.lock(), over, error, true);
    }

    /// Whether the schedule has planned the run that is about to begin; `None` if no further run begins.
    pub(crate) fn begins(&self) -> Option<bool> {
        let state = self.lock();
        let is_cancelled = W::REPEATS && matches!(state.stage, Stage::Runs { is_last: true, .. });
        (!is_cancelled).then_some(!state.is_users)
    }

    /// The run that ends now.
    pub(crate) fn previous(&self, started: Instant) -> Previous {
        let State { due, waits_until, .. } = *self.lock();
        let late = started.saturating_duration_since(waits_until.unwrap_or(started));
        let missed = late > MISSED_AFTER.max(self.wheel.tick());
        Previous { due: due.unwrap_or(started), started, ended: Instant::now(), missed }
    }

    fn cancel_found(
        &self,
        mut state: MutexGuard<'_, State<W>>,
        aborts: bool,
        is_listed: bool,
    ) -> (JobInfo, bool) {
        let info = state.info();
        let is_changed = match &mut state.stage {
            Stage::Waits(_) | Stage::InHand(_) => {
                self.end(state, JobState::Cancelled, None, is_listed);
                true
            }
            Stage::Runs { is_last, abort, .. } if aborts => {
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
}

/// Drops the code of a job that is over. If the job is done by that, its handle is told.
pub(crate) fn discard<W: Work>((mut work, tell): Code<W>, over: JobState) {
    let output = if over == JobState::Done { work.output() } else { None };
    // Whoever is told, also by the loss of the other end, finds it dropped.
    let dropped = catch_unwind(AssertUnwindSafe(|| drop(work)));
    if let (Some(tell), Some(output)) = (tell, output) {
        _ = tell.send(Ok(output));
    }
    dropped.unwrap_or_else(|panic| resume_unwind(panic));
}

/// By the wheel: the job is due, or the wheel has ended.
impl<K: Key, W: Work> ArcWake for Record<K, W> {
    fn wake_by_ref(job: &Arc<Self>) {
        job.request(job.lock(), Word { to: None, poll: true });
    }
}

impl<K: Key, W: Work> AnyJob for Record<K, W> {
    fn wheel(&self) -> &TimingWheel {
        &self.wheel
    }

    fn info(&self) -> JobInfo {
        self.lock().info()
    }

    fn error(&self) -> JobError {
        match self.lock().stage {
            Stage::Over(_, Some(error)) => JobError(Kind::CouldNotRun(Refused::by_wheel(&self.wheel, error))),
            _ => JobError(Kind::Cancelled),
        }
    }

    fn join(&self) -> Join {
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

    fn cancel(&self, aborts: bool) -> (JobInfo, bool) {
        self.cancel_found(self.lock(), aborts, false)
    }

    fn stop(&self) -> (JobInfo, Option<Unrun>) {
        let mut state = self.lock();
        let code = state.code.take();
        (self.cancel_found(state, false, true).0, code.map(|(work, _)| unrun(work)))
    }

    fn reset(self: Arc<Self>, to: Instant) -> bool {
        let mut state = self.lock();
        if let Stage::Runs { is_last: false, moved, .. } = &mut state.stage {
            *moved = Some(to);
            return true;
        }
        self.request(state, Word { to: Some(Move { to, is_users: true }), poll: false })
    }

    fn replan(self: Arc<Self>, next: Option<Instant>) -> Replanned {
        let state = self.lock();
        // It is pending.
        if state.code.is_none() {
            return Replanned::NotPending;
        }
        let is_users = match state.stage {
            Stage::InHand(Word { to: Some(Move { is_users, .. }), .. }) => is_users,
            _ => state.is_users,
        };
        let is_done = match next {
            _ if is_users => return Replanned::MovedByUser,
            Some(to) => self.request(state, Word { to: Some(Move { to, is_users: false }), poll: false }),
            None => {
                self.end(state, JobState::Done, None, true);
                true
            }
        };
        if is_done { Replanned::Done } else { Replanned::NotPending }
    }
}

impl<W: Work> State<W> {
    /// Until when a job with this timer waits. A timer does not reach further than 292 years.
    fn until(&self, sleep: &Sleep) -> Instant {
        let deadline = sleep.deadline();
        self.due.map_or(deadline, |due| deadline.max(due))
    }

    /// Notes that before the timer is touched. Where no task can be spawned, a timer that is due is set once more. It tells
    /// another time then, and the job's time stays.
    fn note_until(&mut self, sleep: &Sleep) {
        if self.waits_until.is_none() {
            self.waits_until = Some(self.until(sleep));
        }
    }

    fn info(&self) -> JobInfo {
        let (state, due) = match &self.stage {
            Stage::InHand(Word { to: Some(Move { to, .. }), .. }) => (JobState::Pending, Some(*to)),
            Stage::InHand(_) => (JobState::Pending, self.waits_until),
            Stage::Waits(sleep) => (JobState::Pending, self.waits_until.or_else(|| Some(self.until(sleep)))),
            Stage::Runs { .. } => (JobState::Running, None),
            Stage::Over(over, _) => (*over, self.waits_until),
        };
        JobInfo { state, due, refusals: self.refusals.into() }
    }
}

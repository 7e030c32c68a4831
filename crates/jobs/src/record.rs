//! The record of a job, which the wheel, the task and the handles share.
//!
//! A record has one lock, round its [`State`]. No code of a user's runs under it, and no timer is touched under it: to arm,
//! move or drop a timer may drop wakers of others. So a thread that touches the timer takes it in hand, and meanwhile other
//! threads leave a note:
//!
//! | stage | the timer | the job's code | next |
//! |---|---|---|---|
//! | `InHand` | in the hand of the thread that arms, moves or polls it | in the state | `Waits`, `Queued`, `Runs` or `Over`, by that thread; `Over`, by a cancel |
//! | `Waits` | in the stage | in the state | `InHand`, by the wheel or a reset; `Over`, by a cancel |
//! | `Queued` | none: the job is due, and waits for a place | in the state | `Runs`, by the end of another run; `Over`, by a cancel |
//! | `Runs` | none, until the task arms the next one | in the task | `InHand` or `Over`, by the task |
//! | `Over` | none | gone | none |
//!
//! The record itself is the waker of its timer. The wheel calls it on its runtime, or on the thread that ends the wheel.
//!
//! Only a thread of the wheel's runtime can spawn the task. Elsewhere a timer must not come due in the thread's hand, because
//! it would lose its place on a full wheel. So elsewhere no timer is set to less than [`SOON`] from now, and a wake that
//! finds the timer in another thread's hand tries again from the runtime.

mod run;

use std::mem;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::future::AbortHandle;
use futures::task::{ArcWake, waker_ref};
use timingwheel::{Error, Sleep, TimingWheel};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::error::{JobError, Kind};
use crate::info::{JobInfo, JobState, Join};
use crate::jobs::Key;
use crate::schedule::{Replanned, When};
use crate::table::{Keyed, Table};
use crate::task::{First, Tell, Unrun, Work, unrun};
use crate::{caught, lock};

/// A job.
pub(crate) struct Record<K, W: Work> {
    pub(crate) wheel: TimingWheel,
    key: K,
    /// The key's.
    hash: u64,
    /// In which the job was made.
    #[cfg(feature = "tracing")]
    span: tracing::Span,
    state: Mutex<State<K, W>>,
}

/// A job whose code is of any type.
pub(crate) trait AnyJob: Send + Sync {
    fn info(&self) -> JobInfo;

    fn join(&self) -> Join;

    /// Ends a job that is not running. A run that is going on becomes its last. For the job's handle, or for the thread that
    /// has taken the job out of the list.
    fn cancel(&self) -> Found;

    /// The same, but a run that is going on is aborted.
    fn abort(&self) -> Found;

    /// Whether a run was aborted, or was dropped with its runtime.
    fn is_cut_off(&self) -> bool;

    /// Cancels a job, and hands its code back if it has not begun.
    fn stop(&self) -> (JobInfo, Option<Unrun>);

    /// Moves the next run for a user. Returns whether that was in time. During a run this is the run after it, if the job
    /// repeats.
    fn reset(self: Arc<Self>, to: When) -> bool;

    /// Changes the schedule's answer, unless the user has moved the run.
    fn replan(self: Arc<Self>, next: Option<Instant>) -> Replanned;
}

/// How a cancel or an abort has found a job, and whether it has made a difference.
pub(crate) struct Found {
    pub(crate) info: JobInfo,
    pub(crate) is_changed: bool,
}

/// The code of a job, and the way to its handle.
pub(crate) type Code<W> = (W, Tell<<W as Work>::Output>);

struct State<K, W: Work> {
    stage: Stage,
    /// Unless it is in the task.
    code: Option<Code<W>>,
    /// When the run is due that the job waits for, or that is going on. At the end it stays only if the job waited and could
    /// not run.
    due: Option<Instant>,
    /// When the timer fires for that: later than `due` if the run may be late.
    expected: Instant,
    /// Whether the user or the run before has set `due`, and not the schedule.
    is_users: bool,
    joins: Vec<oneshot::Sender<JobState>>,
    /// The list of a job with a key. A job that is over must not keep the list.
    table: Option<Arc<Table<K>>>,
}

enum Stage {
    InHand(Hand),
    Waits(Sleep),
    Queued { ticket: u64, since: Instant },
    Runs(Run),
    Over { state: JobState, is_cut_off: bool },
}

/// Notes for the thread that has the timer in hand.
struct Hand {
    /// The thread, by [`this_thread`].
    holder: usize,
    /// Where the timer goes, until it is there.
    to: Option<Move>,
    /// Whether the holder's own call has woken the job.
    is_woken: bool,
    /// Whether nobody else knows the job yet.
    is_new: bool,
}

impl Stage {
    /// In the hand of this thread.
    fn in_hand(to: Option<Move>, is_woken: bool, is_new: bool) -> Self {
        Self::InHand(Hand { holder: this_thread(), to, is_woken, is_new })
    }
}

struct Run {
    /// No further run begins.
    is_last: bool,
    /// To where the user has moved the next run.
    moved: Option<Instant>,
    /// `None` once the run was aborted, or was refused its next one.
    abort: Option<AbortHandle>,
    /// Whether the timer of the next run has woken the job before the task has put it down.
    is_woken: bool,
    /// How long it has waited for a place.
    queued: Option<Duration>,
    /// When the next run was to be due, for which the wheel has had no place.
    refused: Option<Instant>,
}

impl Run {
    /// Whether it was aborted.
    fn is_cut_off(&self) -> bool {
        self.abort.is_none() && self.refused.is_none()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Move {
    to: Instant,
    is_users: bool,
    /// Whether `to` may be less than [`SOON`] from now.
    may_be_soon: bool,
}

/// What a poll has found.
#[derive(Clone, Copy)]
enum Polled {
    Pending,
    /// The caller is on the wheel's runtime.
    Due,
    /// The timer has no place on the wheel, and is not due.
    Refused(Error),
    /// The wheel has ended, or has no place for a timer that is due and that only the wheel's runtime can follow.
    Lost(Error),
}

/// The shortest time to which a thread outside the wheel's runtime sets a timer.
const SOON: Duration = Duration::from_millis(1);

/// A number that no other thread has at the moment. std's costs two locked instructions.
fn this_thread() -> usize {
    thread_local!(static OWN: u8 = const { 0 });
    OWN.with(|own| ptr::from_ref(own).addr())
}

/// How late a run is, at least, that counts as missed: as the tick of an interval.
const MISSED_AFTER: Duration = Duration::from_millis(5);

/// A timer for a run that may be late.
pub(crate) fn timer(wheel: &TimingWheel, due: Instant, tolerance: Option<Duration>) -> Sleep {
    let sleep = wheel.sleep_until(due);
    match tolerance {
        Some(tolerance) => sleep.with_tolerance(tolerance),
        None => sleep,
    }
}

/// Making a job.
impl<K: Key, W: Work> Record<K, W> {
    /// A job that its maker arms, lists, and puts down.
    pub(crate) fn new(
        wheel: &TimingWheel,
        first: &First,
        (mut work, tell): Code<W>,
        (key, hash, table): (K, u64, Option<Arc<Table<K>>>),
    ) -> Arc<Self> {
        Arc::new_cyclic(|job: &Weak<Self>| {
            let (due, expected) = match first {
                Some((sleep, due)) => {
                    work.attach(job);
                    (Some(*due), sleep.deadline())
                }
                None => (None, wheel.current_time()),
            };
            let stage = Stage::in_hand(None, false, true);
            let (code, joins) = (Some((work, tell)), Vec::new());
            let state = State { stage, code, due, expected, is_users: false, joins, table };
            Self {
                wheel: wheel.clone(),
                key,
                hash,
                #[cfg(feature = "tracing")]
                span: tracing::Span::current(),
                state: Mutex::new(state),
            }
        })
    }

    /// Arms a new job's timer, calls `list`, and puts the job down. If the wheel or `list` refuses the job, it is over, and its
    /// code comes back. It is armed first: what the wheel refuses leaves the list as it was.
    pub(crate) fn start<T>(
        self: &Arc<Self>,
        first: First,
        list: impl FnOnce() -> Result<T, JobError>,
    ) -> Result<T, (JobError, W)> {
        let mut timer = first.map(|(sleep, _)| sleep);
        let polled = match &mut timer {
            Some(sleep) => self.poll(sleep),
            None if self.wheel.is_ended() => Polled::Lost(Error::shutdown()),
            None => Polled::Pending,
        };
        if let Polled::Refused(error) | Polled::Lost(error) = polled {
            return Err((JobError::could_not_run(&self.wheel, error), self.refuse(error)));
        }
        let refused = match caught(list) {
            Ok(Ok(listed)) => {
                match timer {
                    Some(sleep) => _ = self.put_down(sleep, polled, None),
                    None => self.end(self.lock(), Ok(()), false),
                }
                return Ok(listed);
            }
            Ok(Err(refused)) => Ok(refused),
            Err(panic) => Err(panic),
        };
        if let Some(mut sleep) = timer {
            // A dropped timer may leave its waker in the wheel for a while: let it not be the record.
            _ = sleep.poll_unconstrained(&mut Context::from_waker(Waker::noop()));
        }
        let work = self.refuse(Error::shutdown());
        match refused {
            Ok(refused) => Err((refused, work)),
            // Of the `Eq` of a key.
            Err(panic) => {
                drop(work);
                resume_unwind(panic.into_panic().expect("it is one"))
            }
        }
    }

    /// Ends a new job that is not listed, tells its handle, and returns its code.
    fn refuse(&self, error: Error) -> W {
        let mut state = self.lock();
        let (work, tell) = state.code.take().expect("a new job has its code");
        state.due = None;
        self.end(state, Err(JobError::could_not_run(&self.wheel, error)), false);
        _ = tell.map(|tell| tell.send(Err(JobError::could_not_run(&self.wheel, error))));
        work
    }

    /// The key of a job that was refused or taken back. At most a wake that is going on or tried again still has the record.
    pub(crate) fn into_key(mut self: Arc<Self>) -> K {
        loop {
            match Arc::try_unwrap(self) {
                Ok(record) => return record.key,
                Err(shared) => self = shared,
            }
            std::thread::yield_now();
        }
    }
}

/// The timer of a job that waits.
impl<K: Key, W: Work> Record<K, W> {
    fn lock(&self) -> MutexGuard<'_, State<K, W>> {
        lock(&self.state)
    }

    /// Whether this thread is on the wheel's runtime, and can spawn the task.
    fn is_here(&self) -> bool {
        Handle::try_current().ok().map(|here| here.id()) == Some(self.wheel.runtime_id())
    }

    /// Polls the timer in hand. On a thread outside the wheel's runtime a timer that is due is set once more, further and
    /// further away: where tests pause the wheel's clock, it may be ahead of this thread's.
    fn poll(self: &Arc<Self>, sleep: &mut Sleep) -> Polled {
        let mut wait = SOON;
        loop {
            let polled = sleep.poll_unconstrained(&mut Context::from_waker(&waker_ref(self)));
            match polled {
                Poll::Pending => return Polled::Pending,
                Poll::Ready(Err(error)) if error.is_at_capacity() && wait == SOON => {
                    return Polled::Refused(error);
                }
                Poll::Ready(Err(error)) => return Polled::Lost(error),
                Poll::Ready(Ok(())) if self.wheel.is_ended() => return Polled::Lost(Error::shutdown()),
                Poll::Ready(Ok(())) if self.is_here() => return Polled::Due,
                Poll::Ready(Ok(())) => {
                    sleep.reset_after(wait);
                    wait *= 2;
                }
            }
        }
    }

    /// Moves the timer in hand. Returns what a poll has found, and the move with the instant at which the timer fires then.
    fn move_timer(self: &Arc<Self>, sleep: &mut Sleep, made: Move) -> (Polled, Option<(Move, Instant)>) {
        let (before, mut to) = (sleep.deadline(), made.to);
        if made.may_be_soon && !self.is_here() {
            to = to.max(self.wheel.current_time() + SOON);
        }
        Pin::new(&mut *sleep).reset(to);
        let expected = sleep.deadline();
        let polled = self.poll(sleep);
        if let Polled::Refused(_) = polled {
            // It was coming due, and needs a new place. The wheel has woken the job, or is about to.
            Pin::new(sleep).reset(before);
        }
        (polled, Some((made, expected)))
    }

    /// Puts the timer in hand down, after it has followed the notes of others: the job waits, begins or is over. `polled` is what
    /// the last poll has found, after the move `made` if there was one. Returns whether that move was followed.
    fn put_down(
        self: &Arc<Self>,
        mut sleep: Sleep,
        mut polled: Polled,
        mut made: Option<(Move, Instant)>,
    ) -> bool {
        let (mut is_due, mut answer) = (false, None);
        loop {
            let mut locked = self.lock();
            let state = &mut *locked;
            let Stage::InHand(hand) = &mut state.stage else {
                // A cancel was first. The timer is dropped without the lock.
                drop(locked);
                return answer.unwrap_or(true);
            };
            hand.is_new = false;
            if let Some((made, _)) = made {
                hand.to = hand.to.filter(|to| *to != made);
                answer.get_or_insert(!matches!(polled, Polled::Refused(_)));
            }
            match (polled, made) {
                // It is where it was.
                (Polled::Refused(_), Some(_)) => {}
                (Polled::Refused(error) | Polled::Lost(error), _) => {
                    self.end(locked, Err(JobError::could_not_run(&self.wheel, error)), true);
                    return false;
                }
                (Polled::Pending | Polled::Due, _) => {
                    is_due = matches!(polled, Polled::Due);
                    if let Some((made, expected)) = made {
                        // A run that is moved to the past has missed nothing.
                        let due = if is_due { made.to.max(self.wheel.current_time()) } else { made.to };
                        (state.due, state.expected, state.is_users) = (Some(due), expected, made.is_users);
                    }
                }
            }
            if let Some(to) = hand.to {
                drop(locked);
                (polled, made) = self.move_timer(&mut sleep, to);
            } else if mem::take(&mut hand.is_woken) {
                drop(locked);
                (polled, made) = (self.poll(&mut sleep), None);
            } else if is_due {
                self.begin(locked);
                return answer.unwrap_or(true);
            } else {
                state.stage = Stage::Waits(sleep);
                drop(locked);
                // The end of the wheel may have found the timer in hand, and wakes nobody twice.
                if self.wheel.is_ended() {
                    let state = self.lock();
                    if let Stage::Waits(_) = state.stage {
                        self.end(state, Err(JobError::could_not_run(&self.wheel, Error::shutdown())), true);
                        return false;
                    }
                }
                return answer.unwrap_or(true);
            }
        }
    }

    /// Moves the timer of a job that waits, or leaves a note of that. Returns whether it was in time.
    fn request(self: &Arc<Self>, mut state: MutexGuard<'_, State<K, W>>, to: Move) -> bool {
        if let Stage::InHand(hand) = &mut state.stage {
            hand.to = Some(to);
            return true;
        }
        let Some(mut sleep) = state.take_timer(Some(to)) else { return false };
        drop(state);
        let (polled, made) = self.move_timer(&mut sleep, to);
        self.put_down(sleep, polled, made)
    }
}

/// By the wheel: the job is due, or the wheel has ended.
impl<K: Key, W: Work> ArcWake for Record<K, W> {
    fn wake_by_ref(job: &Arc<Self>) {
        let mut state = job.lock();
        match &mut state.stage {
            Stage::InHand(hand) if hand.holder == this_thread() => hand.is_woken = true,
            Stage::InHand(_) => {
                drop(state);
                // The holder may be outside the runtime. The end of the wheel, which may be too, is seen by the holder.
                if job.is_here() {
                    let mut again = Again(Some(job.clone()));
                    tokio::spawn(async move {
                        tokio::task::yield_now().await;
                        if let Some(job) = again.0.take() {
                            ArcWake::wake_by_ref(&job);
                        }
                    });
                }
            }
            Stage::Runs(run) => run.is_woken = true,
            _ => {
                let Some(mut sleep) = state.take_timer(None) else { return };
                drop(state);
                let polled = job.poll(&mut sleep);
                job.put_down(sleep, polled, None);
            }
        }
    }
}

/// A wake that is tried again. It keeps the job, which nobody else may have: the timer has fired. If the runtime ends before,
/// the job does too.
struct Again<K: Key, W: Work>(Option<Arc<Record<K, W>>>);

impl<K: Key, W: Work> Drop for Again<K, W> {
    fn drop(&mut self) {
        let Some(job) = self.0.take() else { return };
        let state = job.lock();
        // One that is new belongs to its maker.
        if matches!(&state.stage, Stage::Waits(_) | Stage::InHand(Hand { is_new: false, .. })) {
            // Dropping its code may panic, in the midst of the runtime's end.
            _ = caught(|| job.end(state, Err(JobError::could_not_run(&job.wheel, Error::shutdown())), true));
        }
    }
}

impl<K: Key, W: Work> Keyed<K> for Record<K, W> {
    fn key(&self) -> &K {
        &self.key
    }

    fn hash(&self) -> u64 {
        self.hash
    }

    fn run_in_place(self: Arc<Self>) -> bool {
        let state = self.lock();
        let Stage::Queued { since, .. } = state.stage else { return false };
        if self.wheel.is_ended() || !self.is_here() {
            self.end(state, Err(JobError::could_not_run(&self.wheel, Error::shutdown())), true);
            return false;
        }
        self.spawn(state, Some(since.elapsed()));
        true
    }
}

impl<K: Key, W: Work> AnyJob for Record<K, W> {
    fn info(&self) -> JobInfo {
        self.lock().info()
    }

    fn join(&self) -> Join {
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
        Join(told)
    }

    fn cancel(&self) -> Found {
        self.cancel_found(self.lock(), false, false)
    }

    fn abort(&self) -> Found {
        self.cancel_found(self.lock(), true, false)
    }

    fn is_cut_off(&self) -> bool {
        match &self.lock().stage {
            Stage::Runs(run) => run.is_cut_off(),
            Stage::Over { is_cut_off, .. } => *is_cut_off,
            _ => false,
        }
    }

    fn stop(&self) -> (JobInfo, Option<Unrun>) {
        let mut state = self.lock();
        let code = state.code.take();
        (self.cancel_found(state, false, true).info, code.map(|(work, _)| unrun(work)))
    }

    fn reset(self: Arc<Self>, to: When) -> bool {
        let (to, may_be_soon) = match to {
            When::At(instant) => (instant, true),
            // By the wheel's clock, also for a thread that is within a runtime with a paused one.
            When::After(delay) => (self.wheel.sleep(delay).deadline(), delay < SOON),
        };
        let mut state = self.lock();
        if let Stage::Runs(run) = &mut state.stage {
            run.moved = (!run.is_last).then_some(to);
            return !run.is_last;
        }
        self.request(state, Move { to, is_users: true, may_be_soon })
    }

    fn replan(self: Arc<Self>, next: Option<Instant>) -> Replanned {
        let state = self.lock();
        let is_users = match &state.stage {
            Stage::InHand(hand) if !hand.is_new => hand.to.map_or(state.is_users, |to| to.is_users),
            Stage::Waits(_) => state.is_users,
            _ => return Replanned::NotPending,
        };
        let is_done = match next {
            _ if is_users => return Replanned::MovedByUser,
            Some(to) => self.request(state, Move { to, is_users: false, may_be_soon: true }),
            None => {
                self.end(state, Ok(()), true);
                true
            }
        };
        if is_done { Replanned::Done } else { Replanned::NotPending }
    }
}

impl<K, W: Work> State<K, W> {
    /// The run that is going on, unless the job was cancelled or aborted.
    fn run_that_goes_on(&mut self) -> Result<&mut Run, JobError> {
        match &mut self.stage {
            Stage::Runs(run) if run.abort.is_some() && !(W::REPEATS && run.is_last) => Ok(run),
            _ => Err(JobError(Kind::Cancelled)),
        }
    }

    /// Takes the timer of a job that waits in this thread's hand.
    fn take_timer(&mut self, to: Option<Move>) -> Option<Sleep> {
        match mem::replace(&mut self.stage, Stage::in_hand(to, false, false)) {
            Stage::Waits(sleep) => return Some(sleep),
            other => self.stage = other,
        }
        None
    }

    fn info(&self) -> JobInfo {
        let (state, due) = match &self.stage {
            Stage::InHand(hand) => (JobState::Pending, hand.to.map(|to| to.to).or(self.due)),
            Stage::Waits(_) => (JobState::Pending, self.due),
            Stage::Queued { .. } => (JobState::Queued, self.due),
            Stage::Runs(_) => (JobState::Running, None),
            Stage::Over { state, .. } => (*state, self.due),
        };
        JobInfo { state, due }
    }
}

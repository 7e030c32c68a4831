//! What the wheel, the task and the handle of a job share.
//!
//! The wheel's entry has a reference to it as its waker: the driver wakes it when the job is due, or the wheel has ended.
//! All code of a user's, futures, outputs and wakers, is run and dropped outside the lock.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::error::{JobError, TryRunError};
use super::handle::Handled;
use super::run::Run;
use super::state::JobState;
use crate::contain::contained;
use crate::error::Error;
use crate::shard::ShardRef;
use crate::sync::{Mutex, MutexGuard, lock};
use crate::timing_wheel::TimingWheel;
use crate::wheel::{Key, Nanos};

/// How long a job that is due waits where only the driver can spawn it, at the most: or a tick, if that is shorter.
const SOON: Duration = Duration::from_millis(1);

pub(super) struct Record<F: Future> {
    shard: ShardRef,
    inner: Mutex<Inner<F>>,
}

struct Inner<F: Future> {
    stage: Stage<F>,
    /// Of whoever awaits the handle.
    waiter: Option<Waker>,
}

/// | stage | entry in the wheel | next |
/// |---|---|---|
/// | `Pending` | until the driver hands it out | woken: `Running`, or `Over` if the wheel has ended; cancelled: `Over` |
/// | `Running` | none | `Over`, by its task |
/// | `Over` | none | `Told`, once the handle has had the result |
enum Stage<F: Future> {
    Pending { future: F, due: Nanos, key: Key },
    Running,
    Over(Result<F::Output, JobError>),
    Told(JobState),
}

impl<F> Record<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    /// A job that is due at `due`.
    pub(super) fn launch(wheel: &TimingWheel, due: Nanos, future: F) -> Result<Arc<Self>, TryRunError<F>> {
        let key = Key::PLACEHOLDER;
        let record = Arc::new(Self::new(wheel, Stage::Pending { future, due, key }));
        match record.arm(wheel, due) {
            Ok(None) => Ok(record),
            Ok(Some(future)) => {
                tokio::spawn(Run::new(record.clone(), future));
                Ok(record)
            }
            Err(refused) => Err(refused),
        }
    }

    /// As [`launch`](Self::launch), but a job that is refused is over.
    pub(super) fn launch_or_tell(wheel: &TimingWheel, due: Nanos, future: F) -> Arc<Self> {
        Self::launch(wheel, due, future).unwrap_or_else(|refused| {
            let result = Err(JobError::because(refused.error()));
            Arc::new(Self::new(wheel, Stage::Over(result)))
        })
    }

    fn new(wheel: &TimingWheel, stage: Stage<F>) -> Self {
        let inner = Mutex::new(Inner { stage, waiter: None });
        Self { shard: ShardRef::new(wheel.shard()), inner }
    }

    /// Puts a new job into the wheel. One that is due is given back, to be spawned by the caller, if that is on the wheel's
    /// runtime; elsewhere only the driver can do it.
    fn arm(self: &Arc<Self>, wheel: &TimingWheel, mut due: Nanos) -> Result<Option<F>, TryRunError<F>> {
        // Held until the key is known: the driver may be here before.
        let mut inner = self.lock();
        let armed = loop {
            let now = self.shard.clock().now();
            if due <= now {
                if self.shard.has_ended() {
                    break Err(Error::shutdown());
                }
                if wheel.is_on_this_runtime() {
                    break Ok(None);
                }
                due = now.after(SOON.min(self.shard.tick()));
            }
            match self.shard.register(now, due, self.clone().into()) {
                Ok(Some(key)) => break Ok(Some(key)),
                // It has come meanwhile.
                Ok(None) => {}
                Err(error) => break Err(error),
            }
        };
        let Stage::Pending { future, .. } = mem::replace(&mut inner.stage, Stage::Running) else {
            unreachable!("of a new job nobody knows but the driver, who waits for the lock")
        };
        match armed {
            Ok(Some(key)) => inner.stage = Stage::Pending { future, due, key },
            Ok(None) => return Ok(Some(future)),
            Err(error) => return Err(TryRunError::new(error, future)),
        }
        Ok(None)
    }

    fn lock(&self) -> MutexGuard<'_, Inner<F>> {
        lock(&self.inner)
    }

    /// For the task: how it ended.
    pub(super) fn finish(&self, result: Result<F::Output, JobError>) {
        if result.as_ref().is_err_and(JobError::is_panic) {
            self.shard.count_panic();
        }
        let ended = self.lock().end(result);
        drop(ended);
    }
}

impl<F: Future> Inner<F> {
    fn state(&self) -> JobState {
        match &self.stage {
            Stage::Pending { .. } => JobState::Pending,
            Stage::Running => JobState::Running,
            Stage::Over(Ok(_)) => JobState::Done,
            Stage::Over(Err(error)) => error.state(),
            Stage::Told(state) => *state,
        }
    }

    /// Ends the job. What is returned is dropped outside the lock.
    fn end(&mut self, result: Result<F::Output, JobError>) -> (Waiter, Stage<F>) {
        (Waiter(self.waiter.take()), mem::replace(&mut self.stage, Stage::Over(result)))
    }
}

/// Who waits for a job that is over: woken when this is dropped.
struct Waiter(Option<Waker>);

impl Drop for Waiter {
    fn drop(&mut self) {
        if let Some(waiter) = self.0.take() {
            contained(|| waiter.wake());
        }
    }
}

/// By the driver: the job is due, or the wheel has ended.
impl<F> Wake for Record<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    fn wake(self: Arc<Self>) {
        // The driver runs on the wheel's runtime. What ends the wheel may come from anywhere.
        let runtime = if self.shard.has_ended() { None } else { Handle::try_current().ok() };
        let mut inner = self.lock();
        if !matches!(inner.stage, Stage::Pending { .. }) {
            return;
        }
        let Some(runtime) = runtime else {
            let ended = inner.end(Err(JobError::because(Error::shutdown())));
            drop(inner);
            return drop(ended);
        };
        if let Stage::Pending { future, .. } = mem::replace(&mut inner.stage, Stage::Running) {
            drop(inner);
            runtime.spawn(Run::new(self, future));
        }
    }
}

impl<F> Handled<F::Output> for Record<F>
where
    F: Future<Output: Send> + Send + 'static,
{
    fn state(&self) -> JobState {
        self.lock().state()
    }

    fn due(&self) -> Option<Instant> {
        match self.lock().stage {
            Stage::Pending { due, .. } => Some(self.shard.clock().instant(due)),
            _ => None,
        }
    }

    fn cancel(&self) -> bool {
        let mut inner = self.lock();
        let Stage::Pending { due, key, .. } = inner.stage else { return false };
        let ended = inner.end(Err(JobError::cancelled()));
        drop(inner);
        // At once, and not when the shard's own thread comes by: it is memory.
        drop(self.shard.cancel(key, due));
        drop(ended);
        true
    }

    fn poll_result(&self, cx: &mut Context<'_>) -> Poll<Result<F::Output, JobError>> {
        let waiter = cx.waker().clone();
        let mut inner = self.lock();
        let state = inner.state();
        if !state.is_over() {
            let before = inner.waiter.replace(waiter);
            drop(inner);
            drop(before);
            return Poll::Pending;
        }
        match mem::replace(&mut inner.stage, Stage::Told(state)) {
            Stage::Over(result) => Poll::Ready(result),
            _ => {
                drop(inner);
                panic!("a `Job` was polled that has given its result")
            }
        }
    }
}

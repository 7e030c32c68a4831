//! What the handle of a job does with its record.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::Record;
use crate::platform::catch_panic::contained;
use crate::platform::clock::Clock;
use crate::services::job::error::JobError;
use crate::services::job::handle::{Found, Handled, Scheduled};
use crate::services::job::info::JobInfo;
use crate::services::job::schedule::Schedule;
use crate::services::job::stage::Stage;
use crate::services::job::when::When;
use crate::services::job::work::{Repeat, Unrun, Work};
use crate::timers::tolerance::Slack;
use crate::wheel::Resolution;

impl<W: Work> Handled<W::Output> for Record<W> {
    fn info(&self) -> JobInfo {
        Self::info(self)
    }

    fn clock(&self) -> &Clock {
        self.shard.clock()
    }

    fn resolution(&self) -> Resolution {
        self.shard.resolution()
    }

    fn reset(self: Arc<Self>, when: When) -> bool {
        Self::reset(&self, when)
    }

    fn let_be_late(self: Arc<Self>, slack: Slack) {
        Self::let_be_late(&self, slack);
    }

    fn cancel(&self) -> Found {
        Self::cancel(self)
    }

    fn abort(&self) -> Found {
        Self::abort(self)
    }

    fn take(&self) -> Option<Unrun<W::Output>> {
        Self::take(self)
    }

    fn forget_waiter(&self) {
        let waiter = self.lock().waiter.take();
        contained(|| drop(waiter));
    }

    fn poll_result(&self, cx: &mut Context<'_>) -> Poll<Result<W::Output, JobError>> {
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
            Stage::CouldNotRun(reason, _) => Poll::Ready(Err(JobError::because(reason))),
            _ => {
                drop(inner);
                panic!("a job's handle was polled that has given its result")
            }
        }
    }
}

impl<F, R> Scheduled for Record<Repeat<F>>
where
    F: FnMut() -> R + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    fn set_schedule(self: Arc<Self>, schedule: Box<dyn Schedule>) -> bool {
        Self::set_schedule(&self, schedule)
    }
}

//! A stop: no more timers begin, and handlers that run are waited for.

use std::sync::atomic::Ordering;
use std::task::Context;
use std::time::Duration;

use futures::future::{OptionFuture, join, join3};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio::time::{Instant, Sleep};

use super::Runner;
use super::live::Live;
use crate::events::event;
use crate::handler::Interrupt;

/// After the limit, how long a stop waits for aborted handlers and a slow store. Ending a join that is under way, and leaving
/// the store, may each take as long again.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

/// The outcome of [`Durable::stop`](crate::Durable::stop), for the timers that were near when it was called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stopped {
    /// Handlers that ended within the limit. Their results are stored, but for those that are counted as
    /// [`unsettled`](Self::unsettled) too.
    pub finished: u64,
    /// Timers that had begun, and were given back before their handlers were called: the attempt does not count.
    pub given_back: u64,
    /// Handlers that were dropped at the limit. Their timers are stored again, and the attempt counts.
    pub aborted: u64,
    /// Handlers that could not be dropped, because they blocked their threads: their timers are stored again, and what
    /// they answer changes nothing.
    pub left_running: u64,
    /// Results that could not be stored, because the store failed: their timers are attempted again.
    pub unsettled: u64,
}

#[derive(Default)]
pub(super) struct Stopping {
    pub(super) stopped: Stopped,
    replies: Vec<oneshot::Sender<Stopped>>,
    /// When handlers are aborted. After that, when the stop waits no longer.
    limit: Option<std::pin::Pin<Box<Sleep>>>,
    has_aborted: bool,
    is_over: bool,
}

impl Runner {
    /// Without a limit it waits for all handlers that run: nobody is left to say otherwise.
    pub(super) fn stop(&mut self, limit: Option<(Duration, oneshot::Sender<Stopped>)>) {
        self.shared.stats().stopped = true;
        let is_first = self.stopping.is_none();
        let stopping = self.stopping.get_or_insert_default();
        if let Some((limit, reply)) = limit {
            stopping.replies.push(reply);
            // On tokio's timers, because the wheel may have ended.
            let until = Instant::now().checked_add(limit);
            let is_sooner = |until| stopping.limit.as_ref().is_none_or(|now| until < now.deadline());
            if let Some(until) = until.filter(|until| is_sooner(*until))
                && !stopping.has_aborted
            {
                stopping.limit = Some(Box::pin(tokio::time::sleep_until(until)));
            }
        }
        if is_first {
            self.forget_what_may_have_begun();
            self.disarm_all();
            // Calls on their way tell that they were not made, as a handler tells its end.
            self.is_stopping.store(true, Ordering::Release);
            self.interrupt_all(Interrupt::Stop);
        }
    }

    pub(super) fn poll_stop(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(stopping) = &mut self.stopping else { return false };
        let Some(limit) = &mut stopping.limit else { return false };
        if limit.as_mut().poll(cx).is_pending() {
            return false;
        }
        if stopping.has_aborted {
            stopping.is_over = true;
            stopping.limit = None;
            return true;
        }
        stopping.has_aborted = true;
        limit.as_mut().reset(Instant::now() + GRACE);
        for live in self.live.values() {
            if let Live::Running { task, .. } = live {
                task.abort();
            }
        }
        true
    }

    /// Whether there is nothing left to wait for.
    pub(super) fn is_over(&self) -> bool {
        let Some(stopping) = &self.stopping else { return false };
        if self.begun.len() + self.settled.len() > 0 {
            return false;
        }
        let is_idle = self.live.is_empty() && self.settling.is_none() && self.beginning.is_none();
        stopping.is_over
            || is_idle
            || (self.is_lost && !self.live.values().any(|live| matches!(live, Live::Running { .. })))
    }

    pub(super) async fn leave(mut self) {
        let Some(mut stopping) = self.stopping.take() else { return };
        for live in self.live.values() {
            match live {
                Live::Running { .. } => stopping.stopped.left_running += 1,
                Live::Settling(_) => stopping.stopped.unsettled += 1,
                Live::Beginning(_) => {}
            }
        }
        self.finish_joining().await;
        // A store may go on with a call that is dropped, and hold its file meanwhile.
        let loading = OptionFuture::from(self.loading.take());
        let inspecting = OptionFuture::from(self.inspections.under_way.take());
        let calls = join3(loading, inspecting, OptionFuture::from(self.last_renewal()));
        // If the store fails or hangs now, the next owner finds it as after a crash.
        let leaving = async {
            if let Err(error) = self.store.clone().leave(self.owner).await {
                self.shared.failed(&error);
            }
        };
        let _ = tokio::time::timeout(GRACE, join(leaving, calls)).await;
        {
            let mut stats = self.shared.stats();
            (stats.armed, stats.begun) = (0, 0);
        }
        // Later callers find nobody.
        self.commands.close();
        while let Ok(command) = self.commands.try_recv() {
            if let super::Command::Stop(Some((_, reply))) = command {
                stopping.replies.push(reply);
            }
        }
        let Stopped { finished, given_back, aborted, left_running, unsettled } = stopping.stopped;
        event!(debug, finished, given_back, aborted, left_running, unsettled, "durable timers have stopped");
        // Before the answers: after them, a caller may open the store again at once.
        drop(self);
        for reply in stopping.replies {
            // The caller may have gone.
            let _ = reply.send(stopping.stopped);
        }
    }
}

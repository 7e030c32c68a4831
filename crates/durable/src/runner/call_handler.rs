//! Calling handlers, and the tasks that do so.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use foldhash::HashMap;
use futures::FutureExt;
use jiff::Timestamp;
use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::{self, AbortHandle};

use super::lease::Lease;
use super::live::{Attempt, Live};
use super::{Command, Outcome, Runner};
use crate::handler::{Handler, Lost, Run, Started, Unreadable};
use crate::id::TimerId;
use crate::panics::panic_text;
use crate::store::Stored;

/// How many calls are handed over at once: the first are made while the runner goes on.
const TOGETHER: usize = 256;

impl Runner {
    /// The wall clock has shown `now` just now.
    pub(super) fn start(&mut self, stored: Box<Stored>, attempt: Attempt, now: Timestamp) {
        let id = attempt.timer.id();
        let late = Duration::try_from(now.duration_since(attempt.timer.due())).unwrap_or(Duration::ZERO);
        {
            let mut stats = self.shared.stats();
            stats.attempts += 1;
            stats.lateness.record(late);
        }
        self.calls.push(Call {
            teller: Teller { id, sender: self.sender.clone(), has_told: false },
            lease: self.lease(),
            attempt: ToStart {
                handler: attempt.handler.clone(),
                stored,
                late,
                epoch: self.owner.epoch,
                lost: Lost(self.lost.subscribe()),
                #[cfg(feature = "postgres")]
                within: crate::handler::Within {
                    timer: attempt.timer,
                    series: attempt.series.clone(),
                    version: attempt.version,
                    clock: crate::clock::DueClock {
                        clock: Arc::clone(&self.shared.clock),
                        offset: self.shared.offset(),
                    },
                    schema: self.settings.schema.clone(),
                },
            },
        });
        self.live.insert(id, Live::Running { attempt });
        if self.calls.len() >= TOGETHER {
            self.make_calls();
        }
    }

    /// Hands the calls that have gathered to the tasks that make them.
    pub(super) fn make_calls(&mut self) {
        if !self.calls.is_empty() {
            self.callers.make(&mut self.calls);
        }
    }
}

/// A handler that is to be called. Very many are on their way, so it is small.
pub(super) struct Call {
    teller: Teller,
    /// By which it may be called; `None` if nobody else may have the timer.
    lease: Option<Lease>,
    attempt: ToStart,
}

/// What a handler is called with.
struct ToStart {
    handler: Arc<Handler>,
    stored: Box<Stored>,
    late: Duration,
    epoch: u64,
    lost: Lost,
    #[cfg(feature = "postgres")]
    within: crate::handler::Within,
}

impl Call {
    /// Calls the handler, and tells how that has ended.
    pub(super) fn make(self) -> impl Future<Output = ()> {
        let Self { mut teller, lease, attempt } = self;
        // The process may have stood still since it was begun, or joined again.
        let is_late = lease.is_some_and(|lease| !lease.is_good() || attempt.lost.is_lost());
        // What reads the payload is the user's code, and so is what makes the future, what it does, and an error's text: all
        // that may panic.
        let started = (!is_late).then(|| {
            catch_unwind(AssertUnwindSafe(|| match attempt.start() {
                Ok(started) => {
                    Ok(async { Outcome::Answered(started.await.map_err(|error| error.to_string())) })
                }
                Err(error) => {
                    let field = match error.path().to_string().as_str() {
                        "." => "its beginning".to_owned(),
                        path => format!("`{path}`"),
                    };
                    Err(Outcome::Unreadable(field, error.into_inner().to_string()))
                }
            }))
        });
        async move {
            let outcome = match started {
                None => Ok(Outcome::TooLate),
                Some(Ok(Ok(called))) => AssertUnwindSafe(called).catch_unwind().await,
                Some(Ok(Err(outcome))) => Ok(outcome),
                Some(Err(panic)) => Err(panic),
            };
            teller.tell(outcome.unwrap_or_else(|panic| Outcome::Panicked(panic_text(panic))));
        }
    }

    /// Does not call the handler.
    pub(super) fn give_back(mut self) {
        self.teller.tell(Outcome::TooLate);
    }
}

impl ToStart {
    fn start(self) -> Result<Started, Unreadable> {
        let Stored { timer, key, payload, attempts, .. } = *self.stored;
        let run = Run {
            id: timer.id(),
            key,
            attempt: attempts,
            due: timer.due(),
            late: self.late,
            epoch: self.epoch,
            lost: self.lost,
            #[cfg(feature = "postgres")]
            within: self.within,
        };
        self.handler.start(&payload, run)
    }
}

/// Tells how a handler ended, also if its task is dropped.
struct Teller {
    id: TimerId,
    sender: UnboundedSender<Command>,
    has_told: bool,
}

impl Teller {
    fn tell(&mut self, outcome: Outcome) {
        self.has_told = true;
        // The runner may have gone, as one does that has stopped.
        drop(self.sender.send(Command::Ended(self.id, outcome)));
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        if !self.has_told {
            self.tell(Outcome::Dropped);
        }
    }
}

/// Calls that wait for a task, and the tasks that make them.
///
/// A task makes one call at a time, and does nothing else until the handler has ended. Then it goes to the end of the
/// runtime's queue before it makes the next call: what the handler has woken comes first, as it would if each handler had a
/// task of its own. To make a task for each would take much longer.
///
/// There are as many tasks as the runtime has threads, and one more. A task whose handler waits is replaced. A handler that
/// blocks its thread keeps back nothing else, as no call belongs to a task before it is made.
pub(super) struct Callers {
    threads: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    calls: VecDeque<Call>,
    /// Tasks that the runtime will run, and that will take a call then.
    coming: usize,
    /// All tasks.
    tasks: HashMap<task::Id, AbortHandle>,
    is_aborted: bool,
}

impl Callers {
    /// Within a tokio runtime, whose tasks they are.
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { threads: Handle::current().metrics().num_workers(), state: Mutex::default() })
    }

    /// Never held while code of users runs.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sees to it that these calls are made. Takes them out of `calls`.
    pub(super) fn make(self: &Arc<Self>, calls: &mut Vec<Call>) {
        let mut state = self.state();
        if state.is_aborted {
            drop(state);
            return calls.clear();
        }
        state.calls.extend(calls.drain(..));
        // One of those that are coming may be stuck on a thread that a handler blocks.
        let wanted = state.calls.len().min(self.threads + 1);
        while state.coming < wanted {
            self.spawn(&mut state);
        }
    }

    /// The calls that no task has taken yet. They are not made.
    pub(super) fn take_out(&self) -> VecDeque<Call> {
        std::mem::take(&mut self.state().calls)
    }

    /// Drops the handlers that run, and calls none any more.
    pub(super) fn abort(&self) {
        let (calls, tasks) = {
            let mut state = self.state();
            state.is_aborted = true;
            (std::mem::take(&mut state.calls), std::mem::take(&mut state.tasks))
        };
        drop(calls);
        tasks.values().for_each(AbortHandle::abort);
    }

    fn spawn(self: &Arc<Self>, state: &mut State) {
        if state.is_aborted {
            return;
        }
        let task = tokio::spawn(Arc::clone(self).run());
        state.coming += 1;
        state.tasks.insert(task.id(), task.abort_handle());
    }

    async fn run(self: Arc<Self>) {
        while let Some(call) = self.next() {
            let mut called = pin!(call.make());
            let mut has_waited = false;
            poll_fn(|cx| {
                let polled = called.as_mut().poll(cx);
                if polled.is_pending() && !std::mem::replace(&mut has_waited, true) {
                    self.replace();
                }
                polled
            })
            .await;
            if !self.comes_again() {
                return;
            }
            let_others_run().await;
        }
    }

    /// The call that this task makes next.
    fn next(self: &Arc<Self>) -> Option<Call> {
        let mut state = self.state();
        state.coming -= 1;
        let call = state.calls.pop_front();
        if call.is_none() {
            state.tasks.remove(&task::id());
        } else if state.coming == 0 && !state.calls.is_empty() {
            // If this handler is in `block_in_place`, the thread that takes over from it finds that task.
            self.spawn(&mut state);
        }
        call
    }

    /// The handler waits, and this task with it. On this thread, another task makes the calls that are left.
    fn replace(self: &Arc<Self>) {
        let mut state = self.state();
        if !state.calls.is_empty() {
            self.spawn(&mut state);
        }
    }

    /// Whether there are more calls to make. If not, the task ends.
    fn comes_again(&self) -> bool {
        let mut state = self.state();
        if state.calls.is_empty() {
            state.tasks.remove(&task::id());
            return false;
        }
        state.coming += 1;
        true
    }
}

/// Goes to the end of the runtime's queue, where other threads find this task too: `yield_now` would keep it for this
/// thread.
pub(super) async fn let_others_run() {
    let mut has_returned = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_returned, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

//! The tasks that call handlers.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use foldhash::HashMap;
use tokio::runtime::Handle;
use tokio::task::{self, AbortHandle};

use super::call_handler::Call;

/// Calls that wait for a task, and the tasks that make them.
///
/// A task makes one call at a time, and does nothing else until the handler has ended. Then it goes to the end of the runtime's
/// queue before it makes the next call: what the handler has woken comes first, as it would if each handler had a task of its
/// own. To make a task for each would take much longer.
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

/// Goes to the end of the runtime's queue, where other threads find this task too: `yield_now` would keep it for this thread.
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

//! The inputs of the runner: messages from handles and handlers, answers of the store, and expired timers.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use timingwheel::Error as WheelError;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Runner, Stopped};
use crate::handler::Answer;
use crate::id::TimerId;
use crate::store::{Near, Paused};

/// How many messages are taken at a time.
const MESSAGES: usize = 4_096;

/// How long the runner waits before it asks a full wheel again.
const FULL: Duration = Duration::from_millis(10);

/// A message for the runner.
pub(crate) enum Command {
    /// These timers are stored.
    Saved(Vec<Near>),
    /// This timer was cancelled.
    Removed(Near),
    /// A scheduler outside says that these timers are near.
    Near(Vec<Near>),
    /// These kinds are paused.
    Paused(Paused),
    /// A call has failed that may have stored a timer all the same.
    LoadAnew,
    /// This timer was cancelled after it had begun.
    Cancelled(TimerId),
    /// A handler has ended, after so long.
    Ended(TimerId, Outcome, Duration),
    /// No more timers begin. Handlers that run are waited for, up to a limit.
    Stop(Option<(Duration, oneshot::Sender<Stopped>)>),
}

/// How a handler ended.
pub(crate) enum Outcome {
    Answered(Result<Answer, String>),
    Panicked(String),
    /// It was not called: another instance may have its timer, or a stop has begun.
    TooLate,
    /// It was dropped before it had ended.
    Dropped,
}

/// The answer to a call, once it has come. Then the call is over.
pub(super) fn answer_of<F: Future + ?Sized>(
    call: &mut Option<Pin<Box<F>>>,
    cx: &mut Context<'_>,
) -> Option<F::Output> {
    let Poll::Ready(answer) = call.as_mut()?.as_mut().poll(cx) else { return None };
    *call = None;
    Some(answer)
}

impl Runner {
    /// Takes in all events. Pending if there is none.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let was_set = self.clocks.watch(cx.waker());
        let mut has_happened = was_set | self.poll_commands(cx) | self.poll_store(cx) | self.poll_wheel(cx);
        has_happened |= self.poll_share(cx) | self.poll_inspection(cx) | self.poll_stop(cx);
        match self.alarm.poll_wait(cx) {
            Poll::Ready(Ok(())) => has_happened = true,
            Poll::Ready(Err(error)) => has_happened |= self.refused(&error),
            Poll::Pending => {}
        }
        has_happened |= answer_of(&mut self.nap, cx).is_some();
        if has_happened { Poll::Ready(()) } else { Poll::Pending }
    }

    fn poll_commands(&mut self, cx: &mut Context<'_>) -> bool {
        let mut has_happened = false;
        let mut buffer = std::mem::take(&mut self.buffer);
        while let Poll::Ready(taken @ 1..) = self.commands.poll_recv_many(cx, &mut buffer, MESSAGES) {
            has_happened = true;
            buffer.drain(..).for_each(|command| self.obey(command));
            if taken < MESSAGES {
                break;
            }
        }
        self.buffer = buffer;
        has_happened
    }

    fn poll_store(&mut self, cx: &mut Context<'_>) -> bool {
        let mut has_happened = false;
        if let Some((asked, answer)) = answer_of(&mut self.loading, cx) {
            self.loaded(asked, answer);
            has_happened = true;
        }
        // A future does nothing before it is polled. So poll first: the store then works on this call, while this task takes in
        // the answers to the call before.
        let is_answered =
            self.beginning.as_mut().is_some_and(|(.., call)| Pin::new(call).poll(cx).is_ready());
        if self.begun.len() > 0 {
            self.take_in_begun();
            has_happened = true;
        } else if is_answered {
            self.begun();
            has_happened = true;
        }
        let is_answered = self.settling.as_mut().is_some_and(|(.., call)| Pin::new(call).poll(cx).is_ready());
        if self.settled.len() > 0 {
            self.take_in_settled();
            has_happened = true;
        } else if is_answered {
            self.settled();
            has_happened = true;
        }
        has_happened
    }

    fn poll_wheel(&mut self, cx: &mut Context<'_>) -> bool {
        let mut has_happened = false;
        while let Poll::Ready(Some(expired)) = self.armed.poll_try_expired(cx) {
            let near = match expired {
                Ok(expired) => expired.into_inner(),
                Err(error) => return self.refused(&error) | has_happened,
            };
            has_happened = true;
            self.keys.remove(&near);
            self.arm(near);
        }
        has_happened
    }

    /// The wheel has refused a timer. Returns whether that changed anything.
    fn refused(&mut self, error: &WheelError) -> bool {
        if !error.is_shutdown() {
            // The timer stays in its queue, which asks the wheel again.
            self.nap_until(Instant::now() + FULL);
            return false;
        }
        let is_first = !std::mem::replace(&mut self.has_wheel_ended, true);
        if is_first {
            self.shared.stats().wheel_ended = self.stopping.is_none();
            // No timer is on time any more. Handlers that run go on, and the next owner gets the rest.
            self.stop(None);
        }
        is_first
    }

    /// Wakes this task then, by tokio's timers.
    pub(super) fn nap_until(&mut self, at: Instant) {
        if self.nap.as_ref().is_none_or(|nap| nap.deadline() > at) {
            self.nap = Some(Box::pin(tokio::time::sleep_until(at)));
        }
    }

    pub(super) fn obey(&mut self, command: Command) {
        match command {
            Command::Saved(nears) => {
                nears.into_iter().for_each(|near| self.saved(near));
                self.shrink();
            }
            Command::Removed(near) => {
                self.window.removed(near);
                self.disarm(near);
                self.outside.forget(&[near]);
            }
            Command::Near(nears) => {
                let horizon = self.horizon();
                nears.into_iter().for_each(|near| self.arm_or_hand_over(near, near.due_ms <= horizon));
                self.shrink();
            }
            Command::Paused(paused) => self.set_paused(&paused),
            Command::LoadAnew => self.loads_anew = true,
            Command::Cancelled(id) => self.cancelled(id),
            Command::Ended(id, outcome, took) => self.ended(id, outcome, took),
            Command::Stop(limit) => self.stop(limit),
        }
    }

    /// A timer is stored, by this instance or another one.
    pub(super) fn saved(&mut self, near: Near) {
        // Its own instance finds it.
        if !self.store.is_mine(self.owner, near) {
            return;
        }
        let is_near = self.window.saved(near);
        self.arm_or_hand_over(near, is_near);
    }

    /// A near timer is armed, and a scheduler outside gets the others. One that says that a timer is near may be beyond the window's
    /// end: `begin` finds out whether the timer is still there.
    fn arm_or_hand_over(&mut self, near: Near, is_near: bool) {
        if !self.may_begin() {
            return;
        }
        if is_near {
            self.arm(near);
        } else {
            self.outside.is_far(near);
        }
    }
}

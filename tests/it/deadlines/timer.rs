//! A timer in its own task, which polls it when woken, and notes how it ended.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use timingwheel::{Error, Sleep, Timeout, TimingWheel};
use tokio::time::Instant;

use super::ops::{Move, after_now};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Elapsed,
    /// The future in a timeout was ready before.
    Answered,
    /// The wheel was full.
    Refused,
    /// The wheel had ended.
    Ended,
}

impl Outcome {
    fn of_error(error: Error) -> Self {
        if error.is_shutdown() { Self::Ended } else { Self::Refused }
    }
}

/// Ready when it is told to be.
#[derive(Debug, Default)]
pub(super) struct Answer {
    is_there: bool,
}

impl Future for Answer {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.is_there { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[derive(Debug)]
pub(super) enum Timer {
    Sleep(Sleep),
    Timeout(Timeout<Answer>),
}

/// State that a task shares with the oracle.
#[derive(Debug)]
pub(super) struct Looked {
    /// Taken out when it is not to be polled any more; then the task ends.
    timer: Option<Timer>,
    pub(super) outcome: Option<(Outcome, Instant)>,
    waker: Option<Waker>,
}

impl Timer {
    pub(super) fn timeout(wheel: &TimingWheel, delay: Duration) -> Self {
        Self::Timeout(wheel.timeout(delay, Answer::default()))
    }

    /// Spawns a task that polls it.
    pub(super) fn spawn(self) -> Arc<Mutex<Looked>> {
        let looked = Arc::new(Mutex::new(Looked { timer: Some(self), outcome: None, waker: None }));
        let in_task = looked.clone();
        tokio::spawn(poll_fn(move |cx| in_task.lock().expect("whole").poll(cx)));
        looked
    }

    /// Returns the deadline, unless that never comes.
    pub(super) fn move_to(&mut self, to: Move) -> Option<Instant> {
        match to {
            Move::After(delay) => match self {
                Self::Sleep(sleep) => Pin::new(sleep).reset_after(delay),
                Self::Timeout(timeout) => Pin::new(timeout).reset_after(delay),
            },
            Move::Before(time) => {
                let deadline = Instant::now() - time;
                match self {
                    Self::Sleep(sleep) => Pin::new(sleep).reset(deadline),
                    Self::Timeout(timeout) => Pin::new(timeout).reset(deadline),
                }
            }
        }
        let deadline = match to {
            Move::After(delay) => after_now(delay),
            Move::Before(time) => Some(Instant::now() - time),
        };
        if let Some(deadline) = deadline {
            assert_eq!(self.deadline(), deadline);
        }
        deadline
    }

    fn deadline(&self) -> Instant {
        match self {
            Self::Sleep(sleep) => sleep.deadline(),
            Self::Timeout(timeout) => timeout.deadline(),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        match self {
            Self::Sleep(sleep) => sleep
                .poll_unconstrained(cx)
                .map(|answer| answer.map_or_else(Outcome::of_error, |()| Outcome::Elapsed)),
            Self::Timeout(timeout) => Pin::new(timeout).poll(cx).map(|answer| match answer {
                Ok(()) => Outcome::Answered,
                Err(_) => Outcome::Elapsed,
            }),
        }
    }
}

impl Looked {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(timer) = &mut self.timer else { return Poll::Ready(()) };
        self.waker = Some(cx.waker().clone());
        if self.outcome.is_none()
            && let Poll::Ready(outcome) = timer.poll(cx)
        {
            self.outcome = Some((outcome, Instant::now()));
            if outcome == Outcome::Answered {
                // As whoever awaits it does. It keeps its place until then.
                self.timer = None;
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }

    fn wake(&mut self) {
        self.waker.take().into_iter().for_each(Waker::wake);
    }

    /// The timer, unless it is a timeout that has returned.
    pub(super) fn timer_mut(&mut self) -> Option<&mut Timer> {
        self.timer.as_mut()
    }

    /// Has a timer polled again of which something had come.
    pub(super) fn again(&mut self) {
        self.outcome = None;
        self.wake();
    }

    /// The future in a timeout becomes ready.
    pub(super) fn answer(&mut self) {
        if let (Some(Timer::Timeout(timeout)), None) = (&mut self.timer, self.outcome) {
            timeout.get_mut().is_there = true;
            self.wake();
        }
    }

    /// Drops the timer, and ends the task.
    pub(super) fn forget(&mut self) {
        self.timer = None;
        self.wake();
    }
}

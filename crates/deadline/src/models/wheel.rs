//! A wheel whose clock a thread of the model moves. It stands for the real one, into which loom cannot look.

use std::future::Pending;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use loom::sync::Mutex;
use slab::Slab;
use timingwheel::Error;
use tokio::time::Instant;

#[derive(Clone, Debug)]
pub struct TimingWheel {
    state: Arc<Mutex<State>>,
    /// Stands for tokio's timers, where this one has ended.
    tokio: Option<Arc<Self>>,
}

#[derive(Debug)]
struct State {
    now: Instant,
    has_ended: bool,
    is_full: bool,
    timers: Slab<(Instant, Waker)>,
}

impl TimingWheel {
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        let new = |tokio| {
            let state = State { now, has_ended: false, is_full: false, timers: Slab::new() };
            Self { state: Arc::new(Mutex::new(state)), tokio }
        };
        new(Some(Arc::new(new(None))))
    }

    fn tokio(&self) -> &Self {
        self.tokio.as_ref().expect("the wheel's own timers have no others beside them")
    }

    pub(crate) fn advance_tokio(&self, by: Duration) {
        self.tokio().advance(by);
    }

    pub(crate) fn timeout_at(&self, at: Instant, _: Pending<()>) -> Timeout {
        Timeout(self.tokio().sleep_until(at))
    }

    pub(crate) fn current_time(&self) -> Instant {
        self.state.lock().unwrap().now
    }

    pub(crate) fn sleep(&self, after: Duration) -> Sleep {
        let at = self.current_time() + after.min(Duration::from_secs(1_000_000));
        self.sleep_until(at)
    }

    pub(crate) fn sleep_until(&self, at: Instant) -> Sleep {
        Sleep { wheel: self.clone(), at, key: None }
    }

    pub(crate) fn pending(&self) -> usize {
        self.state.lock().unwrap().timers.len()
    }

    /// Lets time pass, and fires what is due.
    pub(crate) fn advance(&self, by: Duration) {
        let mut state = self.state.lock().unwrap();
        state.now += by;
        let now = state.now;
        let due: Vec<usize> =
            state.timers.iter().filter(|(_, (at, _))| *at <= now).map(|(key, _)| key).collect();
        let wakers: Vec<Waker> = due.into_iter().map(|key| state.timers.remove(key).1).collect();
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// From now on timers are refused, or taken again.
    pub(crate) fn set_full(&self, is_full: bool) {
        self.state.lock().unwrap().is_full = is_full;
    }

    pub(crate) fn shutdown(&self) {
        let mut state = self.state.lock().unwrap();
        state.has_ended = true;
        let timers: Vec<_> = state.timers.drain().collect();
        drop(state);
        timers.into_iter().for_each(|(_, waker)| waker.wake());
    }
}

#[derive(Debug)]
pub(crate) struct Sleep {
    wheel: TimingWheel,
    at: Instant,
    key: Option<usize>,
}

impl Sleep {
    pub(crate) const fn deadline(&self) -> Instant {
        self.at
    }

    /// Moves the deadline. The next poll arms it anew.
    pub(crate) fn reset(mut self: Pin<&mut Self>, at: Instant) {
        self.cancel();
        self.at = at;
    }

    pub(crate) fn poll_unconstrained(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.cancel();
        let mut state = self.wheel.state.lock().unwrap();
        if state.now >= self.at {
            return Poll::Ready(Ok(()));
        }
        if state.has_ended || state.is_full {
            return Poll::Ready(Err(Error::shutdown()));
        }
        self.key = Some(state.timers.insert((self.at, cx.waker().clone())));
        Poll::Pending
    }

    fn cancel(&mut self) {
        let Some(key) = self.key.take() else { return };
        let mut state = self.wheel.state.lock().unwrap();
        // It may have fired, and another may have its key by now.
        let is_own = state.timers.get(key).is_some_and(|(at, _)| *at == self.at);
        let before = is_own.then(|| state.timers.remove(key));
        drop(state);
        drop(before);
    }
}

/// Of a future that never ends, by tokio's timers.
#[derive(Debug)]
pub(crate) struct Timeout(Sleep);

impl Timeout {
    pub(crate) const fn deadline(&self) -> Instant {
        self.0.deadline()
    }
}

impl Future for Timeout {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.0.poll_unconstrained(cx).map(|result| result.expect("tokio's timers go on"))
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.cancel();
    }
}

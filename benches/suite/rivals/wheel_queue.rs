//! A delay queue on our wheel's core, for one task: what tokio-util's `DelayQueue` is on its own wheel.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use timingwheel::wheel::{Hierarchy, Key, Nanos, Progress, Resolution};
use timingwheel::{Sleep, TimingWheel};
use tokio::time::Instant;

const SLOTS: usize = 64;
/// Entries taken out of the wheel in one go.
const BATCH: usize = 256;

pub(super) struct WheelQueue {
    origin: Instant,
    hierarchy: Hierarchy<u32>,
    /// Taken out of the wheel, and not yet popped.
    due: VecDeque<u32>,
    batch: Vec<u32>,
    wheel: TimingWheel,
    /// Armed for when the hierarchy next has something to do, or earlier.
    alarm: Option<Sleep>,
    waker: Option<Waker>,
}

impl WheelQueue {
    pub(super) fn new(wheel: TimingWheel) -> Self {
        let resolution = Resolution::new(Duration::from_millis(1)).expect("not zero");
        Self {
            origin: Instant::now(),
            hierarchy: Hierarchy::new(resolution, SLOTS),
            due: VecDeque::new(),
            batch: Vec::new(),
            wheel,
            alarm: None,
            waker: None,
        }
    }

    fn now(&self) -> Nanos {
        Nanos::from_duration(self.origin.elapsed())
    }

    fn instant(&self, time: Nanos) -> Instant {
        self.origin + time.to_duration()
    }

    /// `delay` is not zero.
    pub(super) fn insert(&mut self, value: u32, delay: Duration) -> Key {
        let now = self.now();
        let deadline = now.after(delay);
        let key = self.hierarchy.insert(now, deadline, value).expect("the deadline is after now");
        self.wake_for(deadline);
        key
    }

    pub(super) fn remove(&mut self, key: Key) -> Option<u32> {
        self.hierarchy.cancel(key)
    }

    pub(super) fn reset(&mut self, key: Key, delay: Duration) -> bool {
        let deadline = self.now().after(delay);
        let is_there = self.hierarchy.reschedule(key, deadline);
        self.wake_for(deadline);
        is_there
    }

    /// Lets the task arm the alarm again if `deadline` comes before it.
    fn wake_for(&mut self, deadline: Nanos) {
        let at = self.instant(deadline);
        if self.alarm.as_ref().is_none_or(|alarm| at < alarm.deadline())
            && let Some(waker) = self.waker.take()
        {
            waker.wake();
        }
    }

    /// `None` if nothing is pending.
    pub(super) fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<Option<u32>> {
        loop {
            if let Some(value) = self.due.pop_front() {
                return Poll::Ready(Some(value));
            }
            let progress = self.hierarchy.advance(self.now(), BATCH, &mut self.batch);
            self.due.extend(self.batch.drain(..));
            if !self.due.is_empty() || progress == Progress::More {
                continue;
            }
            let Some(next) = self.hierarchy.next_expiration() else { return Poll::Ready(None) };
            let at = self.instant(next);
            let alarm = self.alarm.get_or_insert_with(|| self.wheel.sleep_until(at));
            if alarm.deadline() != at {
                Pin::new(&mut *alarm).reset(at);
            }
            if !self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                self.waker = Some(cx.waker().clone());
            }
            ready!(Pin::new(alarm).poll(cx));
        }
    }
}

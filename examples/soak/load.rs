//! The tasks. Each uses the wheel in its own way until the end.

use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fastrand::Rng;
use timingwheel::{Sleep, TimingWheel};
use tokio::sync::mpsc;
use tokio::task::yield_now;
use tokio::time::{Instant, MissedTickBehavior};

use crate::books::Books;

/// The time of a call that is always in time.
const PATIENCE: Duration = Duration::from_secs(30);
/// As many timers are armed at once in a storm.
const STORM: usize = 50_000;
const STORM_WITHIN: Duration = Duration::from_millis(300);
const BETWEEN_STORMS: Duration = Duration::from_secs(2);
/// As many timers wait for being dropped on another worker.
const HANDED_OVER: usize = 50;

/// How a task uses the wheel.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Storms of many timers at once.
    Storms,
    /// Wheels of its own, made and dropped.
    Wheels,
    /// Timeouts one after the other, without a pause.
    QuickCalls,
    SlowCalls,
    Sleeps,
    Moves,
    HandsOver,
    Ticks,
    Connections,
    Streams,
}

/// One of these each.
const ONCE: [Kind; 2] = [Kind::Storms, Kind::Wheels];
/// So many for each worker keep it busy.
const QUICK_CALLS: usize = 4;
/// In turn, for all other tasks.
const IN_TURN: [Kind; 7] = [
    Kind::Sleeps,
    Kind::SlowCalls,
    Kind::Moves,
    Kind::HandsOver,
    Kind::Ticks,
    Kind::Connections,
    Kind::Streams,
];

pub(crate) fn kinds(workers: usize) -> impl Iterator<Item = Kind> {
    let quick_calls = std::iter::repeat_n(Kind::QuickCalls, QUICK_CALLS * workers);
    // Some of each kind, however few tasks there are.
    ONCE.into_iter().chain(IN_TURN).chain(quick_calls).chain(IN_TURN.into_iter().cycle())
}

/// A task of the load.
pub(crate) struct User {
    pub(crate) wheel: TimingWheel,
    pub(crate) books: Arc<Books>,
    pub(crate) random: Rng,
    /// When it ends.
    pub(crate) end: Instant,
}

impl User {
    pub(crate) async fn live(mut self, kind: Kind) {
        while Instant::now() < self.end {
            match kind {
                Kind::Storms => self.storm().await,
                Kind::Wheels => self.make_and_drop_wheel().await,
                Kind::QuickCalls => self.call_in_time().await,
                Kind::SlowCalls => self.call_that_times_out().await,
                Kind::Sleeps => self.sleep().await,
                Kind::Moves => self.move_deadline().await,
                Kind::HandsOver => self.hand_over().await,
                Kind::Ticks => self.tick().await,
                Kind::Connections => self.connect().await,
                Kind::Streams => self.stream().await,
            }
        }
    }

    /// Any time up to so many milliseconds.
    pub(crate) fn up_to(&mut self, millis: u64) -> Duration {
        Duration::from_micros(self.random.u64(0..=millis * 1_000))
    }

    async fn sleep(&mut self) {
        let length = self.up_to(60);
        let sleep = self.wheel.sleep(length);
        let deadline = sleep.deadline();
        sleep.await;
        self.books.note(deadline);
        self.books.slept.add();
    }

    async fn call_in_time(&mut self) {
        for _ in 0..100 {
            if self.wheel.timeout(PATIENCE, yield_now()).await.is_ok() {
                self.books.in_time.add();
            }
        }
    }

    async fn call_that_times_out(&mut self) {
        let limit = self.up_to(60);
        let call = self.wheel.timeout(limit, pending::<()>());
        let deadline = call.deadline();
        if call.await.is_err() {
            self.books.note(deadline);
            self.books.timed_out.add();
        }
    }

    /// As a connection does with each message: later as a rule, earlier now and then. In the end to a time that comes.
    async fn move_deadline(&mut self) {
        let mut sleep = registered(self.wheel.sleep(PATIENCE)).await.0;
        for _ in 0..20 {
            let to = Instant::now() + PATIENCE.mul_f64(self.random.f64()) + Duration::from_secs(1);
            Pin::new(&mut sleep).reset(to);
            self.books.moved.add();
            yield_now().await;
        }
        Pin::new(&mut sleep).reset_after(self.up_to(60));
        let deadline = sleep.deadline();
        sleep.await;
        self.books.note(deadline);
    }

    /// Arms timers that a task drops, or awaits, which another worker has probably taken.
    async fn hand_over(&mut self) {
        let (sender, mut receiver) = mpsc::channel::<Registered>(HANDED_OVER);
        let books = self.books.clone();
        let other = tokio::spawn(async move {
            let mut is_awaited = false;
            while let Some(Registered(sleep)) = receiver.recv().await {
                if is_awaited {
                    let deadline = sleep.deadline();
                    sleep.await;
                    books.note(deadline);
                } else {
                    drop(sleep);
                    books.dropped_elsewhere.add();
                }
                is_awaited = !is_awaited;
            }
        });
        for _ in 0..HANDED_OVER {
            let length = self.up_to(60);
            let sleep = self.wheel.sleep(length);
            // Whether it is due or the other task is gone: that is its end.
            let _ = sender.send(registered(sleep).await).await;
        }
        drop(sender);
        other.await.expect("it does not panic");
    }

    async fn tick(&mut self) {
        let period = Duration::from_millis(1) + self.up_to(20);
        let mut interval = self.wheel.interval(period);
        let behaviors = [MissedTickBehavior::Burst, MissedTickBehavior::Delay, MissedTickBehavior::Skip];
        interval.set_missed_tick_behavior(behaviors[self.random.usize(..behaviors.len())]);
        for _ in 0..20 {
            let due = interval.tick().await;
            self.books.note(due);
            self.books.ticks.add();
        }
    }

    /// Arms many timers, drops half of them, and waits for the others.
    async fn storm(&mut self) {
        let mut sleeps = Vec::with_capacity(STORM);
        for _ in 0..STORM {
            let mut sleep = self.wheel.sleep(STORM_WITHIN.mul_f64(self.random.f64()));
            if sleep.poll_wait(&mut Context::from_waker(Waker::noop())).is_pending() {
                sleeps.push(sleep);
            } else if Instant::now() < sleep.deadline() {
                self.books.early.add();
            }
        }
        self.random.shuffle(&mut sleeps);
        sleeps.truncate(STORM / 2);
        for sleep in sleeps {
            let deadline = sleep.deadline();
            sleep.await;
            if Instant::now() < deadline {
                self.books.early.add();
            }
        }
        self.books.storms.add();
        self.wheel.sleep(BETWEEN_STORMS).await;
    }

    /// One that ends in each of the ways, in turn by chance.
    async fn make_and_drop_wheel(&mut self) {
        let wheel = TimingWheel::new();
        let sleeps = [registered(wheel.sleep(PATIENCE)).await, registered(wheel.sleep(Duration::MAX)).await];
        wheel.sleep(Duration::from_millis(1)).await;
        match self.random.u8(0..3) {
            0 => drop(sleeps),
            1 => assert_eq!(wheel.shutdown(), sleeps.len()),
            _ => drop(wheel),
        }
        self.books.wheels.add();
    }
}

/// A sleep that stands in the wheel, unless it was due. In a struct, as an `async` function is not to return a future.
struct Registered(Sleep);

async fn registered(mut sleep: Sleep) -> Registered {
    poll_fn(|cx| {
        let _ = sleep.poll_wait(cx);
        Poll::Ready(())
    })
    .await;
    Registered(sleep)
}

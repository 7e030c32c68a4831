//! The load: tasks, connections and stalls, and their counts.

use std::future::{pending, poll_fn};
use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use futures::StreamExt;
use futures::channel::mpsc::unbounded;
use timingwheel::stream::StreamTimeExt;
use timingwheel::{Sleep, TimingWheel};
use timingwheel_examples::{Count, Lateness};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::sync::mpsc;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, MissedTickBehavior, sleep};

// The tasks. Each uses the wheel in its own way until the end.

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
        self.books.lateness.note(deadline);
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
            self.books.lateness.note(deadline);
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
        self.books.lateness.note(deadline);
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
                    books.lateness.note(deadline);
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
            self.books.lateness.note(due);
            self.books.ticks.add();
        }
    }

    /// Arms many timers, drops half of them, and waits for the others.
    async fn storm(&mut self) {
        let mut sleeps = Vec::with_capacity(STORM);
        for _ in 0..STORM {
            let mut sleep = self.wheel.sleep(STORM_WITHIN.mul_f64(self.random.f64()));
            if sleep.poll_unconstrained(&mut Context::from_waker(Waker::noop())).is_pending() {
                sleeps.push(sleep);
            } else if Instant::now() < sleep.deadline() {
                self.books.lateness.early.add();
            }
        }
        self.random.shuffle(&mut sleeps);
        sleeps.truncate(STORM / 2);
        for sleep in sleeps {
            let deadline = sleep.deadline();
            sleep.await;
            if Instant::now() < deadline {
                self.books.lateness.early.add();
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

// Connections under an idle guard, and streams under a limit for their gaps.

const MESSAGES: u32 = 20;
/// Limits and pauses are up to so many milliseconds.
const LIMIT: u64 = 40;
const PAUSE: u64 = 30;

impl User {
    /// Reads from a peer that pauses until that is silent for too long, or has said all.
    pub(crate) async fn connect(&mut self) {
        let limit = self.up_to(LIMIT);
        let (stream, mut peer) = duplex(64);
        let pauses: Vec<_> = (0..MESSAGES).map(|_| self.up_to(PAUSE)).collect();
        let wheel = self.wheel.clone();
        let peer = tokio::spawn(async move {
            for pause in pauses {
                wheel.sleep(pause).await;
                // Until it is cut off.
                if peer.write_all(b"!").await.is_err() {
                    break;
                }
            }
        });
        let mut stream = self.wheel.idle_guard(stream).with_read_limit(limit);
        loop {
            let start = Instant::now();
            match stream.read_u8().await {
                Ok(_) => self.books.read.add(),
                Err(error) if error.kind() == ErrorKind::TimedOut => {
                    self.books.lateness.note(start + limit);
                    self.books.cut_off.add();
                    break;
                }
                Err(_closed) => break,
            }
        }
        drop(stream);
        peer.await.expect("it does not panic");
    }

    /// Takes items from a stream that ends with the first gap that is too long.
    pub(crate) async fn stream(&mut self) {
        let (sender, items) = unbounded();
        let pauses: Vec<_> = (0..MESSAGES).map(|_| self.up_to(PAUSE)).collect();
        let wheel = self.wheel.clone();
        let source = tokio::spawn(async move {
            for pause in pauses {
                wheel.sleep(pause).await;
                if sender.unbounded_send(()).is_err() {
                    break;
                }
            }
        });
        let limit = self.up_to(LIMIT);
        let mut items = Box::pin(items.idle_timeout_on(&self.wheel, limit));
        loop {
            let deadline = items.deadline();
            match items.next().await {
                Some(Ok(())) => self.books.items.add(),
                Some(Err(_elapsed)) => {
                    deadline.into_iter().for_each(|deadline| self.books.lateness.note(deadline));
                    self.books.gaps.add();
                }
                None => break,
            }
        }
        drop(items);
        source.await.expect("it does not panic");
    }
}

// The counts of a run.

/// The tasks' counts.
#[derive(Default)]
pub(crate) struct Books {
    pub(crate) slept: Count,
    pub(crate) in_time: Count,
    pub(crate) timed_out: Count,
    pub(crate) moved: Count,
    pub(crate) dropped_elsewhere: Count,
    pub(crate) ticks: Count,
    pub(crate) read: Count,
    pub(crate) cut_off: Count,
    pub(crate) items: Count,
    pub(crate) gaps: Count,
    pub(crate) storms: Count,
    pub(crate) wheels: Count,
    pub(crate) stalls: Count,
    /// Of timers of all kinds.
    pub(crate) lateness: Lateness,
}

impl Books {
    /// The tasks' operations, by their names in the table.
    pub(crate) fn counts(&self) -> [(&'static str, u64); 13] {
        let Self { slept, in_time, timed_out, moved, dropped_elsewhere, ticks, .. } = self;
        let Self { read, cut_off, items, gaps, storms, wheels, stalls, .. } = self;
        [
            ("sleeps", slept),
            ("calls in time", in_time),
            ("calls that timed out", timed_out),
            ("deadlines moved", moved),
            ("timers dropped by another task", dropped_elsewhere),
            ("ticks of intervals", ticks),
            ("reads of guarded connections that came", read),
            ("reads of guarded connections cut off", cut_off),
            ("items of streams that came", items),
            ("streams ended by a gap", gaps),
            ("storms of 50,000 timers", storms),
            ("wheels made and dropped", wheels),
            ("workers stalled", stalls),
        ]
        .map(|(what, count)| (what, count.get()))
    }
}

// Makes workers stall, as blocking code or a busy machine does.

/// Between two stalls, and of a stall, at the most.
const BETWEEN: Duration = Duration::from_millis(400);
const LONGEST: Duration = Duration::from_millis(20);

/// Stalls some of the workers again and again until `end`, and now and then as many tasks at once as there are workers.
pub(crate) async fn stall(workers: usize, books: Arc<Books>, seed: u64, end: Instant) {
    let mut random = Rng::with_seed(seed);
    while Instant::now() < end {
        sleep(BETWEEN.mul_f64(random.f64())).await;
        let mut stalls = JoinSet::new();
        for _ in 0..random.usize(1..=workers) {
            let length = LONGEST.mul_f64(random.f64());
            stalls.spawn(async move { thread::sleep(length) });
            books.stalls.add();
        }
        stalls.join_all().await;
    }
}

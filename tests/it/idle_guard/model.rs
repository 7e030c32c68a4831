//! A guard beside the rules of its limits: a task that waits, and polls when it is woken, fails exactly when a limit
//! passes.
//!
//! Waits end and begin and move to other tasks, and limits change, in any order. A task that also polls at other times
//! loses no wake-up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};

use fastrand::Rng;
use timingwheel::{IdleGuard, TimingWheel};
use tokio::time::{Instant, advance};

use super::by_hand::{ByHand, Op, poll};
use super::{ms, passed};

const OPS: [Op; 2] = [Op::Read, Op::Write];

/// Of a wait that nobody polls a guard may begin anew after a second. Nothing here takes so long.
const MOST: u64 = 400;

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

/// The rules of the docs, in milliseconds.
#[derive(Debug, Default)]
struct Rules {
    limits: [Option<u64>; 2],
    idle: Option<u64>,
    since: [Option<u64>; 2],
    idle_since: u64,
}

impl Rules {
    fn is_over(&self, way: usize, now: u64) -> bool {
        let passed = |since: u64, limit: Option<u64>| limit.is_some_and(|limit| now >= since + limit);
        self.since[way]
            .is_some_and(|since| passed(since, self.limits[way]) || passed(self.idle_since, self.idle))
    }

    fn is_limited(&self, way: usize) -> bool {
        self.limits[way].is_some() || self.idle.is_some()
    }

    /// The stream is ready.
    fn go_on(&mut self, way: usize, now: u64) {
        self.since[way] = None;
        if self.since[1 - way].is_some() {
            self.idle_since = now;
        }
    }

    /// The stream is not. Returns whether this is an error.
    fn wait(&mut self, way: usize, now: u64) -> bool {
        if !self.is_limited(way) {
            return false;
        }
        if self.since[way].is_none() {
            self.since[way] = Some(now);
            if self.since[1 - way].is_none() {
                self.idle_since = now;
            }
        }
        let is_over = self.is_over(way, now);
        if is_over {
            self.since[way] = None;
            self.idle_since = now;
        }
        is_over
    }

    fn set(&mut self, way: Option<usize>, limit: Option<u64>, now: u64) {
        match way {
            Some(way) => self.limits[way] = limit,
            None => {
                if self.idle.is_none() {
                    self.idle_since = now;
                }
                self.idle = limit;
            }
        }
        for way in [0, 1] {
            if !self.is_limited(way) {
                self.since[way] = None;
            }
        }
    }
}

struct Run {
    guard: IdleGuard<ByHand>,
    hand: ByHand,
    rules: Rules,
    tasks: [Arc<Woken>; 3],
    /// The task that polls each direction, if one does now.
    polled_by: [Option<usize>; 2],
    ready: [bool; 2],
    start: Instant,
    errors: usize,
}

impl Run {
    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap()
    }

    fn poll(&mut self, way: usize, task: usize) {
        self.polled_by[way] = Some(task);
        let now = self.now();
        let waker = Waker::from(self.tasks[task].clone());
        let found = poll(&mut self.guard, OPS[way], &mut Context::from_waker(&waker));
        match found {
            Poll::Ready(Ok(())) => {
                assert!(std::mem::take(&mut self.ready[way]));
                self.rules.go_on(way, now);
                self.polled_by[way] = None;
            }
            Poll::Ready(Err(error)) => {
                passed::<()>(Err(error));
                assert!(self.rules.wait(way, now), "too early: {:?} at {now}", self.rules);
                self.polled_by[way] = None;
                self.errors += 1;
            }
            Poll::Pending => assert!(!self.rules.wait(way, now), "too late: {:?} at {now}", self.rules),
        }
    }

    /// Polls in all tasks that are woken, until none is.
    fn poll_woken(&mut self) {
        for task in 0..self.tasks.len() {
            while self.tasks[task].0.swap(false, SeqCst) {
                for way in [0, 1] {
                    if self.polled_by[way] == Some(task) {
                        self.poll(way, task);
                    }
                }
            }
        }
    }

    fn set(&mut self, random: &mut Rng) {
        let limit = random.bool().then(|| random.u64(1..MOST));
        let (now, way) = (self.now(), random.choice([None, Some(0), Some(1)]).unwrap());
        self.rules.set(way, limit, now);
        match way {
            None => self.guard.set_idle_limit(limit.map(ms)),
            Some(0) => self.guard.set_read_limit(limit.map(ms)),
            Some(_) => self.guard.set_write_limit(limit.map(ms)),
        }
    }

    async fn step(&mut self, random: &mut Rng, tasks: usize, changes: bool) {
        let (way, task) = (random.usize(..2), random.usize(..tasks));
        match random.u8(..10) {
            0 | 1 => self.poll(way, task),
            2 if !self.ready[way] => {
                self.ready[way] = true;
                self.hand.make_ready(OPS[way]);
            }
            // The operation is dropped. Another may begin later.
            3 => self.polled_by[way] = None,
            4 if changes => self.set(random),
            _ => advance(ms(random.u64(1..MOST / 4))).await,
        }
        let now = self.now();
        for way in [0, 1] {
            if let Some(task) = self.polled_by[way]
                && self.rules.is_over(way, now)
            {
                assert!(self.tasks[task].0.load(SeqCst), "not woken: {:?} {way} at {now}", self.rules);
            }
        }
        self.poll_woken();
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_fails_when_a_limit_has_passed_whatever_went_before() {
    let wheel = TimingWheel::new();
    let mut errors = 0;
    for seed in 0..600 {
        let mut random = Rng::with_seed(seed);
        let hand = ByHand::default();
        let (rules, tasks) = (Rules::default(), Default::default());
        let guard = wheel.idle_guard(hand.clone());
        let start = Instant::now();
        let mut run =
            Run { guard, hand, rules, tasks, polled_by: [None; 2], ready: [false; 2], start, errors: 0 };
        (0..3).for_each(|_| run.set(&mut random));
        let (tasks, changes) = (random.usize(1..=3), random.bool());
        for _ in 0..150 {
            run.step(&mut random, tasks, changes).await;
        }
        errors += run.errors;
    }
    assert!(errors > 1_000, "{errors}");
}

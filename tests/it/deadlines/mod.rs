//! A wheel's timers, each in a task of its own, and an oracle that knows their deadlines.

mod checks;
pub(crate) mod ops;
mod timer;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::task::yield_now;
use tokio::time::{Instant, advance, sleep};

use ops::{Move, Op, Shape};
use timer::{Looked, Outcome, Timer};

/// The oracle's knowledge of a timer.
struct Expected {
    looked: Arc<Mutex<Looked>>,
    /// `None` if it never comes.
    deadline: Option<Instant>,
    /// How it has to end at its next poll, if that is certain.
    at_once: Option<Outcome>,
    is_timeout: bool,
    /// A timeout that the wheel could not run waits by tokio's timer, and is not counted.
    is_by_tokio: bool,
}

impl Expected {
    /// Has found this at its first poll, or at its first after a move.
    fn finds(&mut self, at_once: Option<Outcome>) {
        let is_unable = matches!(at_once, Some(Outcome::Refused | Outcome::Ended));
        self.is_by_tokio = is_unable && self.is_timeout;
        self.at_once = at_once.filter(|_| !self.is_by_tokio);
    }
}

pub(crate) struct Oracle {
    shape: Shape,
    wheel: TimingWheel,
    timers: Vec<Expected>,
    has_ended: bool,
}

/// Does all of it on a paused clock, drops everything, and sees that no task is left.
pub(crate) fn run(shape: Shape, ops: &[Op]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let runtime = runtime.expect("a runtime without I/O");
    runtime.block_on(async {
        let mut oracle = Oracle::new(shape);
        for op in ops {
            oracle.apply(op).await;
        }
        oracle.end().await;
    });
}

impl Oracle {
    fn new(shape: Shape) -> Self {
        let mut builder =
            TimingWheel::builder().tick(shape.tick).wheel_size(shape.wheel_size).shards(shape.shards);
        if let Some(max_pending) = shape.max_pending {
            builder = builder.max_pending(max_pending);
        }
        let wheel = builder.build().expect("within the limits");
        Self { shape, wheel, timers: Vec::new(), has_ended: false }
    }

    async fn apply(&mut self, op: &Op) {
        let from = Instant::now();
        let mut is_idle = false;
        match *op {
            Op::Sleep(delay) => self.start(delay, Timer::Sleep(self.wheel.sleep(delay)), false),
            Op::Timeout(delay) => self.start(delay, Timer::timeout(&self.wheel, delay), true),
            Op::TrySleep(delay) => self.try_start(delay),
            Op::Churn(delay) => self.churn(delay).await,
            Op::Reset(which, ref moves) => self.reset(which, moves),
            Op::Answer(which) => self.answer(which),
            Op::Drop(which) => self.drop_one(which),
            Op::Advance(by) => advance(by).await,
            Op::Idle(time) => {
                is_idle = true;
                sleep(time).await;
            }
            Op::Shutdown => self.shutdown(),
        }
        self.settle().await;
        self.check(from, is_idle);
    }

    fn pending(&self) -> usize {
        self.timers.iter().filter(|timer| timer.is_on_wheel()).count()
    }

    fn is_full(&self) -> bool {
        self.shape.max_pending.is_some_and(|max_pending| self.pending() >= max_pending)
    }

    /// The result of a timer's first poll.
    fn at_first_poll(&self, deadline: Option<Instant>) -> Option<Outcome> {
        if has_passed(deadline) {
            Some(Outcome::Elapsed)
        } else if self.has_ended {
            Some(Outcome::Ended)
        } else if self.is_full() {
            Some(Outcome::Refused)
        } else {
            None
        }
    }

    fn start(&mut self, delay: Duration, timer: Timer, is_timeout: bool) {
        let deadline = ops::after_now(delay);
        let at_once = self.at_first_poll(deadline);
        let looked = timer.spawn();
        let mut expected = Expected { looked, deadline, at_once: None, is_timeout, is_by_tokio: false };
        expected.finds(at_once);
        self.timers.push(expected);
    }

    fn try_start(&mut self, delay: Duration) {
        let answer = self.wheel.try_sleep(delay);
        let deadline = ops::after_now(delay);
        let at_once = self.at_first_poll(deadline);
        let is_bounded = self.shape.max_pending.is_some();
        match answer {
            Ok(sleep) => {
                assert!(!self.has_ended && at_once != Some(Outcome::Refused));
                let looked = Timer::Sleep(sleep).spawn();
                let (is_timeout, is_by_tokio) = (false, false);
                self.timers.push(Expected { looked, deadline, at_once, is_timeout, is_by_tokio });
            }
            Err(error) if error.is_shutdown() => assert!(self.has_ended),
            Err(error) => assert!(error.is_at_capacity() && is_bounded && at_once == Some(Outcome::Refused)),
        }
    }

    /// A timer that is dropped at once, and one that is polled and dropped.
    async fn churn(&mut self, delay: Duration) {
        drop(self.wheel.sleep(delay));
        let looked = Timer::Sleep(self.wheel.sleep(delay)).spawn();
        yield_now().await;
        looked.lock().expect("whole").forget();
    }

    fn reset(&mut self, which: usize, moves: &[Move]) {
        let Some(n) = which.checked_rem(self.timers.len()) else { return };
        let (was_pending, was_on_wheel) = (self.timers[n].is_pending(), self.timers[n].is_on_wheel());
        let mut stays = was_on_wheel;
        let mut deadline = self.timers[n].deadline;
        {
            let mut looked = self.timers[n].looked.lock().expect("whole");
            let Some(timer) = looked.timer_mut() else { return };
            for to in moves {
                let before = std::mem::replace(&mut deadline, timer.move_to(*to));
                // Moved back to what has passed it elapses at once. Moved on it stays in its tick.
                stays &= !is_earlier(deadline, before) || !has_passed(deadline);
            }
        }
        let at_once = match self.at_first_poll(deadline) {
            Some(Outcome::Elapsed) if stays => None,
            // One that was pending finds its place again.
            Some(Outcome::Refused) if was_on_wheel => None,
            at_once => at_once,
        };
        let timer = &mut self.timers[n];
        timer.deadline = deadline;
        timer.finds(at_once);
        if !was_pending {
            timer.looked.lock().expect("whole").again();
        }
    }

    fn answer(&self, which: usize) {
        if let Some(n) = which.checked_rem(self.timers.len()) {
            self.timers[n].looked.lock().expect("whole").answer();
        }
    }

    fn drop_one(&mut self, which: usize) {
        if let Some(n) = which.checked_rem(self.timers.len()) {
            self.timers.swap_remove(n).looked.lock().expect("whole").forget();
        }
    }

    fn shutdown(&mut self) {
        let pending = if self.has_ended { 0 } else { self.pending() };
        assert_eq!(self.wheel.shutdown(), pending);
        self.has_ended = true;
        for timer in self.timers.iter_mut().filter(|timer| timer.is_on_wheel()) {
            let outcome = if has_passed(timer.deadline) { Outcome::Elapsed } else { Outcome::Ended };
            timer.finds(Some(outcome));
        }
    }
}

fn has_passed(deadline: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| deadline <= Instant::now())
}

fn is_earlier(deadline: Option<Instant>, before: Option<Instant>) -> bool {
    deadline.is_some_and(|deadline| before.is_none_or(|before| deadline < before))
}

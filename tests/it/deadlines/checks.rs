//! Checks how each timer ended against its deadline.

use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::yield_now;
use tokio::time::Instant;

use super::timer::Outcome;
use super::{Expected, Oracle};

/// Rounds of all tasks in which everything has to come to rest.
const ROUNDS: usize = 1_000;
/// In these nothing more may happen that should not.
const ROUNDS_AT_REST: usize = 4;
/// An idle clock that is paused jumps by whole milliseconds, from anywhere in one, to where one of tokio's own timers
/// is due, which rounds up to one.
const TOKIOS_JUMP: Duration = Duration::from_millis(2);

impl Expected {
    pub(super) fn outcome(&self) -> Option<(Outcome, Instant)> {
        self.looked.lock().expect("whole").outcome
    }

    pub(super) fn is_pending(&self) -> bool {
        self.outcome().is_none()
    }

    pub(super) fn is_on_wheel(&self) -> bool {
        self.is_pending() && !self.is_by_tokio
    }
}

impl Oracle {
    /// By how much a timer may be late.
    fn slack(&self) -> Duration {
        self.shape.tick + TOKIOS_JUMP
    }

    fn is_overdue(&self, timer: &Expected, now: Instant) -> bool {
        let last = timer.deadline.and_then(|deadline| deadline.checked_add(self.slack()));
        timer.is_pending() && (timer.at_once.is_some() || last.is_some_and(|last| last <= now))
    }

    fn is_at_rest(&self) -> bool {
        let now = Instant::now();
        let pending = if self.has_ended { 0 } else { self.pending() };
        self.wheel.pending() == pending && !self.timers.iter().any(|timer| self.is_overdue(timer, now))
    }

    /// Lets all tasks run until nothing more is to come of them. The clock stands meanwhile.
    pub(super) async fn settle(&self) {
        let now = Instant::now();
        let mut rounds_at_rest = 0;
        for _ in 0..ROUNDS {
            yield_now().await;
            // A timerfd calls in real time, so perhaps only now, for what the jump of the clock has passed.
            rounds_at_rest = if self.is_at_rest() { rounds_at_rest + 1 } else { 0 };
            if rounds_at_rest > ROUNDS_AT_REST {
                break;
            }
        }
        assert_eq!(Instant::now(), now, "the clock moved although nobody was idle");
    }

    /// `from` is when the last operation began; `is_idle` if the clock went from timer to timer in it.
    pub(super) fn check(&mut self, from: Instant, is_idle: bool) {
        let now = Instant::now();
        for (n, timer) in self.timers.iter().enumerate() {
            assert!(!self.is_overdue(timer, now), "{n}, due at {:?}, is left at {now:?}", timer.deadline);
            let Some((outcome, at)) = timer.outcome() else { continue };
            match outcome {
                Outcome::Elapsed => {
                    let deadline = timer.deadline.expect("it never comes");
                    assert!(deadline <= at, "{n}, due at {deadline:?}, is early at {at:?}");
                    if is_idle && deadline > from {
                        assert!(at < deadline + self.slack(), "{n}, due at {deadline:?}, is late at {at:?}");
                    }
                }
                Outcome::Answered => {}
                Outcome::Refused | Outcome::Ended => assert_eq!(timer.at_once, Some(outcome)),
            }
        }
        self.timers
            .iter_mut()
            .for_each(|timer| timer.at_once = timer.at_once.filter(|_| !timer.is_pending()));
        self.check_counts();
    }

    fn check_counts(&self) {
        let pending = if self.has_ended { 0 } else { self.pending() };
        let stats = self.wheel.stats();
        assert_eq!((self.wheel.pending(), stats.pending), (pending, pending));
        assert_eq!(stats.armed, stats.fired + stats.cancelled + pending as u64, "{stats:?}");
        assert!(self.shape.max_pending.is_none_or(|max_pending| pending <= max_pending));
    }

    /// Drops all timers and the wheel. Their tasks and the driver end.
    pub(super) async fn end(self) {
        for timer in &self.timers {
            timer.looked.lock().expect("whole").forget();
        }
        let Self { wheel, timers, .. } = self;
        drop(timers);
        yield_now().await;
        assert_eq!(wheel.pending(), 0);
        drop(wheel);
        for _ in 0..ROUNDS {
            if Handle::current().metrics().num_alive_tasks() == 0 {
                return;
            }
            yield_now().await;
        }
        panic!("{} tasks are left", Handle::current().metrics().num_alive_tasks());
    }
}

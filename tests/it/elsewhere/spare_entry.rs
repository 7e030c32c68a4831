//! The next timer in a shard reuses the entry of a dropped timer.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use timingwheel::{Sleep, TimingWheel};
use tokio::time::Instant;

use super::{CountingWaker, DAY, HANG_GUARD, MOST_ABANDONED, STAY, ms, on_workers, sharded};

/// A task that makes one timer after the other.
struct Task {
    counter: Arc<CountingWaker>,
    waker: Waker,
}

impl Task {
    fn new() -> Self {
        let counter = Arc::<CountingWaker>::default();
        Self { waker: counter.clone().into(), counter }
    }

    /// Polls it for the first time, by which it is registered unless its deadline is found to have passed.
    fn arm(&self, wheel: &TimingWheel, duration: Duration) -> Sleep {
        let mut sleep = wheel.sleep(duration);
        let poll = self.poll(&mut sleep);
        assert!(duration < DAY || poll.is_pending());
        sleep
    }

    fn poll(&self, sleep: &mut Sleep) -> Poll<()> {
        sleep
            .poll_unconstrained(&mut Context::from_waker(&self.waker))
            .map(|result| result.expect("the wheel goes on"))
    }

    fn wakers(&self) -> usize {
        Arc::strong_count(&self.counter) - 2
    }

    fn woken(&self) -> usize {
        self.counter.woken.load(Ordering::SeqCst)
    }
}

#[test]
fn it_counts_as_cancelled_at_once_and_keeps_one_waker_for_the_next() {
    let (_runtime, wheel) = on_workers(sharded());
    let task = Task::new();
    let mut kept = 0;
    for round in 1..=100 {
        let sleep = task.arm(&wheel, DAY);
        let stats = wheel.stats();
        assert_eq!((stats.pending, stats.armed, stats.cancelled), (1, round, round - 1));
        assert!((1..=MOST_ABANDONED).contains(&task.wakers()));
        drop(sleep);
        kept += task.wakers();
        let stats = wheel.stats();
        assert_eq!((stats.pending, stats.armed, stats.cancelled), (0, round, round));
        assert_eq!((wheel.pending(), stats.pending_by_level.iter().sum::<usize>()), (0, 0));
    }
    // All but where the driver came.
    assert!(kept > 0, "none was left");
}

#[test]
fn what_takes_its_place_is_ready_at_its_own_deadline_and_not_at_the_other() {
    let (_runtime, wheel) = on_workers(sharded());
    // Later, to another level, earlier, and within a tick.
    for [before, after] in [[20, 40], [300, 20], [40, 600], [86_400_000, 3], [5, 5], [5, 6], [6, 5]] {
        // A run in which the deadline came before it was dropped proves nothing and is repeated.
        for patience in (0..).map(|round| 2_u32.pow(round)) {
            let task = Task::new();
            let (start, first) = (Instant::now(), task.arm(&wheel, patience * ms(before)));
            drop(first);
            let is_in_time = start.elapsed() < patience * ms(before);
            let (start, mut sleep) = (Instant::now(), task.arm(&wheel, patience * ms(after)));
            while task.woken() == 0 && task.poll(&mut sleep).is_pending() && start.elapsed() < HANG_GUARD {
                thread::sleep(Duration::from_micros(50));
            }
            assert!(start.elapsed() >= patience * ms(after), "{before} ms, then {after}: too early");
            assert_eq!(task.poll(&mut sleep), Poll::Ready(()), "{before} ms, then {after}: it hangs");
            if is_in_time {
                assert!(task.woken() <= 1);
                break;
            }
        }
    }
    assert_eq!(wheel.pending(), 0);
}

#[test]
fn what_takes_its_place_can_be_moved_and_given_to_another_task_and_dropped() {
    let (_runtime, wheel) = on_workers(sharded());
    let (task, other) = (Task::new(), Task::new());
    drop(task.arm(&wheel, DAY));
    let mut sleep = task.arm(&wheel, 2 * DAY);
    Pin::new(&mut sleep).reset_after(3 * DAY);
    assert!(other.poll(&mut sleep).is_pending());
    Pin::new(&mut sleep).reset_after(DAY);
    assert!(other.poll(&mut sleep).is_pending());
    assert_eq!((task.wakers(), other.wakers(), wheel.pending()), (0, 1, 1));
    drop(sleep);
    assert_eq!(wheel.pending(), 0);
}

#[test]
fn the_next_timer_of_another_task_lets_go_of_its_waker() {
    let (_runtime, wheel) = on_workers(sharded());
    let (task, other) = (Task::new(), Task::new());
    drop(task.arm(&wheel, DAY));
    let start = Instant::now();
    let sleep = other.arm(&wheel, DAY);
    assert!(task.wakers() == 0 || start.elapsed() >= STAY);
    assert_eq!((other.wakers(), wheel.pending()), (1, 1));
    drop(sleep);
    assert_eq!((wheel.stats().armed, wheel.stats().cancelled), (2, 2));
}

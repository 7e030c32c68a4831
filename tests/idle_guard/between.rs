//! Operations that are polled while the driver wakes: the guard's timer is due, and its waker not yet called.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use timingwheel::{IdleGuard, Sleep, TimingWheel};
use tokio::time::advance;
use tokio_test::{assert_pending, assert_ready};

use crate::by_hand::{ByHand, Op, poll, task};
use crate::passed;

const LIMIT: Duration = Duration::from_secs(10);

/// More than the driver hands out at a time.
const MANY: usize = 600;

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

/// Runs a part of a test when it is first woken.
struct First<F>(Mutex<Option<F>>);

impl<F: FnOnce() + Send + 'static> Wake for First<F> {
    fn wake(self: Arc<Self>) {
        let first = self.0.lock().unwrap().take();
        first.into_iter().for_each(|first| first());
    }
}

/// Runs `arm` between the arming of many timers, and `in_between` when the first of these is woken.
async fn amid_others<T>(
    wheel: &TimingWheel,
    arm: impl FnOnce() -> T,
    in_between: impl FnOnce() + Send + 'static,
) {
    amid_others_until(wheel, arm, in_between, LIMIT / 2).await;
}

/// The same, with a clock that then jumps so far.
async fn amid_others_until<T>(
    wheel: &TimingWheel,
    arm: impl FnOnce() -> T,
    in_between: impl FnOnce() + Send + 'static,
    jump: Duration,
) {
    let waker = Waker::from(Arc::new(First(Mutex::new(Some(in_between)))));
    let others = || {
        let mut sleeps: Vec<Sleep> = (0..MANY).map(|_| wheel.sleep(LIMIT / 2)).collect();
        let mut cx = Context::from_waker(&waker);
        assert!(sleeps.iter_mut().all(|sleep| sleep.poll_try_wait(&mut cx).is_pending()));
        sleeps
    };
    let before = others();
    arm();
    let after = others();
    advance(jump).await;
    drop((before, after));
}

fn guard(wheel: &TimingWheel) -> Arc<Mutex<IdleGuard<ByHand>>> {
    let guard = wheel.idle_guard(ByHand::default());
    Arc::new(Mutex::new(guard.with_read_limit(LIMIT).with_write_limit(LIMIT)))
}

#[tokio::test(start_paused = true)]
async fn a_half_that_uses_the_timer_up_before_its_waker_is_called_wakes_the_other_half() {
    let wheel = TimingWheel::new();
    let guard = guard(&wheel);
    let (mut read, write) = (task(&guard, Op::Read), Arc::new(Mutex::new(task(&guard, Op::Write))));
    let polls = {
        let write = write.clone();
        move || assert_pending!(write.lock().unwrap().poll())
    };
    let arm = || {
        assert_pending!(read.poll());
        assert_pending!(write.lock().unwrap().poll());
    };
    amid_others(&wheel, arm, polls).await;
    assert!(read.is_woken(), "nobody else wakes it");
    assert_pending!(read.poll());
    advance(LIMIT / 2).await;
    assert!(read.is_woken() && write.lock().unwrap().is_woken());
    passed(assert_ready!(read.poll()));
    passed(assert_ready!(write.lock().unwrap().poll()));
}

#[tokio::test(start_paused = true)]
async fn one_task_that_polls_one_direction_is_woken_for_the_other() {
    let wheel = TimingWheel::new();
    let guard = guard(&wheel);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let poll = move |op| poll(&mut guard.lock().unwrap(), op, &mut Context::from_waker(&waker));
    let polls = {
        let poll = poll.clone();
        move || assert_pending!(poll(Op::Write))
    };
    let arm = || [Op::Read, Op::Write].map(|op| assert_pending!(poll(op)));
    amid_others(&wheel, arm, polls).await;
    assert!(woken.0.swap(false, SeqCst), "its read waits too");
    assert_pending!(poll(Op::Read));
    advance(LIMIT / 2).await;
    assert!(woken.0.load(SeqCst));
    passed(assert_ready!(poll(Op::Read)));
}

#[tokio::test(start_paused = true)]
async fn an_operation_that_begins_when_another_was_woken_is_not_woken_for_nothing() {
    let wheel = TimingWheel::new();
    let guard = guard(&wheel);
    let (mut read, mut write) = (task(&guard, Op::Read), task(&guard, Op::Write));
    assert_pending!(read.poll());
    advance(LIMIT / 2).await;
    assert!(read.is_woken());
    assert_pending!(write.poll());
    advance(LIMIT / 4).await;
    assert!(!write.is_woken());
    assert_eq!((wheel.pending(), wheel.stats().fired), (1, 1));
}

/// The wheel may be turned so late that whoever waits seems not to have answered, before it was asked.
#[tokio::test(start_paused = true)]
async fn a_limit_that_is_set_before_a_late_turn_has_woken_whoever_waits_does_not_keep_it_asleep() {
    const LATE: Duration = Duration::from_secs(2);
    let wheel = TimingWheel::new();
    let guard = Arc::new(Mutex::new(wheel.idle_guard(ByHand::default())));
    guard.lock().unwrap().set_read_limit(Some(LIMIT));
    guard.lock().unwrap().set_write_limit(Some(LIMIT * 100));
    let (mut read, mut write) = (task(&guard, Op::Read), task(&guard, Op::Write));
    let sets = {
        let guard = guard.clone();
        move || guard.lock().unwrap().set_write_limit(Some(LIMIT * 90))
    };
    let arm = || {
        assert_pending!(read.poll());
        assert_pending!(write.poll());
    };
    amid_others_until(&wheel, arm, sets, LIMIT / 2 + LATE).await;
    advance(Duration::from_millis(2)).await;
    assert!(read.is_woken(), "nobody else wakes it");
}

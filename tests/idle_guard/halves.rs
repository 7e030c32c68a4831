//! The halves of a split stream, in tasks of their own: one timer wakes both.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

use timingwheel::TimingWheel;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex, split};
use tokio::time::{Instant, advance};
use tokio_test::{assert_pending, assert_ready, assert_ready_ok};

use crate::by_hand::{ByHand, Op, poll, stuck, task};
use crate::{DAY, ms, passed};

#[tokio::test(start_paused = true)]
async fn each_half_fails_at_its_own_deadline_in_a_task_of_its_own() {
    for (read_limit, write_limit) in [(10, 25), (25, 10), (10, 10), (10, 11)] {
        let wheel = TimingWheel::new();
        let (mut read, mut write) = stuck(&wheel, read_limit, write_limit);
        let start = Instant::now();
        let read = tokio::spawn(async move {
            passed(read.read_u8().await);
            start.elapsed()
        });
        let write = tokio::spawn(async move {
            passed(write.write_u8(7).await);
            start.elapsed()
        });
        let (read, write) = tokio::join!(read, write);
        assert_eq!((read.unwrap(), write.unwrap()), (ms(read_limit), ms(write_limit)));
        assert!(wheel.stats().armed <= 4, "one timer, twice for each half");
    }
}

#[tokio::test(start_paused = true)]
async fn both_halves_in_one_task_fail_at_their_own_deadlines() {
    for (read_limit, write_limit) in [(10, 25), (25, 10), (10, 10)] {
        let (mut read, mut write) = stuck(&TimingWheel::new(), read_limit, write_limit);
        let start = Instant::now();
        let read = async {
            passed(read.read_u8().await);
            start.elapsed()
        };
        let write = async {
            passed(write.write_u8(7).await);
            start.elapsed()
        };
        assert_eq!(tokio::join!(read, write), (ms(read_limit), ms(write_limit)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_half_that_makes_progress_does_not_help_the_other() {
    let (mut peer, stream) = duplex(4);
    let wheel = TimingWheel::new();
    let (mut read, mut write) =
        split(wheel.idle_guard(stream).with_read_limit(ms(10)).with_write_limit(ms(25)));
    let start = Instant::now();
    let sends = tokio::spawn(async move {
        loop {
            peer.write_u8(7).await.unwrap();
            tokio::time::sleep(ms(3)).await;
        }
    });
    let reads = tokio::spawn(async move {
        loop {
            read.read_u8().await.unwrap();
        }
    });
    let write = tokio::spawn(async move {
        passed(write.write_all(&[7; 5]).await);
        start.elapsed()
    });
    assert_eq!(write.await.unwrap(), ms(25));
    assert_eq!(wheel.pending(), 1);
    sends.abort();
    reads.abort();
}

#[tokio::test(start_paused = true)]
async fn a_half_that_only_looks_on_as_the_other_is_overdue_leaves_its_error_to_it() {
    let wheel = TimingWheel::new();
    let guard = wheel.idle_guard(ByHand::default()).with_read_limit(ms(10)).with_write_limit(ms(30));
    let guard = Arc::new(Mutex::new(guard));
    let (mut read, mut write) = (task(&guard, Op::Read), task(&guard, Op::Write));
    assert_pending!(read.poll());
    assert_pending!(write.poll());
    advance(ms(10)).await;
    assert!(read.is_woken() && write.is_woken());
    for _ in 0..3 {
        assert_pending!(write.poll());
        assert!(!write.is_woken(), "it goes on to its own deadline");
    }
    passed(assert_ready!(read.poll()));
    assert_pending!(read.poll());
    // The timer is for the read again, and then for the write.
    advance(ms(10)).await;
    assert!(read.is_woken());
    passed(assert_ready!(read.poll()));
    assert_pending!(write.poll());
    advance(ms(10)).await;
    assert!(write.is_woken());
    passed(assert_ready!(write.poll()));
}

#[tokio::test(start_paused = true)]
async fn a_half_that_goes_on_to_a_later_deadline_leaves_the_timer_to_the_other() {
    let hand = ByHand::default();
    let guard = TimingWheel::new().idle_guard(hand.clone()).with_read_limit(ms(30)).with_write_limit(ms(20));
    let guard = Arc::new(Mutex::new(guard));
    let (mut read, mut write) = (task(&guard, Op::Read), task(&guard, Op::Write));
    assert_pending!(write.poll());
    advance(ms(5)).await;
    hand.make_ready(Op::Write);
    assert_ready_ok!(write.poll());
    assert_pending!(write.poll());
    assert_pending!(read.poll());
    // The timer was left where the first write needed it.
    advance(ms(15)).await;
    assert!(read.is_woken() && write.is_woken());
    assert_pending!(read.poll());
    assert_pending!(write.poll());
    advance(ms(5)).await;
    assert!(write.is_woken());
    passed(assert_ready!(write.poll()));
    assert_pending!(read.poll());
    advance(ms(10)).await;
    assert!(read.is_woken());
    passed(assert_ready!(read.poll()));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_waits_no_longer_is_let_go_when_another_does() {
    let hand = ByHand::default();
    let mut guard =
        TimingWheel::new().idle_guard(hand.clone()).with_read_limit(ms(10)).with_write_limit(ms(10));
    let tasks = [(); 2].map(|()| Arc::new(OnWake(Mutex::new(Some(|| ())))));
    for (number, op) in [(0, Op::Read), (1, Op::Write), (0, Op::Read)] {
        let waker = Waker::from(tasks[number].clone());
        assert_pending!(poll(&mut guard, op, &mut Context::from_waker(&waker)));
        drop(waker);
        assert!(Arc::strong_count(&tasks[number]) > 1, "it waits");
        assert_eq!(Arc::strong_count(&tasks[1 - number]), 1, "it does not");
        hand.make_ready(op);
        assert_ready_ok!(poll(&mut guard, op, &mut Context::from_waker(Waker::noop())));
    }
}

#[tokio::test(start_paused = true)]
async fn a_half_that_moves_to_another_task_is_woken_there() {
    let guard =
        TimingWheel::new().idle_guard(ByHand::default()).with_read_limit(ms(10)).with_write_limit(DAY);
    let guard = Arc::new(Mutex::new(guard));
    let mut tasks: Vec<_> = (0..4).map(|_| (task(&guard, Op::Read), task(&guard, Op::Write))).collect();
    for (read, write) in &mut tasks {
        assert_pending!(read.poll());
        assert_pending!(write.poll());
    }
    advance(ms(10)).await;
    let (read, write) = tasks.last_mut().unwrap();
    assert!(read.is_woken() && write.is_woken());
    passed(assert_ready!(read.poll()));
    let (before, _) = &tasks[0];
    assert!(!before.is_woken());
}

/// Runs a function once when it is woken.
struct OnWake<F>(Mutex<Option<F>>);

impl<F: FnOnce() + Send + 'static> Wake for OnWake<F> {
    fn wake(self: Arc<Self>) {
        let f = self.0.lock().unwrap().take();
        f.into_iter().for_each(|f| f());
    }
}

/// The driver has come to a deadline but not yet handed its timer out, because more came due than it takes at a time.
/// Whoever polls then uses the timer up.
#[tokio::test(start_paused = true)]
async fn a_half_that_uses_the_timer_up_before_it_wakes_anybody_wakes_the_other() {
    const MORE_THAN_A_BATCH: usize = 600;
    for (first, second) in [(Op::Read, Op::Write), (Op::Write, Op::Read)] {
        // The other is overdue at the same time, later, or while the first waits on.
        for (limit_of_first, limit_of_second) in [(10, 10), (10, 20), (20, 10)] {
            let wheel = TimingWheel::new();
            let (read, write) = match first {
                Op::Read => (limit_of_first, limit_of_second),
                _ => (limit_of_second, limit_of_first),
            };
            let guard =
                wheel.idle_guard(ByHand::default()).with_read_limit(ms(read)).with_write_limit(ms(write));
            let guard = Arc::new(Mutex::new(guard));
            let mut task_of_second = task(&guard, second);

            let polled = Arc::new(AtomicUsize::new(0));
            let polls_first = || {
                let (guard, polled) = (guard.clone(), polled.clone());
                let poll = move || {
                    let woken_before_both =
                        poll(&mut guard.lock().unwrap(), first, &mut Context::from_waker(Waker::noop()));
                    polled.fetch_add(1 + usize::from(woken_before_both.is_ready()), Ordering::SeqCst);
                };
                Waker::from(Arc::new(OnWake(Mutex::new(Some(poll)))))
            };
            let others = |waker: Waker| {
                let mut sleeps: Vec<_> = (0..MORE_THAN_A_BATCH).map(|_| wheel.sleep(ms(10))).collect();
                for sleep in &mut sleeps {
                    assert_pending!(sleep.poll_try_wait(&mut Context::from_waker(&waker)));
                }
                sleeps
            };
            let before = others(polls_first());
            assert_pending!(poll(&mut guard.lock().unwrap(), first, &mut Context::from_waker(Waker::noop())));
            assert_pending!(task_of_second.poll());
            let after = others(polls_first());
            advance(ms(10)).await;
            assert!(polled.load(Ordering::SeqCst) >= 2);
            drop((before, after));

            // Whatever woke it: it waits on or fails, and in the end it fails.
            let is_woken = task_of_second.is_woken();
            let outcome = if is_woken { task_of_second.poll() } else { std::task::Poll::Pending };
            if outcome.is_pending() {
                advance(ms(limit_of_second.saturating_sub(10))).await;
                assert!(task_of_second.is_woken(), "{first:?} took the timer of {second:?}");
                passed(assert_ready!(task_of_second.poll()));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_does_not_keep_the_other_half_asleep() {
    let guard =
        TimingWheel::new().idle_guard(ByHand::default()).with_read_limit(ms(10)).with_write_limit(ms(10));
    let guard = Arc::new(Mutex::new(guard));
    let panics = Waker::from(Arc::new(OnWake(Mutex::new(Some(|| panic!("in the waker"))))));
    let mut write = task(&guard, Op::Write);
    assert_pending!(poll(&mut guard.lock().unwrap(), Op::Read, &mut Context::from_waker(&panics)));
    assert_pending!(write.poll());
    advance(ms(10)).await;
    assert!(write.is_woken());
    passed(assert_ready!(write.poll()));
}

#[tokio::test(start_paused = true)]
async fn halves_that_go_on_register_one_timer() {
    let wheel = TimingWheel::new();
    let hand = ByHand::default();
    let guard = wheel.idle_guard(hand.clone()).with_read_limit(ms(10)).with_write_limit(ms(15));
    let guard = Arc::new(Mutex::new(guard));
    let (mut read, mut write) = (task(&guard, Op::Read), task(&guard, Op::Write));
    for _ in 0..100 {
        assert_pending!(read.poll());
        assert_pending!(write.poll());
        advance(ms(4)).await;
        assert!(!read.is_woken() && !write.is_woken());
        hand.make_ready(Op::Read);
        assert_ready_ok!(read.poll());
        hand.make_ready(Op::Write);
        assert_ready_ok!(write.poll());
    }
    assert_eq!(wheel.stats().armed, 1);
}

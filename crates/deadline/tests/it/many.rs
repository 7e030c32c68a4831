//! Many futures under one deadline: what one of them costs does not grow with their number, and none waits for another.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use timingwheel::TimingWheel;
use timingwheel_deadline::{Deadline, DeadlineExt, Ended};
use tokio::time::{Instant, sleep};
use tokio_test::task;

use crate::{ms, pending_once};

/// Counts the polls of what is within.
async fn counted<F: Future>(polls: Arc<AtomicUsize>, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| {
        polls.fetch_add(1, Ordering::Relaxed);
        future.as_mut().poll(cx)
    })
    .await
}

/// However many there are: each future is polled once as it begins and once as it ends, and its timer fires once.
#[tokio::test(start_paused = true)]
async fn an_end_of_a_call_costs_the_same_among_many_as_among_few() {
    for calls in [100, 16_000] {
        let (full, ended) = (TimingWheel::builder().max_pending(0).build().unwrap(), TimingWheel::new());
        ended.shutdown();
        for wheel in [TimingWheel::new(), full, ended] {
            let has_room = wheel.try_sleep(ms(1)).is_ok();
            let request = wheel.deadline_in(ms(60_000));
            let polls = Arc::new(AtomicUsize::new(0));
            let call = |_| {
                let call = request.run_within(ms(100), counted(polls.clone(), pending::<()>()));
                tokio::spawn(call)
            };
            let calls: Vec<_> = (0..calls).map(call).collect();
            sleep(ms(50)).await;
            assert_eq!(wheel.pending(), if has_room { calls.len() } else { 0 });
            let start = Instant::now();
            let count = calls.len();
            for call in calls {
                assert_eq!(call.await.unwrap(), Err(Ended::Limit));
            }
            assert!(start.elapsed() <= ms(52), "{:?}", start.elapsed());
            assert_eq!(polls.load(Ordering::Relaxed), 2 * count);
            assert_eq!(wheel.stats().fired, if has_room { count as u64 } else { 0 });
        }
    }
}

/// What a burst of calls and children leaves to a deadline that lives on: the waker of one task, and no timer.
#[tokio::test(start_paused = true)]
async fn a_burst_leaves_a_long_lived_deadline_as_it_was() {
    struct Idle;
    impl Wake for Idle {
        fn wake(self: Arc<Self>) {}
    }
    let (wheel, idle) = (TimingWheel::new(), Arc::new(Idle));
    let root = wheel.deadline_in(ms(60_000));
    for _ in 0..3 {
        let calls: Vec<_> = (0..16_000)
            .map(|n| {
                let (of, waker) = (if n % 2 == 0 { root.child() } else { root.clone() }, Arc::new(Idle));
                let mut call = Box::pin(of.run_within(ms(100), pending::<()>()));
                for waker in [Waker::from(waker), Waker::from(idle.clone())] {
                    assert!(call.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
                }
                call
            })
            .collect();
        assert_eq!((Arc::strong_count(&idle) > 16_000, wheel.pending()), (true, 16_000));
        drop(calls);
        assert!(Arc::strong_count(&idle) <= 3, "{} wakers are left", Arc::strong_count(&idle));
        let mut next = pending_once(root.run(pending::<()>()));
        assert_eq!((Arc::strong_count(&idle), wheel.pending()), (1, 1), "what was left is taken over");
        assert!(!next.is_woken() && next.poll().is_pending());
    }
}

/// It was polled within a future that was over at once, and so never heard a cancel itself.
#[tokio::test(start_paused = true)]
async fn a_future_hears_a_cancel_also_where_the_future_around_it_is_over() {
    let request = TimingWheel::new().deadline_in(ms(60_000));
    let mut call = Box::pin(request.run(pending::<()>()));
    let mut task = task::spawn(());
    let around = request.run(poll_fn(|cx| {
        assert!(call.as_mut().poll(cx).is_pending());
        Poll::Ready(())
    }));
    task.enter(|cx, _| assert!(pin!(around).poll(cx).is_ready()));
    request.cancel();
    assert!(task.is_woken());
    task.enter(|cx, _| assert!(call.as_mut().poll(cx).is_ready()));
}

/// As the waker of a task does that holds a future under the deadline.
#[tokio::test(start_paused = true)]
async fn a_waker_may_look_at_the_deadline_as_it_is_dropped() {
    struct Looks(Deadline, Arc<AtomicUsize>);
    impl Wake for Looks {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for Looks {
        fn drop(&mut self) {
            assert!(self.0.child().remaining().is_some());
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }
    let (request, looks) = (TimingWheel::new().deadline_in(ms(60_000)), Arc::new(AtomicUsize::new(0)));
    let mut first = Box::pin(request.run(pending::<()>()));
    let waker = Waker::from(Arc::new(Looks(request.clone(), looks.clone())));
    assert!(first.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    let second = pending_once(request.run(pending::<()>()));
    drop((first, waker));
    assert_eq!(looks.load(Ordering::Relaxed), 0, "what heard a cancel for it is kept");
    drop(second);
    assert_eq!(looks.load(Ordering::Relaxed), 1);
}

/// A call that asks for its own deadline leaves what heard cancels for it to the next, and drops what another has left.
#[tokio::test(start_paused = true)]
async fn a_waker_that_is_dropped_as_a_call_asks_for_its_deadline_may_ask_too() {
    struct Asks(Arc<AtomicUsize>);
    impl Wake for Asks {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for Asks {
        fn drop(&mut self) {
            self.0.fetch_add(1 + usize::from(Deadline::current().is_some()), Ordering::Relaxed);
        }
    }
    let (request, asked) = (TimingWheel::new().deadline_in(ms(60_000)), Arc::new(AtomicUsize::new(0)));
    let mut is_first = true;
    let asks = poll_fn(|_| {
        if std::mem::take(&mut is_first) { Poll::Pending } else { Poll::Ready(Deadline::current().is_some()) }
    });
    let mut call = pending_once(Box::pin(request.run_within(ms(50), asks)));
    let mut other = Box::pin(request.run(pending::<()>()));
    let waker = Waker::from(Arc::new(Asks(asked.clone())));
    assert!(other.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    drop((other, waker));
    assert_eq!((call.poll(), asked.load(Ordering::Relaxed)), (Poll::Ready(Ok(true)), 2));
}

/// The outer one is of a child, whose cancel says nothing about the parent; and then of the parent.
#[tokio::test(start_paused = true)]
async fn a_future_within_another_hears_the_cancels_that_the_outer_one_does_not() {
    let root = TimingWheel::new().deadline_in(ms(1000));
    let (part, other) = (root.child(), root.child());
    for (outer, inner) in [(&other, &part), (&root, &other)] {
        let mut waits = pending_once(outer.run(inner.run(pending::<()>())));
        inner.cancel();
        assert!(waits.is_woken());
        assert!(waits.poll().is_ready());
    }
    let mut waits = pending_once(root.child().run(root.run(pending::<()>())));
    root.cancel();
    assert!(waits.is_woken() && waits.poll().is_ready());
}

//! Wakers that panic when woken or dropped.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::time::Instant;
use tokio_test::{assert_pending, assert_ready_ok};

use super::{DAY, arm, counts, ms, on_each_runtime, on_wake};

/// A waker that does nothing, but panics when it is let go if it is told to and no panic is under way.
struct InDrop {
    panics: bool,
}

impl Wake for InDrop {
    fn wake(self: Arc<Self>) {}
}

impl Drop for InDrop {
    fn drop(&mut self) {
        assert!(!self.panics || std::thread::panicking(), "in the waker's drop");
    }
}

fn panics_in_drop() -> Waker {
    Arc::new(InDrop { panics: true }).into()
}

/// Arms 300 timers, more than the driver takes at a time, of which every third has a waker of the test's, and sees
/// that those of the others are woken.
async fn others_are_woken(wheel: &TimingWheel, waker: impl Fn() -> Waker) {
    let woken = Arc::new(AtomicUsize::new(0));
    let mut sleeps = Vec::new();
    for n in 0..300 {
        let waker = if n % 3 == 0 { waker() } else { counts(&woken) };
        sleeps.push(arm(wheel, ms(100), waker));
    }
    wheel.sleep_until(sleeps[299].deadline() + ms(5)).await;
    // To report a hundred panics takes long, and another worker may have turned the wheel meanwhile.
    while woken.load(Ordering::SeqCst) < 200 {
        tokio::time::sleep(ms(1)).await;
    }
    assert_eq!(woken.load(Ordering::SeqCst), 200);
    for mut sleep in sleeps {
        assert_ready_ok!(sleep.poll_unconstrained(&mut Context::from_waker(Waker::noop())));
    }
}

#[test]
fn a_waker_that_panics_when_woken_or_dropped_harms_no_other_timer() {
    let wakers: [fn() -> Waker; 2] = [|| on_wake(|| panic!("in the waker")), panics_in_drop];
    for waker in wakers {
        on_each_runtime(|| async { others_are_woken(&TimingWheel::new(), waker).await });
    }
}

/// The value that a panic carries may panic when it is dropped, and so may the value of that panic.
#[test]
fn a_panic_that_panics_again_harms_no_other_timer() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                std::panic::panic_any(Self);
            }
        }
    }
    let waker = || on_wake(|| std::panic::panic_any(Bomb));
    on_each_runtime(|| async { others_are_woken(&TimingWheel::new(), waker).await });
}

#[test]
fn wakers_that_panic_do_not_stop_a_shutdown() {
    on_each_runtime(|| async {
        let wheel = TimingWheel::new();
        let woken = Arc::new(AtomicUsize::new(0));
        let mut sleeps = Vec::new();
        for _ in 0..400 {
            sleeps.push(arm(&wheel, DAY, on_wake(|| panic!("in the waker"))));
            sleeps.push(arm(&wheel, DAY, counts(&woken)));
        }
        assert_eq!(wheel.shutdown(), 800);
        // The driver may have come in between, and be waking some of them.
        while woken.load(Ordering::SeqCst) < 400 {
            tokio::time::sleep(ms(1)).await;
        }
        assert_eq!(woken.load(Ordering::SeqCst), 400);
    });
}

#[test]
fn dropping_a_sleep_whose_waker_panics_when_dropped_removes_the_timer() {
    on_each_runtime(|| async {
        let wheel = TimingWheel::builder().max_pending(2).build().unwrap();
        let sleep = arm(&wheel, DAY, panics_in_drop());
        assert!(catch_unwind(AssertUnwindSafe(|| drop(sleep))).is_err());
        assert_eq!((wheel.pending(), wheel.stats().cancelled), (0, 1));
        let _places = [(); 2].map(|()| wheel.try_sleep(DAY).expect("its place was given back"));
    });
}

#[test]
fn a_sleep_moved_into_the_past_whose_waker_panics_is_ready_at_its_next_poll() {
    on_each_runtime(|| async {
        let wheel = TimingWheel::new();
        let waker = on_wake(|| panic!("in the waker"));
        let mut sleep = wheel.sleep(DAY);
        assert_pending!(sleep.poll_unconstrained(&mut Context::from_waker(&waker)));
        // The wheel's clock was moved on to the present by the first poll.
        let past = Instant::now() - Duration::from_secs(60);
        assert!(catch_unwind(AssertUnwindSafe(|| Pin::new(&mut sleep).reset(past))).is_err());
        assert_eq!(wheel.pending(), 0);
        assert_ready_ok!(sleep.poll_unconstrained(&mut Context::from_waker(&waker)));
    });
}

/// A waker is recognized by its address, and the address of one that is gone is used again.
#[test]
fn a_waker_that_stands_where_one_stood_that_panicked_is_registered() {
    on_each_runtime(|| async {
        let wheel = TimingWheel::new();
        let first = panics_in_drop();
        let address = first.data();
        let mut sleep = arm(&wheel, DAY, first);
        let second = on_wake(|| {});
        let poll =
            AssertUnwindSafe(|| sleep.poll_unconstrained(&mut Context::from_waker(&second)).is_pending());
        assert!(catch_unwind(poll).is_err());
        // All have to be alive at the same time, so that they stand at different addresses.
        let mut thirds: Vec<_> = (0..1_000).map(|_| Arc::new(InDrop { panics: false })).collect();
        thirds.sort_by_key(|third| Arc::as_ptr(third).cast() != address);
        let third = Waker::from(thirds[0].clone());
        assert_pending!(sleep.poll_unconstrained(&mut Context::from_waker(&third)));
        assert_eq!(Arc::strong_count(&thirds[0]), 3, "the wheel has a clone of it");
    });
}

//! Wakers are code of a user's: whatever they do, or panic at, no other timer and not the driver is harmed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use timingwheel::{Sleep, TimingWheel};
use tokio::runtime::{Builder, Handle};
use tokio::time::Instant;
use tokio_test::{assert_pending, assert_ready_ok};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const HANG_GUARD: Duration = Duration::from_secs(30);

/// Runs a test on the paused clock, where wakers run while the runtime parks, and on two workers.
fn on_each_runtime<F: Future>(test: impl Fn() -> F) {
    let paused = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let workers = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for runtime in [paused, workers] {
        runtime.block_on(async { tokio::time::timeout(HANG_GUARD, test()).await.expect("it hangs") });
    }
}

/// A waker that calls a function.
fn on_wake(f: impl Fn() + Send + Sync + 'static) -> Waker {
    struct OnWake<F>(F);
    impl<F: Fn() + Send + Sync> Wake for OnWake<F> {
        fn wake(self: Arc<Self>) {
            (self.0)();
        }
    }
    Arc::new(OnWake(f)).into()
}

/// A waker that counts how many times it is woken.
fn counts(woken: &Arc<AtomicUsize>) -> Waker {
    let woken = woken.clone();
    on_wake(move || {
        woken.fetch_add(1, Ordering::SeqCst);
    })
}

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

/// Registers a sleep with a waker, of which the wheel then has the only reference.
fn arm(wheel: &TimingWheel, duration: Duration, waker: Waker) -> Sleep {
    let mut sleep = wheel.sleep(duration);
    assert_pending!(sleep.poll_elapsed(&mut Context::from_waker(&waker)));
    sleep
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
    assert_eq!(woken.load(Ordering::SeqCst), 200);
    for mut sleep in sleeps {
        assert_ready_ok!(sleep.poll_elapsed(&mut Context::from_waker(Waker::noop())));
    }
}

#[test]
fn a_waker_that_panics_when_woken_harms_no_other_timer() {
    on_each_runtime(|| async {
        let wheel = TimingWheel::new();
        others_are_woken(&wheel, || on_wake(|| panic!("in the waker"))).await;
    });
}

#[test]
fn a_waker_that_panics_when_dropped_harms_no_other_timer() {
    on_each_runtime(|| async {
        let wheel = TimingWheel::new();
        others_are_woken(&wheel, panics_in_drop).await;
    });
}

/// The value that a panic carries may panic when it is dropped.
#[test]
fn a_panic_that_panics_again_harms_no_other_timer() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(std::thread::panicking(), "in the drop of what the panic carried");
        }
    }
    on_each_runtime(|| async {
        let wheel = TimingWheel::new();
        others_are_woken(&wheel, || on_wake(|| std::panic::panic_any(Bomb))).await;
    });
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
        assert_pending!(sleep.poll_elapsed(&mut Context::from_waker(&waker)));
        // The wheel's clock was moved on to the present by the first poll.
        let past = Instant::now() - Duration::from_secs(60);
        assert!(catch_unwind(AssertUnwindSafe(|| Pin::new(&mut sleep).reset(past))).is_err());
        assert_eq!(wheel.pending(), 0);
        assert_ready_ok!(sleep.poll_elapsed(&mut Context::from_waker(&waker)));
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
        let poll = AssertUnwindSafe(|| sleep.poll_elapsed(&mut Context::from_waker(&second)).is_pending());
        assert!(catch_unwind(poll).is_err());
        // All have to be alive at the same time, so that they stand at different addresses.
        let mut thirds: Vec<_> = (0..1_000).map(|_| Arc::new(InDrop { panics: false })).collect();
        thirds.sort_by_key(|third| Arc::as_ptr(third).cast() != address);
        let third = Waker::from(thirds[0].clone());
        assert_pending!(sleep.poll_elapsed(&mut Context::from_waker(&third)));
        assert_eq!(Arc::strong_count(&thirds[0]), 3, "the wheel has a clone of it");
    });
}

#[test]
fn a_waker_may_arm_drop_move_poll_and_count_timers_of_its_wheel() {
    on_each_runtime(|| async {
        let wheel = TimingWheel::builder().shards(3).build().unwrap();
        let done = Arc::new(tokio::sync::Notify::new());
        let moved = Arc::new(Mutex::new(arm(
            &wheel,
            DAY,
            on_wake({
                let done = done.clone();
                move || done.notify_one()
            }),
        )));
        let dropped = Mutex::new(vec![arm(&wheel, DAY, Waker::noop().clone())]);
        let armed = Arc::new(Mutex::new(Vec::new()));
        let waker = on_wake({
            let (wheel, moved, armed, done) = (wheel.clone(), moved.clone(), armed.clone(), done.clone());
            move || {
                dropped.lock().unwrap().clear();
                let mut moved = moved.lock().unwrap();
                assert_pending!(moved.poll_elapsed(&mut Context::from_waker(Waker::noop())));
                let next = wheel.clone();
                let last = on_wake({
                    let done = done.clone();
                    move || {
                        assert!(next.stats().fired > 1);
                        done.notify_one();
                    }
                });
                assert_pending!(moved.poll_elapsed(&mut Context::from_waker(&last)));
                // One earlier than what the driver has looked at, from within its turn.
                Pin::new(&mut *moved).reset(Instant::now() + ms(7));
                armed.lock().unwrap().push(arm(&wheel, DAY, Waker::noop().clone()));
                assert_eq!(wheel.pending(), 2);
            }
        });
        let mut first = arm(&wheel, ms(5), waker);
        done.notified().await;
        assert_ready_ok!(first.poll_elapsed(&mut Context::from_waker(Waker::noop())));
        assert_ready_ok!(moved.lock().unwrap().poll_elapsed(&mut Context::from_waker(Waker::noop())));
        assert_eq!((wheel.pending(), wheel.stats().fired), (1, 2));
    });
}

#[test]
fn a_waker_may_arm_one_timer_after_the_other() {
    fn arm_next(
        wheel: &TimingWheel,
        left: usize,
        done: Arc<tokio::sync::Notify>,
        kept: Arc<Mutex<Vec<Sleep>>>,
    ) {
        let sleep = arm(wheel, ms(2), {
            let (wheel, kept) = (wheel.clone(), kept.clone());
            on_wake(move || match left {
                0 => done.notify_one(),
                _ => arm_next(&wheel, left - 1, done.clone(), kept.clone()),
            })
        });
        kept.lock().unwrap().push(sleep);
    }
    on_each_runtime(|| async {
        let wheel = TimingWheel::new();
        let (done, kept) = <(Arc<tokio::sync::Notify>, Arc<Mutex<Vec<Sleep>>>)>::default();
        let start = Instant::now();
        arm_next(&wheel, 20, done.clone(), kept.clone());
        done.notified().await;
        assert!(start.elapsed() >= ms(2 * 21));
        assert_eq!(wheel.stats().fired, 21);
        kept.lock().unwrap().clear();
    });
}

#[test]
fn a_waker_may_shut_its_wheel_down() {
    on_each_runtime(|| async {
        let wheel = TimingWheel::builder().shards(2).build().unwrap();
        let mut other = wheel.sleep(DAY);
        let first = arm(
            &wheel,
            ms(5),
            on_wake({
                let wheel = wheel.clone();
                move || assert_eq!(wheel.shutdown(), 1)
            }),
        );
        assert!(other.try_wait().await.unwrap_err().is_shutdown());
        assert_eq!((wheel.pending(), wheel.stats().fired, wheel.stats().cancelled), (0, 1, 1));
        drop(first);
    });
}

#[test]
fn a_waker_may_drop_the_last_of_its_wheel() {
    on_each_runtime(|| async {
        let tasks = || Handle::current().metrics().num_alive_tasks();
        let others = tasks();
        let last: Arc<Mutex<Option<(TimingWheel, Sleep)>>> = Arc::default();
        let (tell, told) = tokio::sync::oneshot::channel();
        let tell = Mutex::new(Some(tell));
        let wheel = TimingWheel::new();
        let sleep = arm(
            &wheel,
            ms(20),
            on_wake({
                let last = last.clone();
                move || {
                    drop(last.lock().unwrap().take());
                    tell.lock().unwrap().take().unwrap().send(()).unwrap();
                }
            }),
        );
        *last.lock().unwrap() = Some((wheel, sleep));
        told.await.unwrap();
        while tasks() > others {
            tokio::time::sleep(ms(1)).await;
        }
    });
}

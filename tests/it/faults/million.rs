//! A million timers at the same moment. On the real clock: the tests assert no time except that nothing is early.

use std::sync::atomic::AtomicBool;

use super::*;

/// Time enough to arm them all; those for which it is not are ready at once.
const SOON: Duration = Duration::from_millis(1_500);

/// A million timers that are due at the same moment, but for those that are due before they are armed, and the moment.
fn arm(wheel: &TimingWheel) -> (Vec<Sleep>, Arc<Counts>) {
    let counts = Counts::due_at(Instant::now() + SOON);
    let waker = Waker::from(counts.clone());
    let mut cx = Context::from_waker(&waker);
    let mut sleeps = Vec::with_capacity(MILLION);
    for _ in 0..MILLION {
        let mut sleep = wheel.sleep_until(counts.due);
        if sleep.poll_unconstrained(&mut cx).is_pending() {
            sleeps.push(sleep);
        } else {
            assert!(Instant::now() >= counts.due);
        }
    }
    (sleeps, counts)
}

/// Drives a current-thread runtime while `work` is done.
fn driven<T: Send>(runtime: &Runtime, work: impl FnOnce() -> T + Send) -> T {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let work = scope.spawn(|| {
            let result = work();
            is_done.store(true, Ordering::SeqCst);
            result
        });
        runtime.block_on(async {
            while !is_done.load(Ordering::SeqCst) && !work.is_finished() {
                tokio::time::sleep(ms(1)).await;
            }
        });
        work.join().unwrap()
    })
}

#[test]
fn a_million_timers_on_one_tick_all_fire() {
    for workers in [0, 2] {
        let runtime = runtime(workers);
        let wheel = wheel_on(&runtime);
        let (sleeps, counts) = driven(&runtime, || {
            let (sleeps, counts) = arm(&wheel);
            wait_until("the million", || counts.woken() == sleeps.len());
            (sleeps, counts)
        });
        assert_eq!(counts.early(), 0);
        let stats = assert_adds_up(&wheel);
        assert_eq!((stats.armed, stats.fired), (sleeps.len() as u64, sleeps.len() as u64));
        assert!(sleeps.into_iter().all(|sleep| sleep.is_elapsed()));
        assert_eq!(assert_adds_up(&wheel), stats);
    }
}

/// While the driver hands them out, two threads drop them: each is counted as the one or the other.
#[test]
fn a_million_timers_that_are_dropped_on_the_tick_on_which_they_are_due_fire_or_are_cancelled() {
    for workers in [0, 2] {
        let runtime = runtime(workers);
        let wheel = wheel_on(&runtime);
        let (armed, counts) = driven(&runtime, || {
            let (mut sleeps, counts) = arm(&wheel);
            let armed = sleeps.len();
            let second_half = sleeps.split_off(armed / 2);
            thread::sleep(counts.due.saturating_duration_since(Instant::now()));
            thread::scope(|scope| {
                scope.spawn(|| drop(sleeps));
                drop(second_half);
            });
            wait_until("the driver", || wheel.pending() == 0 && wheel.stats().fired == counts.woken() as u64);
            (armed, counts)
        });
        assert_eq!(counts.early(), 0);
        let stats = assert_adds_up(&wheel);
        assert_eq!((stats.armed, stats.pending), (armed as u64, 0));
        runtime.block_on(async { tokio::time::timeout(HANG_GUARD, wheel.sleep(ms(1))).await }).unwrap();
    }
}

//! Very many timers at the same moment. On the real clock: the tests assert no time except that nothing is early.

use super::*;

const TIMERS: usize = 200_000;
/// Time enough to arm them all; those for which it is not are ready at once.
const SOON: Duration = Duration::from_millis(400);

/// Timers that are due at the same moment, but for those that are due before they are armed, and the moment.
fn arm(wheel: &TimingWheel) -> (Vec<Sleep>, Arc<Counts>) {
    let counts = Counts::due_at(Instant::now() + SOON);
    let waker = Waker::from(counts.clone());
    let mut cx = Context::from_waker(&waker);
    let mut sleeps = Vec::with_capacity(TIMERS);
    for _ in 0..TIMERS {
        let mut sleep = wheel.sleep_until(counts.due);
        if sleep.poll_unconstrained(&mut cx).is_pending() {
            sleeps.push(sleep);
        } else {
            assert!(Instant::now() >= counts.due);
        }
    }
    (sleeps, counts)
}

/// While the driver hands them out, two threads drop most of them: each fires or is cancelled, and the others all fire.
#[test]
fn of_very_many_timers_on_one_tick_each_fires_or_was_dropped_before() {
    let runtime = runtime(2);
    let wheel = wheel_on(&runtime);
    let (mut kept, counts) = arm(&wheel);
    let armed = kept.len();
    let mut dropped = kept.split_off(armed / 4);
    let some = dropped.split_off(dropped.len() / 2);
    thread::sleep(counts.due.saturating_duration_since(Instant::now()));
    thread::scope(|scope| {
        scope.spawn(|| drop(dropped));
        drop(some);
    });
    wait_until("the driver", || wheel.pending() == 0 && wheel.stats().fired == counts.woken() as u64);
    assert_eq!(counts.early(), 0);
    let stats = assert_adds_up(&wheel);
    assert_eq!((stats.armed, stats.pending), (armed as u64, 0));
    assert!(stats.fired >= kept.len() as u64 && kept.iter().all(Sleep::is_elapsed));
    runtime.block_on(async { tokio::time::timeout(HANG_GUARD, wheel.sleep(ms(1))).await }).unwrap();
}

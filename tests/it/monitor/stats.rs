//! The statistics.

use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use timingwheel::{Sleep, Stats, TimingWheel};
use tokio::time::advance;

use super::{HOUR, armed, ms};

fn assert_sums(stats: &Stats) {
    let Stats { pending, armed, fired, cancelled, .. } = *stats;
    assert_eq!(armed, fired + cancelled + pending as u64, "{stats:?}");
    assert_eq!(stats.pending_by_level.iter().sum::<usize>(), pending, "{stats:?}");
}

#[tokio::test(start_paused = true)]
async fn pending_timers_are_told_by_the_level_that_they_stand_on() {
    let wheel = TimingWheel::builder().tick(ms(1)).wheel_size(64).build().expect("a wheel");
    assert_eq!(wheel.stats().pending_by_level, [0]);
    let timers = [10, 20, 100, 200, 300, 100_000].map(|millis| armed(&wheel, ms(millis)));
    assert_eq!(wheel.stats().pending_by_level, [2, 3, 0, 0, 1]);
    advance(ms(150)).await;
    assert_eq!(wheel.stats().pending_by_level.iter().sum::<usize>(), 3);
    drop(timers);
    assert_eq!(wheel.stats().pending_by_level, [0; 5]);
}

/// So many slots are counted in more than one hold of the lock.
#[tokio::test(start_paused = true)]
async fn they_are_told_by_level_too_where_a_level_has_very_many_slots() {
    let wheel = TimingWheel::builder().shards(2).wheel_size(5_000).build().expect("a wheel");
    let _timers: Vec<_> = (0..3_000).map(|n| armed(&wheel, ms(3 * n + 1))).collect();
    let stats = wheel.stats();
    assert_sums(&stats);
    assert_eq!((stats.pending_by_level, stats.cascaded), (vec![1_667, 1_333], 0));
    // Amid a bucket of the second level.
    advance(ms(6_000)).await;
    assert!(wheel.stats().cascaded > 0);
}

/// Together, whatever is dropped on another thread meanwhile, and taken out there.
#[test]
fn what_stands_on_levels_is_what_is_pending_also_while_timers_are_dropped_elsewhere() {
    let runtime = crate::runtime(2);
    let wheel = runtime.block_on(async { TimingWheel::builder().shards(2).build().expect("a wheel") });
    let (sender, timers) = sync_channel::<Sleep>(100);
    let timers = Mutex::new(timers);
    let drop_all = || {
        let next = || timers.lock().unwrap().recv();
        std::iter::from_fn(|| next().ok()).for_each(drop);
    };
    thread::scope(|scope| {
        // On two threads, of which at least one has another shard than the timers.
        let droppers = [(); 2].map(|()| scope.spawn(drop_all));
        scope.spawn(|| {
            for _ in 0..20_000 {
                sender.send(armed(&wheel, HOUR)).unwrap();
            }
            drop(sender);
        });
        while !droppers.iter().all(ScopedJoinHandle::is_finished) {
            let stats = wheel.stats();
            assert_eq!(stats.pending_by_level.iter().sum::<usize>(), stats.pending, "{stats:?}");
        }
    });
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a waker that panics, as it should");
    }
}

#[tokio::test(start_paused = true)]
async fn wakers_that_panic_are_counted_as_they_fire_and_at_the_end() {
    let wheel = TimingWheel::new();
    let waker = Arc::new(Panics).into();
    let mut timers = [ms(1), ms(1), ms(2), HOUR].map(|delay| wheel.sleep(delay));
    for timer in &mut timers {
        assert!(timer.poll_unconstrained(&mut Context::from_waker(&waker)).is_pending());
    }
    let _good = armed(&wheel, ms(1));
    advance(ms(1)).await;
    assert_eq!((wheel.stats().fired, wheel.stats().wakers_panicked), (3, 2));
    advance(ms(1)).await;
    assert_eq!((wheel.stats().fired, wheel.stats().wakers_panicked), (4, 3));
    wheel.shutdown();
    assert_eq!(wheel.stats().wakers_panicked, 4);
}

#[tokio::test(start_paused = true)]
async fn a_driver_with_nothing_to_do_is_not_overdue_however_long() {
    let wheel = TimingWheel::new();
    let timer = armed(&wheel, ms(1));
    drop(timer);
    advance(1_000 * HOUR).await;
    assert_eq!(wheel.stats().overdue, Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn what_happened_since_is_the_difference_and_what_holds_now_stays() {
    let wheel = TimingWheel::builder().max_pending(3).build().expect("a wheel");
    let _before = armed(&wheel, ms(1));
    advance(ms(5)).await;
    let earlier = wheel.stats();
    let _pending = [armed(&wheel, ms(10)), armed(&wheel, HOUR), armed(&wheel, HOUR)];
    assert!(wheel.try_sleep(HOUR).is_err());
    advance(ms(50)).await;
    let since = wheel.stats().since(&earlier);
    assert_eq!((since.armed, since.fired, since.cancelled, since.refused), (3, 1, 0, 1));
    assert_eq!((since.pending, since.pending_by_level.iter().sum::<usize>()), (2, 2));
    assert_eq!(since.lateness.count(), 1);
    assert!(since.lateness.max() >= Some(ms(40)));
    assert!(since.turns > 0 && since.turns < wheel.stats().turns);
    let nothing = earlier.since(&wheel.stats());
    assert_eq!((nothing.armed, nothing.lateness.count()), (0, 0));
}

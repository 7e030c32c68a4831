//! Timers that are dropped on another thread than the one that armed them.
//!
//! On a multi-thread runtime each worker and each other thread has a shard. A timer that is dropped elsewhere than on
//! its shard's own is counted as dropped at once and does not fire any more, but its waker may stay for a while: until
//! its shard is turned, for a second at the most, and until one more than [`MOST_KEPT`] timers have been dropped so.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, Weak};
use std::task::{Context, Wake};
use std::thread;
use std::time::Duration;

use timingwheel::{Sleep, TimingWheel};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const HANG_GUARD: Duration = Duration::from_secs(30);

/// As many as there may be. Threads take them in turn, and the tests start fewer, so that no two threads share one.
const SHARDS: usize = 1_024;

/// Wakers of timers dropped elsewhere that one shard keeps, at the most.
const MOST_KEPT: usize = 13;

/// A wheel on a runtime with workers: two that the tests keep busy, and one for the driver.
fn on_workers(settings: timingwheel::Builder) -> (Runtime, TimingWheel) {
    let runtime = Builder::new_multi_thread().worker_threads(3).enable_all().build().unwrap();
    let wheel = {
        let _context = runtime.enter();
        settings.build().unwrap()
    };
    (runtime, wheel)
}

fn sharded() -> timingwheel::Builder {
    TimingWheel::builder().shards(SHARDS)
}

/// Runs `f` on a thread of its own.
fn elsewhere<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(f).join().unwrap())
}

/// Counts how many times it is woken. Panics when it is let go if it is told to and no panic is under way.
#[derive(Default)]
struct CountingWaker {
    woken: AtomicUsize,
    panics: bool,
}

impl Wake for CountingWaker {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for CountingWaker {
    fn drop(&mut self) {
        assert!(!self.panics || thread::panicking(), "in the waker's drop");
    }
}

type Wakers = Vec<Weak<CountingWaker>>;

/// How many of them the wheel has not let go of.
fn kept(wakers: &[Weak<CountingWaker>]) -> usize {
    wakers.iter().filter(|waker| waker.strong_count() > 0).count()
}

/// Polls a sleep for the first time, by which it is registered unless its deadline is found to have passed.
fn arm(wheel: &TimingWheel, duration: Duration, waker: Arc<CountingWaker>) -> Sleep {
    let mut sleep = wheel.sleep(duration);
    let poll = sleep.poll_elapsed(&mut Context::from_waker(&waker.into()));
    assert!(duration < DAY || poll.is_pending());
    sleep
}

/// Registers sleeps, with wakers of which the wheel has the only reference.
fn arm_some(wheel: &TimingWheel, count: usize, panics: bool) -> (Vec<Sleep>, Wakers) {
    let arm_one = |_| {
        let waker = Arc::new(CountingWaker { woken: AtomicUsize::new(0), panics });
        let observed = Arc::downgrade(&waker);
        (arm(wheel, DAY, waker), observed)
    };
    (0..count).map(arm_one).unzip()
}

/// Drops so few timers elsewhere that the wheel still has all their wakers.
fn drop_a_few_elsewhere(wheel: &TimingWheel, panics: bool) -> Wakers {
    let (sleeps, wakers) = arm_some(wheel, MOST_KEPT, panics);
    elsewhere(|| drop(sleeps));
    assert_eq!(kept(&wakers), MOST_KEPT, "they were not dropped elsewhere");
    wakers
}

#[test]
fn counts_are_exact_right_after_a_drop() {
    const TIMERS: usize = 200;
    let (_runtime, wheel) = on_workers(sharded());
    let (mut sleeps, wakers) = arm_some(&wheel, TIMERS, false);
    for round in 0.. {
        // From one to more than are kept.
        let left = sleeps.len().saturating_sub(1 + round % (2 * MOST_KEPT));
        let dropped = sleeps.split_off(left);
        elsewhere(|| drop(dropped));
        if round % 2 == 0 {
            assert_eq!(wheel.pending(), left);
        }
        let stats = wheel.stats();
        assert_eq!((stats.pending, stats.fired), (left, 0));
        assert_eq!((stats.armed, stats.cancelled), (TIMERS as u64, (TIMERS - left) as u64));
        assert!((left..=left + MOST_KEPT).contains(&kept(&wakers)));
        if left == 0 {
            break;
        }
    }
}

#[test]
fn a_timer_that_was_dropped_does_not_wake_its_task() {
    // A run in which the deadline came before all were dropped proves nothing and is repeated.
    for patience in (0..).map(|round| ms(20) * 2_u32.pow(round)) {
        let (runtime, wheel) = on_workers(sharded());
        let waker = Arc::new(CountingWaker::default());
        let sleeps: Vec<_> = (0..MOST_KEPT).map(|_| arm(&wheel, patience, waker.clone())).collect();
        let deadline = sleeps[0].deadline();
        let last = arm(&wheel, patience + ms(5), Arc::default());
        elsewhere(|| drop(sleeps));
        if Instant::now() < deadline {
            assert_eq!(Arc::strong_count(&waker), 1 + MOST_KEPT, "they were not dropped elsewhere");
            runtime.block_on(async { tokio::time::timeout(HANG_GUARD, last).await.expect("it hangs") });
            assert_eq!(Arc::strong_count(&waker), 1);
            assert_eq!(waker.woken.load(Ordering::SeqCst), 0);
            assert_eq!((wheel.stats().fired, wheel.stats().cancelled), (1, MOST_KEPT as u64));
            break;
        }
    }
}

#[test]
fn the_wheel_keeps_a_few_wakers_of_dropped_timers_and_no_more() {
    let (_runtime, wheel) = on_workers(sharded());
    let (sleeps, wakers) = arm_some(&wheel, 10 * (MOST_KEPT + 1), false);
    let mut most = 0;
    for (dropped, sleep) in (1..).zip(sleeps) {
        elsewhere(|| drop(sleep));
        most = most.max(kept(&wakers[..dropped]));
    }
    assert_eq!(most, MOST_KEPT);
    assert_eq!(kept(&wakers), 0, "the last finds no room");
}

fn wait_until_let_go(wakers: &Wakers) {
    let start = Instant::now();
    while kept(wakers) > 0 && start.elapsed() < HANG_GUARD {
        thread::sleep(ms(1));
    }
}

/// What lets go of the wakers of timers that were dropped elsewhere, besides more of them.
type Release = fn(Runtime, TimingWheel, &Wakers);

const RELEASES: [(&str, Release); 5] = [
    ("the driver, after a second", |_runtime, _wheel, wakers| wait_until_let_go(wakers)),
    ("a turn of the driver", |runtime, wheel, _| {
        let other = wheel.sleep(ms(2));
        runtime.block_on(async { tokio::time::timeout(HANG_GUARD, other).await.expect("it hangs") });
    }),
    ("a shutdown", |_runtime, wheel, _| assert_eq!(wheel.shutdown(), 0)),
    ("the end of the runtime", |runtime, _wheel, _| drop(runtime)),
    ("the end of the last handle", |_runtime, wheel, wakers| {
        drop(wheel);
        // The driver may just have been looking at the shard, and then is the last to let go of it.
        wait_until_let_go(wakers);
    }),
];

#[test]
fn wakers_of_dropped_timers_are_let_go_when_their_shard_is_looked_at_and_at_its_end() {
    for (name, release) in RELEASES {
        let (runtime, wheel) = on_workers(sharded());
        let wakers = drop_a_few_elsewhere(&wheel, false);
        release(runtime, wheel, &wakers);
        assert_eq!(kept(&wakers), 0, "by {name}");
    }
}

#[test]
fn wakers_of_dropped_timers_that_panic_when_they_are_let_go_harm_nobody() {
    for (name, release) in RELEASES {
        let (runtime, wheel) = on_workers(sharded());
        let wakers = drop_a_few_elsewhere(&wheel, true);
        let released = catch_unwind(AssertUnwindSafe(|| release(runtime, wheel, &wakers)));
        assert!(released.is_ok(), "who lets go of them by {name}");
        assert_eq!(kept(&wakers), 0, "by {name}");
    }
}

#[test]
fn who_drops_one_timer_too_many_is_not_harmed_by_the_wakers_of_the_others() {
    let (_runtime, wheel) = on_workers(sharded());
    for round in 1..=3 {
        let wakers = drop_a_few_elsewhere(&wheel, true);
        let (sleeps, _) = arm_some(&wheel, 1, false);
        let dropped = elsewhere(|| catch_unwind(AssertUnwindSafe(|| drop(sleeps))));
        assert!(dropped.is_ok());
        assert_eq!(kept(&wakers), 0);
        let cancelled = round * (MOST_KEPT as u64 + 1);
        assert_eq!((wheel.pending(), wheel.stats().cancelled), (0, cancelled));
    }
}

#[test]
fn with_a_bound_the_place_is_given_back_at_once() {
    let (_runtime, wheel) = on_workers(sharded().max_pending(1));
    for _ in 0..3 {
        let waker = Arc::new(CountingWaker::default());
        let sleep = arm(&wheel, DAY, waker.clone());
        assert!(wheel.try_sleep(DAY).unwrap_err().is_at_capacity());
        elsewhere(|| drop(sleep));
        assert_eq!(Arc::strong_count(&waker), 1);
    }
    assert!(wheel.try_sleep(DAY).is_ok());
}

/// The paused clock would go on to the time of a timer that is no more.
#[test]
fn on_a_current_thread_runtime_and_with_one_shard_a_timer_is_gone_at_once() {
    for (mut runtime, shards) in [(Builder::new_current_thread(), SHARDS), (Builder::new_multi_thread(), 1)] {
        let runtime = runtime.enable_all().build().unwrap();
        let _context = runtime.enter();
        let wheel = TimingWheel::builder().shards(shards).build().unwrap();
        let waker = Arc::new(CountingWaker::default());
        let sleep = arm(&wheel, DAY, waker.clone());
        elsewhere(|| drop(sleep));
        assert_eq!(Arc::strong_count(&waker), 1);
    }
}

#[test]
fn a_timer_in_a_thread_local_is_dropped_with_its_thread() {
    thread_local!(static LAST: RefCell<Option<Sleep>> = const { RefCell::new(None) });
    let (_runtime, wheel) = on_workers(sharded());
    let (sleeps, wakers) = arm_some(&wheel, 2, false);
    for sleep in sleeps {
        elsewhere(|| LAST.set(Some(sleep)));
    }
    // A scope ends before its threads' locals are dropped.
    let start = Instant::now();
    while wheel.pending() > 0 && start.elapsed() < HANG_GUARD {
        thread::yield_now();
    }
    assert_eq!(wheel.stats().cancelled, 2);
    drop(wheel);
    wait_until_let_go(&wakers);
    assert_eq!(kept(&wakers), 0);
}

/// Two tasks that wait for each other without yielding are on two workers.
#[test]
fn between_workers_what_one_arms_and_the_other_drops_is_counted_and_let_go() {
    const ROUNDS: usize = 200;
    let (runtime, wheel) = on_workers(TimingWheel::builder());
    let waker = Arc::new(CountingWaker::default());
    let meeting = Arc::new(Barrier::new(2));
    let exchanged: Arc<[Mutex<Vec<Sleep>>; 2]> = Arc::default();
    let tasks = [0, 1].map(|own| {
        let (wheel, waker) = (wheel.clone(), waker.clone());
        let (meeting, exchanged) = (meeting.clone(), exchanged.clone());
        runtime.spawn(async move {
            // Told at the end, because who panicked would leave the other one waiting.
            let mut left = 0;
            for _ in 0..ROUNDS {
                // Some fire, some are dropped elsewhere as they fire, most long before.
                let durations = [ms(1), DAY, Duration::from_micros(10), DAY, DAY];
                *exchanged[own].lock().unwrap() =
                    durations.map(|duration| arm(&wheel, duration, waker.clone())).into();
                meeting.wait();
                let dropped = std::mem::take(&mut *exchanged[1 - own].lock().unwrap());
                drop(dropped);
                // Each has dropped, and neither has armed again.
                meeting.wait();
                left += wheel.pending();
                meeting.wait();
            }
            left
        })
    });
    runtime.block_on(async {
        for task in tasks {
            assert_eq!(task.await.unwrap(), 0);
        }
    });
    let stats = wheel.stats();
    assert_eq!((stats.pending, stats.fired + stats.cancelled), (0, stats.armed));
    assert!(stats.cancelled >= 2 * 3 * ROUNDS as u64);
    drop(runtime);
    assert_eq!(Arc::strong_count(&waker), 1);
    assert!(waker.woken.load(Ordering::SeqCst) as u64 <= stats.fired);
}

/// As a waker of an executor whose wakers own their tasks.
#[test]
fn a_waker_that_owns_its_wheel_does_not_keep_it() {
    struct Owner(#[expect(dead_code, reason = "it is only held")] TimingWheel);

    impl Wake for Owner {
        fn wake(self: Arc<Self>) {}
    }

    let (_runtime, wheel) = on_workers(sharded());
    let owner = Arc::new(Owner(wheel.clone()));
    let observed = Arc::downgrade(&owner);
    let mut sleep = wheel.sleep(Duration::MAX);
    assert!(sleep.poll_elapsed(&mut Context::from_waker(&owner.into())).is_pending());
    elsewhere(|| drop(sleep));
    drop(wheel);
    let start = Instant::now();
    while observed.strong_count() > 0 && start.elapsed() < HANG_GUARD {
        thread::sleep(ms(1));
    }
    assert_eq!(observed.strong_count(), 0);
}

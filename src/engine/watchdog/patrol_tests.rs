//! Wheels that nobody turns, and wheels that turn when they are woken.

use std::sync::atomic::AtomicUsize;

use super::*;

const HANG_GUARD: Duration = Duration::from_secs(30);
const NEVER: u64 = u64::MAX;

/// A wheel whose clock is the watchdog's own.
#[derive(Debug)]
struct Wheel {
    next_turn: AtomicU64,
    wakes: AtomicUsize,
    /// Whether waking it turns it.
    turns: bool,
}

impl Wheel {
    fn new(turns: bool) -> Arc<Self> {
        Arc::new(Self { next_turn: AtomicU64::new(NEVER), wakes: AtomicUsize::new(0), turns })
    }

    fn wakes(&self) -> usize {
        self.wakes.load(Ordering::SeqCst)
    }

    fn set_alarm(&self, watchdog: &Watchdog, at: Nanos) {
        self.next_turn.store(at.0, Ordering::SeqCst);
        if !watchdog.patrols_in_time_for(at) {
            watchdog.move_patrol();
        }
    }
}

impl Watched for Wheel {
    fn next_turn(&self) -> Option<Nanos> {
        Some(Nanos(self.next_turn.load(Ordering::SeqCst))).filter(|&at| at < Nanos::MAX)
    }

    fn wake(&self, _role: Role) {
        if self.turns {
            self.next_turn.store(NEVER, Ordering::SeqCst);
        }
        self.wakes.fetch_add(1, Ordering::SeqCst);
    }
}

fn watchdog() -> &'static Watchdog {
    Box::leak(Box::new(Watchdog::new()))
}

fn add(watchdog: &'static Watchdog, id: u64, wheel: &Arc<Wheel>, role: Role) {
    let wheel: Weak<Wheel> = Arc::downgrade(wheel);
    watchdog.add(Entry { id, wheel, offset: Offset(0), role }).expect("a thread");
}

fn wait_until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < HANG_GUARD);
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_wheel_that_nobody_turns_is_woken_until_somebody_does() {
    let (watchdog, blocked, turned) = (watchdog(), Wheel::new(false), Wheel::new(true));
    add(watchdog, 1, &blocked, Role::Backup);
    add(watchdog, 2, &turned, Role::Backup);
    turned.set_alarm(watchdog, watchdog.now());
    wait_until(|| turned.wakes() == 1);
    blocked.set_alarm(watchdog, watchdog.now());
    wait_until(|| blocked.wakes() >= 3);
    blocked.set_alarm(watchdog, Nanos::MAX);
    assert_eq!(turned.wakes(), 1, "it was turned, and is not late any more");
}

#[test]
fn a_wheel_that_nobody_else_wakes_is_woken_for_each_turn_and_never_early() {
    let (watchdog, wheel) = (watchdog(), Wheel::new(true));
    add(watchdog, 1, &wheel, Role::OnlyWaker);
    for n in 1..=5 {
        let at = watchdog.now().after(Duration::from_millis(3));
        wheel.set_alarm(watchdog, at);
        wait_until(|| wheel.wakes() == n);
        assert!(watchdog.now() >= at);
    }
}

#[test]
fn what_was_due_before_the_watchdog_began_is_due() {
    let [origin, hour, two] = [0, 1, 2].map(|hours| Nanos::from_duration(Duration::from_secs(3_600 * hours)));
    // At the watchdog's origin the wheel was an hour old, or came an hour later.
    let (older, younger) = (Offset::between(origin, hour), Offset::between(hour, origin));
    assert_eq!(
        [origin, hour, two, Nanos::MAX].map(|at| older.by_watchdog(at)),
        [origin, origin, hour, Nanos::MAX]
    );
    assert_eq!([origin, hour, Nanos::MAX].map(|at| younger.by_watchdog(at)), [hour, two, Nanos::MAX]);
}

#[test]
fn a_turn_in_time_puts_the_patrol_off_and_a_near_one_brings_it_forward() {
    let (watchdog, near, far) = (watchdog(), Wheel::new(false), Wheel::new(false));
    add(watchdog, 1, &near, Role::Backup);
    add(watchdog, 2, &far, Role::Backup);
    let hour = watchdog.now().after(Duration::from_secs(3_600));
    let next_patrol = || Nanos(watchdog.next_patrol.load(Ordering::SeqCst));
    far.set_alarm(watchdog, hour.after(SOON));
    assert_eq!(next_patrol(), hour.after(SOON + LATE));
    near.set_alarm(watchdog, hour);
    assert_eq!(next_patrol(), hour.after(LATE));
    near.set_alarm(watchdog, hour.after(LATE - SOON));
    assert_eq!(next_patrol(), hour.after(LATE), "it is near enough");
    near.set_alarm(watchdog, hour.after(LATE));
    assert_eq!(next_patrol(), hour.after(SOON + LATE), "the other one is next");
    near.set_alarm(watchdog, Nanos::MAX);
    far.set_alarm(watchdog, Nanos::MAX);
    assert_eq!(next_patrol(), Nanos::MAX, "the thread sleeps");
}

#[test]
fn the_thread_ends_with_the_last_wheel_and_comes_back_with_another() {
    let watchdog = watchdog();
    for round in 0..3 {
        let wheels = [Wheel::new(true), Wheel::new(true)];
        add(watchdog, 2 * round, &wheels[0], Role::Backup);
        add(watchdog, 2 * round + 1, &wheels[1], Role::Backup);
        watchdog.forget(2 * round);
        assert!(watchdog.lock().timer.is_some());
        wheels[1].set_alarm(watchdog, watchdog.now());
        wait_until(|| wheels[1].wakes() > 0);
        watchdog.forget(2 * round + 1);
        wait_until(|| watchdog.lock().timer.is_none());
    }
}

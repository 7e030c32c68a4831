//! The driver turns once for all expirations that the shards have in one tick.

use super::budget::Budget;
use super::driven_shards::WheelTurn;
use super::plan::Plan;
use super::*;

use std::sync::{Mutex, mpsc};
use std::task::{Wake, Waker};
use std::thread;
use std::time::Instant;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::engine::shard::{Shard, ShardRef};
use crate::telemetry::counters::Counters;
use crate::wheel::Hierarchy;

const TICK: u64 = 1_000;
const IN_TICK_0: u64 = 1;
/// So few that a deadline a few ticks ahead stands on an overflow level.
const SLOTS: usize = 3;
const SHARDS: usize = 3;
const HANG_GUARD: Duration = Duration::from_secs(30);

fn resolution() -> Resolution {
    Resolution::new(Duration::from_nanos(TICK)).expect("not zero")
}

/// The deadlines of timers that fired.
type Fired = Arc<Mutex<Vec<Nanos>>>;

struct Note(Fired, Nanos);

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        self.0.lock().unwrap().push(self.1);
    }
}

/// Shards whose time the test sets.
struct Rig {
    shards: Vec<Arc<Shard>>,
    driven: Arc<DrivenShards>,
    alarm: Arc<Alarm>,
    clock: Clock,
    fired: Fired,
}

impl Rig {
    /// One shard for each list of deadlines. All deadlines lie after tick 0.
    fn new(deadlines: &[Vec<u64>]) -> Self {
        let clock = Clock::start();
        let alarm = Arc::new(Alarm::new(clock, false, deadlines.len(), Counters::of("rig".into())));
        let shard = |number| {
            let place = (number, deadlines.len());
            Arc::new(Shard::new(place, Hierarchy::new(resolution(), SLOTS), clock, alarm.clone(), None))
        };
        let shards: Vec<_> = (0..deadlines.len()).map(shard).collect();
        let driven = Arc::new(DrivenShards::new(&shards));
        let rig = Self { driven, shards, alarm, clock, fired: Fired::default() };
        for (shard, deadlines) in rig.shards.iter().zip(deadlines) {
            for &deadline in [IN_TICK_0].iter().chain(deadlines) {
                rig.register(shard, Nanos::ZERO, Nanos(deadline));
            }
        }
        // The first turn corrects each shard's next expiration: until then it is that of the first timer registered.
        assert_eq!(rig.turn(Nanos(IN_TICK_0)).len(), deadlines.len());
        rig
    }

    fn register(&self, shard: &Shard, now: Nanos, deadline: Nanos) {
        let waker = Arc::new(Note(self.fired.clone(), deadline)).into();
        shard.register(now, deadline, waker).expect("not refused").expect("not due");
    }

    /// Turns all shards, and returns the deadlines of the timers that fired.
    fn turn(&self, now: Nanos) -> Vec<Nanos> {
        let plan = plan_after_turn(&self.driven, now, resolution());
        assert_eq!(plan.first, self.shards.iter().map(|shard| shard.next_turn()).min().unwrap_or(Nanos::MAX));
        std::mem::take(&mut self.fired.lock().unwrap())
    }

    fn plan(&self) -> Plan {
        plan_after_turn(&self.driven, Nanos::ZERO, resolution())
    }
}

fn plan_after_turn(driven: &DrivenShards, now: Nanos, resolution: Resolution) -> Plan {
    match driven.turn(now, now, resolution, &mut Budget::of_a_turn(true), &mut Vec::new()) {
        WheelTurn::Until(plan) => plan,
        turned => panic!("{turned:?}"),
    }
}

proptest! {
    /// The test goes from one plan to the next, as the driver does.
    #[test]
    fn there_is_one_turn_for_a_tick_that_is_never_early_and_no_later_than_the_end_of_the_tick(
        deadlines in vec(vec(TICK + 1..=30 * TICK, 1..6), 1..=SHARDS),
    ) {
        let rig = Rig::new(&deadlines);
        let mut fired = Vec::new();
        let mut before = Nanos::ZERO;
        while rig.plan().first < Nanos::MAX {
            let Plan { first, at } = rig.plan();
            let tick = resolution().tick_of_deadline(at);
            prop_assert!(at >= first);
            prop_assert_eq!(tick, resolution().tick_of_deadline(first));
            // A bucket of an overflow level begins where a tick ends, and does not belong to that tick.
            let is_border = resolution().end_of_tick(at) == at;
            prop_assert!(resolution().tick_of_deadline(before) < tick || is_border, "again in {tick:?}: {at:?}");
            for deadline in rig.turn(at) {
                prop_assert!(deadline <= at, "{deadline:?} fired at {at:?}");
                prop_assert_eq!(resolution().tick_of_deadline(deadline), tick, "it is late");
                fired.push(deadline.0);
            }
            before = at;
        }
        fired.sort_unstable();
        let mut all = deadlines.concat();
        all.sort_unstable();
        prop_assert_eq!(fired, all);
    }
}

#[test]
fn the_turn_is_at_the_last_expiration_that_lies_in_one_tick_with_the_first() {
    for (deadlines, at) in [
        (vec![vec![1_100]], 1_100),
        (vec![vec![1_100], vec![1_700], vec![1_400]], 1_700),
        (vec![vec![1_700], vec![1_100], vec![1_400]], 1_700),
        // The end of a tick belongs to it. What comes after does not.
        (vec![vec![1_999], vec![2_000]], 2_000),
        (vec![vec![2_000], vec![2_001]], 2_000),
        (vec![vec![2_001], vec![3_000]], 3_000),
        (vec![vec![1_100, 1_300, 2_200], vec![1_200]], 1_300),
        // An entry on an overflow level is moved down at the beginning of its bucket.
        (vec![vec![3_500], vec![1_900]], 2_000),
        (vec![vec![2_900], vec![4_500, 2_950]], 2_950),
    ] {
        assert_eq!(Rig::new(&deadlines).plan().at, Nanos(at), "{deadlines:?}");
    }
}

#[test]
fn what_was_dropped_elsewhere_does_not_wait_for_the_end_of_a_long_tick() {
    let day = Resolution::new(Duration::from_secs(24 * 60 * 60)).expect("not zero");
    // The clock starts a year after its origin. A year is a whole number of days, so it starts at the beginning of a
    // day.
    let clock = Clock::start();
    let now = clock.now();
    let alarm = Arc::new(Alarm::new(clock, false, 2, Counters::of("rig".into())));
    let shards: Vec<_> = (0..2)
        .map(|number| {
            Arc::new(Shard::new((number, 2), Hierarchy::new(day, SLOTS), clock, alarm.clone(), None))
        })
        .collect();
    let register = |shard: &Shard, seconds| {
        let deadline = now.after(Duration::from_secs(seconds));
        shard.register(now, deadline, Waker::noop().clone()).expect("not refused").expect("not due")
    };
    let dropped = register(&shards[0], 7_200);
    register(&shards[1], 3_600);
    shards[0].leave_in_batch(dropped);
    let driven = DrivenShards::new(&shards);
    let at = plan_after_turn(&driven, Nanos::ZERO, day).at;
    assert!(at <= now.after(Duration::from_secs(60)), "it is taken out {at:?}, an hour later");
}

#[test]
fn without_shards_there_is_nothing_to_do() {
    let rig = Rig::new(&[vec![1_100]]);
    let Rig { shards, driven, .. } = rig;
    drop(shards);
    let now = Nanos(1_100);
    let turned = driven.turn(now, now, resolution(), &mut Budget::of_a_turn(true), &mut Vec::new());
    assert_eq!(turned, WheelTurn::Ended);
}

#[test]
fn something_is_before_a_time_if_a_shard_expires_before_it() {
    let rig = Rig::new(&[vec![1_500], vec![1_300]]);
    assert!(!rig.driven.any_before(Nanos(1_300)));
    assert!(rig.driven.any_before(Nanos(1_301)));
}

/// Otherwise it would check the shards again and again until the first of them expires.
#[test]
fn the_driver_sleeps_though_a_shard_expires_before_the_turn_that_is_planned() {
    const HANG_GUARD: Duration = Duration::from_secs(30);
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let rig = Rig::new(&[vec![], vec![]]);
        let beginning = resolution().beginning(resolution().tick_of_clock(rig.clock.now().after(DAY)));
        for (shard, nanos) in rig.shards.iter().zip([700, 100]) {
            rig.register(shard, beginning, Nanos(beginning.0 + nanos));
        }
        let mut driver = DriverTask::new(rig.driven.clone(), rig.alarm.clone(), rig.clock, resolution());
        let poll = Pin::new(&mut driver).poll(&mut Context::from_waker(Waker::noop()));
        tell.send((rig.plan().at.0 - beginning.0, poll.is_pending())).unwrap();
    });
    assert_eq!(told.recv_timeout(HANG_GUARD), Ok((700, true)));
}

/// The driver misses a reference if a thread drops a timer in the very moment in which the last handle goes. The thread
/// still sees a handle, so it keeps its reference and wakes nobody; the driver does not see yet that the thread keeps
/// one.
#[test]
fn a_reference_that_the_driver_missed_is_found_when_it_checks_again() {
    let Rig { shards, driven, alarm, clock, .. } = Rig::new(&[vec![]]);
    // Nobody parks here, so the watchdog wakes the driver.
    alarm.begin_watch(Role::OnlyWaker).expect("a thread");
    let mut driver = tokio_test::task::spawn(DriverTask::new(driven, alarm.clone(), clock, resolution()));
    drop(ShardRef::new(&shards[0]));
    alarm.orphan();
    assert!(driver.poll().is_pending());
    drop(shards);
    let start = Instant::now();
    while !driver.is_woken() {
        assert!(start.elapsed() < HANG_GUARD);
        thread::sleep(Duration::from_millis(1));
    }
    assert!(driver.poll().is_ready());
}

/// One shard in which much is due must not hold up the other shards for long, nor the rest of the runtime.
#[test]
fn a_turn_does_so_much_at_a_time_and_the_next_begins_with_another_shard() {
    const MANY: usize = 5_000;
    let rig = Rig::new(&[vec![1_100; MANY], vec![1_100; MANY]]);
    let now = Nanos(2_000);
    let mut turns = 0;
    let mut fired_by_shard = Vec::new();
    loop {
        let before: Vec<_> = rig.shards.iter().map(|shard| shard.pending()).collect();
        let turned = rig.driven.turn(now, now, resolution(), &mut Budget::of_a_turn(true), &mut Vec::new());
        turns += 1;
        let fired = before.iter().zip(&rig.shards).map(|(before, shard)| before - shard.pending());
        fired_by_shard.push(fired.collect::<Vec<_>>());
        if turned != WheelTurn::More {
            break;
        }
    }
    assert!(turns >= 3, "{turns} turns for {} timers", 2 * MANY);
    assert!(fired_by_shard[0][0] > 0 && fired_by_shard[0][1] == 0, "{fired_by_shard:?}");
    assert!(fired_by_shard[1][1] > 0, "the second turn begins with the other: {fired_by_shard:?}");
    assert!(fired_by_shard.iter().all(|fired| fired.iter().sum::<usize>() <= 16 * 256), "{fired_by_shard:?}");
    assert_eq!(rig.fired.lock().unwrap().len(), 2 * MANY);
}

//! A turn of all shards: when it is, what it does, and what it leaves for the next one.

use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use tokio::runtime::RuntimeFlavor;

use super::{CLOCK, Counting, alarm, insert};
use crate::engine::park_timer::ParkTimer;
use crate::engine::shard::Shard;
use crate::engine::turn::{AllShards, Budget, Driver, Plan, Turner};
use crate::engine::watchdog::Watched;
use crate::platform::clock::Clock;
use crate::telemetry::stats::Stats;
use crate::wheel::{Hierarchy, Nanos, Resolution};

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
    turner: Turner,
    fired: Fired,
}

/// Shards, and the turner that turns them.
fn shards(clock: Clock, count: usize, resolution: Resolution, slots: usize) -> (Vec<Arc<Shard>>, Turner) {
    let alarm = alarm(clock.clone(), resolution);
    let shard = |number| {
        let hierarchy = Hierarchy::new(resolution, slots);
        Arc::new(Shard::new((number, count), hierarchy, clock.clone(), alarm.clone(), None))
    };
    let shards: Vec<_> = (0..count).map(shard).collect();
    let turner = Turner::new(&shards, alarm, clock);
    (shards, turner)
}

impl Rig {
    /// One shard for each list of deadlines. All deadlines lie after tick 0.
    fn new(deadlines: &[Vec<u64>]) -> Self {
        let (shards, turner) = shards(CLOCK, deadlines.len(), resolution(), SLOTS);
        let rig = Self { shards, turner, fired: Fired::default() };
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
        insert(shard, now, deadline, waker);
    }

    /// Turns all shards, and returns the deadlines of the timers that fired.
    fn turn(&self, now: Nanos) -> Vec<Nanos> {
        let plan = plan_after_turn(&self.turner, now);
        assert_eq!(plan.first, self.shards.iter().map(|shard| shard.next_turn()).min().unwrap_or(Nanos::MAX));
        std::mem::take(&mut self.fired.lock().unwrap())
    }

    fn plan(&self) -> Plan {
        plan_after_turn(&self.turner, Nanos::ZERO)
    }
}

fn turn_shards(turner: &Turner, now: Nanos) -> AllShards {
    // Without a limit of time, which is the machine's.
    let mut budget = Budget::of_a_turn(&Clock::that_pauses(true));
    turner.turn_shards(now, Nanos::MAX, &mut budget, &mut Vec::new())
}

fn plan_after_turn(turner: &Turner, now: Nanos) -> Plan {
    match turn_shards(turner, now) {
        AllShards::Done(plan) => plan,
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
    let (shards, turner) = shards(CLOCK, 2, day, SLOTS);
    // Both lie in the day after this one.
    let now = CLOCK.now();
    let [dropped, _] = [(0, 7_200), (1, 3_600)].map(|(shard, seconds): (usize, u64)| {
        let deadline = day.end_of_tick(now).after(Duration::from_secs(seconds));
        insert(&shards[shard], now, deadline, Waker::noop().clone())
    });
    shards[0].discard_elsewhere(dropped);
    let at = plan_after_turn(&turner, Nanos::ZERO).at;
    assert!(at <= now.after(Duration::from_secs(60)), "it is taken out {at:?}, an hour later");
}

#[test]
fn without_shards_there_is_nothing_to_do() {
    let Rig { shards, turner, .. } = Rig::new(&[vec![1_100]]);
    drop(shards);
    assert_eq!(turn_shards(&turner, Nanos(1_100)), AllShards::Ended);
}

/// Otherwise it would check the shards again and again until the first of them expires.
#[test]
fn the_driver_sleeps_though_a_shard_expires_before_the_turn_that_is_planned() {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let rig = Rig::new(&[vec![], vec![]]);
        let beginning = resolution().beginning(resolution().tick_of_clock(CLOCK.now().after(DAY)));
        for (shard, nanos) in rig.shards.iter().zip([700, 100]) {
            rig.register(shard, beginning, Nanos(beginning.0 + nanos));
        }
        let planned = rig.plan().at.0 - beginning.0;
        let mut driver = Driver { turner: Arc::new(rig.turner) };
        let poll = Pin::new(&mut driver).poll(&mut Context::from_waker(Waker::noop()));
        tell.send((planned, poll.is_pending())).unwrap();
    });
    assert_eq!(told.recv_timeout(HANG_GUARD), Ok((700, true)));
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
        let turned = turn_shards(&rig.turner, now);
        turns += 1;
        let fired = before.iter().zip(&rig.shards).map(|(before, shard)| before - shard.pending());
        fired_by_shard.push(fired.collect::<Vec<_>>());
        if turned != AllShards::More {
            break;
        }
    }
    assert!(turns >= 3, "{turns} turns for {} timers", 2 * MANY);
    assert!(fired_by_shard[0][0] > 0 && fired_by_shard[0][1] == 0, "{fired_by_shard:?}");
    assert!(fired_by_shard[1][1] > 0, "the second turn begins with the other: {fired_by_shard:?}");
    assert!(fired_by_shard.iter().all(|fired| fired.iter().sum::<usize>() <= 16 * 256), "{fired_by_shard:?}");
    assert_eq!(rig.fired.lock().unwrap().len(), 2 * MANY);
}

#[test]
fn a_turn_takes_no_further_batch_after_a_millisecond_unless_the_clock_can_be_paused() {
    for (is_pausable, goes_on) in [(false, false), (true, true)] {
        let mut budget = Budget::of_a_turn(&Clock::that_pauses(is_pausable));
        // The time counts from the end of the first batch.
        assert!(budget.take_batch() && budget.take_batch());
        thread::sleep(2 * MILLI);
        assert_eq!(budget.take_batch(), goes_on);
    }
}

const MILLI: Duration = Duration::from_millis(1);

/// A shard, and the turner that turns it.
fn one_shard(clock: Clock) -> (Arc<Shard>, Turner) {
    let (mut shards, turner) = shards(clock, 1, Resolution::new(MILLI).expect("not zero"), 64);
    (shards.remove(0), turner)
}

/// As of two ticks before `now`, when none of these deadlines had come.
fn register(shard: &Shard, now: Nanos, deadlines: impl Iterator<Item = Nanos>) {
    for deadline in deadlines {
        insert(shard, now.before(MILLI * 2), deadline, Waker::noop().clone());
    }
}

/// The time for which the alarm is set after a turn which has handed out `fired` timers, and which leaves one that is due
/// shortly before the end of a pair of ticks; with this deadline and that end.
fn alarm_after_a_turn(fired: usize) -> (Nanos, Nanos, Nanos) {
    loop {
        let (shard, turner) = one_shard(CLOCK);
        let alarm = &turner.alarm;
        let now = CLOCK.now();
        let end = Nanos(now.after(MILLI).0.next_multiple_of(2_000_000));
        let deadline = end.before(MILLI / 10);
        register(&shard, now, std::iter::repeat_n(now.before(MILLI), fired).chain([deadline]));
        // On a thread that turns no other wheel.
        thread::scope(|scope| _ = scope.spawn(|| turner.turn()));
        // Otherwise the test was held up.
        if CLOCK.now() < deadline && end.before(MILLI * 2) <= now {
            return (alarm.turn_due().expect("a timer is left"), deadline, end);
        }
    }
}

#[test]
fn after_a_turn_that_has_handed_out_many_the_next_is_at_the_end_of_a_second_tick() {
    let (alarm, deadline, end) = alarm_after_a_turn(32);
    assert_eq!((alarm, alarm > deadline), (end, true));
    let (alarm, deadline, _) = alarm_after_a_turn(31);
    assert_eq!(alarm, deadline);
}

#[test]
fn a_thread_that_turns_many_wheels_sets_their_next_turns_to_the_ends_of_ticks() {
    let ticks = Resolution::new(MILLI).expect("not zero");
    let is_at_an_end = |_| {
        let (shard, turner) = one_shard(CLOCK);
        let now = CLOCK.now();
        let deadline = ticks.end_of_tick(now.after(MILLI * 40)).after(MILLI / 3);
        register(&shard, now, [deadline].into_iter());
        turner.turn();
        turner.alarm.turn_due() == Some(ticks.end_of_tick(deadline))
    };
    // Four in a millisecond are many, so a test that is held up takes more.
    let are_at_ends: Vec<_> = (0..64).map(is_at_an_end).collect();
    assert!(!are_at_ends[0] && are_at_ends.contains(&true), "{are_at_ends:?}");
}

/// The next turn would be taken for a late one, and counted as a stall.
#[test]
fn a_turn_that_leaves_a_rest_says_since_when_that_is_due_also_where_the_clock_can_be_paused() {
    let (shard, turner) = one_shard(Clock::that_pauses(true));
    let now = CLOCK.now();
    register(&shard, now, std::iter::repeat_n(now, 5_000));
    turner.turn();
    let due = turner.alarm.begin_turn().expect("it fires 4,096 at most");
    assert!(due >= now, "{due:?}");
}

#[test]
fn a_backlog_that_takes_several_turns_is_one_stall() {
    let (shard, turner) = one_shard(CLOCK);
    let alarm = &turner.alarm;
    let now = CLOCK.now();
    register(&shard, now, std::iter::repeat_n(now, 10_000));
    alarm.set_for_rest(now.before(Duration::from_millis(50)));
    for _ in 0..2 {
        turner.turn();
        assert!(alarm.is_awake() && shard.pending() > 0, "it fires 4,096 at most");
    }
    let mut stats = Stats::default();
    alarm.counters.copy_to(&mut stats);
    assert_eq!(stats.stalls, 1);
}

/// Elsewhere the worker that turned might hold the driver's task, and block.
#[test]
fn the_park_has_the_rest_of_a_turn_handed_out_on_a_multi_thread_runtime_and_otherwise_the_drivers_task() {
    let runtimes = [
        (tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build(), CLOCK),
        (tokio::runtime::Builder::new_current_thread().enable_all().build(), CLOCK),
        (tokio::runtime::Builder::new_current_thread().enable_all().build(), Clock::that_pauses(true)),
    ];
    for (runtime, clock) in runtimes {
        let runtime = runtime.unwrap();
        let _within = runtime.enter();
        let (_shard, turner) = one_shard(clock.clone());
        let alarm = &turner.alarm;
        let timer = ParkTimer::of_current_runtime(&clock, MILLI, &alarm.counters, Waker::noop().clone());
        alarm.begin(timer, 1);
        alarm.set_for_rest(clock.now());
        let by_park = runtime.handle().runtime_flavor() == RuntimeFlavor::MultiThread;
        // Until the task has turned.
        assert_eq!(alarm.is_awake(), !by_park, "{runtime:?} {clock:?}");
    }
}

/// tokio's timers panic after the end of their runtime.
#[test]
fn a_turn_that_panics_ends_the_wheel_and_wakes_its_timers() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (shard, turner) = one_shard(CLOCK);
    let waker = Arc::new(Counting::default());
    {
        let _within = runtime.enter();
        let counters = &turner.alarm.counters;
        let timer = ParkTimer::of_current_runtime(&CLOCK, MILLI, counters, Waker::noop().clone());
        turner.alarm.begin(timer, 1);
    }
    drop(runtime);
    insert(&shard, CLOCK.now(), Nanos::MAX.before(MILLI), waker.clone().into());
    turner.turn();
    assert_eq!((waker.count(), shard.has_ended()), (1, true));
}

/// It counts what does not depend on the machine. A thread that is no worker of the runtime asks for its process too.
#[cfg(all(feature = "timerfd", target_os = "linux"))]
#[test]
fn a_lone_timer_that_a_worker_arms_and_that_fires_costs_one_system_call_of_the_wheel() {
    use std::task::Poll;

    const SLEEPS: usize = 50;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (shard, turner) = one_shard(CLOCK);
    let turner = Arc::new(turner);
    let driver = {
        let _within = runtime.enter();
        turner.begin(2)
    };
    runtime.spawn(driver);
    // The wheel lasts as long as a shard of it.
    let of_sleeps = shard.clone();
    let sleep = async move |duration: Duration| {
        let now = CLOCK.now();
        let deadline = now.after(duration);
        let mut is_armed = false;
        std::future::poll_fn(|cx| {
            if !is_armed && of_sleeps.arm(now, deadline, cx.waker()).expect("not refused").is_some() {
                is_armed = true;
                return Poll::Pending;
            }
            if of_sleeps.has_reached(deadline) || !is_armed { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    };
    let before = turner.alarm.calls().expect("a timerfd");
    let sleeps = async move {
        for _ in 0..SLEEPS {
            sleep(2 * MILLI).await;
        }
    };
    runtime.block_on(runtime.spawn(sleeps)).unwrap();
    let calls = turner.alarm.calls().expect("a timerfd") - before;
    assert!((SLEEPS / 2..=SLEEPS).contains(&calls), "{calls} for {SLEEPS}");
    drop(shard);
}

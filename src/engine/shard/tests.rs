//! A shard against a plain list of timers. The test plays the turner.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::thread;
use std::time::Duration;

use proptest::prelude::*;

use super::{Left, Shard, YOUNG, shard_of_this_thread};
use crate::engine::tests::{CLOCK, Counting, insert, shard};
use crate::platform::wakers::WakerId;
use crate::telemetry::stats::Stats;
use crate::wheel::{Key, Nanos, Progress};

/// In nanoseconds.
const TICK: u64 = 1_000;
/// A bucket of the third level is some tens of ticks wide.
const SLOTS: usize = 4;
const TASKS: usize = 3;

#[derive(Clone, Copy, Debug)]
enum Op {
    Arm { task: usize, after: u64 },
    ArmTolerant { task: usize, after: u64, tolerance: u64 },
    Move { which: usize, after: u64 },
    MoveTolerant { which: usize, after: u64, tolerance: u64 },
    GiveTo { which: usize, task: usize },
    Drop { which: usize },
    DropElsewhere { which: usize },
    Pass { nanos: u64, batch: usize },
}

fn op() -> impl Strategy<Value = Op> {
    let delay = || prop_oneof![1..TICK, 1..3 * TICK, 1..300 * TICK];
    let tolerance = || TICK..200 * TICK;
    prop_oneof![
        2 => (0..TASKS, delay(), tolerance())
            .prop_map(|(task, after, tolerance)| Op::ArmTolerant { task, after, tolerance }),
        1 => (any::<usize>(), delay()).prop_map(|(which, after)| Op::Move { which, after }),
        1 => (any::<usize>(), delay(), tolerance())
            .prop_map(|(which, after, tolerance)| Op::MoveTolerant { which, after, tolerance }),
        1 => (any::<usize>(), 0..TASKS).prop_map(|(which, task)| Op::GiveTo { which, task }),
        4 => (0..TASKS, delay()).prop_map(|(task, after)| Op::Arm { task, after }),
        3 => any::<usize>().prop_map(|which| Op::Drop { which }),
        1 => any::<usize>().prop_map(|which| Op::DropElsewhere { which }),
        2 => (delay(), 1..4_usize).prop_map(|(nanos, batch)| Op::Pass { nanos, batch }),
    ]
}

#[derive(Clone, Copy)]
struct Live {
    task: usize,
    key: Key,
    deadline: Nanos,
}

fn is_pending(shard: &Shard, key: Key) -> bool {
    shard.state.lock().hierarchy.contains(key)
}

fn assert_invariants(shard: &Shard) {
    let mut state = shard.state.lock();
    state.hierarchy.assert_invariants();
    let first = state.hierarchy.next_expiration().unwrap_or(Nanos::MAX);
    assert!(shard.next_expiration() <= first, "a bucket comes up before the time that is published");
}

struct Model {
    shard: Shard,
    now: Nanos,
    tasks: [(Arc<Counting>, Waker); TASKS],
    live: Vec<Live>,
    reused: usize,
}

impl Model {
    fn new() -> Self {
        let shard = shard((0, 1), Duration::from_nanos(TICK), SLOTS);
        let tasks = [(); TASKS].map(|()| {
            let counter = Arc::<Counting>::default();
            (counter.clone(), counter.into())
        });
        Self { shard, now: Nanos::ZERO, tasks, live: Vec::new(), reused: 0 }
    }

    fn id(&self, task: usize) -> WakerId {
        WakerId::of(&self.tasks[task].1)
    }

    /// Does what the first poll of a sleep does.
    fn arm(&mut self, task: usize, after: u64) -> Result<(), TestCaseError> {
        let deadline = Nanos(self.now.0 + after);
        let waker = &self.tasks[task].1;
        let reused = self.shard.reuse_own(self.now, deadline, WakerId::of(waker));
        self.reused += usize::from(reused.is_some());
        let key = reused.unwrap_or_else(|| {
            let armed = self.shard.arm(self.now, deadline, waker);
            armed.expect("no end").expect("not due").0
        });
        self.lives(Live { task, key, deadline })
    }

    fn arm_tolerant(&mut self, task: usize, after: u64, tolerance: u64) -> Result<(), TestCaseError> {
        let deadline = self.rounded(after, tolerance);
        let key = insert(&self.shard, self.now, deadline, self.tasks[task].1.clone());
        self.lives(Live { task, key, deadline })
    }

    fn lives(&mut self, timer: Live) -> Result<(), TestCaseError> {
        prop_assert!(self.live.iter().all(|live| live.key != timer.key), "two have one entry");
        self.live.push(timer);
        Ok(())
    }

    fn rounded(&self, after: u64, tolerance: u64) -> Nanos {
        let tolerance = Duration::from_nanos(tolerance);
        self.shard.resolution.round_up_within(Nanos(self.now.0 + after), tolerance)
    }

    fn some_live(&mut self, which: usize) -> &mut Live {
        let len = self.live.len();
        &mut self.live[which % len]
    }

    /// Moves a timer to a deadline ahead.
    fn move_to(&mut self, which: usize, to: Nanos) -> Result<(), TestCaseError> {
        let Live { key, deadline, .. } = *self.some_live(which);
        prop_assert!(self.shard.reschedule(key, deadline, to).is_ok());
        self.some_live(which).deadline = to;
        Ok(())
    }

    fn pass(&mut self, nanos: u64, batch: usize) -> Result<(), TestCaseError> {
        self.now = Nanos(self.now.0 + nanos);
        let before = self.wakes();
        let mut expired = Vec::new();
        while self.shard.turn(self.now, Nanos::MAX, batch, &mut expired) == Progress::More {}
        expired.into_iter().for_each(Waker::wake);
        let mut fired = [0; TASKS];
        for live in &self.live {
            let is_pending = is_pending(&self.shard, live.key);
            prop_assert!(is_pending || live.deadline <= self.now, "early");
            prop_assert!(!is_pending || live.deadline.0 + TICK > self.now.0, "late by a tick");
            fired[live.task] += usize::from(!is_pending);
        }
        self.live.retain(|live| is_pending(&self.shard, live.key));
        for (task, (before, after)) in before.into_iter().zip(self.wakes()).enumerate() {
            prop_assert_eq!(after - before, fired[task], "task {}", task);
        }
        Ok(())
    }

    fn wakes(&self) -> [usize; TASKS] {
        self.tasks.each_ref().map(|(counter, _)| counter.count())
    }

    fn apply(&mut self, op: Op) -> Result<(), TestCaseError> {
        match op {
            Op::Arm { task, after } => self.arm(task, after)?,
            Op::ArmTolerant { task, after, tolerance } => self.arm_tolerant(task, after, tolerance)?,
            Op::Pass { nanos, batch } => self.pass(nanos, batch)?,
            _ if self.live.is_empty() => {}
            Op::Move { which, after } => self.move_to(which, Nanos(self.now.0 + after))?,
            Op::MoveTolerant { which, after, tolerance } => {
                self.move_to(which, self.rounded(after, tolerance))?;
            }
            Op::GiveTo { which, task } => {
                let (key, waker) = (self.some_live(which).key, self.tasks[task].1.clone());
                prop_assert!(self.shard.set_waker(key, waker).is_ok());
                self.some_live(which).task = task;
            }
            Op::Drop { which } => {
                let Live { task, key, deadline } = self.live.swap_remove(which % self.live.len());
                self.shard.discard(key, deadline, Some(self.id(task)));
            }
            Op::DropElsewhere { which } => {
                let Live { key, .. } = self.live.swap_remove(which % self.live.len());
                self.shard.discard_elsewhere(key);
            }
        }
        assert_invariants(&self.shard);
        let mut stats = Stats::default();
        self.shard.add_to(&mut stats);
        prop_assert_eq!((stats.pending, self.shard.pending()), (self.live.len(), self.live.len()));
        prop_assert_eq!(stats.armed, stats.fired + stats.cancelled + stats.pending as u64);
        let earliest = self.live.iter().map(|live| live.deadline.0).min();
        let is_told = earliest.is_none_or(|earliest| self.shard.next_turn().0 < earliest + TICK);
        prop_assert!(is_told, "the turner does not know of it");
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_entry_it_reuses_each_timer_fires_once_in_its_tick_or_is_dropped(
        ops in prop::collection::vec(op(), 1..60),
    ) {
        let mut model = Model::new();
        for op in ops {
            model.apply(op)?;
        }
        model.pass(1_000 * TICK, 8)?;
        prop_assert!(model.live.is_empty());
        let Model { shard, tasks, .. } = model;
        drop(shard);
        for (counter, waker) in tasks {
            drop(waker);
            prop_assert_eq!(Arc::strong_count(&counter), 1, "a waker is kept");
        }
    }
}

#[test]
fn the_next_timer_has_the_entry_and_the_waker_of_the_last_or_its_own() {
    let mut model = Model::new();
    let mut first = None;
    for (task, reused) in [(0, 0), (0, 1), (1, 1), (1, 2), (0, 2)] {
        model.apply(Op::Arm { task, after: 10 * TICK }).unwrap();
        assert_eq!(model.live[0].key, *first.get_or_insert(model.live[0].key));
        assert_eq!(model.reused, reused);
        let in_entries = model.tasks.each_ref().map(|(counter, _)| Arc::strong_count(counter) - 2);
        assert_eq!(in_entries, [usize::from(task == 0), usize::from(task == 1), 0]);
        model.apply(Op::Drop { which: 0 }).unwrap();
    }
}

/// One of those that were dropped elsewhere is left, so that the turner need not be asked to come anew. All of them are left
/// if one is old.
#[test]
fn a_timer_without_one_of_its_own_shard_takes_the_place_of_one_that_was_dropped_elsewhere() {
    for is_old in [false, true] {
        let mut model = Model::new();
        for _ in 0..3 {
            model.apply(Op::Arm { task: 0, after: 10 * TICK }).unwrap();
        }
        let keys: Vec<Key> = model.live.iter().map(|live| live.key).collect();
        // Just enough to make the first of them old, or just not enough.
        let insertions = keys[0].insertion() + YOUNG.cast_unsigned() + u32::from(is_old);
        model.shard.published.insertions.store(insertions, Ordering::Relaxed);
        for _ in 0..3 {
            model.apply(Op::DropElsewhere { which: 0 }).unwrap();
        }
        for _ in 0..3 {
            model.apply(Op::Arm { task: 1, after: 20 * TICK }).unwrap();
        }
        let reused = model.live.iter().filter(|live| keys.contains(&live.key)).count();
        let in_entries = model.tasks.each_ref().map(|(counter, _)| Arc::strong_count(counter) - 2);
        let expected = if is_old { (0, [3, 3, 0]) } else { (2, [1, 3, 0]) };
        assert_eq!((reused, in_entries), expected, "one is old: {is_old}");
    }
}

#[test]
fn what_its_task_finds_before_the_turner_comes_to_it_is_counted_by_how_it_ended() {
    // With a number that no thread's shard has.
    let shard = shard((2, 2), Duration::from_secs(1), 64);
    let now = CLOCK.now();
    let second = Duration::from_secs(1);
    let (due, far) = (now.after(10 * second), now.after(60 * second));
    let [_, late] = [(); 2].map(|()| insert(&shard, now, due, Waker::noop().clone()));
    let [_, pending] = [(); 2].map(|()| insert(&shard, now, far, Waker::noop().clone()));
    let counts = || {
        let mut stats = Stats::default();
        shard.add_to(&mut stats);
        (stats.fired, stats.cancelled, stats.pending)
    };
    // It has a waker of another shard already.
    let mut wakers = vec![Waker::noop().clone()];
    assert_eq!(shard.turn(due, Nanos::MAX, 1, &mut wakers), Progress::More);
    assert!(shard.finish(late, due).is_ok());
    assert_eq!(counts(), (2, 0, 2));
    assert_eq!(shard.end(1, &mut wakers), (2, Progress::More));
    assert!(shard.finish(pending, far).is_err());
    assert_eq!(counts(), (2, 2, 0));
}

const fn at(micros: u64) -> Nanos {
    Nanos(micros * 1_000)
}

/// This holds also for a deadline in the clock's own tick, in which another timer is pending.
#[test]
fn a_timer_that_is_moved_to_a_deadline_that_the_turner_has_passed_is_taken_out_and_wakes_its_task() {
    for (from, to) in [(10_800, 10_100), (10_800, 10_200), (10_800, 9_000), (70_000, 10_200), (9_000_000, 0)]
    {
        let shard = shard((0, 1), Duration::from_millis(1), 64);
        let arm = |micros| insert(&shard, Nanos::ZERO, at(micros), Waker::noop().clone());
        let [_, key, _] = [5_000, from, 10_900].map(arm);
        assert_eq!(shard.turn(at(10_200), Nanos::MAX, 100, &mut Vec::new()), Progress::Done);
        assert_eq!(shard.next_turn(), at(10_900));

        let moved = shard.reschedule(key, at(from), at(to));
        assert!(matches!(moved, Err(Some(_))), "from {from} to {to}: {moved:?}");
        let again = shard.reschedule(key, at(to), Nanos::ZERO);
        assert!(matches!(again, Err(None)), "from {from} to {to}: {again:?}");

        let mut stats = Stats::default();
        shard.add_to(&mut stats);
        assert_eq!((stats.fired, stats.cancelled, stats.pending), (1, 1, 1));
        assert_eq!(shard.turn(at(10_900), Nanos::MAX, 100, &mut Vec::new()), Progress::Done);
        assert_eq!(shard.next_turn(), Nanos::MAX);
    }
}

#[test]
fn a_timer_that_is_moved_to_just_after_what_the_turner_has_passed_is_pending() {
    for from in [10_800, 70_000, 9_000_000] {
        let shard = shard((0, 1), Duration::from_millis(1), 64);
        let key = insert(&shard, Nanos::ZERO, at(from), Waker::noop().clone());
        assert_eq!(shard.turn(at(10_200), Nanos::MAX, 100, &mut Vec::new()), Progress::Done);
        let to = Nanos(at(10_200).0 + 1);
        assert!(shard.reschedule(key, at(from), to).is_ok());
        assert_eq!((shard.pending(), shard.next_turn()), (1, to));
    }
}

/// A thread that checked for the end just before the end came may leave a key after it, while the end still hands
/// out.
#[test]
fn between_two_batches_of_the_end_nobody_reuses_an_entry() {
    const MINUTE: Duration = Duration::from_secs(60);
    for after in [MINUTE / 2, 2 * MINUTE] {
        let shard = shard((0, 1), Duration::from_millis(1), 64);
        let (now, waker) = (CLOCK.now(), Waker::from(Arc::<Counting>::default()));
        let arm = |after| insert(&shard, now, now.after(after), waker.clone());
        let [_, key, _] = [MINUTE / 6, MINUTE, 60 * MINUTE].map(arm);
        assert_eq!(shard.end(3, &mut Vec::new()), (3, Progress::More));
        let id = WakerId::of(&waker);
        assert_ne!(shard.leftovers.leave_as_spare(key, id, || now), Left::No);
        assert_eq!(shard.reuse_own(now, now.after(after), id), None);
        assert!(shard.arm(now, now.after(after), &waker).is_err());
    }
}

#[test]
fn threads_of_current_thread_runtimes_are_spread_and_workers_have_their_own_shards() {
    const MANY: usize = 1 << 20;
    let in_block_on = || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let inside = || runtime.block_on(async { shard_of_this_thread(MANY) });
        let number = inside();
        assert_eq!((inside(), shard_of_this_thread(MANY)), (number, number), "it is the thread's for good");
        number
    };
    let numbers: HashSet<_> = (0..8).map(|_| thread::spawn(in_block_on).join().unwrap()).collect();
    assert_eq!(numbers.len(), 8, "{numbers:?}");

    let workers = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    for _ in 0..100 {
        let of_worker = workers.spawn(async { (tokio::runtime::worker_index(), shard_of_this_thread(MANY)) });
        let (index, number) = workers.block_on(of_worker).unwrap();
        assert_eq!(index, Some(number));
    }
}

//! A shard against a plain list of timers. The test plays the turner.

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use proptest::prelude::*;

use super::{Shard, ShardTurn, test_shards};
use crate::platform::clock::Clock;
use crate::platform::waker_id::{KnownWaker, WakerId};
use crate::telemetry::stats::Stats;
use crate::wheel::{Key, Nanos};

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

struct Model {
    shard: Shard,
    now: Nanos,
    tasks: [(Arc<KnownWaker>, Waker); TASKS],
    live: Vec<Live>,
    taken_over: usize,
}

impl Model {
    fn new() -> Self {
        let shard = test_shards::shard((0, 1), Duration::from_nanos(TICK), SLOTS);
        let tasks = [(); TASKS].map(|()| {
            let counter = Arc::<KnownWaker>::default();
            (counter.clone(), counter.into())
        });
        Self { shard, now: Nanos::ZERO, tasks, live: Vec::new(), taken_over: 0 }
    }

    fn id(&self, task: usize) -> WakerId {
        WakerId::of(&self.tasks[task].1).expect("it is known")
    }

    /// Does what the first poll of a sleep does.
    fn arm(&mut self, task: usize, after: u64) -> Result<(), TestCaseError> {
        let deadline = Nanos(self.now.0 + after);
        let waker = &self.tasks[task].1;
        let taken_over = self.shard.take_over(self.now, deadline, waker, self.id(task));
        self.taken_over += usize::from(taken_over.is_some());
        let key = match taken_over {
            Some(key) => key,
            None => {
                let armed = self.shard.register_or_take_over(self.now, deadline, waker.clone());
                armed.expect("no end").expect("not due")
            }
        };
        self.lives(Live { task, key, deadline })
    }

    fn arm_tolerant(&mut self, task: usize, after: u64, tolerance: u64) -> Result<(), TestCaseError> {
        let deadline = self.rounded(after, tolerance);
        let armed = self.shard.register(self.now, deadline, self.tasks[task].1.clone());
        self.lives(Live { task, key: armed.expect("no end").expect("not due"), deadline })
    }

    fn lives(&mut self, timer: Live) -> Result<(), TestCaseError> {
        prop_assert!(self.live.iter().all(|live| live.key != timer.key), "two have one entry");
        self.live.push(timer);
        Ok(())
    }

    fn rounded(&self, after: u64, tolerance: u64) -> Nanos {
        let tolerance = Duration::from_nanos(tolerance);
        self.shard.resolution().round_up_within(Nanos(self.now.0 + after), tolerance)
    }

    fn some_live(&mut self, which: usize) -> &mut Live {
        let len = self.live.len();
        &mut self.live[which % len]
    }

    /// Moves a timer to a deadline ahead.
    fn move_to(&mut self, which: usize, to: Nanos, is_tolerant: bool) -> Result<(), TestCaseError> {
        let Live { key, deadline, .. } = *self.some_live(which);
        let is_pending = if is_tolerant {
            self.shard.reschedule_rounded(key, to).is_ok()
        } else if to >= deadline {
            self.shard.postpone(key, to)
        } else {
            self.shard.bring_forward(key, deadline, to, Clock::now).is_ok()
        };
        prop_assert!(is_pending);
        self.some_live(which).deadline = to;
        Ok(())
    }

    fn pass(&mut self, nanos: u64, batch: usize) -> Result<(), TestCaseError> {
        self.now = Nanos(self.now.0 + nanos);
        let before = self.wakes();
        let mut expired = Vec::new();
        while self.shard.turn(self.now, self.now, batch, &mut expired) == ShardTurn::More {}
        expired.into_iter().for_each(Waker::wake);
        let mut fired = [0; TASKS];
        let state = self.shard.state.lock();
        for live in &self.live {
            let is_pending = state.hierarchy.contains(live.key);
            prop_assert!(is_pending || live.deadline <= self.now, "early");
            prop_assert!(!is_pending || live.deadline.0 + TICK > self.now.0, "late by a tick");
            fired[live.task] += usize::from(!is_pending);
        }
        self.live.retain(|live| state.hierarchy.contains(live.key));
        drop(state);
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
            Op::Move { which, after } => self.move_to(which, Nanos(self.now.0 + after), false)?,
            Op::MoveTolerant { which, after, tolerance } => {
                self.move_to(which, self.rounded(after, tolerance), true)?;
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
                self.shard.leave_in_batch(key);
            }
        }
        self.shard.state.lock().hierarchy.assert_invariants();
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
    fn whoever_takes_over_from_whom_each_timer_fires_once_in_its_tick_or_is_dropped(
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
    for (task, taken_over) in [(0, 0), (0, 1), (1, 1), (1, 2), (0, 2)] {
        model.apply(Op::Arm { task, after: 10 * TICK }).unwrap();
        assert_eq!(model.live[0].key, *first.get_or_insert(model.live[0].key));
        assert_eq!(model.taken_over, taken_over);
        let in_entries = model.tasks.each_ref().map(|(counter, _)| Arc::strong_count(counter) - 2);
        assert_eq!(in_entries, [usize::from(task == 0), usize::from(task == 1), 0]);
        model.apply(Op::Drop { which: 0 }).unwrap();
    }
}

/// One of those that were dropped elsewhere is left, so that the turner need not be asked to come anew. Among very many
/// timers all of them are left.
#[test]
fn a_timer_without_one_of_its_own_shard_takes_the_place_of_one_that_was_dropped_elsewhere() {
    for is_crowd in [false, true] {
        let mut model = Model::new();
        for _ in 0..3 {
            model.apply(Op::Arm { task: 0, after: 10 * TICK }).unwrap();
        }
        let keys: Vec<Key> = model.live.iter().map(|live| live.key).collect();
        for _ in 0..3 {
            model.apply(Op::DropElsewhere { which: 0 }).unwrap();
        }
        model.shard.published.set_old_before(u32::from(is_crowd));
        for _ in 0..3 {
            model.apply(Op::Arm { task: 1, after: 20 * TICK }).unwrap();
        }
        let taken_over = model.live.iter().filter(|live| keys.contains(&live.key)).count();
        let in_entries = model.tasks.each_ref().map(|(counter, _)| Arc::strong_count(counter) - 2);
        let expected = if is_crowd { (0, [3, 3, 0]) } else { (2, [1, 3, 0]) };
        assert_eq!((taken_over, in_entries), expected, "is crowd: {is_crowd}");
    }
}

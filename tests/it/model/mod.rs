//! A wheel and an ordered map side by side.

mod advancing;
mod checks;
pub(crate) mod decode;
pub(crate) mod ops;

use std::collections::BTreeSet;
use std::time::Duration;

use timingwheel::wheel::{Hierarchy, Key, Nanos, Resolution};

use ops::{Move, Op, Shape, Span};

/// A batch that no test fills.
pub(crate) const ALL: usize = 100_000;

/// Two to the power of this is how much wider a slot is than one of the level below: its square is at most the number of
/// slots, and it is at most an eighth of them, but at least two.
pub(crate) fn growth(slots: u64) -> u32 {
    (1..16).take_while(|growth| 1 << (2 * growth) <= slots && 8 << growth <= slots).last().unwrap_or(1)
}

pub(crate) struct Made {
    key: Key,
    pub(crate) deadline: u64,
    due: u64,
}

/// A wheel and the map beside it. The wheel hands out numbers: each entry has its number among all that were made.
pub(crate) struct Model {
    shape: Shape,
    pub(crate) wheel: Hierarchy<usize>,
    pub(crate) now: u64,
    pub(crate) made: Vec<Made>,
    pending: BTreeSet<(u64, usize)>,
    /// A slot is two to the power of this as wide as one of the level below.
    growth: u32,
    /// The tick that the last entry handed out was due in.
    last_due: u64,
    deadlines_set: u64,
    levels_needed: usize,
    most_pending: usize,
    /// Operations since everything was looked at.
    unchecked: usize,
}

impl Model {
    pub(crate) fn new(shape: Shape) -> Self {
        let resolution = Resolution::new(Duration::from_nanos(shape.tick)).expect("not zero");
        Self {
            shape,
            growth: growth(shape.slots),
            wheel: Hierarchy::new(resolution, usize::try_from(shape.slots).expect("few")),
            now: 0,
            made: Vec::new(),
            pending: BTreeSet::new(),
            last_due: 0,
            deadlines_set: 0,
            levels_needed: 1,
            most_pending: 0,
            unchecked: 0,
        }
    }

    /// Does all of it, and then advances until nothing is left.
    pub(crate) fn run(shape: Shape, ops: &[Op]) {
        let mut model = Self::new(shape);
        ops.iter().for_each(|op| model.apply(op));
        model.advance_to_the_last_expiration();
    }

    pub(crate) fn clock(&self) -> u64 {
        self.wheel.clock().0
    }

    pub(crate) fn after(&self, base: u64, span: &Span) -> u64 {
        span.after(base, self.shape)
    }

    /// The entry named by `which`, if any is pending.
    fn pick(&self, which: usize) -> Option<usize> {
        let which = which.checked_rem(self.pending.len())?;
        self.pending.iter().nth(which).map(|&(_, id)| id)
    }

    pub(crate) fn apply(&mut self, op: &Op) {
        match op {
            Op::Insert(span, count, apart) => {
                let first = self.after(self.now, span);
                (0..*count).for_each(|n| self.insert(first.saturating_add(n * apart)));
            }
            Op::InsertTolerant(span, count, apart, tolerance) => {
                let (first, tolerance) = (self.after(self.now, span), self.after(0, tolerance));
                (0..*count)
                    .for_each(|n| self.insert(self.rounded(first.saturating_add(n * apart), tolerance)));
            }
            Op::Spread(count) => {
                (1..=*count).for_each(|n| self.insert(self.after(self.now, &Span::Slots(0, n, 0))));
            }
            Op::Cancel(which) => self.pick(*which).into_iter().for_each(|id| self.cancel(id)),
            Op::CancelAll => self.pending.clone().into_iter().for_each(|(_, id)| self.cancel(id)),
            Op::Move(which, changes) => {
                if let Some(id) = self.pick(*which) {
                    changes.iter().for_each(|change| self.change(id, change));
                }
            }
            Op::UseStale(which) => self.use_stale(*which),
            Op::ClockOn(span) => self.now = self.after(self.now, span),
            Op::ClockBack(span) => self.now -= self.after(0, span).min(self.now),
            Op::LookAtExpiration => _ = self.next_expiration(),
            Op::Advance(batch) => _ = self.advance(self.now, *batch),
            Op::AdvanceUntilDone(batch) => self.advance_until_done(*batch),
            Op::AdvanceToExpiration => _ = self.advance_to_expiration(),
            Op::AdvanceToJustBeforeExpiration => self.advance_to_just_before_expiration(),
        }
        self.check();
    }

    pub(crate) fn insert(&mut self, deadline: u64) {
        let (id, before, is_idle) = (self.made.len(), self.clock(), self.pending.is_empty());
        let is_due = deadline <= self.now.max(before);
        let answer = self.wheel.insert(Nanos(self.now), Nanos(deadline), id);

        let clock = self.clock();
        assert!(clock == before || clock == self.now.max(before), "{before}, {clock}, {}", self.now);
        assert!(clock == before || self.pending.first().is_none_or(|&(due, _)| self.end(due) > clock));
        if is_idle {
            assert!(self.now.saturating_sub(clock) < self.shape.tick, "idle since {clock} at {}", self.now);
        }

        match answer {
            Err(given_back) => assert_eq!((given_back, is_due), (id, true)),
            Ok(key) => {
                assert!(!is_due, "{deadline} is not after {} and {clock}", self.now);
                self.made.push(Made { key, deadline, due: 0 });
                let levels = self.set(id, deadline);
                assert!(self.wheel.levels() >= levels);
                self.most_pending = self.most_pending.max(self.pending.len());
            }
        }
        self.check_counts();
    }

    /// The deadline to which one with a tolerance is rounded.
    fn rounded(&self, deadline: u64, tolerance: u64) -> u64 {
        let tolerance = Duration::from_nanos(tolerance);
        self.wheel.resolution().round_up_within(Nanos(deadline), tolerance).0
    }

    fn cancel(&mut self, id: usize) {
        assert_eq!(self.wheel.cancel(self.made[id].key), Some(id));
        self.pending.remove(&(self.made[id].due, id));
        self.check_counts();
    }

    pub(crate) fn change(&mut self, id: usize, change: &Move) {
        let Made { key, deadline: before, .. } = self.made[id];
        let deadline = match change {
            Move::FromNow(span) => self.after(self.now, span),
            Move::Later(span) => self.after(before, span),
            Move::Earlier(part) => before - before.saturating_sub(self.clock()) / 256 * u64::from(*part),
            Move::Past(span) => self.clock().saturating_sub(self.after(0, span)),
            Move::Tolerant(span, tolerance) => {
                self.rounded(self.after(self.now, span), self.after(0, tolerance))
            }
        };
        assert!(self.wheel.reschedule(key, Nanos(deadline)));
        // The deadline that it has changes nothing, also if it has come meanwhile.
        if deadline != before {
            self.set(id, deadline);
        }
        self.check_counts();
    }

    /// Notes a deadline, and returns how many levels it needs.
    fn set(&mut self, id: usize, deadline: u64) -> usize {
        let Shape { tick, slots } = self.shape;
        self.pending.remove(&(self.made[id].due, id));
        let clock = self.clock() / tick;
        let due = (deadline.saturating_sub(1) / tick).max(clock);
        self.pending.insert((due, id));
        self.made[id] = Made { deadline, due, ..self.made[id] };
        let mut levels = 1;
        if due - clock >= slots {
            // Above level 0 a deadline at the end of a tick stands in the slot that begins there.
            let tick = if deadline.is_multiple_of(tick) { due + 1 } else { due };
            let number = |tick: u64, level: u32| tick >> (level * self.growth);
            levels =
                2 + (1..).take_while(|&level| number(tick, level) - number(clock, level) >= slots).count();
        }
        self.levels_needed = self.levels_needed.max(levels);
        self.deadlines_set += 1;
        levels
    }

    fn use_stale(&mut self, which: usize) {
        let is_pending = |id: usize| self.pending.contains(&(self.made[id].due, id));
        let count = self.made.len();
        let Some(first) = which.checked_rem(count) else { return };
        // The next that is stale, round the end.
        let mut ids = (first..count).chain(0..first);
        if let Some(id) = ids.find(|&id| !is_pending(id)) {
            let key = self.made[id].key;
            assert!(!self.wheel.contains(key));
            assert_eq!(self.wheel.get_mut(key), None);
            assert!(!self.wheel.reschedule(key, Nanos::ZERO));
            assert!(!self.wheel.reschedule(key, Nanos::MAX));
            assert_eq!(self.wheel.cancel(key), None);
        }
    }
}

//! A wheel and an ordered map side by side.

pub(crate) mod ops;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Duration;

use proptest::sample::Index;
use timingwheel::wheel::{Hierarchy, Key, Nanos, Progress, Resolution};

use ops::{Move, Op, Span};

const PAGE: usize = 1024;
/// A batch that no test fills.
const ALL: usize = 100_000;

pub(crate) struct Made {
    key: Key,
    pub(crate) deadline: u64,
    due: u64,
}

/// A wheel and the map beside it. What a wheel hands out is an entry's number among all those ever made.
pub(crate) struct Model {
    tick: u64,
    slots: u64,
    pub(crate) wheel: Hierarchy<usize>,
    pub(crate) now: u64,
    pub(crate) made: Vec<Made>,
    pending: BTreeSet<(u64, usize)>,
    /// The tick that the last entry handed out was due in.
    last_due: u64,
    deadlines_set: u64,
    levels_needed: usize,
    most_pending: usize,
}

impl Model {
    pub(crate) fn new((tick, slots): (u64, u64)) -> Self {
        let resolution = Resolution::new(Duration::from_nanos(tick)).expect("not zero");
        Self {
            tick,
            slots,
            wheel: Hierarchy::new(resolution, usize::try_from(slots).expect("few")),
            now: 0,
            made: Vec::new(),
            pending: BTreeSet::new(),
            last_due: 0,
            deadlines_set: 0,
            levels_needed: 1,
            most_pending: 0,
        }
    }

    pub(crate) fn clock(&self) -> u64 {
        self.wheel.elapsed().0
    }

    fn end(&self, tick: u64) -> u64 {
        (tick * self.tick).saturating_add(self.tick)
    }

    pub(crate) fn after(&self, base: u64, span: &Span) -> u64 {
        span.after(base, self.tick, self.slots)
    }

    fn pick(&self, which: &Index) -> Option<usize> {
        let ids: Vec<usize> = self.pending.iter().map(|&(_, id)| id).collect();
        (!ids.is_empty()).then(|| *which.get(&ids))
    }

    pub(crate) fn apply(&mut self, op: &Op) {
        match op {
            Op::Insert(span, count, apart) => {
                for n in 0..*count {
                    self.insert(self.after(self.now, span).saturating_add(n * apart));
                }
            }
            Op::Cancel(which) => self.pick(which).into_iter().for_each(|id| self.cancel(id)),
            Op::CancelAll => self.pending.clone().into_iter().for_each(|(_, id)| self.cancel(id)),
            Op::Move(which, changes) => {
                if let Some(id) = self.pick(which) {
                    changes.iter().for_each(|change| self.change(id, change));
                }
            }
            Op::UseStale(which) => self.use_stale(which),
            Op::ClockOn(span) => self.now = self.after(self.now, span),
            Op::ClockBack(span) => self.now -= self.after(0, span).min(self.now),
            Op::Advance(batch) => _ = self.advance(self.now, *batch),
            Op::AdvanceUntilDone(batch) => self.advance_until_done(*batch),
            Op::AdvanceToExpiration => _ = self.advance_to_expiration(),
            Op::AdvanceToJustBeforeExpiration => {
                if let Some(at) = self.next_expiration()
                    && at > self.clock()
                {
                    self.now = at - 1;
                    assert_eq!(self.advance(at - 1, ALL), (Progress::Done, 0));
                }
            }
        }
    }

    pub(crate) fn insert(&mut self, deadline: u64) {
        let (id, before, is_idle) = (self.made.len(), self.clock(), self.pending.is_empty());
        let is_due = deadline <= self.now.max(before);
        let answer = self.wheel.insert(Nanos(self.now), Nanos(deadline), id);

        let clock = self.clock();
        assert!(clock == before || clock == self.now.max(before), "{before}, {clock}, {}", self.now);
        assert!(!is_idle || self.now.saturating_sub(clock) < self.tick, "idle since {clock} at {}", self.now);
        assert!(clock == before || self.pending.first().is_none_or(|&(due, _)| self.end(due) > clock));

        match answer {
            Err(given_back) => assert_eq!((given_back, is_due), (id, true)),
            Ok(key) => {
                assert!(!is_due, "{deadline} is not after {} and {clock}", self.now);
                self.made.push(Made { key, deadline, due: 0 });
                let levels = self.set(id, deadline);
                assert!(self.wheel.levels() >= levels);
            }
        }
        self.check();
    }

    fn cancel(&mut self, id: usize) {
        assert_eq!(self.wheel.cancel(self.made[id].key), Some(id));
        self.pending.remove(&(self.made[id].due, id));
        self.check();
    }

    pub(crate) fn change(&mut self, id: usize, change: &Move) {
        let Made { key, deadline: before, .. } = self.made[id];
        let deadline = match change {
            Move::FromNow(span) => self.after(self.now, span),
            Move::Later(span) => self.after(before, span),
            Move::Earlier(part) => before - before.saturating_sub(self.clock()) / 256 * u64::from(*part),
            Move::Past(span) => self.clock().saturating_sub(self.after(0, span)),
        };
        assert!(self.wheel.reschedule(key, Nanos(deadline)));
        self.set(id, deadline);
        self.check();
    }

    /// Notes a deadline, and returns how many levels it needs.
    fn set(&mut self, id: usize, deadline: u64) -> usize {
        self.pending.remove(&(self.made[id].due, id));
        let mut clock = self.clock() / self.tick;
        let mut due = (deadline.saturating_sub(1) / self.tick).max(clock);
        self.pending.insert((due, id));
        self.made[id] = Made { deadline, due, ..self.made[id] };
        let mut levels = 1;
        while due - clock >= self.slots {
            (due, clock, levels) = (due / self.slots, clock / self.slots, levels + 1);
        }
        self.levels_needed = self.levels_needed.max(levels);
        self.deadlines_set += 1;
        levels
    }

    fn use_stale(&mut self, which: &Index) {
        let is_stale =
            |(id, made): (usize, &Made)| (!self.pending.contains(&(made.due, id))).then_some(made.key);
        let stale: Vec<Key> = self.made.iter().enumerate().filter_map(is_stale).collect();
        if !stale.is_empty() {
            let key = *which.get(&stale);
            assert_eq!(self.wheel.get_mut(key), None);
            assert!(!self.wheel.reschedule(key, Nanos::ZERO));
            assert!(!self.wheel.reschedule(key, Nanos::MAX));
            assert_eq!(self.wheel.cancel(key), None);
            self.check();
        }
    }

    /// Advances by one batch, and returns how many entries were handed out or moved in it.
    fn advance(&mut self, now: u64, batch: usize) -> (Progress, u64) {
        let (clock, cascaded) = (self.clock(), self.wheel.cascaded());
        let mut expired = vec![usize::MAX];
        let progress = self.wheel.advance(Nanos(now), batch, &mut expired);
        let now = now.max(clock);
        assert_eq!(expired.remove(0), usize::MAX, "what stood there is overwritten");
        let steps = expired.len() as u64 + self.wheel.cascaded() - cascaded;
        for id in expired {
            let Made { deadline, due, .. } = self.made[id];
            assert!(self.pending.remove(&(due, id)), "{id} was not pending");
            assert!(deadline <= now, "{id} is early: {deadline} at {now}");
            assert!(due >= self.last_due, "{id}, due in {due}, comes after tick {}", self.last_due);
            self.last_due = due;
        }
        match progress {
            Progress::Done => {
                assert_eq!(self.clock(), now);
                assert!(steps <= batch as u64);
                if let Some(&(due, id)) = self.pending.first() {
                    assert!(self.end(due) > now, "{id}, due in {due}, is left at {now}");
                }
            }
            Progress::More => {
                // Fewer where emptied buckets were dropped.
                assert!(steps <= batch as u64);
                assert!((clock..=now).contains(&self.clock()));
            }
        }
        self.check();
        (progress, steps)
    }

    fn advance_until_done(&mut self, batch: usize) {
        let mut steps_left = self.most_steps();
        let mut emptied_left = self.most_emptied();
        let mut answer = self.advance(self.now, batch);
        while let (Progress::More, steps) = answer {
            steps_left = steps_left.checked_sub(steps).expect("it comes to an end");
            emptied_left = emptied_left.checked_sub(batch as u64 - steps).expect("it comes to an end");
            answer = self.advance(self.now, batch);
        }
    }

    /// For each entry a step for each level, and one to where it was moved.
    fn most_steps(&self) -> u64 {
        (self.pending.len() * (self.levels_needed + 1)) as u64
    }

    /// Each bucket may stand emptied in the queue.
    fn most_emptied(&self) -> u64 {
        self.wheel.levels() as u64 * self.slots
    }

    fn next_expiration(&mut self) -> Option<u64> {
        let at = self.wheel.next_expiration().map(|at| at.0);
        assert_eq!(at.is_none(), self.pending.is_empty());
        if let (Some(at), Some(&(due, id))) = (at, self.pending.first()) {
            assert!(at.max(self.clock()) <= self.end(due), "{id}, due in {due}, is late at {at}");
        }
        at
    }

    /// Advances as an alarm would make it, and returns the time.
    pub(crate) fn advance_to_expiration(&mut self) -> ControlFlow<(), u64> {
        let Some(at) = self.next_expiration() else { return ControlFlow::Break(()) };
        self.now = self.now.max(at);
        let (progress, steps) = self.advance(at, ALL);
        assert_eq!(progress, Progress::Done);
        assert!(steps > 0, "nothing to do at {at}");
        ControlFlow::Continue(at)
    }

    pub(crate) fn advance_to_the_last_expiration(&mut self) {
        for _ in 0..=self.most_steps() {
            if self.advance_to_expiration().is_break() {
                return;
            }
        }
        panic!("it does not come to an end");
    }

    fn check(&mut self) {
        self.wheel.assert_invariants();
        assert_eq!(self.wheel.len(), self.pending.len());
        assert_eq!(self.wheel.is_empty(), self.pending.is_empty());
        self.most_pending = self.most_pending.max(self.pending.len());
        assert!(self.wheel.capacity() >= self.pending.len());
        assert!(
            self.wheel.capacity() <= PAGE * (self.pending.len() + 1).min(self.most_pending.div_ceil(PAGE))
        );
        assert!(self.wheel.levels() <= self.levels_needed);
        assert!(self.wheel.cascaded() <= self.deadlines_set * self.levels_needed as u64);
        let through = self.wheel.handed_out_through().0;
        assert!((self.clock() / self.tick * self.tick..=self.clock()).contains(&through));
        assert!(through == self.clock() || !self.pending.is_empty());
        for &(due, id) in &self.pending {
            let Made { key, deadline, .. } = self.made[id];
            assert_eq!(self.wheel.get_mut(key).copied(), Some(id));
            let was_over = deadline <= due * self.tick;
            assert!(
                deadline > through || was_over,
                "{id} at {deadline} is pending, not so through {through}"
            );
        }
    }
}

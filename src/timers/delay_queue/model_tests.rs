//! The pure part beside an ordered map, by random operations.
//!
//! - What is popped, and what `peek` names, is the first by deadline and then by insertion, and it is popped if and
//!   only if its deadline has come.
//! - Keys find their items, with the deadlines that were set last, and stale ones find nothing.
//! - Whoever waits until the time that [`Next::Until`] tells misses no item by a tick.
//! - Stale places are bounded, and memory is what was asked for.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::deadlines::{Deadlines, Next};
use super::key::Key;
use crate::wheel::{Nanos, Resolution};

const TICK: u64 = 10;
/// A year, as clocks begin.
const START: u64 = 365 * 24 * 60 * 60 * 1_000_000_000;

#[derive(Clone, Debug)]
enum Op {
    /// The time goes on, or back, by so much.
    Clock(i64),
    /// Until the time that was told, if it lies ahead.
    Wait,
    /// At so much from now.
    Insert(Offset),
    Remove(prop::sample::Index),
    Reset(prop::sample::Index, Offset),
    /// So many, if they are due.
    Pop(usize),
    Peek,
    Clear,
    Compact,
    Shrink,
    Reserve(usize),
}

#[derive(Clone, Copy, Debug)]
enum Offset {
    Near(i64),
    Far(u64),
    Never,
    /// The deadline of another item.
    SameAs(usize),
}

fn offsets() -> impl Strategy<Value = Offset> {
    prop_oneof![
        6 => (-30..100_i64).prop_map(Offset::Near),
        2 => (0..100_000_u64).prop_map(Offset::Far),
        1 => any::<u64>().prop_map(|far| Offset::Far(far / 4)),
        1 => Just(Offset::Never),
        3 => (0..100_usize).prop_map(Offset::SameAs),
    ]
}

fn ops() -> impl Strategy<Value = Op> {
    let clock = prop_oneof![4 => 0..30_i64, 1 => -30..0_i64, 1 => 0..200_000_i64];
    prop_oneof![
        6 => clock.prop_map(Op::Clock),
        4 => Just(Op::Wait),
        14 => offsets().prop_map(Op::Insert),
        5 => any::<prop::sample::Index>().prop_map(Op::Remove),
        10 => (any::<prop::sample::Index>(), offsets()).prop_map(|(at, offset)| Op::Reset(at, offset)),
        8 => (0..6_usize).prop_map(Op::Pop),
        3 => Just(Op::Peek),
        1 => Just(Op::Clear),
        2 => Just(Op::Compact),
        2 => Just(Op::Shrink),
        1 => (0..100_usize).prop_map(Op::Reserve),
    ]
}

struct Model {
    deadlines: Deadlines<u64>,
    now: u64,
    /// By deadline and number of insertion.
    expected: BTreeMap<(u64, u64), Key>,
    /// Every key there was, with the deadline, if the item is still there, by number.
    made: Vec<(Key, Option<u64>)>,
    batch: usize,
}

impl Model {
    fn new(batch: usize) -> Self {
        let resolution = Resolution::new(Duration::from_nanos(TICK)).unwrap();
        let mut deadlines = Deadlines::new(resolution);
        deadlines.set_now(Nanos(START));
        Self { deadlines, now: START, expected: BTreeMap::new(), made: Vec::new(), batch }
    }

    fn deadline(&self, offset: Offset) -> u64 {
        match offset {
            Offset::Near(nanos) => self.now.saturating_add_signed(nanos),
            Offset::Far(nanos) => self.now.saturating_add(nanos),
            Offset::Never => u64::MAX,
            Offset::SameAs(number) => self.made.get(number).and_then(|made| made.1).unwrap_or(self.now),
        }
    }

    /// What there is to do, moving as many timers at a time as may be.
    fn next_step(&mut self) -> Next {
        // Not for ever: each of these moves an entry, down or to the due.
        for _ in 0..100_000 {
            match self.deadlines.next_step(self.batch) {
                Next::More => {}
                next_step => return next_step,
            }
        }
        panic!("there is always more");
    }

    fn pop(&mut self) -> Result<bool, TestCaseError> {
        let first = self.expected.first_key_value().map(|(&first, &key)| (first, key));
        let next_step = self.next_step();
        let Some(((deadline, number), key)) = first else {
            prop_assert_eq!(next_step, Next::Empty);
            return Ok(false);
        };
        if deadline > self.now {
            let Next::Until(until) = next_step else {
                return Err(TestCaseError::fail(format!("{next_step:?}")));
            };
            prop_assert!(until.0 > self.now);
            prop_assert!(
                self.deadlines.is_in_time(until, Nanos(deadline)),
                "{until:?} is too late for {deadline}"
            );
            prop_assert!(self.deadlines.pop().is_none());
            return Ok(false);
        }
        prop_assert_eq!(next_step, Next::Due);
        prop_assert_eq!(self.deadlines.peek(), Some(key));
        let (popped, item) = self.deadlines.pop().unwrap();
        prop_assert_eq!((popped, item.value, item.deadline), (key, number, Nanos(deadline)));
        self.expected.pop_first();
        self.made[usize::try_from(number).unwrap()].1 = None;
        Ok(true)
    }

    fn apply(&mut self, op: &Op) -> Result<(), TestCaseError> {
        match op {
            Op::Clock(by) => {
                self.deadlines.set_now(Nanos(self.now.saturating_add_signed(*by)));
                // Going back it stands still.
                self.now = self.now.saturating_add_signed((*by).max(0));
            }
            Op::Wait => {
                if let Next::Until(until) = self.next_step()
                    && until.0 < u64::MAX / 2
                {
                    self.now = until.0;
                    self.deadlines.set_now(until);
                }
            }
            Op::Insert(offset) => {
                let (deadline, number) = (self.deadline(*offset), self.made.len() as u64);
                let key = self.deadlines.insert(Nanos(deadline), number);
                self.expected.insert((deadline, number), key);
                self.made.push((key, Some(deadline)));
            }
            Op::Remove(at) if !self.made.is_empty() => {
                let number = at.index(self.made.len());
                let (key, deadline) = self.made[number];
                let removed = self.deadlines.remove(&key).map(|item| (item.deadline.0, item.value));
                prop_assert_eq!(removed, deadline.map(|deadline| (deadline, number as u64)));
                self.made[number].1 = None;
                removed.inspect(|removed| _ = self.expected.remove(removed));
            }
            Op::Reset(at, offset) if !self.made.is_empty() => {
                let (number, to) = (at.index(self.made.len()), self.deadline(*offset));
                let (key, deadline) = self.made[number];
                prop_assert_eq!(self.deadlines.reset(&key, Nanos(to)), deadline.is_some());
                if let Some(deadline) = deadline {
                    self.expected.remove(&(deadline, number as u64));
                    self.expected.insert((to, number as u64), key);
                    self.made[number].1 = Some(to);
                }
            }
            Op::Pop(items) => {
                for _ in 0..*items {
                    if !self.pop()? {
                        break;
                    }
                }
            }
            Op::Clear => {
                let mut items = self.deadlines.detach();
                prop_assert_eq!(items.len(), self.expected.len());
                items.clear();
                self.deadlines.items_mut().attach(items);
                self.expected.clear();
                self.made.iter_mut().for_each(|made| made.1 = None);
            }
            Op::Compact => {
                self.deadlines.compact();
                prop_assert_eq!(self.deadlines.items().capacity(), self.expected.len());
            }
            Op::Shrink => {
                let before = self.deadlines.items().capacity();
                self.deadlines.shrink_to_fit();
                prop_assert!(self.deadlines.items().capacity() <= before);
            }
            Op::Reserve(additional) => {
                self.deadlines.items_mut().reserve(*additional);
                prop_assert!(self.deadlines.items().capacity() >= self.expected.len() + additional);
            }
            Op::Peek | Op::Remove(_) | Op::Reset(..) => {}
        }
        self.check()
    }

    fn check(&self) -> Result<(), TestCaseError> {
        self.deadlines.assert_invariants();
        let items = self.deadlines.items();
        prop_assert_eq!(items.len(), self.expected.len());
        prop_assert_eq!(self.deadlines.peek(), self.expected.first_key_value().map(|(_, &key)| key));
        for (number, (key, deadline)) in self.made.iter().enumerate() {
            let item = items.find(key).and_then(|index| items.get(index));
            let found = item.map(|item| (item.value, item.deadline.0));
            prop_assert_eq!(found, deadline.map(|deadline| (number as u64, deadline)));
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn deadlines_are_an_ordered_map(
        ops in prop::collection::vec(ops(), 1..120),
        batch in prop_oneof![1..4_usize, Just(usize::MAX)],
    ) {
        let mut model = Model::new(batch);
        for op in &ops {
            model.apply(op)?;
        }
        // At the end of time all is popped, but what never comes.
        model.now = u64::MAX - 1;
        model.deadlines.set_now(Nanos(model.now));
        while model.pop()? {}
        prop_assert!(model.expected.keys().all(|&(deadline, _)| deadline == u64::MAX));
    }
}

#[test]
fn places_of_items_that_have_left_are_bounded() {
    let mut model = Model::new(usize::MAX);
    model.deadlines.set_now(Nanos(START));
    assert_eq!(model.deadlines.next_step(usize::MAX), Next::Empty);
    let key = model.deadlines.insert(Nanos(START), 0);
    assert_eq!(model.deadlines.next_step(usize::MAX), Next::Due);
    for n in 1..1_000 {
        model.deadlines.reset(&key, Nanos(START - n));
        model.deadlines.assert_invariants();
    }
    for _ in 0..1_000 {
        // The item is at each of these places.
        model.deadlines.reset(&key, Nanos(START - 1_000));
        model.deadlines.assert_invariants();
    }
    for n in 0..1_000 {
        let key = model.deadlines.insert(Nanos(START), n);
        model.deadlines.remove(&key);
        model.deadlines.assert_invariants();
    }
}

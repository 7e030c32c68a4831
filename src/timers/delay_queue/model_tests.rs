//! The pure part beside an ordered map, by random operations.
//!
//! - Nothing is popped before its deadline, or before an item of an earlier tick.
//! - `peek` names what `pop` returns if that has been found, and otherwise an item of the same tick.
//! - A caller that looks again at the time of `next_look` misses no item by a tick.
//! - Keys find their items, with the deadlines that were set last, and stale ones find nothing.
//! - Stale places are bounded, and memory is what was asked for.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::items::{Items, Key};
use crate::wheel::{Nanos, Progress, Resolution};

const TICK: u64 = 10;
/// A year, as clocks begin.
const START: u64 = 365 * 24 * 60 * 60 * 1_000_000_000;

#[derive(Clone, Debug)]
enum Op {
    /// The time goes on, or back, by so much.
    Clock(i64),
    /// Until the time that was told, if it lies ahead.
    Wait,
    /// Looks for due items once, as a poll without budget does.
    Look,
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
        4 => Just(Op::Look),
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
    items: Items<u64>,
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
        Self { items: Items::new(resolution), now: START, expected: BTreeMap::new(), made: Vec::new(), batch }
    }

    fn deadline(&self, offset: Offset) -> u64 {
        match offset {
            Offset::Near(nanos) => self.now.saturating_add_signed(nanos),
            Offset::Far(nanos) => self.now.saturating_add(nanos),
            Offset::Never => u64::MAX,
            Offset::SameAs(number) => self.made.get(number).and_then(|made| made.1).unwrap_or(self.now),
        }
    }

    /// As a poll does: looks for more only if nothing is due.
    fn pop(&mut self) -> Result<bool, TestCaseError> {
        let peeked = self.items.peek();
        let is_found = self.items.has_due();
        let peeked_deadline = peeked.map(|key| self.items.get(&key).unwrap().deadline);
        // Not for ever: each of these moves an entry, down or to the due.
        let mut looks = 0..100_000;
        while !self.items.has_due()
            && self.items.next_look().is_some()
            && self.items.advance(Nanos(self.now), self.batch) == Progress::More
        {
            prop_assert!(looks.next().is_some(), "there is always more");
        }
        let first = self.expected.first_key_value().map(|(&(deadline, _), _)| deadline);
        if !self.items.has_due() {
            match (self.items.next_look(), first) {
                (None, None) => {}
                (Some(at), Some(first)) => {
                    prop_assert!(
                        at.0 > self.now && at <= self.items.resolution().end_of_tick(Nanos(first)),
                        "{:?} for {}",
                        at,
                        first
                    );
                }
                other => return Err(TestCaseError::fail(format!("{other:?}"))),
            }
            return Ok(false);
        }
        let (popped, item) = self.items.pop().unwrap();
        if is_found {
            prop_assert_eq!(Some(popped), peeked);
        }
        let tick = |deadline| self.items.resolution().end_of_tick(deadline);
        prop_assert_eq!(peeked_deadline.map(tick), Some(tick(item.deadline)), "another tick than was told");
        prop_assert_eq!(self.expected.remove(&(item.deadline.0, item.value)), Some(popped));
        let first = Nanos(first.unwrap());
        prop_assert!(item.deadline.0 <= self.now);
        prop_assert_eq!(tick(item.deadline), tick(first), "ticks out of order");
        self.made[usize::try_from(item.value).unwrap()].1 = None;
        Ok(true)
    }

    fn apply(&mut self, op: &Op) -> Result<(), TestCaseError> {
        match op {
            // Going back it stands still.
            Op::Clock(by) => self.now = self.now.saturating_add_signed((*by).max(0)),
            Op::Wait => {
                if let Some(at) = self.items.next_look()
                    && at.0 < u64::MAX / 2
                {
                    self.now = self.now.max(at.0);
                }
            }
            Op::Look => _ = self.items.advance(Nanos(self.now), self.batch),
            Op::Insert(offset) => {
                let (deadline, number) = (self.deadline(*offset), self.made.len() as u64);
                let key = self.items.insert(Some(Nanos(self.now)), Nanos(deadline), number);
                self.expected.insert((deadline, number), key);
                self.made.push((key, Some(deadline)));
            }
            Op::Remove(at) if !self.made.is_empty() => {
                let number = at.index(self.made.len());
                let (key, deadline) = self.made[number];
                let removed = self.items.remove(&key).map(|item| (item.deadline.0, item.value));
                prop_assert_eq!(removed, deadline.map(|deadline| (deadline, number as u64)));
                self.made[number].1 = None;
                removed.inspect(|removed| _ = self.expected.remove(removed));
            }
            Op::Reset(at, offset) if !self.made.is_empty() => {
                let (number, to) = (at.index(self.made.len()), self.deadline(*offset));
                let (key, deadline) = self.made[number];
                let is_moved = self.items.reset(Some(Nanos(self.now)), &key, Nanos(to));
                prop_assert_eq!(is_moved, deadline.is_some());
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
                let room = self.items.capacity();
                prop_assert_eq!(self.items.restart(self.items.resolution()).count(), self.expected.len());
                prop_assert_eq!(self.items.capacity(), room);
                self.expected.clear();
                self.made.iter_mut().for_each(|made| made.1 = None);
            }
            Op::Compact => {
                self.items.compact();
                prop_assert_eq!(self.items.capacity(), self.expected.len());
            }
            Op::Shrink => {
                let before = self.items.capacity();
                self.items.shrink_to_fit();
                prop_assert!(self.items.capacity() <= before);
            }
            Op::Reserve(additional) => {
                self.items.reserve(*additional);
                prop_assert!(self.items.capacity() >= self.expected.len() + additional);
            }
            Op::Peek | Op::Remove(_) | Op::Reset(..) => {}
        }
        self.check()
    }

    fn check(&self) -> Result<(), TestCaseError> {
        self.items.assert_invariants();
        prop_assert_eq!(self.items.len(), self.expected.len());
        prop_assert_eq!(self.items.peek().is_none(), self.expected.is_empty());
        for (number, (key, deadline)) in self.made.iter().enumerate() {
            let found = self.items.get(key).map(|item| (item.value, item.deadline.0));
            prop_assert_eq!(found, deadline.map(|deadline| (number as u64, deadline)));
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn items_are_an_ordered_map_to_the_tick(
        ops in prop::collection::vec(ops(), 1..120),
        batch in prop_oneof![1..4_usize, Just(usize::MAX)],
    ) {
        let mut model = Model::new(batch);
        for op in &ops {
            model.apply(op)?;
        }
        // At the end of time all items are popped, except those that never come.
        model.now = u64::MAX - 1;
        while model.pop()? {}
        prop_assert!(model.expected.keys().all(|&(deadline, _)| deadline == u64::MAX));
    }
}

#[test]
fn places_of_items_that_have_left_are_bounded() {
    let mut items = Items::new(Resolution::new(Duration::from_nanos(TICK)).unwrap());
    assert_eq!(items.advance(Nanos(START), usize::MAX), Progress::Done);
    let key = items.insert(Some(Nanos(START)), Nanos(START), 0);
    for n in 0..2_000 {
        // At another place each time, and then at the same.
        items.reset(Some(Nanos(START)), &key, Nanos(START - n.min(1_000)));
        items.assert_invariants();
    }
    for n in 0..1_000 {
        let key = items.insert(Some(Nanos(START)), Nanos(START), n);
        items.remove(&key);
        items.assert_invariants();
    }
}

/// The task may have run out of budget between two batches.
#[test]
fn the_timer_of_a_removed_item_does_not_hide_the_items_that_were_found() {
    let mut items = Items::new(Resolution::new(Duration::from_nanos(TICK)).unwrap());
    // In one tick: the first is found first, and is due after the second.
    let keys = [0, 1].map(|n| items.insert(Some(Nanos(START)), Nanos(START + TICK - n), n));
    assert_eq!(items.advance(Nanos(START + TICK), 1), Progress::More);
    assert!(items.is_behind() && !items.has_due());
    assert_eq!(items.peek(), Some(keys[1]));
    items.remove(&keys[1]);
    assert!(items.has_due() && !items.is_behind());
    assert_eq!(items.pop().unwrap().0, keys[0]);
}

//! The timers of items that have been removed.
//!
//! The next item at the same index takes its timer over. The others are taken out of the wheel together, because at random
//! they lie anywhere in memory, and the processor fetches them at the same time.

use super::timer::Timer;
use crate::wheel::Hierarchy;

/// So many are taken out together, and one less may be left.
pub(super) const ROOM: usize = 16;

/// Timers whose items have left.
#[derive(Debug)]
pub(super) struct Leftovers {
    /// The first of them are taken, as many as there are. Each has the index of its item, which the wheel has too.
    timers: [Option<(usize, Timer)>; ROOM],
    len: usize,
}

impl Leftovers {
    pub(super) const fn new() -> Self {
        Self { timers: [None; ROOM], len: 0 }
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// The item at `index` has left, which had this timer.
    #[inline]
    pub(super) fn push(&mut self, index: usize, timer: Timer, timers: &mut Hierarchy<usize>) {
        self.timers[self.len] = Some((index, timer));
        self.len += 1;
        if self.len == ROOM {
            self.take_out(timers);
        }
    }

    /// The timer of the item that was at `index` before, if that is the last one left here: the last index that became free
    /// is the next to be used.
    #[inline]
    pub(super) fn take_over(&mut self, index: usize) -> Option<Timer> {
        let last = self.len.checked_sub(1)?;
        let (_, timer) = self.timers[last].take_if(|(of, _)| *of == index)?;
        self.len = last;
        Some(timer)
    }

    /// Takes all of them out of the wheel.
    #[inline]
    pub(super) fn clear(&mut self, timers: &mut Hierarchy<usize>) {
        match self.timers {
            _ if self.len == 0 => {}
            [Some((_, only)), ..] if self.len == 1 => {
                timers.cancel(only.key);
                self.forget();
            }
            _ => self.take_out(timers),
        }
    }

    #[inline(never)]
    fn take_out(&mut self, timers: &mut Hierarchy<usize>) {
        timers.cancel_all(self.timers.map(|left| left.map(|(_, timer)| timer.key)));
        self.forget();
    }

    /// Their wheel is gone.
    pub(super) const fn forget(&mut self) {
        *self = Self::new();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::wheel::{Nanos, Resolution};

    /// `count` timers, as of items whose indices are 0 and so on.
    fn filled(count: u64) -> (Hierarchy<usize>, Vec<Timer>) {
        let mut timers = Hierarchy::new(Resolution::new(Duration::from_nanos(10)).expect("not zero"), 64);
        let mut insert = |n: u64| {
            let deadline = Nanos(11 + n);
            let index = usize::try_from(n).expect("few");
            Timer { key: timers.insert(Nanos::ZERO, deadline, index).expect("it lies ahead"), deadline }
        };
        let all = (0..count).map(&mut insert).collect();
        (timers, all)
    }

    #[test]
    fn leftovers_are_taken_out_when_they_are_many_and_when_they_are_cleared() {
        let (mut timers, all) = filled(ROOM as u64 + 3);
        let all: Vec<(usize, Timer)> = all.into_iter().enumerate().collect();
        let mut leftovers = Leftovers::new();
        all[..ROOM - 1].iter().for_each(|&(index, timer)| leftovers.push(index, timer, &mut timers));
        assert_eq!((leftovers.len(), timers.len()), (ROOM - 1, ROOM + 3));
        let (index, last) = all[ROOM - 1];
        leftovers.push(index, last, &mut timers);
        assert_eq!((leftovers.len(), timers.len()), (0, 3));
        // One alone, then two.
        for (some, left) in [(&all[ROOM..=ROOM], 2), (&all[ROOM + 1..], 0)] {
            some.iter().for_each(|&(index, timer)| leftovers.push(index, timer, &mut timers));
            leftovers.clear(&mut timers);
            assert_eq!((leftovers.len(), timers.len()), (0, left));
        }
        timers.assert_invariants();
    }

    #[test]
    fn only_the_next_item_at_its_index_takes_a_timer_over_and_only_the_last_one() {
        let (mut timers, all) = filled(3);
        let mut leftovers = Leftovers::new();
        assert!(leftovers.take_over(0).is_none());
        for index in [0, 1] {
            leftovers.push(index, all[index], &mut timers);
        }
        assert!(leftovers.take_over(0).is_none() && leftovers.take_over(2).is_none());
        for index in [1, 0] {
            let timer = leftovers.take_over(index).expect("it is the last one");
            assert_eq!((timer.key, leftovers.len()), (all[index].key, index));
        }
        assert_eq!(timers.len(), 3, "they are in the wheel still");
    }
}

//! A look at the entry that is to be handed out first.

use super::{Hierarchy, Nanos};

impl<T> Hierarchy<T> {
    /// The payload with the least `rank`, of those that have one. A rank begins with a deadline: the entry's, or a later
    /// one that the wheel has not been told.
    ///
    /// This looks at each bucket in the queue, and at each entry of the buckets that may hold the payload. As a rule that is
    /// the bucket that begins first. Another bucket follows if it begins before the deadlines of all entries seen.
    pub(crate) fn earliest_by<R: Ord>(&self, rank: impl Fn(&T) -> Option<(Nanos, R)>) -> Option<&T> {
        let mut earliest: Option<((Nanos, R), &T)> = None;
        // The bucket that begins first comes first, so that others can be left out. In the queue an empty bucket may stand
        // before it.
        let filled = || self.levels.queued().filter(|(_, bucket)| !bucket.is_empty());
        let first = filled().min_by_key(|&(beginning, _)| beginning);
        let others =
            filled().filter(|&(_, bucket)| first.is_none_or(|(_, first)| !std::ptr::eq(first, bucket)));
        for (beginning, bucket) in first.into_iter().chain(others) {
            // No entry is due before its bucket begins.
            let may_hold_it = earliest.as_ref().is_none_or(|((deadline, _), _)| beginning < *deadline);
            if !may_hold_it && beginning > self.clock() {
                continue;
            }
            for (_, key) in bucket.iter() {
                let payload = self.entries.payload(key.index());
                let Some(rank) = rank(payload) else { continue };
                if earliest.as_ref().is_none_or(|(least, _)| rank < *least) {
                    earliest = Some((rank, payload));
                }
            }
        }
        earliest.map(|(_, payload)| payload)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::wheel::{Progress, Resolution};

    const TICK: u64 = 10;

    #[test]
    fn it_looks_at_the_entries_of_the_bucket_that_begins_first_and_of_no_other() {
        let tick = Resolution::new(std::time::Duration::from_nanos(TICK)).unwrap();
        let mut wheel = Hierarchy::new(tick, 64);
        let mut insert = |deadline| wheel.insert(Nanos::ZERO, Nanos(deadline), deadline).unwrap();
        let front = insert(15);
        (0..100).for_each(|_| _ = insert(65));
        (0..3).for_each(|_| _ = insert(35));
        // Its bucket stays in the queue, empty.
        wheel.cancel(front);
        let looks = std::cell::Cell::new(0);
        let rank = |&deadline: &u64| {
            looks.set(looks.get() + 1);
            Some((Nanos(deadline), ()))
        };
        assert_eq!((wheel.earliest_by(rank), looks.get()), (Some(&35), 3));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn it_has_the_earliest_deadline_and_then_the_least_rank(
            deadlines in prop::collection::vec((0..3_000_u64, 0..4_u8), 1..40),
            moves in prop::collection::vec((0..40_usize, 0..3_000_u64), 0..40),
            now in 0..3_000_u64,
        ) {
            let tick = Resolution::new(std::time::Duration::from_nanos(TICK)).unwrap();
            let mut wheel = Hierarchy::new(tick, 4);
            let mut entries = Vec::new();
            for (at, &(deadline, rank)) in deadlines.iter().enumerate() {
                if let Ok(key) = wheel.insert(Nanos::ZERO, Nanos(deadline), (rank, at)) {
                    entries.push((key, deadline, rank, at));
                }
            }
            let (before, after) = moves.split_at(moves.len() / 2);
            let mut expired = Vec::new();
            for (moves, now) in [(before, 0), (after, now)] {
                prop_assert_eq!(wheel.advance(Nanos(now), usize::MAX, &mut expired), Progress::Done);
                entries.retain(|&(key, ..)| wheel.contains(key));
                for &(at, to) in moves {
                    if let Some((key, deadline, ..)) = entries.get_mut(at) {
                        wheel.reschedule(*key, Nanos(to));
                        *deadline = to;
                    }
                }
                let expected = entries.iter().map(|&(_, deadline, rank, at)| (deadline, rank, at)).min();
                let deadline_of = |payload: &(u8, usize)| {
                    entries.iter().find(|&&(.., at)| at == payload.1).map_or(0, |&(_, deadline, ..)| deadline)
                };
                let found = wheel.earliest_by(|payload| Some((Nanos(deadline_of(payload)), *payload))).copied();
                prop_assert_eq!(found, expected.map(|(_, rank, at)| (rank, at)));
            }
        }
    }
}

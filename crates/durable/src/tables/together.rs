//! Divides the timers of one call into parts that are looked up together.

use crate::id::Place;

/// How many rows are in memory at a time.
const TOGETHER: usize = 1_024;

/// The indexes of each part. The places of a part ascend, and differ. If a place comes several times, its timers are in several
/// parts, in their order.
pub(super) fn together<T>(all: &[T], place: impl Fn(&T) -> Place) -> Vec<Vec<usize>> {
    let mut order: Vec<(Place, usize)> =
        all.iter().enumerate().map(|(index, one)| (place(one), index)).collect();
    order.sort_unstable();
    let mut parts: Vec<Vec<usize>> = Vec::new();
    let mut last = None;
    for (at, index) in order {
        match parts.last_mut().filter(|part| part.len() < TOGETHER && last != Some(at)) {
            Some(part) => part.push(index),
            None => parts.push(vec![index]),
        }
        last = Some(at);
    }
    parts
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use super::*;
    use crate::MemoryStore;
    use crate::id::{TimerId, timestamp};
    use crate::store::{
        Begun, Change, Ended, Near, NewTimer, Owner, Page, Put, Series, Store, Stored, ToBegin,
    };

    #[test]
    fn parts_ascend_and_hold_each_index_once_and_one_place_in_its_order() {
        let mut random = fastrand::Rng::with_seed(1);
        for len in [0, 1, 7, TOGETHER, 5 * TOGETHER] {
            let places: Vec<_> = (0..len)
                .map(|_| Place { due_ms: random.i64(0..=len.try_into().unwrap()), unique: 0 })
                .collect();
            let parts = together(&places, |place| *place);
            let of = |index: &usize| places[*index];
            assert!(
                parts.iter().all(|part| part.len() <= TOGETHER && part.is_sorted_by(|a, b| of(a) < of(b)))
            );
            let all = parts.concat();
            assert!(all.is_sorted_by_key(|index| (of(index), *index)));
            assert_eq!(all.len(), len);
        }
    }

    fn series() -> Series {
        Series::new("cron 0 9 * * * in UTC".into(), crate::Missed::once())
    }

    /// Timers of which some are a series, begun, and ends for them: some are told twice, some are not the attempt's, and
    /// some put what follows where another timer stands.
    async fn begun<S: Store>(store: &S, mut random: fastrand::Rng) -> (Owner, Vec<Begun>, Vec<Ended>)
    where
        S::Error: std::fmt::Debug,
    {
        let owner =
            store.join(std::time::Duration::from_secs(30), crate::store::Kinds::default()).await.unwrap();
        let ids: BTreeSet<TimerId> =
            (0..300).map(|number| TimerId::new(timestamp(random.i64(0..20)), number % 10)).collect();
        let timers: Vec<NewTimer> = ids
            .into_iter()
            .map(|id| NewTimer {
                key: (id.unique.is_multiple_of(3)).then(|| id.to_string()),
                series: (id.unique.is_multiple_of(5)).then(series),
                ..NewTimer::new(id, "work", vec![0; random.usize(..300)])
            })
            .collect();
        let nears: Vec<Near> = timers.iter().map(|timer| timer.id.into()).collect();
        store.save(timers).await.unwrap();
        let kinds = Arc::new(["work".to_owned()].into());
        let some: Vec<Near> = (0..200).map(|_| nears[random.usize(..nears.len())]).collect();
        let begun = store.begin(owner, ToBegin { timers: some, kinds }).await.unwrap();
        let ends = (0..200)
            .map(|_| {
                let timer = nears[random.usize(..nears.len())];
                let in_series = timer.id.unique.is_multiple_of(5);
                let due = timestamp(random.i64(0..20));
                let put =
                    |timer: Near| Put { timer, series: in_series.then(series), attempts: 0, error: None };
                let next = in_series.then(|| put(TimerId::new(due, timer.id.unique).into()));
                let change = match (random.u8(..10), next) {
                    (0, _) => Change::Put(put(Near::new(timer.id, due))),
                    (1, next) => Change::Bury { reason: "enough".into(), was_called: true, next },
                    (3.., Some(next)) => Change::Put(next),
                    (2, _) | (_, None) => Change::Delete,
                };
                let attempt = 1 + u32::from(random.u8(..10) == 0);
                let version = u32::from(random.u8(..10) == 0);
                Ended { timer, attempt, version, change }
            })
            .collect();
        (owner, begun, ends)
    }

    async fn left<S: Store>(store: &S) -> Vec<Stored>
    where
        S::Error: std::fmt::Debug,
    {
        let mut left = Vec::new();
        for buried in [false, true] {
            let page = Page { limit: 1_000, buried, ..Page::default() };
            left.extend(store.list(page).await.unwrap());
        }
        left
    }

    /// Ends of one call have the same outcome as ends of a call each.
    async fn compare<S: Store>(new: impl Fn() -> S)
    where
        S::Error: std::fmt::Debug,
    {
        for seed in 0..8 {
            let (at_once, singly) = (new(), new());
            let random = fastrand::Rng::with_seed(seed);
            let (owner, begun_at_once, ends) = begun(&at_once, random.clone()).await;
            let (_, begun_too, _) = begun(&singly, random).await;
            assert_eq!(begun_at_once, begun_too);
            let told = at_once.settle(owner, ends.clone()).await.unwrap();
            for (ended, told) in ends.into_iter().zip(told) {
                assert_eq!(singly.settle(owner, vec![ended]).await.unwrap(), [told], "seed {seed}");
            }
            assert_eq!(left(&at_once).await, left(&singly).await, "seed {seed}");
        }
    }

    #[tokio::test]
    async fn ends_of_one_call_are_answered_as_ends_that_are_told_one_after_the_other() {
        compare(MemoryStore::new).await;
    }

    #[cfg(feature = "redb")]
    #[tokio::test]
    async fn ends_of_one_call_in_a_file_are_answered_as_ends_that_are_told_one_after_the_other() {
        use crate::redb::{RedbOptions, RedbStore};
        let new = || {
            let backend = redb::backends::InMemoryBackend::new();
            RedbStore::with_backend(backend, RedbOptions::new()).unwrap()
        };
        compare(new).await;
    }
}

//! Walks over a list, some items at a time.

use super::{FIRST, Items, Links};

/// How many items a walk copies at a time.
pub(in crate::services::purgatory) const BATCH: usize = 16;

/// What a walk over a long list has still to see.
#[derive(Clone, Copy)]
pub(in crate::services::purgatory) struct Rest {
    from: u64,
    end: u64,
}

/// How far a walk over all lists has come.
#[derive(Clone, Copy)]
pub(in crate::services::purgatory) struct Position {
    bucket: usize,
    number: u64,
}

impl Position {
    pub(in crate::services::purgatory) const START: Self = Self { bucket: 0, number: FIRST };
}

/// The items of a list.
pub(in crate::services::purgatory) enum Found<T> {
    None,
    One(T),
    Several,
}

impl<T: Clone> Links<T> {
    #[inline]
    fn items(&self, hash: u64) -> Option<&Items<T>> {
        self.lists.find(hash, |list| list.hash == hash).map(|list| &list.items)
    }

    /// What stands under a hash.
    #[inline]
    pub(in crate::services::purgatory) fn find(&self, hash: u64) -> Found<T> {
        match self.items(hash) {
            None => Found::None,
            Some(Items::One(only)) => Found::One(only.clone()),
            Some(Items::Row(row)) => row.only().map_or(Found::Several, |only| Found::One(only.clone())),
        }
    }

    /// Begins to walk over a list: copies its first items with their numbers. Returns what is left, if there may be more.
    pub(in crate::services::purgatory) fn begin(
        &self,
        hash: u64,
        batch: &mut [Option<(u64, T)>; BATCH],
    ) -> Option<Rest> {
        match self.items(hash)? {
            Items::One(only) => {
                batch[0] = Some((FIRST, only.clone()));
                None
            }
            Items::Row(row) => self.go_on(hash, Rest { from: FIRST, end: row.next() }, batch),
        }
    }

    /// Copies the next items. Returns what is left, if there may be more.
    pub(in crate::services::purgatory) fn go_on(
        &self,
        hash: u64,
        rest: Rest,
        batch: &mut [Option<(u64, T)>; BATCH],
    ) -> Option<Rest> {
        // An item that stands alone is newer than the walk.
        let Items::Row(row) = self.items(hash)? else { return None };
        let mut room = batch.iter_mut();
        let copy = |number, item: &T| room.next().map(|copy| *copy = Some((number, item.clone()))).is_some();
        row.show(rest.from, rest.end, copy).map(|from| Rest { from, ..rest })
    }

    /// Copies items of all lists with their hashes and numbers, from this position on. Returns the position to go on from,
    /// if there may be more.
    pub(in crate::services::purgatory) fn copy_all(
        &self,
        mut from: Position,
        batch: &mut [Option<(u64, u64, T)>; BATCH],
    ) -> Option<Position> {
        /// How many buckets are looked at under one hold of the lock.
        const LOOKS: usize = 1_024;
        let mut room = batch.iter_mut();
        let end = self.lists.num_buckets();
        for bucket in (from.bucket..end).take(LOOKS) {
            let number = std::mem::replace(&mut from.number, FIRST);
            let Some(list) = self.lists.get_bucket(bucket) else { continue };
            let mut copy = |number, item: &T| {
                let copied = room.next().map(|copy| *copy = Some((list.hash, number, item.clone())));
                copied.is_some()
            };
            let left = match &list.items {
                Items::One(item) => (!copy(FIRST, item)).then_some(FIRST),
                Items::Row(row) => row.show(number, row.next(), copy),
            };
            if let Some(number) = left {
                return Some(Position { bucket, number });
            }
        }
        let bucket = from.bucket.saturating_add(LOOKS);
        (bucket < end).then_some(Position { bucket, number: FIRST })
    }
}

//! Walks over a list, some items at a time.

use super::{Links, NONE};

/// How many items a walk copies at a time.
pub(in crate::services::purgatory) const BATCH: usize = 16;

/// Where a walk over a long list has come to, and where it ends.
#[derive(Clone, Copy)]
pub(in crate::services::purgatory) struct Marks {
    here: u32,
    end: u32,
}

/// The items of a list.
pub(in crate::services::purgatory) enum Found<T> {
    None,
    One(T),
    Several,
}

impl<T: Clone> Links<T> {
    /// What stands under a hash.
    pub(in crate::services::purgatory) fn find(&self, hash: u64) -> Found<T> {
        let Some(list) = self.lists.find(hash, |list| list.hash == hash) else { return Found::None };
        match &self.nodes[list.first as usize].item {
            Some(only) if list.first == list.last => Found::One(only.clone()),
            _ => Found::Several,
        }
    }

    /// Begins to walk over a list: copies its first items. Returns marks if there are more; they stay until the walk has
    /// [gone on](Self::go_on) to its end, or has [left](Self::leave) them.
    pub(in crate::services::purgatory) fn begin(
        &mut self,
        hash: u64,
        batch: &mut [Option<T>; BATCH],
    ) -> Option<Marks> {
        let first = self.lists.find(hash, |list| list.hash == hash)?.first;
        let at = self.copy(first, NONE, batch);
        if at == NONE {
            return None;
        }
        let here = self.take_free(None);
        self.link_before(hash, at, here);
        let end = self.append(hash, None);
        self.marks += 2;
        Some(Marks { here, end })
    }

    /// Copies the next items. Returns whether there are more.
    pub(in crate::services::purgatory) fn go_on(
        &mut self,
        hash: u64,
        marks: Marks,
        batch: &mut [Option<T>; BATCH],
    ) -> bool {
        let Marks { here, end } = marks;
        let at = self.copy(self.nodes[here as usize].after, end, batch);
        if at == end {
            self.leave(hash, marks);
            return false;
        }
        self.unlink(hash, here);
        self.link_before(hash, at, here);
        true
    }

    /// Takes the marks away.
    pub(in crate::services::purgatory) fn leave(&mut self, hash: u64, marks: Marks) {
        for mark in [marks.here, marks.end] {
            self.unlink(hash, mark);
            self.give_free(mark);
        }
        self.marks -= 2;
    }

    /// Copies items from a node up to another, as many as there is room for. Returns where it stopped.
    fn copy(&self, from: u32, end: u32, batch: &mut [Option<T>; BATCH]) -> u32 {
        let (mut at, mut room) = (from, batch.iter_mut());
        while at != end {
            let node = &self.nodes[at as usize];
            if let Some(item) = &node.item {
                let Some(copy) = room.next() else { return at };
                *copy = Some(item.clone());
            }
            at = node.after;
        }
        end
    }

    /// Copies items of all lists with their indices, from this index on. Returns the index to go on from, if there may be
    /// more.
    pub(in crate::services::purgatory) fn copy_all(
        &self,
        from: usize,
        batch: &mut [Option<(usize, T)>; BATCH],
    ) -> Option<usize> {
        /// How many nodes are looked at under one hold of the lock.
        const NODES: usize = 1_024;
        let mut room = batch.iter_mut();
        for (index, node) in self.nodes.iter().enumerate().skip(from).take(NODES) {
            if let Some(item) = &node.item {
                let Some(copy) = room.next() else { return Some(index) };
                *copy = Some((index, item.clone()));
            }
        }
        Some(from.saturating_add(NODES)).filter(|&next| next < self.nodes.len())
    }
}

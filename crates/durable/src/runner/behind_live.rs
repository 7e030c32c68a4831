//! What stands behind timers that are live.

use std::collections::{BTreeSet, HashMap};

use crate::id::TimerId;
use crate::store::Near;

/// Notices of timers that have begun already. They may have to begin when these have ended, as a timer may that was moved
/// meanwhile.
#[derive(Debug, Default)]
pub(super) struct BehindLive(HashMap<TimerId, BTreeSet<Near>>);

impl BehindLive {
    /// Each notice once: one comes with each save under the key of a timer that runs.
    pub(super) fn insert(&mut self, near: Near) {
        self.0.entry(near.id()).or_default().insert(near);
    }

    /// The timer of this name has ended.
    pub(super) fn take(&mut self, id: TimerId) -> BTreeSet<Near> {
        // There are seldom any, and an empty map would hash the name all the same.
        if self.0.is_empty() { BTreeSet::new() } else { self.0.remove(&id).unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::timestamp;

    #[test]
    fn what_stands_behind_a_timer_stands_there_once_however_often_it_comes() {
        let id = TimerId::new(timestamp(1), 7);
        let (first, moved) = (Near::from(id), Near::new(id, timestamp(5)));
        let mut behind_live = BehindLive::default();
        for _ in 0..1_000 {
            behind_live.insert(first);
            behind_live.insert(moved);
        }
        assert_eq!(behind_live.0[&id].len(), 2);
        assert_eq!(behind_live.take(TimerId::new(timestamp(1), 8)), BTreeSet::new());
        assert_eq!(behind_live.take(id), BTreeSet::from([first, moved]));
        assert!(behind_live.0.is_empty());
    }
}

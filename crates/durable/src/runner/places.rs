//! How many handlers of a kind run at once. A timer beyond that has begun before its kind is known: it is given back, and waits
//! here for a place.
//!
//! ```text
//!   few wait    all of them are here; loads bring more
//!   many wait   loads leave the kind out, so that it keeps no place in memory from others. The store is asked for some of the
//!               kind alone, whenever half of those here have gone
//! ```

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::Timestamp;

use super::Runner;
use super::live::Attempt;
use crate::handler::{Handlers, Places};
use crate::id::{Place, TimerId};
use crate::next_run;
use crate::store::{Ask, Kinds, Near};

/// How many timers of a kind wait in memory. The others wait in the store alone.
const WAITING: usize = 1_000;

/// A kind with a limit.
pub(super) struct Limited {
    kind: &'static str,
    places: Places,
    /// Timers that have a place: their handlers run, or they are about to begin. Those that have waited know since when.
    holders: HashMap<TimerId, Option<Timestamp>>,
    /// Timers that wait for a place, and since when.
    waiting: BTreeMap<Near, Timestamp>,
    /// Since when loads leave the kind out.
    left_out_since: Option<Timestamp>,
}

/// Of the kinds with a limit.
pub(super) fn limited(handlers: &Handlers) -> Vec<Limited> {
    let all = handlers.values().filter(|handler| handler.places != Places::default());
    let limited = |handler: &Arc<crate::handler::Handler>| Limited {
        kind: handler.kind,
        places: handler.places,
        holders: HashMap::new(),
        waiting: BTreeMap::new(),
        left_out_since: None,
    };
    all.map(limited).collect()
}

impl Limited {
    /// How many timers may have a place, if this instance has these shards of all. `None` if it does not know yet.
    fn most(&self, shards: Option<(u32, u32)>) -> usize {
        let in_all = self.places.in_all.map_or(usize::MAX, |most| match shards {
            None => 1,
            Some((_, 0)) => most,
            // Each has at least one: otherwise its timers would never run.
            Some((mine, all)) => (most.saturating_mul(mine as usize) / all as usize).max(1),
        });
        self.places.here.unwrap_or(usize::MAX).min(in_all)
    }
}

impl Runner {
    /// This instance's part of the shards. `None` in a shared store whose answer is on its way.
    fn part(&self) -> Option<(u32, u32)> {
        let shards = self.shared.stats().shards;
        (shards.1 > 0 || self.share.is_none()).then_some(shards)
    }

    /// A timer that has begun takes a place of its kind. If there is none, it waits. Otherwise tells when it came up first.
    pub(super) fn take_place(&mut self, attempt: &Attempt, wall: Timestamp) -> Option<Timestamp> {
        let Some(n) = self.limited.iter().position(|limited| limited.kind == attempt.handler.kind) else {
            return Some(wall);
        };
        let (part, most_waiting) = (self.part(), WAITING.min(self.settings.in_memory));
        let limited = &mut self.limited[n];
        if let Some(since) = limited.holders.get(&attempt.id()) {
            return Some(since.unwrap_or(wall));
        }
        if limited.holders.len() < limited.most(part) {
            limited.holders.insert(attempt.id(), None);
            return Some(wall);
        }
        if limited.waiting.len() < most_waiting {
            limited.waiting.insert(attempt.stored.timer, wall);
        } else {
            // From the first that was due while the others ran, and not missed before.
            let was_on_time = |(near, came): &(&Near, &Timestamp)| !next_run::is_late(near.due(), **came);
            let first = limited.waiting.iter().find(was_on_time).map(|(near, _)| near.due());
            limited.left_out_since.get_or_insert(first.unwrap_or(wall));
        }
        None
    }

    /// A timer has ended, or has not begun.
    pub(super) fn leave_place(&mut self, id: TimerId) {
        for limited in &mut self.limited {
            limited.holders.remove(&id);
        }
    }

    pub(super) fn waits_for_a_place(&self, near: Near) -> bool {
        self.limited.iter().any(|limited| limited.waiting.contains_key(&near))
    }

    pub(super) fn waits_no_more(&mut self, near: Near) {
        for limited in &mut self.limited {
            limited.waiting.remove(&near);
        }
    }

    pub(super) fn forget_all_that_wait(&mut self) {
        for limited in &mut self.limited {
            (limited.waiting, limited.left_out_since) = (BTreeMap::new(), None);
        }
    }

    /// Timers that have waited and get a place now, `most` at the most.
    pub(super) fn with_a_place(&mut self, most: usize) -> Vec<Near> {
        let mut nears = Vec::new();
        if self.limited.is_empty() {
            return nears;
        }
        let part = self.part();
        for limited in &mut self.limited {
            while nears.len() < most
                && limited.holders.len() < limited.most(part)
                && let Some((near, since)) = limited.waiting.pop_first()
            {
                limited.holders.insert(near.id(), Some(since));
                nears.push(near);
            }
        }
        nears
    }

    /// The kinds that loads ask for.
    pub(super) fn kinds_to_load(&self) -> Kinds {
        let is_left_out =
            |kind: &String| self.limited.iter().any(|of| of.kind == kind && of.left_out_since.is_some());
        if self.limited.iter().all(|limited| limited.left_out_since.is_none()) {
            return Arc::clone(&self.wanted);
        }
        Arc::new(self.wanted.iter().filter(|kind| !is_left_out(kind)).cloned().collect())
    }

    /// The load of one kind that loads leave out, when few of it wait here.
    pub(super) fn load_of_one_kind(&self, now: Timestamp) -> Option<(&'static str, Ask)> {
        let limit = WAITING.min(self.settings.in_memory);
        let is_wanted = |of: &&Limited| {
            of.left_out_since.is_some() && of.waiting.len() <= limit / 2 && self.wanted.contains(of.kind)
        };
        let kind = self.limited.iter().find(is_wanted)?.kind;
        let kinds = Arc::new([kind.to_owned()].into());
        Some((kind, Ask { after: Place::FIRST, until: now, limit, kinds }))
    }

    /// These timers of a kind that loads leave out are due.
    pub(super) fn loaded_of_one_kind(&mut self, kind: &'static str, nears: Vec<Near>) {
        let wall = self.clocks.wall();
        let is_all = nears.len() < WAITING.min(self.settings.in_memory);
        let Some(limited) = self.limited.iter_mut().find(|limited| limited.kind == kind) else { return };
        // Those that fell due since then have waited, and the others were missed before.
        let Some(since) = limited.left_out_since else { return };
        for near in nears.into_iter().filter(|near| !self.live.contains_key(&near.id())) {
            let came = if near.due() < since { wall } else { near.due() };
            limited.waiting.entry(near).or_insert(came);
        }
        if is_all {
            limited.left_out_since = None;
            // Others were left out that are due later.
            self.loads_anew = true;
        }
    }

    /// Publishes how many timers of each kind wait.
    pub(super) fn tell_who_waits(&self, stats: &mut crate::health::Stats) {
        for limited in &self.limited {
            stats.kinds.entry(limited.kind).or_default().waiting = limited.waiting.len();
        }
    }
}

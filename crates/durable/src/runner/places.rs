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
use crate::id::{Place, TimerId, timestamp};
use crate::next_run;
use crate::store::{Ask, Kinds, Loaded, Near};

/// How many timers of a kind wait in memory. The others wait in the store alone.
const WAITING: usize = 1_000;

/// If it is remembered of more than so many timers since when they waited, this begins anew: most have gone with their shards.
const REMEMBERED: usize = 100_000;

/// A kind with a limit.
pub(super) struct Limited {
    kind: &'static str,
    places: Places,
    /// Timers that have a place: their handlers run, or they are about to begin. Those that have waited know since when.
    holders: HashMap<TimerId, Option<Timestamp>>,
    /// Timers that wait for a place, and since when. Suspects wait among their like.
    waiting: BTreeMap<Near, Timestamp>,
    left_out: Option<LeftOut>,
}

/// Loads leave a kind out.
#[derive(Clone, Copy)]
struct LeftOut {
    since: Timestamp,
    /// Where the next load of this kind alone begins.
    after: Place,
}

/// Of the kinds with a limit.
pub(super) fn limited(handlers: &Handlers) -> Vec<Limited> {
    let all = handlers.values().filter(|handler| handler.places != Places::default());
    let limited = |handler: &Arc<crate::handler::Handler>| Limited {
        kind: handler.kind,
        places: handler.places,
        holders: HashMap::new(),
        waiting: BTreeMap::new(),
        left_out: None,
    };
    all.map(limited).collect()
}

/// A load from here finds this timer.
fn just_before(near: Near) -> Place {
    Place { due_ms: near.due_ms.saturating_sub(1), unique: u64::MAX }
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
        (shards.1 > 0 || !self.share.is_shared).then_some(shards)
    }

    /// Whether another timer of this kind may have a place.
    pub(super) fn has_a_place(&self, kind: &str) -> bool {
        let limited = self.limited.iter().find(|limited| limited.kind == kind);
        limited.is_none_or(|limited| limited.holders.len() < limited.most(self.part()))
    }

    /// A timer that has begun takes a place of its kind. Tells when it came up first, or `None` if there is no place.
    pub(super) fn take_place(&mut self, attempt: &Attempt, wall: Timestamp) -> Option<Timestamp> {
        let has_a_place = self.has_a_place(attempt.handler.kind);
        let Some(limited) = self.limited.iter_mut().find(|limited| limited.kind == attempt.handler.kind)
        else {
            return Some(wall);
        };
        if let Some(since) = limited.holders.get(&attempt.id()) {
            return Some(since.unwrap_or(wall));
        }
        has_a_place.then(|| {
            limited.holders.insert(attempt.id(), None);
            wall
        })
    }

    /// A timer has begun, and its kind has no place: it waits here, or in the store.
    pub(super) fn wait_for_a_place(&mut self, attempt: &Attempt, wall: Timestamp) {
        let most_waiting = WAITING.min(self.settings.in_memory);
        let Some(limited) = self.limited.iter_mut().find(|limited| limited.kind == attempt.handler.kind)
        else {
            return;
        };
        if limited.waiting.len() < most_waiting {
            limited.waiting.insert(attempt.stored.timer, wall);
        } else {
            // From the first that was due while the others ran, and not missed before.
            let was_on_time = |(near, since): &(&Near, &Timestamp)| !next_run::is_late(near.due(), **since);
            let first = limited.waiting.iter().find(was_on_time).map(|(near, _)| near.due());
            let since = first.unwrap_or(wall);
            let left_out = limited.left_out.get_or_insert(LeftOut { since, after: Place::FIRST });
            left_out.after = left_out.after.min(just_before(attempt.stored.timer));
        }
    }

    /// Since when a timer had waited that has a place now.
    pub(super) fn has_waited_since(&self, id: TimerId) -> Option<Timestamp> {
        self.limited.iter().find_map(|limited| *limited.holders.get(&id)?)
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

    /// As after a change of the shards. What comes up here again has waited since it did first.
    pub(super) fn forget_all_that_wait(&mut self) {
        if self.waited.len() > REMEMBERED {
            self.waited.clear();
        }
        for limited in &mut self.limited {
            let waiting = std::mem::take(&mut limited.waiting).into_iter();
            self.waited.extend(waiting.map(|(near, since)| (near.id(), since)));
        }
        self.loads_again_from(Place::FIRST);
    }

    /// A timer came up then that was another owner's already. This instance may get it back.
    pub(super) fn comes_up_again(&mut self, id: TimerId, came: Timestamp) {
        let since = self.has_waited_since(id).unwrap_or(came);
        self.waited.insert(id, since);
    }

    /// When a timer that comes up now, at `wall`, came up first.
    pub(super) fn came_up_first(&mut self, id: TimerId, wall: Timestamp) -> Timestamp {
        // There are seldom any, and an empty map would hash the id all the same.
        let waited = if self.waited.is_empty() { None } else { self.waited.remove(&id) };
        waited.map_or(wall, |since| since.min(wall))
    }

    /// Timers of kinds that are paused. They are loaded again once their kind is resumed.
    pub(super) fn forget_paused_that_wait(&mut self) {
        for limited in self.limited.iter_mut().filter(|limited| !self.wanted.contains(limited.kind)) {
            (limited.waiting, limited.left_out) = (BTreeMap::new(), None);
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
            |kind: &String| self.limited.iter().any(|of| of.kind == kind && of.left_out.is_some());
        if self.limited.iter().all(|limited| limited.left_out.is_none()) {
            return Arc::clone(&self.wanted);
        }
        Arc::new(self.wanted.iter().filter(|kind| !is_left_out(kind)).cloned().collect())
    }

    /// Timers of any kind may have been stored after this place.
    pub(super) fn loads_again_from(&mut self, place: Place) {
        for left_out in self.limited.iter_mut().filter_map(|limited| limited.left_out.as_mut()) {
            left_out.after = left_out.after.min(place);
        }
    }

    /// The load of one kind that loads leave out, when few of it wait here.
    pub(super) fn load_of_one_kind(&self, now: Timestamp) -> Option<(&'static str, Ask)> {
        let limit = WAITING.min(self.settings.in_memory);
        let few = self.limited.iter().filter(|limited| limited.waiting.len() <= limit / 2);
        let (kind, LeftOut { after, .. }) = few.into_iter().find_map(|of| Some((of.kind, of.left_out?)))?;
        let kinds = Arc::new([kind.to_owned()].into());
        Some((kind, Ask { after, until: now, limit, kinds }))
    }

    /// These timers of a kind that loads leave out are due. `until`: the load was asked for all up to then.
    pub(super) fn loaded_of_one_kind(&mut self, kind: &'static str, loaded: Loaded, until_ms: i64) {
        let wall = self.clocks.wall();
        let Some(limited) = self.limited.iter_mut().find(|limited| limited.kind == kind) else { return };
        // Those that fell due since then have waited, and the others were missed before.
        let Some(left_out) = &mut limited.left_out else { return };
        // Some are put off, and wait on the wheel.
        let is_new = |near: &Near| !self.live.contains_key(&near.id()) && !self.keys.contains_key(near);
        for near in loaded.timers.into_iter().filter(is_new) {
            let came = if near.due() < left_out.since { wall } else { near.due() };
            let since = self.waited.remove(&near.id()).unwrap_or(came);
            limited.waiting.entry(near).or_insert(since);
        }
        if loaded.end < Place::last_of(timestamp(until_ms)) {
            left_out.after = loaded.end;
        } else {
            limited.left_out = None;
            // Others were left out that are due later, or were stored before the place that the loads had come to.
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

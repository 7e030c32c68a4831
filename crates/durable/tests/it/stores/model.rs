//! The model: the database of the simulation, with one owner at a time. So the simulation goes by what each store does.

#![allow(dead_code, reason = "the simulation uses the rest")]

#[path = "../../sim/db/mod.rs"]
mod db;
#[path = "../../sim/history.rs"]
mod history;
#[path = "../../sim/lack.rs"]
mod lack;
#[path = "../../sim/row.rs"]
mod row;

use timingwheel_durable::Place;
use timingwheel_durable::store::{Ask, Kinds, Loaded, Near, Owner, Page, State, Stored};

use self::db::{Db, Who};

#[derive(Default)]
pub(crate) struct Model {
    pub(crate) db: Db,
}

pub(crate) fn who(owner: Owner) -> Who {
    Who { epoch: owner.epoch, token: 0 }
}

impl Model {
    /// Takes over from the owner before.
    pub(crate) fn join(&mut self, owner: Owner, kinds: &Kinds) {
        let tables = &mut self.db.tables;
        assert!(owner.epoch > tables.epochs, "epoch {} after {}", owner.epoch, tables.epochs);
        tables.members.clear();
        tables.owners.clear();
        tables.epochs = owner.epoch - 1;
        assert_eq!(self.db.join(0, kinds, who(owner).token), owner.epoch);
    }

    pub(crate) fn has_owner(&self) -> bool {
        !self.db.tables.members.is_empty()
    }

    fn listed(&self, buried: bool, after: Place) -> Vec<Stored> {
        self.db.list(&Page { buried, after, limit: usize::MAX, ..Page::default() })
    }

    /// Without the looks ahead and the end, of which a store may choose.
    pub(crate) fn check_load(&self, owner: Owner, ask: &Ask, loaded: &Loaded) {
        if !self.db.tables.members.contains_key(&owner.epoch) {
            assert!(loaded.lost);
            return;
        }
        assert!(!loaded.lost);
        let all = self.listed(false, ask.after);
        let end = loaded.end;
        assert!(loaded.timers.len() <= ask.limit);
        let is_whole = end >= Place::last_of(ask.until);
        let is_its =
            |timer: &&Stored| matches!(timer.state, State::Begun { epoch, .. } if epoch == owner.epoch);
        let expected: Vec<Near> = all
            .iter()
            .filter(|timer| timer.timer.place() <= end && timer.timer.due() <= ask.until)
            .filter(|timer| ask.kinds.contains(&timer.kind))
            .filter(|timer| !is_its(timer))
            .map(|timer| timer.timer)
            .collect();
        assert_eq!(loaded.timers, expected);
        let next = all.iter().map(|timer| timer.timer).find(|near| near.place() > end);
        assert_eq!(loaded.next_due, next.map(Near::due));
        // It ends early only because there was too much.
        assert!(is_whole || next.is_some(), "{loaded:?}");
    }

    /// Some timer, to be asked of.
    pub(crate) fn any(&self, random: &mut fastrand::Rng) -> Option<Stored> {
        let mut all = self.listed(false, Place::FIRST);
        all.extend(self.listed(true, Place::FIRST));
        random.choice(all)
    }
}

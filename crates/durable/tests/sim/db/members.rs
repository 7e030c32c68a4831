//! Instances in the database: who has which shards, and who helps where.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use timingwheel_durable::Place;
use timingwheel_durable::store::{Kinds, Paused};

use super::{Db, Event, FIRST_LEASE_MS, Helps, Lack, Lease, Lock, Member, Parts, SHARDS, Who, shard};

impl Db {
    /// `tells`: even if no shard moves, because an instance with handlers has come or gone.
    fn share_out(&mut self, tells: bool) {
        let shares_all = self.has(Lack::ShareAll);
        let tables = &mut self.tables;
        let held = |epoch: u64| tables.owners.values().filter(|owner| **owner == epoch).count();
        let mut alive: Vec<(u64, usize)> = tables
            .members
            .iter()
            .filter(|(_, m)| !m.kinds.is_empty())
            .map(|(epoch, _)| (*epoch, held(*epoch)))
            .collect();
        alive.sort_by_key(|(epoch, held)| (usize::MAX - held, *epoch));
        let (all, count) = (64, alive.len());
        let mut kept: BTreeMap<u64, u64> = BTreeMap::new();
        let mut wants: Vec<(usize, u64)> = Vec::new();
        for (rank, (epoch, _)) in alive.iter().enumerate() {
            let quota = all / count + usize::from(rank < all % count && shares_all);
            let own: Vec<u64> = tables
                .owners
                .iter()
                .filter(|(_, owner)| *owner == epoch)
                .map(|(s, _)| *s)
                .take(quota)
                .collect();
            wants.extend((1..=quota - own.len()).map(|g| (g, *epoch)));
            kept.extend(own.into_iter().map(|shard| (shard, *epoch)));
        }
        wants.sort_unstable();
        let free: Vec<u64> = (0..SHARDS).filter(|shard| !kept.contains_key(shard)).collect();
        kept.extend(free.into_iter().zip(wants).map(|(shard, (_, epoch))| (shard, epoch)));
        let has_changed = tables.owners != kept;
        if has_changed {
            self.history.push(Event::Shares { owners: kept.clone() });
        }
        tables.owners = kept;
        tables.helps.take();
        if (has_changed || tells) && self.has(Lack::ShareHints) {
            self.notes.push(None);
        }
    }

    /// Whether the owner of a shard has no handler for a kind, or cannot read rules of its series. Then the timer is a helper's.
    pub(super) fn lacks(&self, shard: u64, kind: &str, is_series: bool) -> bool {
        let owner = self.tables.owners.get(&shard).and_then(|owner| self.tables.members.get(owner));
        owner.is_some_and(|owner| !owner.can(kind, is_series)) && self.has(Lack::Helps)
    }

    /// The shards of others in which it helps, and with what: of the instances that can, it is its turn. Remembered until an instance
    /// or a shard changes.
    pub(super) fn helps(&self, epoch: u64) -> Arc<Helps> {
        let mut helps = self.tables.helps.borrow_mut();
        Arc::clone(helps.entry(epoch).or_insert_with(|| Arc::new(self.helps_anew(epoch))))
    }

    fn helps_anew(&self, epoch: u64) -> Helps {
        let mut helps = Helps::new();
        let members = &self.tables.members;
        let Some(me) = members.get(&epoch).filter(|_| self.has(Lack::Helps)) else { return helps };
        let asked = me.kinds.iter().flat_map(|kind| [(kind, false), (kind, true)]);
        for (kind, is_series) in asked.filter(|(kind, is_series)| me.can(kind, *is_series)) {
            let able = || members.iter().filter(|(_, member)| member.can(kind, is_series));
            let (total, rank) =
                (able().count() as u64, able().filter(|(other, _)| **other < epoch).count() as u64);
            for shard in
                (0..SHARDS).filter(|shard| shard % total == rank && self.lacks(*shard, kind, is_series))
            {
                helps.entry(shard).or_default().insert((kind.clone(), is_series));
            }
        }
        helps
    }

    fn remove_the_dead(&mut self) -> u32 {
        let now = self.now_ms;
        let dead: Vec<u64> =
            self.tables.members.iter().filter(|(_, m)| m.expires_at < now).map(|(epoch, _)| *epoch).collect();
        let mut shards = 0;
        self.tables.helps.take();
        for epoch in dead {
            self.tables.members.remove(&epoch);
            shards += self.tables.owners.values().filter(|owner| **owner == epoch).count();
            self.log(Event::Gone { epoch, why: "expired" });
        }
        u32::try_from(shards).unwrap_or(0)
    }

    pub(crate) fn join(&mut self, lease_ms: i64, kinds: &Kinds, token: u64) -> u64 {
        self.tables.epochs += 1;
        let epoch = self.tables.epochs;
        self.remove_the_dead();
        let first_ms = if self.has(Lack::FirstLease) { lease_ms.min(FIRST_LEASE_MS) } else { lease_ms };
        let (kinds_of, unread) = (Arc::clone(kinds), Paused::new());
        let member = Member { expires_at: self.now_ms + first_ms, kinds: kinds_of, unread, token };
        self.tables.members.insert(epoch, member);
        self.log(Event::Joined { inst: self.asks, epoch });
        self.share_out(!kinds.is_empty());
        epoch
    }

    pub(super) fn is_member(&self, who: Who) -> bool {
        let has_tokens = self.has(Lack::Token);
        self.tables.members.get(&who.epoch).is_some_and(|member| member.token == who.token || !has_tokens)
    }

    /// `None` if the instance is none any more. `low`: no timer of its shards is due before.
    pub(crate) fn renew(
        &mut self,
        who: Who,
        lease_ms: i64,
        from: Option<Timestamp>,
        low: Option<i64>,
        unread: &BTreeSet<String>,
    ) -> Option<Lease> {
        let (now, epoch) = (self.now_ms, who.epoch);
        let (is_member, lengthens) = (self.is_member(who), self.has(Lack::RenewLengthens));
        let member = self.tables.members.get_mut(&epoch).filter(|_| is_member)?;
        if lengthens {
            member.expires_at = now + lease_ms;
        }
        if member.unread != *unread {
            member.unread.clone_from(unread);
            self.tables.helps.take();
            self.notes.push(None);
        }
        let members = &self.tables.members;
        let is_unshared =
            self.tables.owners.len() < 64 && members.values().any(|member| !member.kinds.is_empty());
        let mut taken = 0;
        if (members.values().any(|member| member.expires_at < now) && self.has(Lack::RenewRemoves))
            || is_unshared
        {
            taken = if self.has(Lack::RenewRemoves) { self.remove_the_dead() } else { 0 };
            if self.has(Lack::RenewShares) {
                self.share_out(true);
            }
        }
        let others = self.tables.members.iter().filter(|(other, _)| **other != epoch);
        let others_ms = others.map(|(_, member)| member.expires_at - now).min();
        let owners = self.tables.owners.iter();
        let shards: BTreeSet<u64> =
            owners.filter(|(_, owner)| **owner == epoch).map(|(shard, _)| *shard).collect();
        let helps = self.helps(epoch).keys().copied().collect();
        let me = &self.tables.members[&epoch].kinds;
        let is_helped =
            !unread.is_empty() || self.tables.members.values().any(|other| !other.kinds.is_subset(me));
        let parts = Parts { shards, helps, is_helped };
        if let Some(low) = low {
            self.tables.lows.extend(parts.shards.iter().map(|shard| (*shard, low)));
        }
        let lows = (0..SHARDS).filter(|shard| parts.has(*shard)).map(|shard| self.tables.lows.get(&shard));
        let low = lows.collect::<Option<Vec<_>>>().and_then(|lows| lows.into_iter().min().copied());
        let first_due = from.and_then(|from| {
            let rows = self.tables.rows.values().skip_while(|row| row.timer.due() < from);
            let mut pending = rows.filter(|row| row.begun_by != Some(epoch));
            pending.find(|row| parts.has(shard(row.timer.id().unique()))).map(|row| row.timer.due())
        });
        let paused = self.tables.paused.clone();
        Some(Lease { parts, others_ms, taken, first_due, low, now_ms: now, paused })
    }

    pub(crate) fn leave(&mut self, who: Who) -> u64 {
        let (mut given_back, epoch) = (0, who.epoch);
        if !self.is_member(who) {
            return 0;
        }
        {
            let tables = &self.tables;
            let begun: Vec<Place> = tables
                .rows
                .iter()
                .filter(|(_, row)| row.begun_by == Some(epoch))
                .map(|(at, _)| *at)
                .collect();
            for at in begun {
                let Some(row) = self.tables.rows.get_mut(&at) else { continue };
                if self.locks.contains(&Lock::Timer(row.timer.id().unique())) {
                    continue;
                }
                given_back += 1;
                row.crash();
                if row.ending {
                    let id = row.timer.id();
                    self.remove(at);
                    self.log(Event::Dropped { id, why: "cancelled, and given back" });
                }
            }
        }
        self.tables.helps.take();
        if self.tables.members.remove(&epoch).is_some() {
            self.log(Event::Gone { epoch, why: "left" });
            if self.has(Lack::LeaveShares) {
                self.share_out(true);
            }
        }
        given_back
    }
}

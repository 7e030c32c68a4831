//! The calls by which an instance joins, renews its lease and leaves, and the shards that it owns as far as it knows. The
//! functions `share_out` and `renew` in `sql/functions.sql` decide which instance owns which shard.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use futures::future::join;
use jiff::Timestamp;
use tokio::time::timeout;
use tokio_postgres::error::SqlState;

use super::connections::{Parameter, Sends};
use super::convert::get;
use super::shards::{AllShards, Shards};
use super::{Inner, Result, options};
use crate::id::{drawn, millis, timestamp};
use crate::store::{Kinds, Owner, Renewed, Standing};

/// How long an instance that leaves tries to send its hints, and to give back the timers that it has begun.
pub(super) const GIVE_BACK: Duration = Duration::from_millis(500);

/// The lease until the first renewal, which follows at once. So if the answer to a join is lost, the instance that nobody is
/// keeps its shards for no longer.
const FIRST_LEASE: Duration = Duration::from_secs(10);

fn lease_ms(lease: Duration) -> i64 {
    i64::try_from(lease.as_millis()).unwrap_or(i64::MAX / 2).clamp(1, 1 << 42)
}

impl Inner {
    /// The epoch and the token of an owner, by which the functions know it.
    pub(super) fn identity(&self, owner: Owner) -> (i64, Option<i64>) {
        (owner.epoch.cast_signed(), self.owned.token(owner.epoch))
    }

    pub(super) async fn join(&self, lease: Duration, kinds: Kinds) -> Result<Owner> {
        let Self { connections, options, owned, .. } = self;
        // After a restore another instance may have its epoch, and never this.
        let token = drawn().cast_signed();
        let names: Vec<&str> = kinds.iter().map(String::as_str).collect();
        let parameters: [&dyn Parameter; 5] =
            [&lease_ms(lease.min(FIRST_LEASE)), &options.name, &options.is_sole, &names, &token];
        let statement = "select * from timingwheel.join_instance($1, $2, $3, $4, $5)";
        let row = connections.for_lease(options.timeout).ask_one(statement, &parameters).await?;
        let epoch = get::<i64>(&row, "epoch")?.cast_unsigned();
        owned.insert(epoch, token, lease, kinds);
        owned.set_clock(get(&row, "now_us")?);
        Ok(Owner { epoch })
    }

    pub(super) async fn leave(&self, owner: Owner) -> Result<u64> {
        let (epoch, token) = self.identity(owner);
        self.owned.remove(owner.epoch);
        self.hears_no_more(owner).await;
        let Self { connections, options, .. } = self;
        // Before it leaves. Afterwards other instances would begin these timers, even cancelled ones. It is given little time,
        // because the shards wait for it.
        let limit = options.timeout.min(GIVE_BACK);
        let parameters: [&dyn Parameter; 2] = [&epoch, &token];
        let give_back = "select timingwheel.give_back($1, $2) as given_back";
        let calls = connections.within(limit);
        let giving_back = calls.ask_one(give_back, &parameters);
        // The program may end with this owner, so the hints are sent.
        let (_, given_back) = join(timeout(limit, self.send_notes()), giving_back).await;
        let of_lease = connections.for_lease(options.timeout);
        of_lease.ask_one("select timingwheel.leave($1, $2)", &parameters).await?;
        given_back.map_or(Ok(0), |row| Ok(get::<i64>(&row, "given_back")?.cast_unsigned()))
    }

    pub(super) async fn renew(self: &Arc<Self>, owner: Owner, from: Option<Timestamp>) -> Result<Renewed> {
        let Inner { connections, options, owned, .. } = &**self;
        let nothing = |standing| Renewed { standing, ..Renewed::default() };
        let lost = if options.is_sole { Standing::Lost } else { Standing::Expired };
        let Some(own) = owned.of(owner.epoch) else { return Ok(nothing(lost)) };
        // A later answer is of no use.
        let limit = options.timeout.min(own.lease / 3);
        let ((epoch, token), from) = (self.identity(owner), from.map(millis));
        let parameters: [&dyn Parameter; 6] =
            [&epoch, &token, &lease_ms(own.lease), &from, &own.low_ms, &own.unread];
        let statement = "select r.*, (select paused from timingwheel.format) as paused \
            from timingwheel.renew($1, $2, $3, $4, $5, $6) r";
        let row = match connections.for_lease(limit).ask_one(statement, &parameters).await {
            // A newer format has other functions.
            Err(error) if error.has_code(&SqlState::UNDEFINED_FUNCTION) => {
                options::check(connections).await?;
                return Err(error);
            }
            row => &row?,
        };
        options::allow(Some((options::KNOWN, get(row, "oldest")?)))?;
        if !get::<bool>(row, "alive")? {
            owned.remove(owner.epoch);
            self.hears_no_more(owner).await;
            return Ok(nothing(lost));
        }
        let now_us = get(row, "now_us")?;
        owned.set_clock(now_us);
        let parts = Parts {
            shards: Shards::of(&get::<Vec<i16>>(row, "shards")?),
            helps: Shards::of(&get::<Vec<i16>>(row, "helps")?),
            is_helped: get(row, "is_helped")?,
        };
        let shards = parts.shards.clone();
        let before = owned.set_parts(owner.epoch, parts.clone()).unwrap_or_default();
        if let Some(lost) = before.shards.first_not_in(&shards) {
            // It may have saved timers into them without telling anybody. Any hint makes the other instances scan.
            self.tell(lost, owned.now_ms());
        }
        // Not all at once.
        let mut again_in = (own.lease / 3).mul_f64(0.9 + fastrand::f64() / 10.0);
        if let Some(others) = get::<Option<i64>>(row, "others_ms")? {
            let others = Duration::from_millis(u64::try_from(others).unwrap_or(0) + fastrand::u64(5..25));
            again_in = again_in.min(others);
        }
        let [first_due, low] = ["first_due", "low"].map(|name| get::<Option<i64>>(row, name));
        let is_same = (&before.shards, &before.helps) == (&parts.shards, &parts.helps);
        Ok(Renewed {
            standing: if is_same { Standing::Same } else { Standing::Changed },
            again_in,
            good_for: own.lease * 4 / 5,
            clock: Timestamp::from_microsecond(now_us).ok(),
            first_due: first_due?.map(timestamp),
            low: low?.map(timestamp),
            paused: get::<Vec<String>>(row, "paused")?.into_iter().collect(),
            taken: u32::try_from(get::<i32>(row, "taken")?).unwrap_or(0),
            shards: if own.kinds.is_empty() { (0, 0) } else { (shards.count(), self.shards.count()) },
        })
    }
}

/// A timer due within so many milliseconds is put into a shard of the instance that saves it, if it knows its kind: then
/// nobody has to be told. The rest is spread over all shards.
pub(super) const SOON_MS: i64 = 120_000;

/// How many bits of a number are the count's and the shard's. The epoch's are before.
const BITS: u32 = 36;

/// The parts of an owner in the timers.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    /// Its own shards.
    pub(super) shards: Shards,
    /// The shards in which it helps: it begins timers of kinds for which their owner has no handler.
    pub(super) helps: Shards,
    /// Others have handlers for kinds for which it has none, and begin these in its shards.
    is_helped: bool,
}

/// The knowledge about one owner.
#[derive(Clone, Debug)]
pub(super) struct Owned {
    pub(super) lease: Duration,
    /// The kinds that the owner has handlers for.
    kinds: Kinds,
    /// Of these kinds there are series whose rules the owner cannot read.
    unread: Vec<String>,
    pub(super) parts: Parts,
    /// When the first timer of its shards is due, as far as the last load from the beginning has seen.
    pub(super) low_ms: Option<i64>,
}

#[derive(Debug, Default)]
struct Known {
    /// The owners that have joined by this store: mostly one.
    owners: HashMap<u64, Owned>,
    /// Also of owners that are none any more: they may still tell how their attempts ended.
    tokens: HashMap<u64, i64>,
    /// The clock of the database in microseconds, at a moment. `None` without an owner, as renewals read it.
    clock: Option<(Instant, i64)>,
}

#[derive(Debug)]
pub(super) struct OwnedShards {
    all: AllShards,
    known: RwLock<Known>,
}

impl OwnedShards {
    pub(super) fn new(all: AllShards) -> Self {
        Self { all, known: RwLock::default() }
    }

    fn read(&self) -> RwLockReadGuard<'_, Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn insert(&self, epoch: u64, token: i64, lease: Duration, kinds: Kinds) {
        let mut known = self.write();
        known.tokens.insert(epoch, token);
        let (parts, unread) = (Parts::default(), Vec::new());
        known.owners.insert(epoch, Owned { lease, kinds, unread, parts, low_ms: None });
    }

    /// Drawn at random as the owner joined: after a restore another instance may have its epoch, and never this. `None` if it has
    /// joined by another store.
    pub(super) fn token(&self, epoch: u64) -> Option<i64> {
        self.read().tokens.get(&epoch).copied()
    }

    pub(super) fn remove(&self, epoch: u64) {
        let mut known = self.write();
        known.owners.remove(&epoch);
        if known.owners.is_empty() {
            known.clock = None;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.read().owners.is_empty()
    }

    pub(super) fn of(&self, epoch: u64) -> Option<Owned> {
        self.read().owners.get(&epoch).cloned()
    }

    /// `None` if there is no such owner.
    pub(super) fn change<T>(&self, epoch: u64, change: impl FnOnce(&mut Owned) -> T) -> Option<T> {
        self.write().owners.get_mut(&epoch).map(change)
    }

    /// Returns the parts before.
    pub(super) fn set_parts(&self, epoch: u64, parts: Parts) -> Option<Parts> {
        self.change(epoch, |of_owner| {
            if of_owner.parts.shards != parts.shards {
                of_owner.low_ms = None;
            }
            std::mem::replace(&mut of_owner.parts, parts)
        })
    }

    /// The owner cannot read the rule of a series of this kind.
    pub(super) fn cannot_read(&self, epoch: u64, kind: &str) {
        self.change(epoch, |of_owner| {
            if let Err(place) = of_owner.unread.binary_search_by(|unread| unread.as_str().cmp(kind)) {
                of_owner.unread.insert(place, kind.to_owned());
            }
        });
    }

    /// The clock of the database showed this a moment ago, so deadlines that are reckoned from it are never too late.
    pub(super) fn set_clock(&self, shown_us: i64) {
        self.write().clock = Some((Instant::now(), shown_us));
    }

    /// What the clock of the database will show so long from now. `None` if that is not known here.
    pub(super) fn clock_us(&self, from_now: Duration) -> Option<i64> {
        let (at, shown_us) = self.read().clock?;
        shown_us.checked_add(i64::try_from(at.elapsed().saturating_add(from_now).as_micros()).ok()?)
    }

    /// The time by the clock of the database.
    pub(super) fn clock(&self) -> Option<Timestamp> {
        Timestamp::from_microsecond(self.clock_us(Duration::ZERO)?).ok()
    }

    /// The same, or of this machine if that is not known here.
    pub(super) fn now_ms(&self) -> i64 {
        self.clock().unwrap_or_else(Timestamp::now).as_millisecond()
    }

    /// Whether the owner begins timers of this shard, of some kind at least.
    pub(super) fn has(&self, epoch: u64, shard: u64) -> bool {
        self.of(epoch).is_some_and(|Owned { parts, .. }| parts.shards.has(shard) || parts.helps.has(shard))
    }

    /// Whether the only owner that has joined by this store begins all timers of this shard. Of several owners, each tells only its
    /// own runner.
    pub(super) fn is_of_the_only_one(&self, shard: u64) -> bool {
        let owners = &self.read().owners;
        let begins_all = |Owned { parts, .. }: &Owned| parts.shards.has(shard) && !parts.is_helped;
        owners.len() == 1 && owners.values().all(begins_all)
    }

    /// A number of its own for the `count`th timer that the owner saves, with its shard at the end. After a restore two instances
    /// may have one epoch, so each counts from a number of its own.
    pub(super) fn number(&self, epoch: u64, count: u64, due_in_ms: i64, kind: &str) -> u64 {
        let count = count.wrapping_add(self.token(epoch).unwrap_or(0).cast_unsigned());
        let own = self.of(epoch).filter(|of_owner| due_in_ms < SOON_MS && of_owner.kinds.contains(kind));
        let own = own.and_then(|of_owner| of_owner.parts.shards.nth(count));
        let shard = own.unwrap_or_else(|| self.all.spread(count));
        let count_bits = BITS - self.all.bits();
        epoch << BITS | (count & ((1 << count_bits) - 1)) << self.all.bits() | shard
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashSet};

    use super::*;

    const NOBODY: [&str; 0] = [];

    fn owned<const N: usize>(shards: u32, kinds: [&str; N]) -> OwnedShards {
        let owned = OwnedShards::new(AllShards::new(shards).expect("a number of shards"));
        owned.insert(7, 1, Duration::from_secs(1), Arc::new(kinds.map(str::to_owned).into()));
        owned
    }

    fn own(shards: &[i16]) -> Parts {
        Parts { shards: Shards::of(shards), ..Parts::default() }
    }

    #[test]
    fn what_is_due_soon_and_known_is_in_a_shard_of_the_instances_own_and_the_rest_is_spread() {
        for all in [64, 1_024] {
            let owned = owned(all, ["known"]);
            let last = i16::try_from(all).expect("it is small") - 1;
            owned.set_parts(7, own(&[0, 5, last]));
            let shard = |number| owned.all.of(number);
            let shards = |due_in_ms, kind| -> BTreeSet<u64> {
                (0..20_000).map(|count| shard(owned.number(7, count, due_in_ms, kind))).collect()
            };
            assert_eq!(shards(10, "known"), BTreeSet::from([0, 5, u64::from(all) - 1]));
            assert_eq!(shards(SOON_MS, "known").len(), all as usize);
            assert_eq!(shards(10, "unknown").len(), all as usize);
            let near = shard(owned.number(7, 9, 10, "known"));
            assert!(owned.has(7, near) && owned.is_of_the_only_one(near) && !owned.has(8, near));
            owned.insert(8, 2, Duration::from_secs(1), Arc::default());
            assert!(!owned.is_of_the_only_one(near), "another one's runner does not hear of it");
        }
    }

    #[test]
    fn an_owner_whose_shards_have_helpers_tells_them_of_what_it_saves() {
        let owned = owned(64, ["known"]);
        owned.set_parts(7, Parts { is_helped: true, ..own(&[3]) });
        assert!(owned.has(7, 3) && !owned.is_of_the_only_one(3));
    }

    #[test]
    fn a_statement_that_may_take_for_ever_is_always_in_time() {
        let owned = owned(64, NOBODY);
        owned.set_clock(1_000_000);
        assert!(owned.clock_us(Duration::from_secs(1)).is_some_and(|until| until >= 2_000_000));
        assert_eq!(owned.clock_us(Duration::MAX), None);
    }

    #[test]
    fn instances_that_have_one_epoch_after_a_restore_give_different_numbers() {
        let [one, other] = [0x0123_4567_89ab, -0x7654_3210_fedc].map(|token| {
            let owned = OwnedShards::new(AllShards::new(64).expect("a number of shards"));
            owned.insert(7, token, Duration::from_secs(1), Arc::default());
            (0..1_000).map(|count| owned.number(7, count, SOON_MS, "kind")).collect::<HashSet<_>>()
        });
        assert!(one.len() == 1_000 && one.is_disjoint(&other));
    }

    #[test]
    fn numbers_are_different_for_each_epoch_and_count_and_have_63_bits() {
        for all in [64, 1_024] {
            let owned = owned(all, NOBODY);
            let mut seen = HashSet::new();
            for epoch in [1, 2, 67_108_863] {
                for count in [0, 1, 63, 64, (1 << (BITS - owned.all.bits())) - 1] {
                    let number = owned.number(epoch, count, 0, "kind");
                    let is_new = seen.insert(number >> owned.all.bits());
                    assert!(number < 1 << 62 && is_new, "{epoch} {count}");
                }
            }
        }
    }
}

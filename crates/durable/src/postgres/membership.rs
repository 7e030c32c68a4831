//! The calls by which an instance joins, renews its lease and leaves, and the shards that it owns as far as it knows. The
//! functions `share_out` and `renew` in `sql/functions.sql` decide which instance owns which shard.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use futures::future::join;
use jiff::Timestamp;
use tokio::time::timeout;
use tokio_postgres::types::Type;

use super::convert::{SHARDS, is_among, shards};
use super::{Inner, PostgresError, Result, convert, only, options};
use crate::id::{millis, timestamp};
use crate::store::{Kinds, Near, Owner, Renewed, Standing};

/// How long an instance that leaves tries to send its hints, and to give back the timers that it has begun.
pub(super) const GIVE_BACK: Duration = Duration::from_millis(500);

/// The lease until the first renewal, which follows at once. So if the answer to a join is lost, the instance that nobody is
/// keeps its shards for no longer.
const FIRST_LEASE: Duration = Duration::from_secs(10);

fn lease_ms(lease: Duration) -> i64 {
    i64::try_from(lease.as_millis()).unwrap_or(i64::MAX / 2).clamp(1, 1 << 42)
}

impl Inner {
    pub(super) async fn join(&self, lease: Duration, works: bool) -> Result<Owner> {
        let Inner { connections, options, owned, .. } = self;
        // Of its own generator: the one of each thread may have a seed that a test or a program has set.
        let token = fastrand::Rng::new().i64(..);
        let rows = connections
            .ask_for_lease(
                options.timeout,
                "select * from timingwheel.join_instance($1, $2, $3, $4, $5)",
                &[
                    (&lease_ms(lease.min(FIRST_LEASE)), Type::INT8),
                    (&options.name, Type::TEXT),
                    (&options.is_sole, Type::BOOL),
                    (&works, Type::BOOL),
                    (&token, Type::INT8),
                ],
            )
            .await?;
        let row = only(&rows)?;
        let epoch = convert::get::<i64>(row, "epoch")?.cast_unsigned();
        owned.insert(epoch, token, lease, works);
        owned.set_clock(epoch, convert::get(row, "now_us")?);
        Ok(Owner { epoch })
    }

    pub(super) async fn leave(&self, owner: Owner) -> Result<u64> {
        let token = self.owned.token(owner.epoch);
        self.owned.remove(owner.epoch);
        self.hears_no_more(owner).await;
        let Inner { connections, options, .. } = self;
        let epoch = owner.epoch.cast_signed();
        // Before it leaves. Afterwards other instances would begin these timers, even cancelled ones. It is given little time,
        // because the shards wait for it.
        let give_back = "select timingwheel.give_back($1, $2) as given_back";
        let limit = options.timeout.min(GIVE_BACK);
        let parameters = [(&epoch as _, Type::INT8), (&token as _, Type::INT8)];
        let giving_back = connections.ask_within(limit, give_back, &parameters);
        // The program may end with this owner, so the hints are sent.
        let (_, given_back) = join(timeout(limit, self.send_notes()), giving_back).await;
        connections.ask_for_lease(options.timeout, "select timingwheel.leave($1, $2)", &parameters).await?;
        match given_back {
            Ok(rows) => Ok(convert::get::<i64>(only(&rows)?, "given_back")?.cast_unsigned()),
            Err(_) => Ok(0),
        }
    }

    pub(super) async fn renew(self: &Arc<Self>, owner: Owner, from: Option<Timestamp>) -> Result<Renewed> {
        let Inner { connections, options, owned, .. } = &**self;
        let nothing = |standing| Renewed {
            standing,
            again_in: Duration::ZERO,
            good_for: Duration::ZERO,
            clock: None,
            first_due: None,
            taken: 0,
            shards: (0, 0),
        };
        let lost = if options.is_sole { Standing::Lost } else { Standing::Expired };
        let Some(own) = owned.of(owner.epoch) else { return Ok(nothing(lost)) };
        // A later answer is of no use.
        let limit = options.timeout.min(own.lease / 3);
        let (epoch, lease) = (owner.epoch.cast_signed(), lease_ms(own.lease));
        let from = from.map(millis);
        let parameters = [
            (&epoch as _, Type::INT8),
            (&self.owned.token(owner.epoch) as _, Type::INT8),
            (&lease as _, Type::INT8),
            (&from as _, Type::INT8),
        ];
        let statement = "select * from timingwheel.renew($1, $2, $3, $4)";
        let rows = match connections.ask_for_lease(limit, statement, &parameters).await {
            // A newer format has other functions.
            Err(error) if error.is_unknown_function() => {
                options::check(connections).await?;
                return Err(error);
            }
            rows => rows?,
        };
        let row = only(&rows)?;
        let oldest: i32 = convert::get(row, "oldest")?;
        if oldest > options::KNOWN {
            return Err(PostgresError::Format { oldest, known: options::KNOWN });
        }
        if !convert::get::<bool>(row, "alive")? {
            owned.remove(owner.epoch);
            self.hears_no_more(owner).await;
            return Ok(nothing(lost));
        }
        let shards = shards(&convert::get::<Vec<i16>>(row, "shards")?);
        let now_us = convert::get(row, "now_us")?;
        owned.set_clock(owner.epoch, now_us);
        let before = owned.set_shards(owner.epoch, shards).unwrap_or(0);
        let lost = before & !shards;
        if lost != 0 {
            // It may have saved timers into them without telling anybody. Any hint makes the other instances scan.
            self.tell(u64::from(lost.trailing_zeros()), owned.now_ms(owner.epoch));
        }
        // Not all at once.
        let mut again_in = (own.lease / 3).mul_f64(0.9 + fastrand::f64() / 10.0);
        if let Some(others) = convert::get::<Option<i64>>(row, "others_ms")? {
            let others = Duration::from_millis(u64::try_from(others).unwrap_or(0) + fastrand::u64(5..25));
            again_in = again_in.min(others);
        }
        let first_due: Option<i64> = convert::get(row, "first_due")?;
        Ok(Renewed {
            standing: if before != shards { Standing::Changed } else { Standing::Same },
            again_in,
            good_for: own.lease * 4 / 5,
            clock: Timestamp::from_microsecond(now_us).ok(),
            first_due: first_due.map(timestamp),
            taken: u32::try_from(convert::get::<i32>(row, "taken")?).unwrap_or(0),
            shards: if own.works { (shards.count_ones(), 64) } else { (0, 0) },
        })
    }
}

/// A timer due within so many milliseconds is put into a shard of the instance that saves it, if it knows its kind: then
/// nobody has to be told. The rest is spread over all shards.
pub(super) const SOON_MS: i64 = 120_000;

/// How a number is made up, from its end: the shard, the count, the epoch.
const SHARD_BITS: u32 = 6;
const COUNT_BITS: u32 = 30;

/// The knowledge about one owner.
#[derive(Clone, Debug)]
pub(super) struct Owned {
    pub(super) lease: Duration,
    /// It has handlers.
    pub(super) works: bool,
    /// A bit for each shard.
    pub(super) shards: u64,
    /// The kinds that the owner has handlers for, as it has told when it loaded.
    kinds: Kinds,
    /// The clock of the database in microseconds, at a moment.
    clock: Option<(Instant, i64)>,
}

/// The owners that have joined by this store: mostly one.
#[derive(Debug, Default)]
pub(super) struct OwnedShards {
    owners: RwLock<HashMap<u64, Owned>>,
    /// Also of owners that are none any more: they may still tell how their attempts ended.
    tokens: RwLock<HashMap<u64, i64>>,
}

impl OwnedShards {
    pub(super) fn insert(&self, epoch: u64, token: i64, lease: Duration, works: bool) {
        self.tokens.write().unwrap_or_else(PoisonError::into_inner).insert(epoch, token);
        let of_owner = Owned { lease, works, shards: 0, kinds: Arc::default(), clock: None };
        self.owners.write().unwrap_or_else(PoisonError::into_inner).insert(epoch, of_owner);
    }

    /// Drawn at random as the owner joined: after a restore another instance may have its epoch, and never this. `None` if it has
    /// joined by another store.
    pub(super) fn token(&self, epoch: u64) -> Option<i64> {
        self.tokens.read().unwrap_or_else(PoisonError::into_inner).get(&epoch).copied()
    }

    pub(super) fn remove(&self, epoch: u64) {
        self.owners.write().unwrap_or_else(PoisonError::into_inner).remove(&epoch);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.owners.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    pub(super) fn of(&self, epoch: u64) -> Option<Owned> {
        self.owners.read().unwrap_or_else(PoisonError::into_inner).get(&epoch).cloned()
    }

    /// `None` if there is no such owner.
    fn change<T>(&self, epoch: u64, change: impl FnOnce(&mut Owned) -> T) -> Option<T> {
        self.owners.write().unwrap_or_else(PoisonError::into_inner).get_mut(&epoch).map(change)
    }

    /// Returns the shards before.
    pub(super) fn set_shards(&self, epoch: u64, shards: u64) -> Option<u64> {
        self.change(epoch, |of_owner| std::mem::replace(&mut of_owner.shards, shards))
    }

    /// The clock of the database showed this a moment ago, so deadlines that are reckoned from it are never too late.
    pub(super) fn set_clock(&self, epoch: u64, shown_us: i64) {
        self.change(epoch, |of_owner| of_owner.clock = Some((Instant::now(), shown_us)));
    }

    /// The time by the clock of the database, as far as that is known here.
    pub(super) fn now_ms(&self, epoch: u64) -> i64 {
        self.clock(epoch).unwrap_or_else(Timestamp::now).as_millisecond()
    }

    /// The same, for whatever owner: all have one database.
    pub(super) fn any_now_ms(&self) -> i64 {
        let epoch = self.owners.read().unwrap_or_else(PoisonError::into_inner).keys().next().copied();
        epoch.map_or_else(|| Timestamp::now().as_millisecond(), |epoch| self.now_ms(epoch))
    }

    /// The time by the clock of the database. `None` if there is no such owner.
    pub(super) fn clock(&self, epoch: u64) -> Option<Timestamp> {
        let (at, shown_us) = self.of(epoch)?.clock?;
        let passed = i64::try_from(at.elapsed().as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_microsecond(shown_us.saturating_add(passed)).ok()
    }

    /// If a statement is sent now: when nobody waits for it any more, by the clock of the database.
    pub(super) fn valid_until_us(&self, epoch: u64, timeout: Duration) -> Option<i64> {
        let (at, shown) = self.of(epoch)?.clock?;
        let passed = i64::try_from(at.elapsed().saturating_add(timeout).as_micros()).ok()?;
        shown.checked_add(passed)
    }

    pub(super) fn set_kinds(&self, epoch: u64, kinds: &Kinds) {
        if self.of(epoch).is_some_and(|of_owner| !Arc::ptr_eq(&of_owner.kinds, kinds)) {
            self.change(epoch, |of_owner| of_owner.kinds = Arc::clone(kinds));
        }
    }

    pub(super) fn has(&self, epoch: u64, near: Near) -> bool {
        self.of(epoch).is_some_and(|of_owner| is_among(of_owner.shards, near))
    }

    /// Whether the only owner that has joined by this store has the timer. Of several owners, each tells only its own runner.
    pub(super) fn is_of_the_only_one(&self, near: Near) -> bool {
        let owned = self.owners.read().unwrap_or_else(PoisonError::into_inner);
        owned.len() == 1 && owned.values().all(|of_owner| is_among(of_owner.shards, near))
    }

    /// A number of its own for the `count`th timer that the owner saves, with its shard at the end.
    pub(super) fn number(&self, epoch: u64, count: u64, due_in_ms: i64, kind: &str) -> u64 {
        let own = self.of(epoch).filter(|of_owner| due_in_ms < SOON_MS && of_owner.kinds.contains(kind));
        let shard = match own {
            Some(of_owner) if of_owner.shards != 0 => {
                nth_bit(of_owner.shards, count % u64::from(of_owner.shards.count_ones()))
            }
            // Evenly spread over the shards.
            _ => count.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58,
        };
        let count = count & ((1 << COUNT_BITS) - 1);
        epoch << (COUNT_BITS + SHARD_BITS) | count << SHARD_BITS | shard
    }
}

/// The position of the `n`th bit that is set.
fn nth_bit(mut mask: u64, n: u64) -> u64 {
    for _ in 0..n {
        mask &= mask - 1;
    }
    u64::from(mask.trailing_zeros()) % SHARDS
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashSet};

    use super::super::convert::shard;
    use super::*;
    use crate::id::TimerId;

    #[test]
    fn what_is_due_soon_and_known_is_in_a_shard_of_the_instances_own_and_the_rest_is_spread() {
        let owned = OwnedShards::default();
        owned.insert(7, 1, Duration::from_secs(1), true);
        assert_eq!([1, 0b1010_0001].map(|shards| owned.set_shards(7, shards)), [Some(0), Some(1)]);
        let kinds: Kinds = Arc::new(BTreeSet::from(["known".to_owned()]));
        owned.set_kinds(7, &kinds);
        let shards = |due_in_ms, kind| -> HashSet<u64> {
            (0..1_000).map(|count| shard(owned.number(7, count, due_in_ms, kind))).collect()
        };
        assert_eq!(shards(10, "known"), HashSet::from([0, 5, 7]));
        assert_eq!(shards(SOON_MS, "known").len(), 64);
        assert_eq!(shards(10, "unknown").len(), 64);
        let near = Near::from(TimerId { due_ms: 1, unique: owned.number(7, 9, 10, "known") });
        assert!(owned.has(7, near) && owned.is_of_the_only_one(near) && !owned.has(8, near));
        owned.insert(8, 2, Duration::from_secs(1), true);
        assert!(!owned.is_of_the_only_one(near), "another one's runner does not hear of it");
    }

    #[test]
    fn a_statement_that_may_take_for_ever_is_always_in_time() {
        let owned = OwnedShards::default();
        owned.insert(7, 1, Duration::from_secs(1), true);
        owned.set_clock(7, 1_000_000);
        assert!(owned.valid_until_us(7, Duration::from_secs(1)).is_some_and(|until| until >= 2_000_000));
        assert_eq!(owned.valid_until_us(7, Duration::MAX), None);
    }

    #[test]
    fn numbers_are_different_for_each_epoch_and_count_and_have_63_bits() {
        let owned = OwnedShards::default();
        let mut seen = HashSet::new();
        for epoch in [1, 2, 67_108_863] {
            for count in [0, 1, 63, 64, (1 << COUNT_BITS) - 1] {
                let number = owned.number(epoch, count, 0, "kind");
                assert!(number < 1 << 62 && seen.insert(number >> SHARD_BITS), "{epoch} {count}");
            }
        }
    }
}

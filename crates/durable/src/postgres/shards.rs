//! How many shards there are, and sets of them.

use std::sync::Arc;

use super::{PostgresError, Result};

/// The fewest and the most shards of a schema.
const FEWEST: u32 = 64;
const MOST: u32 = 1_024;

/// All shards of a schema. Their number is a power of two: the last bits of a timer's number are its shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AllShards(u32);

impl Default for AllShards {
    fn default() -> Self {
        Self(FEWEST)
    }
}

impl AllShards {
    /// # Errors
    /// [`PostgresError::Setting`] for a number that is not allowed.
    pub(super) fn new(count: u32) -> Result<Self> {
        if count.is_power_of_two() && (FEWEST..=MOST).contains(&count) {
            return Ok(Self(count));
        }
        Err(PostgresError::Setting(format!(
            "the number of shards must be a power of two from {FEWEST} to {MOST}, got {count}"
        )))
    }

    pub(super) const fn count(self) -> u32 {
        self.0
    }

    /// How many bits of a number are its shard.
    pub(super) const fn bits(self) -> u32 {
        self.0.trailing_zeros()
    }

    /// The shard of a number.
    pub(super) fn of(self, number: u64) -> u64 {
        number % u64::from(self.0)
    }

    /// Spreads counts evenly over all shards.
    pub(super) fn spread(self, count: u64) -> u64 {
        count.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - self.bits())
    }
}

/// A set of shards, sorted. A clone is cheap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shards(Arc<[i16]>);

impl Shards {
    /// The set of these, which ascend.
    pub(super) fn of(shards: &[i16]) -> Self {
        debug_assert!(shards.is_sorted(), "{shards:?}");
        Self(shards.into())
    }

    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn has(&self, shard: u64) -> bool {
        i16::try_from(shard).is_ok_and(|shard| self.0.binary_search(&shard).is_ok())
    }

    /// One after the other, and then the first again. `None` if there are none.
    pub(super) fn nth(&self, count: u64) -> Option<u64> {
        let at = count.checked_rem(self.0.len() as u64)?;
        self.0.get(usize::try_from(at).ok()?).map(|shard| u64::from(shard.unsigned_abs()))
    }

    /// The first of these that is not among others.
    pub(super) fn first_not_in(&self, others: &Self) -> Option<u64> {
        self.0.iter().map(|shard| u64::from(shard.unsigned_abs())).find(|shard| !others.has(*shard))
    }
}

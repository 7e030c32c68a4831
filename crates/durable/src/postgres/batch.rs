//! Timers of a batch, as parameters and as answers.

use tokio_postgres::types::Type;

use super::PostgresError;
use super::connections::Parameter;
use super::convert::{number, shard};
use crate::store::Near;

/// Answers of functions that this version does not know.
pub(super) fn unknown(call: &str, answer: i32) -> PostgresError {
    PostgresError::Corrupt(format!("{call} was answered {answer}"))
}

/// Where timers of a batch stand, a column each.
#[derive(Default)]
pub(super) struct Places {
    dues: Vec<i64>,
    numbers: Vec<i64>,
    firsts: Vec<i64>,
}

impl Places {
    pub(super) fn of(nears: impl Iterator<Item = Near>) -> Result<Self, PostgresError> {
        let mut places = Self::default();
        for near in nears {
            places.dues.push(near.due_ms);
            places.numbers.push(number(near.id)?);
            places.firsts.push(near.id.due_ms);
        }
        Ok(places)
    }

    pub(super) fn parameters(&self) -> [Parameter<'_>; 3] {
        [(&self.dues, Type::INT8_ARRAY), (&self.numbers, Type::INT8_ARRAY), (&self.firsts, Type::INT8_ARRAY)]
    }
}

/// Which shards there are among timers, as bits.
pub(super) fn shards(shards: &[i16]) -> u64 {
    shards.iter().fold(0, |mask, shard| mask | 1 << (shard.unsigned_abs() & 63))
}

/// Whether a timer is in one of these.
pub(super) const fn is_among(mask: u64, near: Near) -> bool {
    mask >> shard(near.id.unique) & 1 == 1
}

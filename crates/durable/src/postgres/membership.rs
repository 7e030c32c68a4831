//! The calls by which an instance joins the others, stays one of them, and leaves. `share_out` and `renew` in
//! `sql/format_1.sql` decide who owns which shard, and who takes over from the dead.

use std::time::Duration;

use jiff::Timestamp;
use tokio_postgres::types::Type;

use super::batch::shards;
use super::{Inner, PostgresError, convert, only};
use crate::id::timestamp;
use crate::store::{Owner, Renewed, Standing};

fn lease_ms(lease: Duration) -> i64 {
    i64::try_from(lease.as_millis()).unwrap_or(i64::MAX / 2).clamp(1, 1 << 42)
}

impl Inner {
    pub(super) async fn join(&self, lease: Duration) -> Result<Owner, PostgresError> {
        let Inner { connections, options, owned, .. } = self;
        let rows = connections
            .ask(
                "select timingwheel.join_instance($1, $2, $3) as epoch",
                &[
                    (&lease_ms(lease), Type::INT8),
                    (&options.name, Type::TEXT),
                    (&options.is_sole, Type::BOOL),
                ],
            )
            .await?;
        let epoch = convert::get::<i64>(only(&rows)?, "epoch")?.cast_unsigned();
        owned.insert(epoch, lease);
        Ok(Owner { epoch })
    }

    pub(super) async fn leave(&self, owner: Owner) -> Result<u64, PostgresError> {
        self.owned.remove(owner.epoch);
        let epoch = convert::epoch(owner.epoch);
        let rows = self
            .connections
            .ask("select timingwheel.leave($1) as left_behind", &[(&epoch, Type::INT8)])
            .await?;
        Ok(convert::get::<i64>(only(&rows)?, "left_behind")?.cast_unsigned())
    }

    pub(super) async fn renew(&self, owner: Owner) -> Result<Renewed, PostgresError> {
        let Inner { connections, options, owned, .. } = self;
        let nothing = |standing| Renewed {
            standing,
            again_in: Duration::ZERO,
            good_for: Duration::ZERO,
            clock: None,
            first_due: None,
            taken: 0,
            shards: (0, 64),
        };
        let lost = if options.is_sole { Standing::Followed } else { Standing::Lost };
        let Some(own) = owned.of(owner.epoch) else { return Ok(nothing(lost)) };
        // An answer that comes later is of no use.
        let limit = options.timeout.min(own.lease / 3);
        let (epoch, lease) = (convert::epoch(owner.epoch), lease_ms(own.lease));
        let statement = "select * from timingwheel.renew($1, $2)";
        let rows =
            connections.ask_within(limit, statement, &[(&epoch, Type::INT8), (&lease, Type::INT8)]).await?;
        let row = only(&rows)?;
        if !convert::get::<bool>(row, "alive")? {
            owned.remove(owner.epoch);
            return Ok(nothing(lost));
        }
        let shards = shards(&convert::get::<Vec<i16>>(row, "shards")?);
        let now_us = convert::get(row, "now_us")?;
        owned.set_clock(owner.epoch, now_us);
        let has_changed = owned.set_shards(owner.epoch, shards);
        // Not all at once.
        let mut again_in = (own.lease / 3).mul_f64(0.9 + fastrand::f64() / 10.0);
        if let Some(others) = convert::get::<Option<i64>>(row, "others_ms")? {
            let others = Duration::from_millis(u64::try_from(others).unwrap_or(0) + fastrand::u64(5..25));
            again_in = again_in.min(others);
        }
        let first_due: Option<i64> = convert::get(row, "first_due")?;
        Ok(Renewed {
            standing: if has_changed { Standing::Changed } else { Standing::Same },
            again_in,
            good_for: own.lease * 4 / 5,
            clock: Timestamp::from_microsecond(now_us).ok(),
            first_due: first_due.map(timestamp),
            taken: u32::try_from(convert::get::<i32>(row, "taken")?).unwrap_or(0),
            shards: (shards.count_ones(), 64),
        })
    }
}

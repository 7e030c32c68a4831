//! The calls by which an instance joins the others, stays one of them, and leaves. `share_out` and `renew` in
//! `sql/tables_and_functions_1.sql` decide who owns which shard, and who takes over from the dead.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio_postgres::types::Type;

use super::convert::shards;
use super::{Inner, PostgresError, convert, only};
use crate::id::{millis, timestamp};
use crate::store::{Owner, Renewed, Standing};

/// How long an instance that leaves tries to say of each timer that it runs no more.
const GIVE_BACK: Duration = Duration::from_millis(500);

fn lease_ms(lease: Duration) -> i64 {
    i64::try_from(lease.as_millis()).unwrap_or(i64::MAX / 2).clamp(1, 1 << 42)
}

impl Inner {
    pub(super) async fn join(&self, lease: Duration, works: bool) -> Result<Owner, PostgresError> {
        let Inner { connections, options, owned, .. } = self;
        let rows = connections
            .ask(
                "select timingwheel.join_instance($1, $2, $3, $4) as epoch",
                &[
                    (&lease_ms(lease), Type::INT8),
                    (&options.name, Type::TEXT),
                    (&options.is_sole, Type::BOOL),
                    (&works, Type::BOOL),
                ],
            )
            .await?;
        let epoch = convert::get::<i64>(only(&rows)?, "epoch")?.cast_unsigned();
        owned.insert(epoch, lease, works);
        Ok(Owner { epoch })
    }

    pub(super) async fn leave(&self, owner: Owner) -> Result<u64, PostgresError> {
        self.owned.remove(owner.epoch);
        self.hears_no_more(owner).await;
        let Inner { connections, options, .. } = self;
        let epoch = convert::epoch(owner.epoch);
        // Before it leaves: from then on others begin what it had begun, also what was cancelled. But its shards wait for
        // nothing that takes long.
        let give_back = "select timingwheel.give_back($1) as given_back";
        let limit = options.timeout.min(GIVE_BACK);
        let given_back = connections.ask_within(limit, give_back, &[(&epoch, Type::INT8)]).await;
        connections.ask("select timingwheel.leave($1)", &[(&epoch, Type::INT8)]).await?;
        match given_back {
            Ok(rows) => Ok(convert::get::<i64>(only(&rows)?, "given_back")?.cast_unsigned()),
            Err(_) => Ok(0),
        }
    }

    pub(super) async fn renew(
        self: &Arc<Self>,
        owner: Owner,
        from: Option<Timestamp>,
    ) -> Result<Renewed, PostgresError> {
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
        let lost = if options.is_sole { Standing::Followed } else { Standing::Lost };
        let Some(own) = owned.of(owner.epoch) else { return Ok(nothing(lost)) };
        // An answer that comes later is of no use.
        let limit = options.timeout.min(own.lease / 3);
        let (epoch, lease) = (convert::epoch(owner.epoch), lease_ms(own.lease));
        let from = from.map(millis);
        let parameters = [(&epoch as _, Type::INT8), (&lease as _, Type::INT8), (&from as _, Type::INT8)];
        let statement = "select * from timingwheel.renew($1, $2, $3)";
        let rows = connections.ask_within(limit, statement, &parameters).await?;
        let row = only(&rows)?;
        if !convert::get::<bool>(row, "alive")? {
            owned.remove(owner.epoch);
            self.hears_no_more(owner).await;
            return Ok(nothing(lost));
        }
        let shards = shards(&convert::get::<Vec<i16>>(row, "shards")?);
        let now_us = convert::get(row, "now_us")?;
        owned.set_clock(owner.epoch, now_us);
        let before = owned.set_shards(owner.epoch, shards).unwrap_or(0);
        if before & !shards != 0 {
            self.note_lost(owner, before & !shards);
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

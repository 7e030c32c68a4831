//! In a transaction of the user's.

use jiff::Timestamp;
use tokio_postgres::Transaction;
use tokio_postgres::types::Type;

use super::convert::{epoch, get, id, number, rule, text};
use super::schema_name::Schema;
use super::{PostgresError, PostgresStore, changes, convert, only};
use crate::id::{TimerId, millis};
use crate::kind::Kind;
use crate::next_run;
use crate::store::{Near, Next, Removal, Series, Which};

/// The statement with which a timer is saved. Its number is taken from a sequence, with a random shard.
const SAVE: &str = "with n as (select (1::bigint << 62) | (nextval('timingwheel.numbers') << 6) \
        | floor(random() * 64)::bigint as number), \
    s as (select n.number, s.* from n, timingwheel.save_one($1, n.number, $2, $3, $4, null, $5) s) \
    select s.*, case when answer in (0, 2) then timingwheel.hint(number, $1) end from s";

impl PostgresStore {
    /// Saves a timer in a transaction: it is there if that is committed, with all else that is done in it.
    ///
    /// If it is due within two minutes, the instance that has the timer is told when the transaction is committed. Of
    /// transactions that save at the same time only one tells, and all instances look a second after that for what the others
    /// have saved. What is committed later still is found when the instance renews its [lease](crate::Builder::lease), at each
    /// third of that. So keep transactions short that save what is due soon.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use serde::{Deserialize, Serialize};
    /// # use timingwheel_durable::{Kind, PostgresStore, tokio_postgres};
    /// # #[derive(Serialize, Deserialize)]
    /// # struct CancelOrder { order: i64 }
    /// # impl Kind for CancelOrder { const KIND: &'static str = "cancel-order"; }
    /// # async fn example(
    /// #     store: PostgresStore, client: &mut tokio_postgres::Client, due: jiff::Timestamp,
    /// # ) -> Result<(), Box<dyn std::error::Error>> {
    /// let transaction = client.transaction().await?;
    /// transaction.execute("insert into orders (id) values (42)", &[]).await?;
    /// store.save_in(&transaction, due, &CancelOrder { order: 42 }).await?;
    /// transaction.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`PostgresError`]. After it the transaction can only be rolled back.
    pub async fn save_in<K: Kind>(
        &self,
        transaction: &Transaction<'_>,
        due: Timestamp,
        payload: &K,
    ) -> Result<TimerId, PostgresError> {
        // Without a key nothing is taken.
        self.save_any(transaction, None, false, due, payload).await.map(|saved| saved.unwrap_or_else(|id| id))
    }

    /// As [`save_in`](Self::save_in), under a key, such as `order-42`. If a timer has the key, nothing is done, and the
    /// answer is that timer as an `Err` within the `Ok`; the transaction goes on.
    ///
    /// # Errors
    /// As [`save_in`](Self::save_in).
    pub async fn save_keyed_in<K: Kind>(
        &self,
        transaction: &Transaction<'_>,
        key: &str,
        due: Timestamp,
        payload: &K,
    ) -> Result<Result<TimerId, TimerId>, PostgresError> {
        self.save_any(transaction, Some(key), false, due, payload).await
    }

    /// As [`save_in`](Self::save_in), under a key, in place of a timer that has the key and has not begun. If one has
    /// begun, the answer is that timer as an `Err` within the `Ok`; the transaction goes on.
    ///
    /// # Errors
    /// As [`save_in`](Self::save_in).
    pub async fn replace_in<K: Kind>(
        &self,
        transaction: &Transaction<'_>,
        key: &str,
        due: Timestamp,
        payload: &K,
    ) -> Result<Result<TimerId, TimerId>, PostgresError> {
        self.save_any(transaction, Some(key), true, due, payload).await
    }

    async fn save_any<K: Kind>(
        &self,
        transaction: &Transaction<'_>,
        key: Option<&str>,
        replaces: bool,
        due: Timestamp,
        payload: &K,
    ) -> Result<Result<TimerId, TimerId>, PostgresError> {
        convert::key(key)?;
        text("a kind", K::KIND)?;
        let payload = serde_json::to_vec(payload).map_err(PostgresError::Encode)?;
        let due_ms = millis(due);
        let parameters = [
            (&due_ms as _, Type::INT8),
            (&K::KIND as _, Type::TEXT),
            (&payload as _, Type::BYTEA),
            (&key as _, Type::TEXT),
            (&replaces as _, Type::BOOL),
        ];
        let row = transaction.query_typed_one(&self.0.connections.statement(SAVE), &parameters).await?;
        Ok(match get::<i32>(&row, "answer")? {
            0 | 2 => Ok(id(due_ms, get(&row, "number")?)),
            _ => Err(id(get(&row, "first")?, get(&row, "num")?)),
        })
    }

    /// Cancels a timer in a transaction, by its id or its key: it is gone if that is committed.
    ///
    /// Until then the timer's row is locked. Nobody begins the timer meanwhile, and the result of one that has begun waits, and
    /// up to a second longer: keep such a transaction short. [`Removal::Running`] may be answered up to a tenth of a second before the handler is
    /// called.
    ///
    /// # Errors
    /// [`PostgresError`]. After it the transaction can only be rolled back.
    pub async fn cancel_in(
        &self,
        transaction: &Transaction<'_>,
        which: impl Into<Which>,
    ) -> Result<Removal, PostgresError> {
        let (first, number, key) = changes::name(&which.into())?;
        let statement = self.0.connections.statement("select * from timingwheel.cancel_one($1, $2, $3)");
        let parameters = [(&first as _, Type::INT8), (&number as _, Type::INT8), (&key as _, Type::TEXT)];
        let row = transaction.query_typed_one(&statement, &parameters).await?;
        changes::removal(&row)
    }
}

/// Ends an attempt in a transaction, and lets its series go on, by the clock that its timer was due by.
pub(crate) async fn finish(
    transaction: &Transaction<'_>,
    schema: &Schema,
    (owner, attempt): (u64, u32),
    timer: Near,
    mut series: Option<Series>,
    now: impl Fn() -> Timestamp,
) -> Result<(), PostgresError> {
    let (epoch, number) = (epoch(owner), number(timer.id)?);
    let attempt = i32::try_from(attempt).unwrap_or(i32::MAX);
    let statement = schema.of(
        "select * from timingwheel.settle_one($1, $2, $3, $4, $5, 0, null, null, true, $6, $7, $8, true)",
    );
    loop {
        let next = match &series {
            Some(series) => {
                next_run::next(series, timer.id.first_due(), now()).map_err(PostgresError::Corrupt)?
            }
            None => None,
        };
        let (due, text) = next.map(|Next { due, series }| (millis(due), series.to_string())).unzip();
        let planned = series.as_ref().map(ToString::to_string);
        let rows = transaction
            .query_typed(
                &statement,
                &[
                    (&epoch, Type::INT8),
                    (&timer.due_ms, Type::INT8),
                    (&number, Type::INT8),
                    (&timer.id.due_ms, Type::INT8),
                    (&attempt, Type::INT4),
                    (&due, Type::INT8),
                    (&text, Type::TEXT),
                    (&planned, Type::TEXT),
                ],
            )
            .await?;
        let row = only(&rows)?;
        match get::<i32>(row, "answer")? {
            0 => return Err(PostgresError::Lost),
            3 => series = Some(rule(row)?),
            _ => return Ok(()),
        }
    }
}

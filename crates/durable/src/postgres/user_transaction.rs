//! Saves, cancels and ends timers in a transaction of the user.

use std::sync::atomic::Ordering;

use futures::future::join_all;
use jiff::Timestamp;
use timingwheel_calendar::Plan;
use tokio_postgres::Transaction;

use super::connections::{Parameter, Sends};
use super::convert::{get, number, standing, texts, unknown};
use super::reads::find;
use super::{PostgresError, PostgresStore, Result, changes};
use crate::durable::{Cancelled, Moved};
use crate::error::Error;
use crate::handler::{Kind, Payload, Run};
use crate::id::{TimerId, millis, timestamp};
use crate::next_run;
use crate::save::{Saving, SavingSeries};
use crate::store::{Move, NewTimer, Removal, Saved, Series, Which, check_key, check_payload};

/// The statement with which a timer is saved. Its number is taken from a sequence, with a random shard.
const SAVE: &str = "with n as (select timingwheel.next_number() as number), \
    s as (select n.number, s.* from n, \
        timingwheel.save_one($1, n.number, $2, $3, $4, $6, $7, $8, $5, $9) s) \
    select s.*, case when answer in (0, 2, 5) then timingwheel.hint(number, $1) end from s";

impl PostgresStore {
    /// Saves a timer in a transaction. It is stored when that commits, together with everything else in it.
    ///
    /// If the timer is due within two minutes, the commit sends a hint to the instance that owns it. If several transactions save
    /// at the same time, only one sends a hint, and all instances scan again a second later. A timer that is committed later still
    /// is found when its instance renews its [lease](crate::Builder::lease), each third of that. So keep transactions short if they
    /// save timers that are due soon.
    ///
    /// PostgreSQL refuses `PREPARE TRANSACTION` after such a hint. Timers that are due later never send one.
    ///
    /// A key is locked until the transaction ends, so change rows of your own first: see [`cancel_in`](Self::cancel_in).
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
    /// store.save_in(&transaction, due, &CancelOrder { order: 42 }).key("order-42").save().await?;
    /// transaction.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn save_in<'a, K: Kind>(
        &'a self,
        transaction: &'a Transaction<'a>,
        due: Timestamp,
        payload: &K,
    ) -> Saving<InTransaction<'a>> {
        Saving::new(InTransaction { store: self, transaction }, due, payload)
    }

    /// Saves a series in a transaction, as [`Durable::every`](crate::Durable::every) does without one.
    pub fn every_in<'a, K: Kind>(
        &'a self,
        transaction: &'a Transaction<'a>,
        name: impl Into<String>,
        plan: impl Into<Plan>,
        payload: &K,
    ) -> SavingSeries<InTransaction<'a>> {
        SavingSeries::new(InTransaction { store: self, transaction }, name.into(), plan.into(), payload)
    }

    /// Cancels a timer in a transaction, by its id or its key. It is gone when that commits.
    ///
    /// Until then the timer's row is locked. Nobody begins the timer meanwhile. If it has begun, its result waits for the
    /// transaction, and then at most as long again, and no more than a second. So keep such a transaction short.
    /// [`Cancelled::Running`] may be answered up to a tenth of a second before the handler is called. With the commit a hint
    /// tells the handler, by its [token](Run::token); PostgreSQL refuses `PREPARE TRANSACTION` after such an answer.
    ///
    /// **Change your own rows first, and the timer last**, in each transaction: here, with `save_in` under a key, and with
    /// [`Run::finish_in`]. If a handler locks an order and then its timer, and a request locks the timer and then the order, each
    /// waits for the other, and the database fails one of them as a deadlock.
    ///
    /// # Cancel safety
    /// If this is dropped before it is ready, nobody knows what it has done: roll the transaction back.
    ///
    /// # Errors
    /// [`PostgresError`]. After it the transaction can only be rolled back.
    pub async fn cancel_in(
        &self,
        transaction: &Transaction<'_>,
        which: impl Into<Which>,
    ) -> Result<Cancelled, PostgresError> {
        let to = InTransaction { store: self, transaction };
        Ok(match changes::cancel(&to, &which.into()).await? {
            Removal::Removed(_) => Cancelled::Removed,
            Removal::Running(_, attempt) => Cancelled::Running(attempt),
            Removal::NotFound => Cancelled::NotFound,
        })
    }

    /// Moves a timer in a transaction, by its id or its key. It is due at the other time when that commits.
    ///
    /// Until then the timer's row is locked, as by [`cancel_in`](Self::cancel_in). A commit sends a hint as one with
    /// [`save_in`](Self::save_in) does.
    ///
    /// # Cancel safety
    /// If this is dropped before it is ready, nobody knows what it has done: roll the transaction back.
    ///
    /// # Errors
    /// [`PostgresError`]. After it the transaction can only be rolled back.
    pub async fn reschedule_in(
        &self,
        transaction: &Transaction<'_>,
        which: impl Into<Which>,
        due: Timestamp,
    ) -> Result<Moved, PostgresError> {
        let to = InTransaction { store: self, transaction };
        Ok(match changes::reschedule(&to, &which.into(), due, true).await? {
            Move::Moved { to, .. } => Moved::Moved(to.id()),
            Move::Running(_, attempt) => Moved::Running(attempt),
            Move::NotFound => Moved::NotFound,
        })
    }

    /// Saves many timers in a transaction, each as [`save_in`](Self::save_in). The connection does not wait for the answer to one
    /// before it sends the next. The answers are in the order of the timers.
    ///
    /// # Cancel safety
    /// If this is dropped before it is ready, nobody knows what it has done: roll the transaction back.
    ///
    /// # Errors
    /// [`PostgresError::KeyTaken`] of a timer: it was not saved, and the transaction can go on. After any other error it can only be
    /// rolled back.
    pub async fn save_all_in<'a>(
        &self,
        timers: impl IntoIterator<Item = Saving<InTransaction<'a>>>,
    ) -> Vec<Result<TimerId, PostgresError>> {
        join_all(timers.into_iter().map(Saving::<InTransaction<'a>>::save)).await
    }

    /// As [`Run::finish_in`], in the [schema](crate::PostgresOptions::schema) of this store, whichever store called the
    /// handler.
    ///
    /// # Cancel safety
    /// If this is dropped before it is ready, nobody knows what it has done: roll the transaction back.
    ///
    /// # Errors
    /// As [`Run::finish_in`], but never [`PostgresError::Setting`].
    pub async fn finish_in(&self, transaction: &Transaction<'_>, run: &Run) -> Result<(), PostgresError> {
        run.finish_of(transaction, self).await
    }
}

/// A transaction in which a timer is saved, from [`PostgresStore::save_in`] and [`every_in`](PostgresStore::every_in).
pub struct InTransaction<'a> {
    pub(super) store: &'a PostgresStore,
    pub(super) transaction: &'a Transaction<'a>,
}

impl std::fmt::Debug for InTransaction<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InTransaction").field("store", self.store).finish_non_exhaustive()
    }
}

impl Saving<InTransaction<'_>> {
    /// Saves the timer. It is stored when the transaction commits.
    ///
    /// # Cancel safety
    /// If this is dropped before it is ready, nobody knows what it has done: roll the transaction back.
    ///
    /// # Errors
    /// [`PostgresError::KeyTaken`]: nothing was done, and the transaction can go on. After any other error it can only be
    /// rolled back.
    pub async fn save(self) -> Result<TimerId, PostgresError> {
        Ok(self.save_in(false).await?.0)
    }
}

impl Saving<InTransaction<'_>, Saved> {
    /// The same, but the answer tells what becomes of the timer that has the key: see [`replace`](Saving::replace).
    ///
    /// # Cancel safety
    /// If this is dropped before it is ready, nobody knows what it has done: roll the transaction back.
    ///
    /// # Errors
    /// [`PostgresError`]. After it the transaction can only be rolled back.
    pub async fn save(self) -> Result<Saved, PostgresError> {
        Ok(self.save_in(true).await?.1)
    }
}

impl<Told> Saving<InTransaction<'_>, Told> {
    async fn save_in(self, replaces: bool) -> Result<(TimerId, Saved)> {
        let Self { to, due, payload: Payload { kind, json }, key, .. } = self;
        let payload = json.map_err(PostgresError::Encode)?;
        to.save(&NewTimer { key, replaces, ..NewTimer::new(TimerId::new(due, 0), kind, payload) }).await
    }
}

impl SavingSeries<InTransaction<'_>> {
    /// Saves the series, and answers what this changes when the transaction commits: see [`save`](SavingSeries::save).
    ///
    /// # Cancel safety
    /// If this is dropped before it is ready, nobody knows what it has done: roll the transaction back.
    ///
    /// # Errors
    /// [`PostgresError::KeyTaken`] and [`PostgresError::Text`]: nothing was done, and the transaction can go on. After any other error
    /// it can only be rolled back.
    pub async fn save(self) -> Result<Saved, PostgresError> {
        let now = timestamp(self.to.store.0.owned.now_ms());
        let (to, timer) = self.timer(now, |_, _, _| 0).map_err(|error| match error {
            Error::Encode(error) => PostgresError::Encode(error),
            error => PostgresError::Text(error.to_string()),
        })?;
        Ok(to.save(&timer).await?.1)
    }
}

impl InTransaction<'_> {
    /// The sequence gives the timer its number.
    async fn save(&self, timer: &NewTimer) -> Result<(TimerId, Saved)> {
        let NewTimer { id, kind, payload, key, series, replaces, is_over } = timer;
        check_key(key.as_deref()).map_err(PostgresError::Text)?;
        if kind.contains('\0') {
            return Err(PostgresError::Text(format!("a kind must have no character of zero, got {kind:?}")));
        }
        check_payload(payload).map_err(PostgresError::Text)?;
        let (due_ms, [rule, missed, stands]) = (id.due_ms, texts(series.as_ref()));
        let payload = payload.as_slice();
        let parameters: [&dyn Parameter; 9] =
            [&due_ms, kind, &payload, key, replaces, &rule, &missed, &stands, is_over];
        let row = self.ask_one(SAVE, &parameters).await?;
        let id = TimerId { due_ms, unique: get::<i64>(&row, "number")?.cast_unsigned() };
        match changes::saved(&row, id)? {
            Saved::KeyTaken(other) => Err(PostgresError::KeyTaken(other)),
            saved => Ok((id, saved)),
        }
    }
}

impl Run {
    /// Ends this attempt in a transaction of the handler, on the database that has the timers. So everything else in the
    /// transaction happens **exactly once**. When it commits, the timer is deleted, or its series goes on, and the handler should
    /// answer [`Done`](crate::Answer::Done). Whatever it answers, or if it fails after the commit, the timer is done: an event tells
    /// of the failure, and no attempt follows. If the transaction is rolled back, the timer is as before.
    ///
    /// A handler holds its connection until it ends. By default [1,024 handlers](crate::Builder::concurrency) run at a time, a
    /// server has 100 connections, and the store uses six. So take connections from a pool with a limit: then handlers wait for a
    /// connection, and the store always has its own.
    ///
    /// Call this last, when your own rows have been changed: the other order can deadlock with a request that cancels the timer. See
    /// [`PostgresStore::cancel_in`].
    ///
    /// The timer must be in the [schema](crate::PostgresOptions::schema) of the store that called the handler.
    ///
    /// # Cancel safety
    /// If this is dropped before it is ready, nobody knows what it has done: roll the transaction back.
    ///
    /// # Errors
    /// [`PostgresError::Fenced`] if this attempt no longer has the timer: another instance has it, and the transaction
    /// must be rolled back. [`PostgresError::Setting`] if the store that called the handler is no `PostgresStore`. If
    /// that store is one of your own around a `PostgresStore`, use [`PostgresStore::finish_in`]. After any other error
    /// the transaction can only be rolled back.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use serde::{Deserialize, Serialize};
    /// # use timingwheel_durable::{Answer::Done, Durable, HandlerResult, Kind, PostgresStore, Run, tokio_postgres};
    /// # #[derive(Serialize, Deserialize)]
    /// # struct CancelOrder { order: i64 }
    /// # impl Kind for CancelOrder { const KIND: &'static str = "cancel-order"; }
    /// use deadpool_postgres::{Manager, Pool};
    ///
    /// async fn cancel_order(CancelOrder { order }: CancelOrder, run: Run, pool: Pool) -> HandlerResult {
    ///     let mut client = pool.get().await?;
    ///     let transaction = client.transaction().await?;
    ///     transaction.execute("update orders set state = 'cancelled' where id = $1", &[&order]).await?;
    ///     run.finish_in(&transaction).await?;
    ///     transaction.commit().await?;
    ///     Ok(Done)
    /// }
    ///
    /// # async fn example(store: PostgresStore) -> Result<(), Box<dyn std::error::Error>> {
    /// let url = "postgres://app@localhost/shop";
    /// let pool = Pool::builder(Manager::new(url.parse()?, tokio_postgres::NoTls)).max_size(16).build()?;
    /// let durable = Durable::builder(&timingwheel::TimingWheel::new(), store)
    ///     .on(move |order, run| cancel_order(order, run, pool.clone()))
    ///     .start()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn finish_in(&self, transaction: &Transaction<'_>) -> Result<(), PostgresError> {
        let store = self.postgres()?;
        self.finish_of(transaction, store).await
    }

    /// A ticket with which the SQL function `timingwheel.finish_timer` ends this attempt in a transaction of another client, such as
    /// sqlx or diesel: see [`finish_in`](Self::finish_in). It is good for this attempt alone. If the function fails, roll the
    /// transaction back, and answer an error. It fails also if the series was saved by another rule since the attempt began.
    ///
    /// # Errors
    /// [`PostgresError::Setting`] if the store that called the handler is no `PostgresStore`; [`PostgresError::Corrupt`] if the
    /// rule of the series cannot be read.
    pub fn finish_ticket(&self) -> Result<String, PostgresError> {
        let within = &self.within;
        let ticket = self.ticket(self.postgres()?, within.series.as_deref(), within.version)?;
        // When it commits, whatever the handler answers, the timer is done.
        within.has_finished.store(true, Ordering::Release);
        Ok(ticket)
    }

    /// Of this series and version.
    fn ticket(&self, store: &PostgresStore, series: Option<&Series>, version: u32) -> Result<String> {
        // Planned by the same clock as the runner's.
        let next = series.map(|series| next_run::next(series, self.scheduled(), self.within.shared.now()));
        let next = next.transpose().map_err(PostgresError::Corrupt)?.flatten();
        let [rule, missed, _] = texts(series);
        Ok(serde_json::json!({
            "epoch": self.epoch.cast_signed(),
            "token": store.0.owned.token(self.epoch),
            "due": self.within.timer.due_ms,
            "number": number(self.id),
            "first": self.id.due_ms,
            "attempt": self.attempt,
            "version": version.cast_signed(),
            "rule": rule,
            "missed": missed,
            "next": next.map(|next| serde_json::json!({
                "due": millis(next.due),
                "standing": next.series.standing(),
            })),
        })
        .to_string())
    }

    fn postgres(&self) -> Result<&PostgresStore> {
        self.within.postgres.as_ref().ok_or_else(|| {
            PostgresError::Setting(
                "an attempt must be of a PostgresStore to end it in a transaction, got one of another store: call \
                 PostgresStore::finish_in if there is a PostgresStore in that"
                    .into(),
            )
        })
    }

    async fn finish_of(&self, transaction: &Transaction<'_>, store: &PostgresStore) -> Result<()> {
        let (within, to) = (&self.within, InTransaction { store, transaction });
        let mut ticket = self.ticket(store, within.series.as_deref(), within.version)?;
        loop {
            let statement = "select timingwheel.finish_by($1::json) as answer";
            match get::<i32>(&to.ask_one(statement, &[&ticket]).await?, "answer")? {
                // If it is rolled back, the runner stores the result as that of any other handler.
                1 => {
                    within.has_finished.store(true, Ordering::Release);
                    return Ok(());
                }
                2 => return Err(PostgresError::Fenced),
                // Another rule. It is locked now, and changes no more.
                3 => {
                    let row = find(&to, &self.id.into()).await?.ok_or(PostgresError::Fenced)?;
                    let row = standing(&row)?;
                    ticket = self.ticket(store, row.series.as_ref(), row.version)?;
                }
                other => return Err(unknown("finish", other)),
            }
        }
    }
}

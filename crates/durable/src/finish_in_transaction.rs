//! Ending an attempt in a transaction of the handler's own.

use std::sync::atomic::Ordering;

use tokio_postgres::Transaction;

use crate::handler::Run;
use crate::postgres::{PostgresError, PostgresStore, Schema, finish};

impl Run {
    /// Ends this attempt in a transaction of the handler's, on the database that has the timers: what else is done in the
    /// transaction happens **exactly once**. The timer is deleted, or its series goes on, if the transaction is committed,
    /// and the handler should then answer [`Done`](crate::Answer::Done). If it is rolled back, the timer is as before.
    ///
    /// The timer is looked for in the [schema](crate::PostgresOptions::schema) of the store that called the handler.
    ///
    /// # Errors
    /// [`PostgresError::Lost`] if this attempt no longer has the timer: another instance has it, and the transaction
    /// must be rolled back. [`PostgresError::Setting`] if the store that called the handler is no `PostgresStore`. If
    /// that store is one of your own around a `PostgresStore`, use [`PostgresStore::finish_in`]. After any other error
    /// the transaction can only be rolled back.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use serde::{Deserialize, Serialize};
    /// # use timingwheel_durable::{Answer::Done, HandlerResult, Kind, Run, tokio_postgres};
    /// # #[derive(Serialize, Deserialize)]
    /// # struct CancelOrder { order: i64 }
    /// # impl Kind for CancelOrder { const KIND: &'static str = "cancel-order"; }
    /// async fn cancel_order(
    ///     CancelOrder { order }: CancelOrder,
    ///     run: Run,
    ///     client: &mut tokio_postgres::Client,
    /// ) -> HandlerResult {
    ///     let transaction = client.transaction().await?;
    ///     transaction.execute("update orders set state = 'cancelled' where id = $1", &[&order]).await?;
    ///     run.finish_in(&transaction).await?;
    ///     transaction.commit().await?;
    ///     Ok(Done)
    /// }
    /// ```
    pub async fn finish_in(&self, transaction: &Transaction<'_>) -> Result<(), PostgresError> {
        let schema = self.within.schema.as_ref().ok_or_else(|| {
            PostgresError::Setting(
                "Run::finish_in must be called for a timer of a PostgresStore, got one of another store: call \
                 PostgresStore::finish_in if there is a PostgresStore in that"
                    .into(),
            )
        })?;
        self.finish_of(transaction, schema).await
    }

    async fn finish_of(&self, transaction: &Transaction<'_>, schema: &Schema) -> Result<(), PostgresError> {
        let within = &self.within;
        let attempt = (self.epoch, self.attempt);
        let series = within.series.as_deref().cloned();
        finish(transaction, schema, attempt, within.timer, series, || within.clock.now()).await?;
        // It may be rolled back yet: then the result is stored as that of any other handler.
        within.is_finished.store(true, Ordering::Release);
        Ok(())
    }
}

impl PostgresStore {
    /// As [`Run::finish_in`], in the [schema](crate::PostgresOptions::schema) of this store, whichever store called the
    /// handler.
    ///
    /// # Errors
    /// As [`Run::finish_in`], but never [`PostgresError::Setting`].
    pub async fn finish_in(&self, transaction: &Transaction<'_>, run: &Run) -> Result<(), PostgresError> {
        run.finish_of(transaction, self.schema()).await
    }
}

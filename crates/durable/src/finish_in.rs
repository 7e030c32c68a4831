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
    /// This is for the schema `timingwheel`. For timers in another one use [`PostgresStore::finish_in`].
    ///
    /// # Errors
    /// [`PostgresError::Lost`] if the timer is not this attempt's any more: another instance has it, and the transaction
    /// must be rolled back. Other errors leave a transaction that is good for nothing else.
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
        self.finish_of(transaction, &Schema::default()).await
    }

    async fn finish_of(&self, transaction: &Transaction<'_>, schema: &Schema) -> Result<(), PostgresError> {
        let within = &self.within;
        let attempt = (self.epoch, self.attempt);
        finish(transaction, schema, attempt, within.timer, within.series.clone()).await?;
        // It may be rolled back yet: then the result is stored as that of any other handler.
        within.is_finished.store(true, Ordering::Release);
        Ok(())
    }
}

impl PostgresStore {
    /// [`Run::finish_in`], in the [schema](crate::PostgresOptions::schema) of this store.
    ///
    /// # Errors
    /// As there.
    pub async fn finish_in(&self, transaction: &Transaction<'_>, run: &Run) -> Result<(), PostgresError> {
        run.finish_of(transaction, self.schema()).await
    }
}

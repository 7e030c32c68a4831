//! Statements that do nothing if they arrive too late.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::connections::Parameter;
use super::{Inner, PostgresError, convert, only};
use crate::store::Owner;

impl Inner {
    /// One statement whose last parameter, which is added here, is when nobody waits for it any more, by the clock of the
    /// database: one that is held on its way for longer does nothing.
    ///
    /// The clock is known from the last renewal. Since then it may have been set, or this machine was suspended. A statement
    /// that is refused as too late, and is waited for, shows that: it is sent again by the clock as it is.
    pub(super) async fn ask_in_time(
        &self,
        owner: Owner,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, PostgresError> {
        match self.ask_until(owner, statement, parameters).await {
            Err(error) if error.is_too_late() => {
                let clock = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint as now_us";
                let rows = self.connections.ask(clock, &[]).await?;
                self.owned.set_clock(owner.epoch, convert::get(only(&rows)?, "now_us")?);
                self.ask_until(owner, statement, parameters).await
            }
            answer => answer,
        }
    }

    async fn ask_until(
        &self,
        owner: Owner,
        statement: &str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, PostgresError> {
        let until = self.owned.valid_until_us(owner.epoch, self.options.timeout);
        let mut all = parameters.to_vec();
        all.push((&until, Type::INT8));
        self.connections.ask(statement, &all).await
    }
}

//! The tables: looked for, and created by the file that people can read.

use super::PostgresError;
use super::connections::Connections;

/// The newest format that this version knows.
pub(super) const KNOWN: i32 = 1;

/// One for each format, in order.
const MIGRATIONS: [&str; 1] = [FIRST];

pub(super) const FIRST: &str = include_str!("sql/tables_and_functions_1.sql");

/// Brings the tables to the newest format that this version knows; a newer one is left as it is, if it works with this
/// version.
pub(super) async fn prepare(connections: &Connections, creates: bool) -> Result<(), PostgresError> {
    let mut object = connections.get().await?;
    let mut found = format(connections, &**object).await?;
    if found.is_none_or(|(version, _)| version < KNOWN) {
        if !creates {
            let Some((version, _)) = found else { return Err(PostgresError::NoTables) };
            let told =
                format!("the tables must have format {KNOWN}, got {version}: run the files in between");
            return Err(PostgresError::Setting(told));
        }
        let transaction = object.transaction().await?;
        // Of two that find none one creates them, and the other waits.
        transaction
            .batch_execute(
                &connections
                    .statement("select pg_advisory_xact_lock(hashtext('timingwheel'), hashtext('tables'))"),
            )
            .await?;
        let version = format(connections, &*transaction).await?.map_or(0, |(version, _)| version);
        for migration in MIGRATIONS.iter().skip(usize::try_from(version).unwrap_or(0)) {
            transaction.batch_execute(&connections.statement(migration)).await?;
        }
        found = format(connections, &*transaction).await?;
        transaction.commit().await?;
    }
    match found {
        Some((_, oldest)) if oldest > KNOWN => Err(PostgresError::Format { oldest, known: KNOWN }),
        Some(_) => Ok(()),
        None => Err(PostgresError::NoTables),
    }
}

/// The version, and the oldest program that works with it; `None` where there are no tables.
async fn format(
    connections: &Connections,
    client: &impl tokio_postgres::GenericClient,
) -> Result<Option<(i32, i32)>, PostgresError> {
    let there =
        "select 1 from pg_catalog.pg_tables where schemaname = 'timingwheel' and tablename = 'format'";
    if client.query_typed(&connections.statement(there), &[]).await?.is_empty() {
        return Ok(None);
    }
    let statement = connections.statement("select version, oldest from timingwheel.format");
    let row = client.query_typed_one(&statement, &[]).await?;
    Ok(Some((row.try_get(0)?, row.try_get(1)?)))
}

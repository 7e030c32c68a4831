//! The rights that stand at the end of the tables' file are enough.

use std::time::Duration;

use timingwheel_durable::Cancelled;
use timingwheel_durable::store::Store;
use timingwheel_durable::tokio_postgres::{Client, Config, NoTls};
use timingwheel_durable::{PostgresOptions, PostgresStore};

use super::server::database;
use super::support::{Calls, Tick, builder, client, soon, store, until};

/// A role that has the rights of the list with this heading, and no others.
async fn role(sql: &Client, suffix: &str, heading: &str) -> String {
    let role = format!("{}_{suffix}", current_database(sql).await);
    sql.batch_execute(&format!("create role {role}")).await.expect("a role");
    let tables = PostgresStore::tables();
    let (_, after) = tables.rsplit_once(heading).expect("a heading");
    let lines = after.lines().skip(1).map_while(|line| line.strip_prefix("--     grant "));
    let mut count = 0;
    for grant in lines {
        let grant = grant.replace(" to app;", &format!(" to {role};"));
        sql.batch_execute(&format!("grant {grant}")).await.expect("a right");
        count += 1;
    }
    assert!(count >= 3, "{heading}");
    role
}

async fn current_database(sql: &Client) -> String {
    sql.query_one("select current_database()", &[]).await.expect("a name").get::<_, &str>(0).to_owned()
}

/// A store of a program that has this role.
async fn store_of(url: &str, role: &str) -> PostgresStore {
    let mut config: Config = url.parse().expect("an address");
    config.options(format!("-c role={role}"));
    let options = PostgresOptions::of(config).create(false);
    PostgresStore::connect_with(options, NoTls).await.expect("a store")
}

#[tokio::test]
async fn a_program_that_only_saves_cancels_and_moves_needs_the_rights_that_are_listed_and_no_others() {
    let url = database().await;
    drop(store(&url).await);
    let sql = client(&url).await;
    let role = role(&sql, "saves", "-- A program that only saves, cancels and moves:").await;
    let mut app = client(&url).await;
    app.batch_execute(&format!("set role {role}")).await.expect("a role");
    for (statement, expected) in [
        ("save_timer(now() + '1 day', 'tick', '{}', 'k')", None),
        ("save_timer(now() + '1 day', 'tick', '{}', 'k', true)", None),
        ("move_timer('k', now() + '1 hour')", Some("moved")),
        ("cancel_timer('k')", Some("removed")),
    ] {
        let row = app.query_one(&format!("select timingwheel.{statement}"), &[]).await.expect(statement);
        let told: String = row.get(0);
        assert!(expected.is_none_or(|expected| told == expected), "{statement}: {told}");
    }
    let store = store_of(&url, &role).await;
    let transaction = app.transaction().await.expect("a transaction");
    let id = store.save_in(&transaction, soon(86_400_000), &Tick::new("far")).save().await.expect("a save");
    assert_eq!(store.cancel_in(&transaction, id).await.expect("a cancel"), Cancelled::Removed);
    transaction.commit().await.expect("a commit");
    drop((store, app));
    sql.batch_execute(&format!("drop owned by {role}; drop role {role}")).await.expect("no role");
}

#[tokio::test]
async fn an_instance_needs_the_rights_that_are_listed_and_no_others() {
    let (url, calls) = (database().await, Calls::default());
    drop(store(&url).await);
    let sql = client(&url).await;
    let role = role(&sql, "runs", "-- An instance:").await;
    let store = store_of(&url, &role).await;
    let one = builder(store, Duration::from_secs(30)).on(calls.handler()).start().await.expect("a start");
    one.at(soon(0), &Tick::new("a")).key("a").save().await.expect("a save");
    until("it is done", async || one.stats().done == 1).await;
    one.stop(Duration::from_secs(60)).await;
    drop(one);
    // A name that is left over is in nobody's way.
    drop(sql.batch_execute(&format!("drop owned by {role}; drop role {role}")).await);
}

#[tokio::test]
async fn a_role_that_may_not_log_in_any_more_is_the_fault_of_no_timer() {
    let url = database().await;
    let sql = client(&url).await;
    let role = format!("{}_login", current_database(&sql).await);
    let make = format!("create role {role} login; create schema timingwheel authorization {role}");
    sql.batch_execute(&make).await.expect("a role");
    let store = store(&url.replacen("postgres@", &format!("{role}@"), 1)).await;
    sql.batch_execute(&format!("alter role {role} nologin")).await.expect("a change");
    // It has one connection, which the first call takes.
    let (first, second) = futures::future::join(store.count(), store.count()).await;
    first.expect("its own connection");
    let refused = second.expect_err("no connection");
    assert!(refused.to_string().contains("is not permitted to log in (code 28000)"), "{refused}");
    assert!(
        PostgresStore::is_transient(&refused),
        "an end that fails so is told again, and its timer is not buried"
    );
}

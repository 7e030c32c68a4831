//! The second day on PostgreSQL: a restore, an upgrade, transactions that stay open, clocks that differ.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use timingwheel_durable::store::{Begun, Near, NewTimer, Standing, Store, ToBegin};
use timingwheel_durable::tokio_postgres::NoTls;
use timingwheel_durable::{
    Cancelled, Filter, Kind, PostgresError, PostgresOptions, PostgresStore, Saved, TimerId,
};
use tokio::time::{sleep, timeout};

use super::server::database;
use super::support::{Calls, GUARD, Tick, builder, client, instance, soon, store, ticks, until};

const LEASE: Duration = Duration::from_secs(90);

#[tokio::test]
async fn after_a_restore_an_instance_that_joined_before_does_nothing_under_an_epoch_that_another_was_given() {
    let url = database().await;
    let (before, after) = (store(&url).await, store(&url).await);
    let lost = before.join(LEASE, ticks()).await.expect("a join");
    // As the restore of a dump that was made before that join.
    let sql = client(&url).await;
    sql.batch_execute(
        "delete from timingwheel.instances; update timingwheel.shards set epoch = null; \
         select setval('timingwheel.epochs', 1, false)",
    )
    .await
    .expect("a restore");
    let owner = after.join(LEASE, ticks()).await.expect("a join");
    assert_eq!(owner.epoch, lost.epoch, "the sequence gives the epoch again");

    let id = TimerId::new(soon(-1_000), 64);
    after.save(vec![NewTimer::new(id, Tick::KIND, b"null")]).await.expect("a save");
    let ask = ToBegin { timers: vec![Near::from(id)], kinds: Arc::new([Tick::KIND.to_owned()].into()) };
    let told = before.begin(lost, ask.clone()).await.expect("an answer");
    assert_eq!(told, [Begun::Lost]);
    assert_eq!(before.renew(lost, None).await.expect("an answer").standing, Standing::Expired);
    after.renew(owner, None).await.expect("a renewal");
    let told = after.begin(owner, ask).await.expect("an answer");
    assert!(matches!(told[..], [Begun::Yours(_)]), "{told:?}");
}

#[tokio::test]
async fn a_sequence_that_is_behind_the_rows_gives_no_epoch_that_a_row_has() {
    let url = database().await;
    let store = store(&url).await;
    let first = store.join(LEASE, ticks()).await.expect("a join");
    let sql = client(&url).await;
    // As a replica that was promoted.
    sql.batch_execute("select setval('timingwheel.epochs', 1, false)").await.expect("a sequence");
    let second = store.join(LEASE, ticks()).await.expect("a join");
    assert!(second.epoch > first.epoch, "{second:?} after {first:?}");
}

#[tokio::test]
async fn what_is_saved_right_after_the_start_is_due_by_the_databases_clock() {
    for minutes in [-10, 10] {
        let url = database().await;
        let wrong = SignedDuration::from_mins(minutes);
        let durable = builder(store(&url).await, LEASE).clock(move || Timestamp::now() + wrong);
        let durable = durable.start().await.expect("a start");
        let saved = durable.after(Duration::from_secs(20), &Tick::new("soon")).save().await.expect("a save");
        let due_in = saved.first_due().duration_since(Timestamp::now());
        assert!((SignedDuration::from_secs(1)..SignedDuration::from_secs(30)).contains(&due_in), "{due_in}");
        durable.stop(GUARD).await;
    }
}

#[tokio::test]
async fn a_transaction_that_stays_open_silences_no_other_programs_hints() {
    let (url, calls) = (database().await, Calls::default());
    let durable = instance(&url, LEASE, &calls).await;
    until("the instance listens", async || durable.stats().renewals > 1).await;
    let (mut open, other) = (client(&url).await, client(&url).await);
    let open = open.transaction().await.expect("a transaction");
    let save = |delay: &str, name: &str| {
        format!(
            "select timingwheel.save_timer(now() + '{delay}', 'tick', '{{\"name\": \"{name}\"}}', '{name}')"
        )
    };
    open.batch_execute(&save("20 s", "open")).await.expect("a save");
    // In another second.
    sleep(Duration::from_millis(1_100)).await;
    other.batch_execute(&save("1 s", "soon")).await.expect("a save");
    // The scan that needs no hint comes after a third of the lease.
    let called = timeout(LEASE / 6, until("it is called", async || calls.names() == ["soon"])).await;
    called.expect("its program's hint was heard");
    drop(open);
    durable.stop(GUARD).await;
}

#[tokio::test]
async fn calls_that_wait_for_a_lock_cost_no_lease_and_leave_no_statement_when_they_are_given_up() {
    let (url, calls) = (database().await, Calls::default());
    // A call may take four seconds.
    let options = PostgresOptions::new(&url).expect("an address").timeout(Duration::from_secs(4));
    let store = PostgresStore::connect_with(options, NoTls).await.expect("a store");
    let durable = builder(store, Duration::from_secs(3)).on(calls.handler()).start().await.expect("a start");
    durable.at(soon(3_600_000), &Tick::new("far")).key("k").save().await.expect("a save");
    let (mut open, sql) = (client(&url).await, client(&url).await);
    let open = open.transaction().await.expect("a transaction");
    open.batch_execute("select from timingwheel.timers where key = 'k' for update").await.expect("a lock");
    let cancel = async || timeout(Duration::from_millis(3_500), durable.cancel("k")).await.is_err();
    // One whose statement has no limit: the server has to hear that nobody waits for it.
    let options = PostgresOptions::new(&url).expect("an address").timeout(Duration::MAX);
    let patient = PostgresStore::connect_with(options, NoTls).await.expect("a store");
    assert!(timeout(Duration::from_millis(500), patient.cancel("k".into())).await.is_err());
    // More than there are connections, for longer than the lease.
    let given_up = join_all((0..40).map(|_| cancel())).await;
    assert!(given_up.into_iter().any(|given_up| given_up), "nobody waited");
    let stats = durable.stats();
    assert!(stats.rejoined == 0 && stats.renewals > 2, "{stats:?}");
    until("no statement waits", async || {
        let waiting =
            "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
        sql.query(waiting, &[]).await.expect("rows").is_empty()
    })
    .await;
    drop(open);
    durable.stop(GUARD).await;
}

#[tokio::test]
async fn calls_that_wait_for_a_lock_make_no_timer_late() {
    let (url, calls) = (database().await, Calls::default());
    let durable = instance(&url, LEASE, &calls).await;
    let far = Tick::new("far");
    for key in ["k", "l"] {
        durable.at(soon(3_600_000), &far).key(key).save().await.expect("a save");
    }
    durable.at(soon(3_000), &Tick::new("due")).save().await.expect("a save");
    let (mut open, sql) = (client(&url).await, client(&url).await);
    let open = open.transaction().await.expect("a transaction");
    open.batch_execute("select from timingwheel.timers where key in ('k', 'l') for update")
        .await
        .expect("a lock");
    // More than there are connections, for longer than it takes until the timer is due.
    let waiting = tokio::spawn({
        let durable = durable.clone();
        async move {
            let cancels = join_all((0..20).map(|_| durable.cancel("k")));
            futures::future::join(
                cancels,
                join_all((0..20).map(|_| durable.reschedule("l", soon(7_200_000)))),
            )
            .await
        }
    });
    until("three wait for the lock", async || {
        let waiting =
            "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
        sql.query(waiting, &[]).await.expect("rows").len() == 3
    })
    .await;
    durable.at(soon(0), &Tick::new("now")).save().await.expect("it waits for nobody");
    until("both are called", async || calls.names() == ["due", "now"]).await;
    assert!(!waiting.is_finished(), "nobody waited");
    let latest = durable.stats().lateness.max();
    assert!(latest.is_some_and(|latest| latest < Duration::from_secs(3)), "{latest:?}");
    drop(open);
    waiting.await.expect("no panic");
    durable.stop(GUARD).await;
}

#[tokio::test]
async fn a_table_of_timers_that_is_locked_for_longer_than_a_lease_costs_no_idle_instance_its_lease() {
    let (url, calls) = (database().await, Calls::default());
    let lease = Duration::from_secs(4);
    let both = join_all([instance(&url, lease, &calls), instance(&url, lease, &calls)]).await;
    until("each has its share", async || both.iter().all(|one| one.stats().shards == (32, 64))).await;
    let sql = client(&url).await;
    // As by `vacuum full`, or by one that waits for a long transaction.
    sql.batch_execute("begin; lock table timingwheel.timers in access exclusive mode").await.expect("a lock");
    sleep(lease * 2).await;
    sql.batch_execute("rollback").await.expect("its end");
    let renewals = || both.iter().map(|one| one.stats().renewals).min();
    let before = renewals();
    until("both renew", async || renewals() > before.map(|before| before + 2)).await;
    assert!(both.iter().all(|one| one.stats().rejoined == 0), "{:?}", both[0].stats());
    for one in both {
        one.stop(GUARD).await;
    }
}

/// Polls once.
async fn is_pending(mut future: std::pin::Pin<&mut impl Future>) -> bool {
    std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

#[tokio::test]
async fn a_save_whose_key_an_open_transaction_has_holds_up_no_save_that_comes_with_it_or_after_it() {
    let (url, calls) = (database().await, Calls::default());
    let durable = instance(&url, LEASE, &calls).await;
    let mut open = client(&url).await;
    let open = open.transaction().await.expect("a transaction");
    open.batch_execute("select timingwheel.save_timer(now() + '1 h', 'tick', '{\"name\": \"open\"}', 'k')")
        .await
        .expect("a save");
    let (due, tick) = (soon(3_600_000), Tick::new("far"));
    let mut held = std::pin::pin!(durable.at(due, &tick).key("k").save());
    assert!(is_pending(held.as_mut()).await);
    for round in 0..3 {
        let keys: Vec<String> = (0..20).map(|number| format!("{round} {number}")).collect();
        let saves = keys.iter().map(|key| durable.at(due, &tick).key(key.as_str()).save());
        let saved = timeout(Duration::from_secs(4), join_all(saves)).await.expect("they wait for nobody");
        assert!(saved.iter().all(Result::is_ok), "{saved:?}");
        sleep(Duration::from_millis(500)).await;
    }
    assert!(is_pending(held.as_mut()).await, "it waits for its key");
    drop(open);
    held.await.expect("the key is free");
    durable.stop(GUARD).await;
}

/// A schema of the first format, with a timer that waits, one that is due, and a series.
async fn format_1(url: &str) -> PostgresOptions {
    let options = PostgresOptions::new(url).expect("an address");
    let sql = client(url).await;
    sql.batch_execute(include_str!("format_1.sql")).await.expect("the schema of the first format");
    sql.batch_execute(
        "select timingwheel.save_timer(now() - interval '1 s', 'tick', '{\"name\": \"due\"}', 'due'); \
         select timingwheel.save_timer(now() + interval '3 s', 'tick', '{\"name\": \"soon\"}', 'soon'); \
         insert into timingwheel.instances values (1, 'old', now() + interval '1 s', true); \
         select timingwheel.save_timer(now() - interval '1 s', 'tick', '{\"name\": \"begun\"}', 'begun'); \
         update timingwheel.timers set begun_by = 1, attempts = 1 where key = 'begun'",
    )
    .await
    .expect("timers");
    options
}

#[tokio::test]
async fn tables_of_the_first_format_are_migrated_and_their_timers_run() {
    let (url, calls) = (database().await, Calls::default());
    let options = format_1(&url).await;
    let sql = client(&url).await;
    sql.batch_execute("create function timingwheel.of_the_user() returns int language sql as 'select 1'")
        .await
        .expect("a function of the user's");
    let refused = PostgresStore::connect_with(options.clone().create(false), NoTls).await;
    assert!(matches!(refused, Err(PostgresError::Old { version: 1, known: 4 })), "{refused:?}");
    let migrated = join_all((0..4).map(|_| PostgresStore::migrate(options.clone(), NoTls))).await;
    assert!(migrated.iter().all(|format| matches!(format, Ok(4))), "{migrated:?}");
    let store = PostgresStore::connect_with(options.create(false), NoTls).await.expect("a store");
    let durable = builder(store, LEASE).on(calls.handler()).start().await.expect("a start");
    sql.batch_execute("select timingwheel.of_the_user()").await.expect("it is the user's");
    let ours = "select array_agg(p.proname::text order by 1) from pg_proc p join pg_namespace n on n.oid = p.pronamespace \
        where n.nspname = 'timingwheel' and p.proname in ('renew', 'in_time', 'runs')";
    let ours: Vec<String> = sql.query_one(ours, &[]).await.expect("names").get(0);
    assert_eq!(ours, ["in_time", "renew"], "none of an older format is left");
    // The old instance is found dead first.
    until("all are called", async || calls.names() == ["begun", "due", "soon"]).await;
    durable.stop(GUARD).await;
}

#[tokio::test]
async fn a_migration_takes_longer_than_a_call_may_and_other_programs_wait_for_it() {
    let url = database().await;
    let options = format_1(&url).await.timeout(Duration::from_secs(1));
    // As of a table with very many timers: each index takes half a second.
    let slow = "create function slow() returns event_trigger language plpgsql as \
            'begin perform pg_sleep(0.5); end'; \
        create event trigger slow on ddl_command_start when tag in ('CREATE INDEX') execute function slow()";
    client(&url).await.batch_execute(slow).await.expect("a slow server");
    let connected = join_all((0..2).map(|_| PostgresStore::connect_with(options.clone(), NoTls))).await;
    assert!(connected.iter().all(Result::is_ok), "{connected:?}");
}

#[tokio::test]
async fn a_first_host_that_is_silent_hides_no_second_one_also_where_the_lease_is_short() {
    let (url, calls) = (database().await, Calls::default());
    // It takes no connection, and its queue is full.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let mut queued = Vec::new();
    while let Ok(Ok(one)) =
        timeout(Duration::from_millis(300), tokio::net::TcpStream::connect(("127.0.0.1", port))).await
    {
        queued.push(one);
    }
    let both = url.replacen("127.0.0.1", &format!("127.0.0.1:{port},127.0.0.1"), 1);
    // Longer than an answer to a renewal may take.
    let both = format!("{both}?connect_timeout=2");
    let durable = instance(&both, Duration::from_secs(3), &calls).await;
    until("it renews", async || durable.stats().renewals > 0).await;
    // As a failover.
    let end = "select pg_terminate_backend(pid) from pg_stat_activity \
        where datname = current_database() and pid <> pg_backend_pid()";
    client(&url).await.execute(end, &[]).await.expect("an end of all connections");
    let before = durable.stats().renewals;
    until("it renews again", async || durable.stats().renewals > before + 1).await;
    durable.stop(GUARD).await;
}

#[tokio::test]
async fn a_role_that_ran_timers_before_a_migration_may_write_the_tables_that_it_adds() {
    let url = database().await;
    let (options, sql) = (PostgresOptions::new(&url).expect("an address"), client(&url).await);
    for migration in &options.migrations()[..3] {
        sql.batch_execute(migration).await.expect("tables of an older format");
    }
    let name: String = sql.query_one("select current_database()::text", &[]).await.expect("a name").get(0);
    let app = format!("{name}_app");
    sql.batch_execute(&format!(
        "create role {app}; grant select, insert, update, delete on all tables in schema timingwheel to {app}"
    ))
    .await
    .expect("a role");
    PostgresStore::migrate(options, NoTls).await.expect("a migration");
    for right in ["select", "insert", "update", "delete"] {
        let has = "select has_table_privilege($1::text, 'timingwheel.ended', $2::text)";
        let has: bool = sql.query_one(has, &[&app, &right]).await.expect("an answer").get(0);
        assert!(has, "{right}");
    }
    sql.batch_execute(&format!("drop owned by {app}; drop role {app}")).await.expect("no role");
}

#[tokio::test]
async fn a_store_whose_calls_may_take_any_time_connects() {
    let url = database().await;
    for timeout in [Duration::MAX, Duration::from_secs(60 * 86_400)] {
        let options = PostgresOptions::new(&url).expect("an address").timeout(timeout);
        PostgresStore::connect_with(options, NoTls).await.expect("a store").count().await.expect("an answer");
    }
}

#[tokio::test]
async fn an_instance_that_is_too_old_for_the_tables_stops() {
    let (url, calls) = (database().await, Calls::default());
    let durable = instance(&url, Duration::from_secs(3), &calls).await;
    let sql = client(&url).await;
    sql.batch_execute("update timingwheel.format set version = 99, oldest = 99").await.expect("an update");
    until("it stops", async || durable.stats().lost).await;
    assert!(durable.stats().store_errors > 0);
}

#[tokio::test]
async fn a_database_of_another_encoding_is_refused_by_name() {
    let url = database().await;
    let sql = client(&url).await;
    let name = format!("{}_latin1", url.rsplit('/').next().expect("a name"));
    let create = format!("create database {name} encoding 'LATIN1' template template0 locale 'C'");
    sql.batch_execute(&create).await.expect("a database");
    let error = PostgresStore::connect(&format!("{url}_latin1")).await.expect_err("a refusal").to_string();
    assert_eq!(error, "the database must have the encoding UTF8, got LATIN1");
}

/// Of a database, or of a role: an application may need them.
const SETTINGS: [&str; 11] = [
    "backslash_quote = off",
    "bytea_output = escape",
    "datestyle = 'German, DMY'",
    "default_transaction_deferrable = on",
    "default_transaction_isolation = serializable",
    "intervalstyle = sql_standard",
    "plan_cache_mode = force_generic_plan",
    "row_security = off",
    "search_path = nowhere",
    "standard_conforming_strings = off",
    "timezone = 'Asia/Kathmandu'",
];

#[tokio::test]
async fn settings_of_the_database_change_nothing() {
    let (url, calls) = (database().await, Calls::default());
    let sql = client(&url).await;
    let name: String = sql.query_one("select current_database()::text", &[]).await.expect("a name").get(0);
    for setting in SETTINGS {
        sql.batch_execute(&format!("alter database {name} set {setting}")).await.expect("a setting");
    }
    let mut instances = Vec::new();
    for _ in 0..4 {
        instances.push(instance(&url, Duration::from_secs(5), &calls));
    }
    let instances = join_all(instances).await;
    let first = &instances[0];
    first.keep_history(Tick::KIND, LEASE).await.expect("a setting");
    let far = Tick::new("far");
    let saves = join_all((0..200).map(|n| {
        let tick = Tick::new(format!("{n:03}"));
        let durable = &instances[n % 4];
        async move { durable.at(soon(2_000), &tick).save().await }
    }));
    assert!(saves.await.iter().all(Result::is_ok));
    first.at(soon(3_600_000), &far).key("k").save().await.expect("a save");
    let replaced = first.at(soon(3_600_000), &far).key("k").replace().save().await.expect("a save");
    assert!(matches!(replaced, Saved::Replaced { .. }), "{replaced:?}");
    let other = client(&url).await;
    let told: String = other
        .query_one("select timingwheel.move_timer('k', '2100-01-02 03:04:05.678Z')", &[])
        .await
        .expect("an answer")
        .get(0);
    assert_eq!(told, "moved");
    let found = first.get("k").await.expect("an answer").expect("a timer");
    assert_eq!(found.timer.due().to_string(), "2100-01-02T03:04:05.678Z");
    assert_eq!(found.read::<Tick>().expect("a payload").name, "far");
    until("all are called", async || calls.all().len() == 200).await;
    assert_eq!(first.cancel("k").await.expect("an answer"), Cancelled::Removed);
    until("200 are done, one was replaced, and one cancelled", async || {
        first.look(Filter::history().limit(1_000)).await.expect("a page").timers.len() == 202
    })
    .await;
    for instance in instances {
        instance.stop(GUARD).await;
        let stats = instance.stats();
        assert_eq!((stats.store_errors, stats.rejoined, stats.fenced), (0, 0, 0));
    }
    let distinct: std::collections::BTreeSet<String> = calls.names().into_iter().collect();
    assert_eq!(distinct.len(), 200, "each once");
}

#[tokio::test]
async fn a_schema_that_is_there_needs_no_right_to_create_one() {
    let url = database().await;
    let (sql, name) = (client(&url).await, url.rsplit('/').next().expect("a name").to_owned());
    sql.batch_execute(&format!(
        "create role {name} login; revoke create on database {name} from public; \
         create schema timingwheel authorization {name}"
    ))
    .await
    .expect("a schema");
    let of_role = url.replacen("postgres@", &format!("{name}@"), 1);
    drop(store(&of_role).await);
}

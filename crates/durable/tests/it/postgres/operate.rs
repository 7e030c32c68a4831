//! What people at `psql` see and do, and what instances hear of pauses.

use std::time::Duration;

use timingwheel_durable::store::Store;
use timingwheel_durable::{Act, Answer, Durable, Filter, Phase, Run};

use super::server::database;
use super::support::{Calls, Tick, builder, client, instance, soon, store, ticks, until};

const LEASE: Duration = Duration::from_secs(600);

#[tokio::test]
async fn every_instance_hears_of_a_pause_and_of_its_end_at_once() {
    let (url, calls) = (database().await, Calls::default());
    let mut instances = Vec::new();
    for _ in 0..3 {
        instances.push(instance(&url, LEASE, &calls).await);
    }
    // A third of the lease is longer than this test.
    until("all have shards", async || instances.iter().all(|one| one.stats().shards.0 > 0)).await;
    let renewals =
        |instances: &[Durable]| -> Vec<u64> { instances.iter().map(|one| one.stats().renewals).collect() };
    let before = loop {
        // Until no join is told of any more.
        let before = renewals(&instances);
        tokio::time::sleep(Duration::from_secs(1)).await;
        if renewals(&instances) == before {
            break before;
        }
    };
    let sql = client(&url).await;
    let paused: Vec<String> =
        sql.query_one("select timingwheel.pause_kind('tick')", &[]).await.expect("a pause").get(0);
    assert_eq!(paused, ["tick"]);
    let hear = async |before: Vec<u64>| {
        until("all hear of it", async || {
            renewals(&instances).iter().zip(&before).all(|(now, before)| now > before)
        })
        .await;
    };
    hear(before).await;
    for n in 0..64 {
        instances[0].at(soon(0), &Tick::new(format!("{n}"))).save().await.expect("a save");
    }
    let is_paused = Filter::new().phase(Phase::Paused);
    until("they are due", async || {
        instances[1].look(is_paused.clone()).await.expect("a page").timers.len() == 64
    })
    .await;
    assert!(calls.all().is_empty());
    instances[2].resume("tick").await.expect("an answer");
    until("they run", async || calls.all().len() == 64).await;
    for one in instances {
        one.stop(Duration::from_secs(60)).await;
    }
}

#[tokio::test]
async fn people_see_all_timers_by_a_view_and_run_and_cancel_them_by_its_ids() {
    let (url, calls) = (database().await, Calls::default());
    let handler = calls.handler();
    let one = builder(store(&url).await, LEASE)
        .on(move |tick: Tick, run: Run| {
            let is_bad = tick.name == "bad" && run.attempt == 1 && calls_of(&calls, &tick) == 0;
            let called = handler(tick, run);
            async move { if is_bad { Ok(Answer::Bury("a bad name".into())) } else { called.await } }
        })
        .start()
        .await
        .expect("a start");
    one.at(soon(0), &Tick::new("bad")).key("bad").save().await.expect("a save");
    one.at(soon(3_600_000), &Tick::new("far")).key("far").save().await.expect("a save");
    until("it is buried", async || one.count().await.expect("counts").buried == 1).await;
    let sql = client(&url).await;
    sql.batch_execute("update timingwheel.timers set payload = '\\xff' where key = 'far'")
        .await
        .expect("a change");
    let rows = sql
        .query(
            "select id, phase, key, payload ->> 'name' as name, reason, failures -> 0 ->> 'error' as error, \
                made <= now() and (buried is null or buried >= made) as has_times \
            from timingwheel.inspect_v1 order by key",
            &[],
        )
        .await
        .expect("rows");
    let of = |name: &str| rows.iter().map(|row| row.get::<_, Option<String>>(name)).collect::<Vec<_>>();
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(of("phase"), [some("buried"), some("waiting")]);
    assert_eq!(of("name"), [some("bad"), None], "what is no JSON is null");
    assert_eq!((of("reason"), of("error")), (vec![some("a bad name"), None], vec![some("a bad name"), None]));
    assert!(rows.iter().all(|row| row.get("has_times")));
    let ids: Vec<String> = of("id").into_iter().flatten().collect();
    assert_eq!(
        ids[0],
        one.show("bad").await.expect("an answer").expect("it is there").timer.timer.id().to_string()
    );
    // Without a time it is now, and cancels nothing.
    let run: i64 = sql
        .query_one("select timingwheel.run_timers($1, null)", &[&ids[..1].to_vec()])
        .await
        .expect("a run")
        .get(0);
    until("it runs again", async || one.stats().done == 1).await;
    let cancelled: i64 =
        sql.query_one("select timingwheel.cancel_timers($1)", &[&ids]).await.expect("a cancel").get(0);
    assert_eq!((run, cancelled), (1, 1));
    assert_eq!(one.count().await.expect("counts"), Default::default());
    one.stop(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn people_keep_a_history_and_see_by_a_view_how_timers_ended_and_who_ran_them() {
    let (url, calls) = (database().await, Calls::default());
    let one = instance(&url, LEASE, &calls).await;
    let sql = client(&url).await;
    let kept: String = sql
        .query_one("select timingwheel.keep_history('tick', interval '1 day')::text", &[])
        .await
        .expect("a setting")
        .get(0);
    assert_eq!(kept, r#"{"tick": 86400000}"#);
    for key in ["done", "cancelled", "replaced"] {
        let due = soon(if key == "done" { 0 } else { 3_600_000 });
        one.at(due, &Tick::new(key)).key(key).save().await.expect("a save");
    }
    sql.batch_execute(
        "select timingwheel.cancel_timer('cancelled'); \
        select timingwheel.save_timer(now() + '1 day', 'tick', '{\"name\": \"new\"}', 'replaced', true)",
    )
    .await
    .expect("changes");
    let seen = "select key, how, payload ->> 'name' as name, instance, begun >= made and ended >= begun as has_begun, \
        due <= ended as was_due from timingwheel.history_v1 order by how";
    until("it is done", async || sql.query(seen, &[]).await.expect("rows").len() == 3).await;
    let rows = sql.query(seen, &[]).await.expect("rows");
    for (row, how) in rows.iter().zip(["cancelled", "done", "replaced"]) {
        assert_eq!([row.get::<_, &str>("key"), row.get("how"), row.get("name")], [how; 3]);
        let is_done = how == "done";
        assert_eq!(row.get::<_, Option<&str>>("instance").is_some(), is_done, "{row:?}");
        assert_eq!(row.get::<_, Option<bool>>("has_begun"), is_done.then_some(true));
        assert_eq!(row.get::<_, bool>("was_due"), is_done);
    }
    sql.batch_execute("select timingwheel.keep_history('tick', null)").await.expect("a setting");
    one.cancel("replaced").await.expect("an answer");
    assert_eq!(sql.query(seen, &[]).await.expect("rows").len(), 3, "it is off");
    one.stop(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn each_statement_of_the_page_on_call_is_one_that_the_database_takes() {
    let url = database().await;
    drop(store(&url).await);
    let sql = client(&url).await;
    let page = include_str!("../../../docs/on_call.md");
    let statements = page.split("```sql\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mut count = 0;
    for statement in statements {
        sql.batch_execute(statement).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
        count += 1;
    }
    assert!(count > 10, "{count}");
}

fn calls_of(calls: &Calls, tick: &Tick) -> usize {
    calls.names().iter().filter(|name| **name == tick.name).count()
}

/// Timers in a table, by the database itself.
async fn fills(url: &str, count: i32) {
    let sql = client(url).await;
    let fill = format!(
        "insert into timingwheel.timers (shard, due_ms, number, first_ms, kind, key, payload) \
        select n & 63, 4102444800000 + n / 3, n, 4102444800000 + n / 3, 'tick', 'k' || n, '{{}}' \
        from generate_series(1, {count}) n; \
        insert into timingwheel.buried (first_ms, number, attempts, kind, key, payload, reason) \
        select n, n + 100000000, 1, 'tick', 'b' || n, '{{\"name\": \"b\"}}', 'why' from generate_series(1, {count}) n; \
        analyze timingwheel.timers; analyze timingwheel.buried"
    );
    sql.batch_execute(&fill).await.expect("timers");
}

#[tokio::test]
async fn a_page_passes_a_bounded_part_of_the_timers_however_many_there_are() {
    let url = database().await;
    let one = builder(store(&url).await, LEASE).start().await.expect("a start");
    fills(&url, 20_000).await;
    // What is wanted by a filter comes last, or never: each page passes a part.
    let mut next = Some(Filter::new().kind("nobody's").limit(50));
    let mut looks = 0;
    while let Some(filter) = next {
        let page = one.look(filter).await.expect("a page");
        assert!(page.timers.is_empty());
        (next, looks) = (page.next, looks + 1);
    }
    assert!((16..50).contains(&looks), "{looks} looks at 40,000 timers");
    let tally = one.tally().await.expect("a tally");
    assert_eq!(tally.counts.values().sum::<u64>(), 40_000);
    one.stop(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn buried_timers_are_retried_in_one_call_while_eight_instances_run() {
    let count: u64 = std::env::var("DURABLE_RETRIES").map_or(2_000, |count| count.parse().expect("a number"));
    let (url, calls) = (database().await, Calls::default());
    let mut instances = Vec::new();
    for _ in 0..8 {
        instances.push(instance(&url, LEASE, &calls).await);
    }
    let sql = client(&url).await;
    let fill = format!(
        "insert into timingwheel.buried (first_ms, number, attempts, kind, payload, reason) \
        select n, n + 100000000, 1, 'tick', convert_to('{{\"name\": \"' || n || '\"}}', 'UTF8'), 'why' \
        from generate_series(1, {count}) n"
    );
    sql.batch_execute(&fill).await.expect("timers");
    let dead = Filter::new().phase(Phase::Buried).limit(usize::MAX);
    let retried = instances[3].act(dead, Act::RunNow).await.expect("an answer");
    assert_eq!((retried.done, retried.next), (count, None));
    until("all are called", async || calls.all().len() as u64 >= count).await;
    until("nothing is left", async || instances[0].count().await.expect("counts") == Default::default())
        .await;
    let mut names = calls.names();
    names.dedup();
    assert_eq!((names.len() as u64, calls.all().len() as u64), (count, count), "each once");
    for one in instances {
        one.stop(Duration::from_secs(60)).await;
    }
}

#[tokio::test]
async fn a_pause_in_a_transaction_that_stays_open_costs_nobody_a_lease_and_keeps_nobody_from_joining() {
    let (url, calls) = (database().await, Calls::default());
    let lease = Duration::from_secs(3);
    let one = instance(&url, lease, &calls).await;
    let dies = store(&url).await;
    dies.join(Duration::from_secs(2), ticks()).await.expect("it joins");
    until("both have shards", async || one.stats().shards.0 == 32).await;
    let sql = client(&url).await;
    sql.batch_execute("begin; select timingwheel.pause_kind('other')").await.expect("a pause");
    until("one has all shards", async || one.stats().shards.0 == 64).await;
    let two = instance(&url, lease, &calls).await;
    until("the other has its share", async || one.stats().shards.0 == 32).await;
    assert_eq!((one.stats().rejoined, two.stats().rejoined), (0, 0));
    sql.batch_execute("commit").await.expect("a commit");
    for one in [one, two] {
        one.stop(Duration::from_secs(60)).await;
    }
}

#[tokio::test]
async fn an_act_leaves_out_what_an_open_transaction_holds_and_tells_how_many_these_are() {
    let url = database().await;
    let one = builder(store(&url).await, LEASE)
        .on(|_: Tick, _: Run| async { Ok(Answer::Bury("a bad name".into())) })
        .start()
        .await
        .expect("a start");
    let hour = 3_600_000;
    for (key, due) in [("buried", 0), ("held", 0), ("taken", 0), ("far", hour), ("far and held", hour)] {
        one.at(soon(due), &Tick::new(key)).key(key).save().await.expect("a save");
    }
    until("three are buried", async || one.count().await.expect("counts").buried == 3).await;
    let sql = client(&url).await;
    sql.batch_execute(
        "begin; select from timingwheel.buried where key = 'held' for update; \
        select from timingwheel.timers where key = 'far and held' for update; \
        select timingwheel.save_timer(now() + interval '1 day', 'tick', '{}', 'taken')",
    )
    .await
    .expect("a transaction");
    // Less than a call may wait for a lock.
    let within =
        |acting| async { tokio::time::timeout(Duration::from_secs(5), acting).await.expect("in time") };
    let moved = within(one.act(Filter::new(), Act::MoveTo(soon(2 * hour)))).await.expect("an answer");
    assert_eq!((moved.done, moved.locked), (2, 3), "{moved:?}");
    let other = client(&url).await;
    other.batch_execute("set lock_timeout = '3s'").await.expect("a setting");
    let ids = "array(select id from timingwheel.inspect_v1)";
    let run = format!("select timingwheel.run_timers({ids}, now() + interval '3 hours')");
    // A buried timer whose key is being saved can be deleted, and not be stored.
    for (call, done) in [(run, 2), (format!("select timingwheel.cancel_timers({ids})"), 3)] {
        let told: i64 = other.query_one(&call, &[]).await.expect("an answer").get(0);
        assert_eq!(told, done, "{call}");
    }
    sql.batch_execute("rollback").await.expect("an end");
    let cancelled = within(one.act(Filter::new(), Act::Cancel)).await.expect("an answer");
    assert_eq!((cancelled.done, cancelled.locked), (2, 0), "{cancelled:?}");
    one.stop(Duration::from_secs(60)).await;
}

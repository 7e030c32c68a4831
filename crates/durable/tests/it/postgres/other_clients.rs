//! Clients that know no more than SQL: each statement here is a text with texts as parameters, as diesel, sqlx and other languages
//! send it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use timingwheel_calendar::{Cron, Periodic, Plan, Rule};
use timingwheel_durable::tokio_postgres::{Client, SimpleQueryMessage};
use timingwheel_durable::{Answer, Backoff, Cancelled, Filter, HandlerError, Moved, Phase, Run, TimerId};

use super::server::database;
use super::support::{Calls, Tick, builder, client, instance, soon, store, until};

const LEASE: Duration = Duration::from_secs(30);

/// The first column of the first row, or the code of the error.
async fn ask(sql: &Client, statement: &str) -> Result<Option<String>, String> {
    let rows = sql.simple_query(statement).await;
    let rows = rows.map_err(|error| error.code().map(|code| code.code().to_owned()).unwrap_or_default())?;
    let row = rows.into_iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row.get(0).map(ToOwned::to_owned)),
        _ => None,
    });
    Ok(row.flatten())
}

fn some(text: &str) -> Result<Option<String>, String> {
    Ok(Some(text.to_owned()))
}

#[tokio::test]
async fn a_series_is_saved_by_sql_and_its_first_run_is_that_of_its_rule() {
    let (url, calls) = (database().await, Calls::default());
    let sql = client(&url).await;
    let one = instance(&url, LEASE, &calls).await;
    let zone = jiff::tz::TimeZone::UTC;
    let daily: Plan = Cron::parse("0 9 * * *").expect("a rule").in_zone(zone).into();
    let saves = |payload: &str, missed: &str| {
        format!("select timingwheel.save_series('daily', '{daily}', 'tick', '{payload}', '{missed}')")
    };
    let (first, second) = (r#"{"name":"daily"}"#, r#"{"name":"other"}"#);
    assert_eq!(ask(&sql, "begin").await, Ok(None));
    assert_eq!(ask(&sql, &saves(first, "each 1")).await, some("stored"));
    assert_eq!(ask(&sql, "commit").await, Ok(None));
    let pending = async || one.show("daily").await.expect("an answer").expect("it is there");
    let is_planned = async || {
        let pending = pending().await;
        pending.phase == Phase::Waiting && pending.timer.timer.due() == daily.after(one.now()).expect("a run")
    };
    until("its first run is planned", is_planned).await;
    assert!(calls.all().is_empty(), "no handler was called for what is skipped");
    // The same from both sides.
    assert_eq!(ask(&sql, &saves(first, "each 1")).await, some("kept"));
    let kept = one.every("daily", daily.clone(), &Tick::new("daily")).save().await.expect("a save");
    assert_eq!(kept.id(), Some(pending().await.timer.timer.id()));
    assert_eq!(ask(&sql, &saves(second, "each 1")).await, some("updated"));
    let id = pending().await.timer.timer.id();
    assert_eq!(kept.id(), Some(id), "its pending run stays");
    let often: Plan = Periodic::seconds(1, one.now()).into();
    let often = format!("select timingwheel.save_series('daily', '{often}', 'tick', '{second}')");
    assert_eq!(ask(&sql, &often).await, some("replaced"));
    until("it runs", async || calls.names().len() > 2).await;
    assert_eq!(calls.names()[0], "other");
    one.cancel("daily").await.expect("an answer");
    until("a run under way has ended", async || one.show("daily").await.expect("an answer").is_none()).await;
    // What is none, and what is no policy.
    one.at(soon(3_600_000), &Tick::new("far")).key("daily").save().await.expect("a save");
    assert_eq!(ask(&sql, &saves(first, "each 1")).await, Err("23505".to_owned()));
    assert_eq!(ask(&sql, &saves(first, "sometimes")).await, Err("22023".to_owned()));
    one.stop(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn a_handler_ends_its_attempt_by_sql_in_its_transaction_exactly_once() {
    let url = database().await;
    let sql = client(&url).await;
    sql.batch_execute("create table effects (name text)").await.expect("a table");
    let (address, attempts) = (url.clone(), Arc::new(AtomicU32::new(0)));
    let counted = Arc::clone(&attempts);
    let handler = move |Tick { name }: Tick, run: Run| {
        let (address, attempts) = (address.clone(), Arc::clone(&counted));
        async move {
            attempts.fetch_add(1, Ordering::Relaxed);
            let sql = client(&address).await;
            let ticket = run.finish_ticket()?.replace('\'', "''");
            let works =
                format!("insert into effects values ('{name}'); select timingwheel.finish_timer('{ticket}')");
            // One transaction: the first is rolled back.
            let end = if run.attempt == 1 && name == "again" { "rollback" } else { "commit" };
            ask(&sql, &format!("begin; {works}; {end}")).await?;
            // Whatever is answered after the commit, the timer is done.
            Err::<Answer, HandlerError>("after the transaction".into())
        }
    };
    let one = builder(store(&url).await, LEASE)
        .on(handler)
        .retry::<Tick>(Backoff::fixed(Duration::from_millis(10)))
        .start()
        .await
        .expect("a start");
    one.keep_history("tick", Duration::from_secs(3_600)).await.expect("an answer");
    for name in ["once", "again"] {
        one.at(soon(0), &Tick::new(name)).key(name).save().await.expect("a save");
    }
    let often = Periodic::seconds(1, one.now());
    one.every("series", often, &Tick::new("series")).save().await.expect("a save");
    let effects = async |name: &str| {
        let count = format!("select count(*) from effects where name = '{name}'");
        ask(&sql, &count).await.expect("a count").expect("a number").parse::<u32>().expect("a number")
    };
    until("all have ended", async || {
        effects("once").await + effects("again").await == 2 && effects("series").await > 3
    })
    .await;
    one.cancel("series").await.expect("an answer");
    until("nothing is left", async || one.count().await.expect("counts") == Default::default()).await;
    let series = effects("series").await;
    assert_eq!(
        attempts.load(Ordering::Relaxed),
        3 + series,
        "one was rolled back, and no other was repeated"
    );
    let done = one.look(Filter::history().phase(Phase::Done).limit(1_000)).await.expect("a page");
    assert_eq!(done.timers.len(), 2 + series as usize);
    one.stop(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn a_ticket_is_refused_once_its_attempt_is_over_and_heeds_what_has_changed_since() {
    let url = database().await;
    let (address, tickets) = (url.clone(), Arc::new(Mutex::new(Vec::new())));
    let told = Arc::clone(&tickets);
    let handler = move |Tick { name }: Tick, run: Run| {
        let (address, told) = (address.clone(), Arc::clone(&told));
        async move {
            let sql = client(&address).await;
            let finish = format!("select timingwheel.finish_timer('{}')", run.finish_ticket()?);
            let changes = match name.as_str() {
                "plain" => "select 1",
                "cancelled" => "select timingwheel.cancel_timer('cancelled')",
                _ => {
                    "select timingwheel.save_series('ruled', 'cron 0 9 * * * in UTC', 'tick', '{\"name\": \"new\"}')"
                }
            };
            ask(&sql, changes).await?;
            let answer = ask(&sql, &finish).await;
            let again = ask(&sql, &finish).await;
            told.lock().expect("nobody panics").push((name, answer, again));
            Ok(Answer::Done)
        }
    };
    let one = builder(store(&url).await, LEASE).on(handler).start().await.expect("a start");
    for (name, key) in [("plain", "plain"), ("cancelled", "cancelled"), ("ruled", "ruled")] {
        let often = Periodic::hours(30, one.now());
        if name == "plain" {
            one.at(soon(0), &Tick::new(name)).key(key).save().await.expect("a save");
        } else {
            one.every(key, often, &Tick::new(name)).save().await.expect("a save");
            one.reschedule(key, one.now()).await.expect("a move");
        }
    }
    until("all are called", async || tickets.lock().expect("nobody panics").len() == 3).await;
    let mut tickets = tickets.lock().expect("nobody panics").clone();
    tickets.sort_by(|(one, ..), (other, ..)| one.cmp(other));
    let gone = || Err("TW002".to_owned());
    assert_eq!(tickets[0], ("cancelled".to_owned(), some(""), gone()));
    assert_eq!(tickets[1], ("plain".to_owned(), some(""), gone()));
    let other_rule = || Err("TW003".to_owned());
    assert_eq!(tickets[2], ("ruled".to_owned(), other_rule(), other_rule()));
    assert!(one.show("cancelled").await.expect("an answer").is_none(), "nothing follows");
    until("it goes on by the new rule", async || {
        let ruled = one.show("ruled").await.expect("an answer");
        ruled.is_some_and(|ruled| {
            ruled.phase == Phase::Waiting && ruled.timer.timer.due().to_string().ends_with("T09:00:00Z")
        })
    })
    .await;
    one.stop(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn a_time_beyond_the_year_9999_is_the_last_that_programs_know_and_its_timer_is_found_by_its_id() {
    let url = database().await;
    let durable = builder(store(&url).await, LEASE).start().await.expect("a start");
    let sql = client(&url).await;
    for due in ["infinity", "20000-01-01"] {
        let save = format!("select timingwheel.save_timer('{due}', 'tick', '{{}}', 'k')");
        let id = ask(&sql, &save).await.expect("a save").expect("an id");
        let id: TimerId = id.parse().expect("an id as any other");
        assert_eq!(id.first_due().as_second(), Timestamp::MAX.as_second());
        assert_eq!(durable.reschedule(id, soon(3_600_000)).await.expect("an answer"), Moved::Moved(id));
        let moved = ask(&sql, &format!("select timingwheel.move_timer('k', '{due}')")).await;
        assert_eq!(moved, some("moved"));
        assert_eq!(durable.cancel(id).await.expect("an answer"), Cancelled::Removed);
    }
    assert!(ask(&sql, "select timingwheel.save_timer(null, 'tick', '{}')").await.is_err(), "no time");
    durable.stop(Duration::from_secs(60)).await;
}

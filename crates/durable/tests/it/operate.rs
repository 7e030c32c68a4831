//! Looking at timers, acting on many, and pausing kinds: each case in all three stores.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use timingwheel_durable::store::Store;
use timingwheel_durable::{
    Act, Answer, Backoff, Cancelled, Durable, Filter, Kind, Listing, Phase, Run, Shown, Taken,
};

use crate::every_store::{Note, daily, in_every_store, instance, later, note, stop, until};

in_every_store! {
    a_look_names_the_phase_of_each_timer_and_the_times_of_what_happened
    pages_by_phase_kind_key_and_time_hold_all_timers_once
    a_cancel_by_key_deletes_what_is_buried_so_that_no_retry_runs_it
    many_buried_timers_are_retried_at_once_and_the_caller_is_told_how_many
    an_act_cancels_moves_and_prunes_what_the_filter_wants_and_no_more
    a_kind_that_is_paused_delays_no_other_and_goes_on_after_a_restart_when_it_is_resumed
    timers_are_counted_by_kind_and_phase
}

/// A kind of its own, so that it can be paused alone. `fails` fails for good, `waits` never ends.
#[derive(Serialize, Deserialize)]
struct Mail(String);

impl Kind for Mail {
    const KIND: &'static str = "mail";
}

fn mail(text: &str) -> Mail {
    Mail(text.to_owned())
}

/// Handles mails: `fails` is buried, `again` is tried again in an hour, `waits` never ends.
async fn mailing<S: Store + Clone>(store: &S) -> Durable {
    let handler = |Mail(text): Mail, _: Run| async move {
        match text.as_str() {
            "fails" => Ok(Answer::Bury("no such address".into())),
            "again" => Err("a full box".into()),
            "waits" => std::future::pending().await,
            _ => Ok(Answer::Done),
        }
    };
    let hour = Backoff::fixed(Duration::from_secs(3_600)).jitter(0.0);
    instance(store).on(handler).retry::<Mail>(hour).start().await.expect("a start")
}

async fn look(durable: &Durable, filter: Filter) -> Vec<Shown> {
    let mut found = Vec::new();
    let mut next = Some(filter);
    while let Some(filter) = next {
        let page: Listing = durable.look(filter).await.expect("a page");
        found.extend(page.timers);
        next = page.next;
    }
    found
}

async fn keys(durable: &Durable, filter: Filter) -> Vec<String> {
    let found = look(durable, filter).await;
    found.into_iter().map(|shown| shown.timer.key.unwrap_or_default()).collect()
}

async fn save(durable: &Durable, key: &str, due: Timestamp) {
    durable.at(due, &mail(key.split('/').next().unwrap_or(key))).key(key).save().await.expect("a save");
}

async fn reaches(durable: &Durable, key: &str, phase: Phase) {
    let what = format!("{key} is {phase}");
    until(&what, async || {
        durable.show(key).await.expect("an answer").is_some_and(|shown| shown.phase == phase)
    })
    .await;
}

async fn a_look_names_the_phase_of_each_timer_and_the_times_of_what_happened(store: impl Store + Clone) {
    let (durable, begin) = (mailing(&store).await, later(0));
    save(&durable, "later", later(1)).await;
    durable.at(later(-1), &note("nobody's")).key("unhandled").save().await.expect("a save");
    for key in ["fails", "again", "waits"] {
        save(&durable, key, later(-1)).await;
    }
    for (key, phase) in [
        ("later", Phase::Waiting),
        ("unhandled", Phase::Unhandled),
        ("fails", Phase::Buried),
        ("again", Phase::Retrying),
        ("waits", Phase::Running),
    ] {
        reaches(&durable, key, phase).await;
        let of_phase = keys(&durable, Filter::new().phase(phase)).await;
        assert_eq!(of_phase, [key], "{phase}");
        assert_eq!(phase.to_string().parse(), Ok(phase));
    }
    let mut all = keys(&durable, Filter::new()).await;
    all.sort_unstable();
    assert_eq!(all, ["again", "fails", "later", "unhandled", "waits"]);
    let end = Timestamp::now() + SignedDuration::from_secs(1);
    let is_now = |at: Option<Timestamp>| at.is_some_and(|at| (begin..=end).contains(&at));
    let shown = async |key: &str| durable.show(key).await.expect("an answer").expect("it is there");
    let waits = shown("waits").await;
    assert!(is_now(waits.timer.times.made) && is_now(waits.timer.times.begun), "{waits:?}");
    assert_eq!(waits.instance.is_some(), store.is_shared());
    let again = shown("again").await;
    assert_eq!(again.timer.failures[0].error, "a full box");
    assert!(is_now(again.timer.failures[0].at) && again.timer.times.begun.is_none(), "{again:?}");
    let fails = shown("fails").await;
    assert!(is_now(fails.timer.times.buried) && is_now(fails.timer.times.made), "{fails:?}");
    assert!(is_now(fails.timer.failures[0].at), "{fails:?}");
    assert_eq!(durable.show("nobody").await.expect("an answer"), None);
    // One that has begun may not have been called.
    until("three are called", async || durable.stats().attempts == 3).await;
    durable.stop(Duration::ZERO).await;
    // The attempt that was cut short has the time at which it began.
    let durable = instance(&store).start().await.expect("a start");
    let waits = durable.show("waits").await.expect("an answer").expect("it is there");
    assert!(waits.timer.crashes == 1 && is_now(waits.timer.failures[0].at), "{waits:?}");
    stop(durable).await;
}

async fn pages_by_phase_kind_key_and_time_hold_all_timers_once(store: impl Store + Clone) {
    let durable = instance(&store).start().await.expect("a start");
    let first = later(1);
    let at = |n: i64| first + SignedDuration::from_mins(n);
    let saves = (0..250).map(|n| {
        let key = format!("{}/{n:03}", if n % 2 == 0 { "even" } else { "odd" });
        let durable = durable.clone();
        async move {
            if n % 5 == 0 {
                durable.at(at(n), &note("n")).key(key).save().await.expect("a save");
            } else {
                durable.at(at(n), &mail("m")).key(key).save().await.expect("a save");
            }
        }
    });
    futures::future::join_all(saves).await;
    let all = keys(&durable, Filter::new().limit(7)).await;
    assert_eq!(all.len(), 250);
    let numbers: Vec<&str> = all.iter().map(|key| key.split('/').nth(1).unwrap_or_default()).collect();
    assert!(numbers.is_sorted(), "in the order of their times, each once: {numbers:?}");
    let of = async |filter: Filter| keys(&durable, filter.limit(9)).await.len();
    assert_eq!(of(Filter::new().kind("mail")).await, 200);
    assert_eq!(of(Filter::new().key_prefix("odd/")).await, 125);
    assert_eq!(of(Filter::new().kind("note").key_prefix("odd/")).await, 25);
    assert_eq!(of(Filter::new().phase(Phase::Waiting)).await, 250);
    assert_eq!(of(Filter::new().phase(Phase::Due)).await, 0);
    assert_eq!(keys(&durable, Filter::new().from(at(10)).before(at(12))).await, ["even/010", "odd/011"]);
    assert_eq!(of(Filter::new().from(at(240))).await, 10);
    assert_eq!(of(Filter::only("odd/011")).await, 1);
    let page = durable.look(Filter::new().limit(0)).await.expect("a page");
    assert!(page.timers.is_empty() && page.next.is_some());
    stop(durable).await;
}

async fn a_cancel_by_key_deletes_what_is_buried_so_that_no_retry_runs_it(store: impl Store + Clone) {
    let durable = mailing(&store).await;
    save(&durable, "fails", later(-1)).await;
    reaches(&durable, "fails", Phase::Buried).await;
    let id = durable.show("fails").await.expect("an answer").expect("it is there").timer.timer.id();
    assert_eq!(durable.cancel("fails").await.expect("an answer"), Cancelled::Removed);
    assert_eq!(durable.retry_buried(id).await.expect("an answer"), Taken::NotFound);
    assert_eq!(durable.cancel("fails").await.expect("an answer"), Cancelled::NotFound);
    // Two under one key, and one that has it now: that one is cancelled, and the dead letters are kept.
    for count in 1..=2 {
        save(&durable, "fails", later(-1)).await;
        until("it is buried", async || durable.count().await.expect("counts").buried == count).await;
    }
    save(&durable, "fails", later(1)).await;
    assert_eq!(look(&durable, Filter::only("fails")).await.len(), 3);
    assert_eq!(durable.cancel("fails").await.expect("an answer"), Cancelled::Removed);
    assert_eq!(look(&durable, Filter::only("fails")).await.len(), 2);
    assert_eq!(durable.cancel("fails").await.expect("an answer"), Cancelled::Removed);
    assert_eq!(durable.count().await.expect("counts"), Default::default());
    stop(durable).await;
}

/// Buries so many mails, and returns the instance.
async fn buries<S: Store + Clone>(store: &S, count: u64) -> Durable {
    let durable = mailing(store).await;
    let saves = (0..count).map(|n| {
        let durable = durable.clone();
        async move { save(&durable, &format!("fails/{n}"), later(-1)).await }
    });
    futures::future::join_all(saves).await;
    until("they are buried", async || durable.count().await.expect("counts").buried == count).await;
    durable
}

async fn many_buried_timers_are_retried_at_once_and_the_caller_is_told_how_many(store: impl Store + Clone) {
    let count = 1_200;
    stop(buries(&store, count).await).await;
    let durable = instance(&store).on(|Mail(_): Mail, _: Run| async { Ok(Answer::Done) });
    let durable = durable.start().await.expect("a start");
    let dead = Filter::new().phase(Phase::Buried).kind("mail");
    let some = durable.act(dead.clone().limit(700), Act::RunNow).await.expect("an answer");
    assert_eq!((some.done, some.running, some.key_taken), (700, 0, 0));
    until("those run", async || durable.stats().done == 700).await;
    let rest =
        durable.act(some.next.expect("there are more").limit(9_999), Act::RunNow).await.expect("an answer");
    assert_eq!((rest.done, rest.next), (count - 700, None));
    until("all run", async || durable.stats().done == count).await;
    assert_eq!(durable.count().await.expect("counts"), Default::default());
    stop(durable).await;
}

async fn an_act_cancels_moves_and_prunes_what_the_filter_wants_and_no_more(store: impl Store + Clone) {
    let durable = buries(&store, 3).await;
    for (key, hours) in [("a/1", 1), ("a/2", 2), ("b/1", 1)] {
        save(&durable, key, later(hours)).await;
    }
    save(&durable, "waits", later(-1)).await;
    reaches(&durable, "waits", Phase::Running).await;
    // A buried one whose key another has stays.
    save(&durable, "fails/0", later(9)).await;
    let a = Filter::new().key_prefix("a/");
    let moved = durable.act(a.clone(), Act::MoveTo(later(5))).await.expect("an answer");
    assert_eq!((moved.done, moved.next), (2, None));
    let again = durable.act(a.clone(), Act::MoveTo(later(6))).await.expect("an answer");
    assert_eq!(again.done, 2);
    let cancelled = durable.act(a.limit(1), Act::Cancel).await.expect("an answer");
    assert_eq!((cancelled.done, cancelled.next.is_some()), (1, true));
    let run = durable.act(Filter::new().key_prefix("b/"), Act::RunNow).await.expect("an answer");
    assert_eq!(run.done, 1);
    until("it has run", async || durable.show("b/1").await.expect("an answer").is_none()).await;
    let running = durable.act(Filter::only("waits"), Act::MoveTo(later(1))).await.expect("an answer");
    assert_eq!((running.done, running.running), (0, 1));
    let dead = Filter::new().phase(Phase::Buried);
    let refused = durable.act(dead.clone(), Act::MoveTo(later(7))).await.expect("an answer");
    assert_eq!((refused.done, refused.key_taken), (2, 1));
    let ago = Timestamp::now() - SignedDuration::from_hours(1);
    let young = durable.act(dead.clone().before(ago), Act::Cancel).await.expect("an answer");
    assert_eq!(young.done, 0, "none is as old");
    let pruned = durable.act(dead.before(later(1)), Act::Cancel).await.expect("an answer");
    assert_eq!(pruned.done, 1);
    assert_eq!(durable.count().await.expect("counts").buried, 0);
    // A series ends.
    durable.every("series/1", daily().0, &mail("m")).save().await.expect("a save");
    let ended = durable.act(Filter::new().key_prefix("series/"), Act::Cancel).await.expect("an answer");
    assert_eq!((ended.done, durable.show("series/1").await.expect("an answer")), (1, None));
    durable.stop(Duration::ZERO).await;
}

async fn a_kind_that_is_paused_delays_no_other_and_goes_on_after_a_restart_when_it_is_resumed(
    store: impl Store + Clone,
) {
    let both = || {
        let mails = |Mail(_): Mail, _: Run| async { Ok(Answer::Done) };
        let notes = |Note(_): Note, _: Run| async { Ok(Answer::Done) };
        // So few are in memory that paused ones, if they were there, would leave no room.
        instance(&store).on(mails).on(notes).in_memory(4).concurrency(2).start()
    };
    let durable = both().await.expect("a start");
    durable.pause("mail").await.expect("an answer");
    assert_eq!(durable.paused().await.expect("an answer").len(), 1);
    for n in 0..50 {
        save(&durable, &format!("m/{n}"), later(-2)).await;
    }
    for n in 0..50 {
        durable.at(later(-1), &note("n")).key(format!("n/{n}")).save().await.expect("a save");
    }
    until("the others run", async || durable.stats().done == 50).await;
    assert_eq!(look(&durable, Filter::new().phase(Phase::Paused)).await.len(), 50);
    assert_eq!(durable.stats().attempts, 50);
    stop(durable).await;
    let durable = both().await.expect("a start");
    durable.at(later(-1), &note("n")).save().await.expect("a save");
    until("the other runs", async || durable.stats().done == 1).await;
    assert_eq!(durable.stats().attempts, 1, "it is still paused");
    durable.resume("mail").await.expect("an answer");
    until("they run", async || durable.stats().done == 51).await;
    assert!(durable.paused().await.expect("an answer").is_empty());
    stop(durable).await;
}

async fn timers_are_counted_by_kind_and_phase(store: impl Store + Clone) {
    let durable = buries(&store, 2).await;
    for n in 0..5 {
        save(&durable, &format!("m/{n}"), later(1)).await;
    }
    durable.at(later(1), &note("n")).save().await.expect("a save");
    durable.at(later(-1), &note("n")).save().await.expect("a save");
    let tally = durable.tally().await.expect("an answer");
    let counts: Vec<((&str, Phase), u64)> =
        tally.counts.iter().map(|((kind, phase), count)| ((kind.as_str(), *phase), *count)).collect();
    assert_eq!(
        counts,
        [
            (("mail", Phase::Waiting), 5),
            (("mail", Phase::Buried), 2),
            (("note", Phase::Waiting), 1),
            (("note", Phase::Unhandled), 1),
        ]
    );
    assert!(!tally.is_estimate);
    let json = serde_json::to_value(&tally).expect("JSON");
    assert_eq!(json["counts"][0], serde_json::json!(["mail", "waiting", 5]));
    stop(durable).await;
}

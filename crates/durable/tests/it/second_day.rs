//! The second day: processes that die, programs of other versions, buried runs of series, and what a store refuses. Each in every
//! store where it applies.

use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use timingwheel::TimingWheel;
use timingwheel_calendar::Periodic;
use timingwheel_durable::store::{Begun, NewTimer, Owner, Removal, Series, Store, ToBegin, Which};
use timingwheel_durable::{
    Answer, Backoff, Durable, Health, Kind, MemoryStore, Missed, Near, Page, Phase, Run, State, Symptom,
    Taken, TimerId,
};
use tokio::sync::Notify;

use crate::every_store::{
    Calls, Note, called, get, in_every_store, instance, kinds, note, noting, stop, until,
};

in_every_store! {
    crashes_do_not_use_up_the_tries_and_are_told_once_each
    a_timer_whose_process_ends_twenty_times_is_buried_with_the_attempts_that_were_made
    a_payload_that_does_not_fit_comes_again_by_the_policy_and_names_the_field
    a_series_whose_rule_cannot_be_read_here_waits_and_is_seen
    a_timer_that_was_cancelled_while_it_ran_and_whose_process_died_is_removed_and_told
    a_buried_run_is_retried_while_its_series_lives_and_brings_no_cancelled_series_back
    a_long_error_is_cut
    a_rule_that_becomes_unreadable_during_a_run_waits_and_is_seen_and_a_readable_one_goes_on
}

const CRASH: &str = "its process ended before it answered";

/// A timer that is due by now.
async fn due<S: Store>(store: &S, timer: NewTimer) -> Near {
    let near = Near::from(timer.id);
    store.save(vec![timer]).await.unwrap_or_else(|error| panic!("{error}"));
    near
}

fn plain(text: &str) -> NewTimer {
    let id = TimerId::new(Timestamp::now() - SignedDuration::from_secs(1), 7);
    NewTimer {
        key: Some("k".into()),
        ..NewTimer::new(id, Note::KIND, serde_json::to_vec(&note(text)).unwrap())
    }
}

/// An owner begins the timer, and dies.
async fn dies<S: Store>(store: &S, near: Near) -> Owner {
    let owner = store
        .join(Duration::from_secs(30), kinds(&[Note::KIND]))
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    if store.is_shared() {
        // It has the shards that it is told.
        store.renew(owner, None).await.unwrap_or_else(|error| panic!("{error}"));
    }
    let ask = ToBegin { timers: vec![near], kinds: Arc::new([Note::KIND.to_owned()].into()) };
    let begun = store.begin(owner, ask).await.unwrap_or_else(|error| panic!("{error}"));
    assert!(matches!(begun[0], Begun::Yours(_)), "{begun:?}");
    owner
}

async fn crashes_do_not_use_up_the_tries_and_are_told_once_each(store: impl Store + Clone) {
    let near = due(&store, plain("fails")).await;
    for _ in 0..3 {
        dies(&store, near).await;
    }
    let builder = instance(&store).on(|_: Note, _: Run| async { Err("no paper".into()) });
    let durable = builder.retry::<Note>(Backoff::default().tries(1)).start().await.expect("a start");
    until("it is buried", async || durable.stats().buried == 1).await;
    assert_eq!((durable.stats().attempts, durable.stats().crashes), (1, 1), "called once, after a crash");
    let buried = durable.list(Page { buried: true, ..Page::default() }).await.expect("a list");
    let told = buried[0].failures.iter().map(|failure| (failure.attempt, failure.error.as_str()));
    assert_eq!(told.collect::<Vec<_>>(), [(1, CRASH), (2, CRASH), (3, CRASH), (4, "no paper")]);
    assert_eq!((buried[0].attempts, buried[0].crashes), (4, 3));
    stop(durable).await;
}

async fn a_timer_whose_process_ends_twenty_times_is_buried_with_the_attempts_that_were_made(
    store: impl Store + Clone,
) {
    let (calls, near) = (Calls::default(), due(&store, plain("deadly")).await);
    for _ in 0..20 {
        dies(&store, near).await;
    }
    let durable = noting(&store, &calls).await;
    until("it is buried", async || durable.stats().buried == 1).await;
    let buried = durable.list(Page { buried: true, ..Page::default() }).await.expect("a list");
    let State::Buried(why) = &buried[0].state else { panic!("{buried:?}") };
    assert_eq!(why.reason, "its process ended during 20 attempts, without an answer");
    assert_eq!((buried[0].attempts, buried[0].crashes, calls.lock().unwrap().len()), (20, 20, 0));
    let told: Vec<u32> = buried[0].failures.iter().map(|failure| failure.attempt).collect();
    assert_eq!(told, (11..=20).collect::<Vec<u32>>(), "the last ten, each once");
    stop(durable).await;
}

/// As a program of an earlier version reads a note.
#[derive(Serialize, Deserialize)]
struct Earlier {
    lines: u32,
}

impl Kind for Earlier {
    const KIND: &'static str = "letter";
}

#[derive(Serialize, Deserialize)]
struct Later {
    lines: String,
}

impl Kind for Later {
    const KIND: &'static str = "letter";
}

async fn a_payload_that_does_not_fit_comes_again_by_the_policy_and_names_the_field(
    store: impl Store + Clone,
) {
    let builder = instance(&store).on(|_: Earlier, _: Run| async { Ok(Answer::Done) });
    let soon = Backoff::fixed(Duration::from_millis(50)).tries(100_000);
    let earlier = builder.retry::<Earlier>(soon).start().await.expect("a start");
    let letter = Later { lines: "Dear reader".into() };
    earlier.after(Duration::ZERO, &letter).key("k").save().await.expect("a save");
    until("it has failed", async || earlier.stats().retried > 0).await;
    let error = get(&earlier, "k").await.failures[0].error.clone();
    assert!(error.starts_with("its payload cannot be read at `lines`, because "), "{error}");
    stop(earlier).await;
    let builder = instance(&store).on(|Later { lines }: Later, run: Run| async move {
        assert!(lines == "Dear reader" && run.attempt > 1);
        Ok(Answer::Done)
    });
    let later = builder.start().await.expect("a start");
    until("it is done", async || later.stats().done == 1).await;
    assert_eq!(later.count().await.expect("a count").buried, 0);
    stop(later).await;
}

async fn a_series_whose_rule_cannot_be_read_here_waits_and_is_seen(store: impl Store + Clone) {
    let calls = Calls::default();
    let series = Series::new("cron 0 9 * * * in Mars/Olympus".into(), Missed::once());
    let near = due(&store, NewTimer { series: Some(series), ..plain("far") }).await;
    let durable = noting(&store, &calls).await;
    until("it is seen", async || durable.stats().unhandled.is_some_and(|unhandled| unhandled.rule.is_some()))
        .await;
    let symptoms = Health::new(Duration::from_secs(90)).check(&durable.stats());
    let told = symptoms.iter().map(Symptom::to_string).find(|told| told.contains("Mars/Olympus"));
    assert!(told.is_some_and(|told| told.contains("overdue")), "{symptoms:?}");
    until("it is given back", async || get(&durable, "k").await.state == State::Stored).await;
    let waits = get(&durable, "k").await;
    assert_eq!((waits.timer, waits.attempts, waits.failures.len()), (near, 0, 0), "as it was");
    assert_eq!(calls.lock().unwrap().len(), 0);
    stop(durable).await;
}

async fn a_timer_that_was_cancelled_while_it_ran_and_whose_process_died_is_removed_and_told(
    store: impl Store + Clone,
) {
    let (calls, near) = (Calls::default(), due(&store, plain("old")).await);
    let kept = store.keep_history(Note::KIND.into(), Duration::from_secs(3_600)).await;
    kept.unwrap_or_else(|error| panic!("{error}"));
    dies(&store, near).await;
    let cancelled = store.cancel(Which::Key("k".into())).await.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(cancelled, Removal::Running(near.id(), 1));
    let durable = noting(&store, &calls).await;
    until("it is removed", async || durable.stats().removed == 1).await;
    assert_eq!(durable.count().await.expect("a count"), Default::default());
    assert_eq!(calls.lock().unwrap().len(), 0, "it is not attempted again");
    let ended = durable.show("k").await.expect("an answer").expect("its end is kept");
    assert_eq!((ended.phase, ended.timer.attempts), (Phase::Cancelled, 1));
    stop(durable).await;
}

async fn a_buried_run_is_retried_while_its_series_lives_and_brings_no_cancelled_series_back(
    store: impl Store + Clone,
) {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let notes = calls.clone();
    let builder = instance(&store).on(move |_: Note, run: Run| {
        let fails = {
            let mut calls = notes.lock().unwrap();
            calls.push((run.key, run.id.first_due()));
            calls.len() <= 2
        };
        async move { if fails { Err("no paper".into()) } else { Ok(Answer::Done) } }
    });
    let durable = builder.retry::<Note>(Backoff::default().tries(1)).start().await.expect("a start");
    let each = Periodic::seconds(1, durable.now());
    durable.every("report", each, &note("report")).save().await.expect("a save");
    until("two runs are buried", async || durable.count().await.expect("a count").buried == 2).await;
    let buried = durable.list(Page { buried: true, ..Page::default() }).await.expect("a list");
    assert_eq!(buried[0].key.as_deref(), Some("report"), "people see whose run it was");
    for (run, is_cancelled) in buried.iter().zip([false, true]) {
        if is_cancelled {
            durable.cancel("report").await.expect("an answer");
            until("its last run has ended", async || durable.stats().begun == 0).await;
        }
        let scheduled = run.timer.id().first_due();
        let taken = durable.retry_buried(run.timer.id()).await.expect("an answer");
        assert!(matches!(taken, Taken::Stored(near) if near.id().first_due() == scheduled), "{taken:?}");
        until("it runs", async || calls.lock().unwrap().contains(&(None, scheduled))).await;
        let lives = durable.get("report").await.expect("an answer").is_some();
        assert_eq!(lives, !is_cancelled);
    }
    until("nothing follows", async || durable.count().await.expect("a count") == Default::default()).await;
    stop(durable).await;
}

async fn a_rule_that_becomes_unreadable_during_a_run_waits_and_is_seen_and_a_readable_one_goes_on(
    store: impl Store + Clone,
) {
    let (calls, end) = (Calls::default(), Arc::new(Notify::new()));
    let (noted, wait) = (calls.clone(), end.clone());
    let builder = instance(&store).on(move |Note(text): Note, run: Run| {
        noted.lock().unwrap().push((text, run.attempt, run.scheduled()));
        let wait = wait.clone();
        async move {
            wait.notified().await;
            Ok(Answer::Done)
        }
    });
    let durable = builder.start().await.expect("a start");
    let each = || Periodic::seconds(1, Timestamp::now());
    durable.every("k", each(), &note("old")).save().await.expect("a save");
    called(&calls, 1).await;
    // By a program whose machine knows the zone.
    let series = Series::new("cron * * * * * in Mars/Olympus".into(), Missed::once());
    let saved = NewTimer { series: Some(series), replaces: true, ..plain("far") };
    store.save(vec![saved]).await.unwrap_or_else(|error| panic!("{error}"));
    end.notify_one();
    let is_seen = async || {
        let seen = durable.stats().unhandled.and_then(|unhandled| unhandled.rule);
        seen.is_some_and(|why| why.contains("Mars/Olympus"))
    };
    until("the next run is seen", is_seen).await;
    until("it is given back", async || get(&durable, "k").await.state == State::Stored).await;
    let waits = get(&durable, "k").await;
    assert_eq!((waits.payload.as_slice(), waits.attempts), (&b"\"far\""[..], 0), "it is not over");
    assert_eq!((calls.lock().unwrap().len(), durable.stats().done, durable.stats().buried), (1, 1, 0));
    durable.every("k", each(), &note("new")).save().await.expect("a save");
    called(&calls, 2).await;
    assert_eq!(calls.lock().unwrap()[1].0, "new");
    durable.stop(Duration::ZERO).await;
}

async fn a_long_error_is_cut(store: impl Store + Clone) {
    let builder = instance(&store).on(|_: Note, _: Run| async { Err("\u{e9}".repeat(100_000).into()) });
    let durable = builder.retry::<Note>(Backoff::default().tries(1)).start().await.expect("a start");
    durable.after(Duration::ZERO, &note("long")).save().await.expect("a save");
    until("it is buried", async || durable.stats().buried == 1).await;
    let buried = durable.list(Page { buried: true, ..Page::default() }).await.expect("a list");
    assert_eq!(buried[0].failures[0].error, "\u{e9}".repeat(10_000));
    stop(durable).await;
}

/// A program on this store, in a thread of its own with one worker. The note `deadly` blocks that worker for ever: what has begun
/// and was not called stays so, as after a kill.
fn program(store: &MemoryStore, called: mpsc::Sender<(String, u32)>) {
    let store = store.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let handler = move |Note(text): Note, run: Run| {
                called.send((text.clone(), run.attempt)).unwrap();
                if text == "deadly" {
                    loop {
                        std::thread::park();
                    }
                }
                async { Ok(Answer::Done) }
            };
            let builder = Durable::builder(&TimingWheel::new(), store).on(handler);
            let _durable = builder.retry::<Note>(Backoff::default().tries(1)).start().await.unwrap();
            std::future::pending::<()>().await;
        });
    });
}

#[tokio::test]
async fn a_timer_that_ends_its_process_again_and_again_harms_none_that_were_begun_with_it() {
    let store = MemoryStore::new();
    let (called, calls) = mpsc::channel();
    for (number, text) in (0..).zip(["deadly", "one", "two", "three"]) {
        let due = Timestamp::now() - SignedDuration::from_secs(10 - number);
        let payload = serde_json::to_vec(&note(text)).unwrap();
        let timer = NewTimer::new(TimerId::new(due, number.unsigned_abs()), Note::KIND, payload);
        store.save(vec![timer]).await.unwrap();
    }
    let wait = || calls.recv_timeout(Duration::from_secs(60)).expect("a call");
    for death in 1..=20 {
        program(&store, called.clone());
        assert_eq!(wait().0, "deadly", "{death}");
    }
    program(&store, called);
    let mut others: Vec<String> = (0..3).map(|_| wait().0).collect();
    others.sort();
    assert_eq!(others, ["one", "three", "two"], "each is called, though its process had died before");
    while store.count().await.unwrap().begun > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let counts = store.count().await.unwrap();
    assert_eq!((counts.stored, counts.buried), (0, 1), "the deadly one is buried");
}

//! Handlers, and the effects of their answers.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use timingwheel_durable::store::{Page, State, Taken};
use timingwheel_durable::{Answer, Backoff, Durable, Health, Kind, MemoryStore, Run, Symptom};

use super::support::{Note, Rig, at, note, secs};

#[tokio::test(start_paused = true)]
async fn a_timer_is_handed_to_its_handler_at_its_time_and_never_before() {
    let rig = Rig::new();
    let durable = rig.start().await;
    let mut due: Vec<f64> = (0..50).map(|number| f64::from(number) * 1.7).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut due);
    for due in due {
        durable.at(at(due), &note(&format!("{due:.1}"))).save().await.unwrap();
    }
    rig.sleep(100.0).await;
    let times = rig.book.times();
    assert_eq!(times.len(), 50);
    for (text, time) in times {
        let due: f64 = text.parse().unwrap();
        // Two ticks: the wheel's, and that of the sleep which this test waits by.
        assert!((due..due + 0.003).contains(&time), "due at {due}, called at {time}");
    }
    let stats = durable.stats();
    assert_eq!((stats.saved, stats.attempts, stats.done, stats.armed, stats.begun), (50, 50, 50, 0, 0));
    assert_eq!(stats.lateness.count(), 50);
    assert_eq!(durable.count().await.unwrap(), Default::default());
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_fails_is_made_again_and_buried_when_there_are_no_more() {
    let rig = Rig::new();
    let durable = rig.start().await;
    let payload = Note { fails: 2, ..note("twice") };
    let twice = durable.at(at(1.0), &payload).save().await.unwrap();
    let id = durable.at(at(2.0), &Note { fails: 9, ..note("always") }).key("always").save().await.unwrap();
    rig.sleep(60.0).await;
    let calls = rig.book.calls();
    let of = |text: &str| calls.iter().filter(|call| call.text == text).collect::<Vec<_>>();
    let attempts: Vec<(u32, i64)> =
        of("twice").iter().map(|call| (call.run.attempt, (call.at - at(0.0)).get_seconds())).collect();
    assert_eq!(attempts, [(1, 1), (2, 11), (3, 21)]);
    assert!(of("twice").iter().all(|call| call.run.id == twice), "one id for all attempts");
    assert_eq!(of("always").len(), 3);
    let buried = durable.list(Page { buried: true, ..Page::default() }).await.unwrap();
    assert_eq!((buried.len(), buried[0].timer.id(), buried[0].attempts), (1, id, 3));
    let errors: Vec<&str> = buried[0].failures.iter().map(|failure| failure.error.as_str()).collect();
    assert_eq!(errors, ["attempt 1 failed", "attempt 2 failed", "attempt 3 failed"]);
    let stats = durable.stats();
    assert_eq!((stats.retried, stats.buried, stats.done), (4, 1, 1));

    assert!(matches!(durable.retry_buried(id).await.unwrap(), Taken::Stored(_)));
    rig.sleep(1.0).await;
    assert_eq!(rig.book.calls().last().unwrap().run.attempt, 1);
    assert_eq!(durable.cancel("always").await.unwrap(), timingwheel_durable::Cancelled::Removed);
}

#[derive(Clone, Serialize, Deserialize)]
enum Says {
    Retry,
    Snooze,
    Bury,
    Panic,
    PanicAtOnce,
}

impl Kind for Says {
    const KIND: &'static str = "says";
}

#[tokio::test(start_paused = true)]
async fn a_handler_says_what_becomes_of_its_timer() {
    let rig = Rig::new();
    let handler = |says: Says, run: Run| {
        if let (Says::PanicAtOnce, 1) = (&says, run.attempt) {
            panic!("at once");
        }
        async move {
            match says {
                Says::Retry if run.attempt == 1 => Ok(Answer::Retry(secs(5))),
                Says::Snooze if run.late == Duration::ZERO && run.due < at(50.0) => {
                    Ok(Answer::Snooze(at(50.0)))
                }
                Says::Snooze => {
                    assert_eq!(run.attempt, 1, "a snooze is no attempt");
                    Ok(Answer::Done)
                }
                Says::Bury => Ok(Answer::Bury("not wanted".into())),
                Says::Panic if run.attempt == 1 => panic!("in the future"),
                _ => Ok(Answer::Done),
            }
        }
    };
    let durable = rig.builder().on(handler).start().await.unwrap();
    for says in [Says::Retry, Says::Snooze, Says::Bury, Says::Panic, Says::PanicAtOnce] {
        durable.at(at(1.0), &says).save().await.unwrap();
    }
    rig.sleep(20.0).await;
    let stats = durable.stats();
    assert_eq!((stats.attempts, stats.retried, stats.snoozed, stats.buried), (8, 3, 1, 1));
    assert_eq!((stats.panicked, stats.done), (2, 3));
    rig.sleep(40.0).await;
    assert_eq!(durable.stats().done, 4);
    let buried = durable.list(Page { buried: true, ..Page::default() }).await.unwrap();
    assert!(matches!(&buried[0].state, State::Buried(why) if why.reason == "not wanted"));
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Number {
    pub(crate) number: u64,
}

impl Kind for Number {
    const KIND: &'static str = "number";
}

#[tokio::test(start_paused = true)]
async fn a_kind_without_a_handler_is_left_alone_until_there_is_one() {
    let rig = Rig::new();
    let durable = rig.start().await;
    durable.at(at(1.0), &Number { number: 7 }).save().await.unwrap();
    let far = durable.at(at(90_000.0), &Number { number: 8 }).save().await.unwrap();
    durable.reschedule(far, at(2.0)).await.unwrap();
    rig.sleep(100.0).await;
    assert_eq!((durable.count().await.unwrap().stored, durable.stats().attempts), (2, 0));
    durable.cancel(far).await.unwrap();
    durable.stop(secs(1)).await;
    let seen = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let sees = seen.clone();
    let handler = move |Number { number }, _: Run| {
        sees.store(number, std::sync::atomic::Ordering::Relaxed);
        async { Ok(Answer::Done) }
    };
    let durable = rig.builder().on(handler).start().await.unwrap();
    rig.sleep(1.0).await;
    assert_eq!(seen.load(std::sync::atomic::Ordering::Relaxed), 7);
    assert_eq!(durable.count().await.unwrap().stored, 0);
}

#[tokio::test(start_paused = true)]
async fn no_more_handlers_run_at_a_time_than_were_allowed() {
    let rig = Rig::new();
    let durable = rig.builder().concurrency(3).start().await.unwrap();
    for number in 0..10 {
        durable.at(at(1.0), &Note { takes: 10, ..note(&number.to_string()) }).save().await.unwrap();
    }
    for (seconds, begun) in [(5.0, 3), (10.0, 6), (10.0, 9), (10.0, 10)] {
        rig.sleep(seconds).await;
        let texts = rig.book.texts();
        assert_eq!(texts.iter().filter(|text| !text.ends_with("ended")).count(), begun);
    }
}

/// An error with a cause.
#[derive(Debug)]
struct Unsent(std::io::Error);

impl std::fmt::Display for Unsent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the mail was not sent")
    }
}

impl std::error::Error for Unsent {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

#[tokio::test(start_paused = true)]
async fn the_error_of_a_handler_is_kept_with_its_causes() {
    let rig = Rig::new();
    let durable = Durable::builder(&rig.wheel, MemoryStore::new())
        .on(|_: Number, _: Run| async { Err(Unsent(std::io::Error::other("no route")).into()) })
        .retry::<Number>(Backoff::default().tries(1))
        .start()
        .await
        .unwrap();
    durable.after(Duration::ZERO, &Number { number: 1 }).save().await.unwrap();
    rig.sleep(1.0).await;
    let buried = durable.list(Page { buried: true, ..Page::default() }).await.unwrap();
    assert_eq!(buried[0].failures[0].error, "the mail was not sent: no route");
}

/// An error that cannot be told.
#[derive(Debug)]
struct Unspeakable;

impl std::fmt::Display for Unspeakable {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("it cannot be told")
    }
}

impl std::error::Error for Unspeakable {}

/// What panics as it is dropped.
struct Clings;

impl Drop for Clings {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("it clings");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_panics_as_it_is_told_or_dropped_is_an_attempt_that_failed() {
    let rig = Rig::new();
    let handler = |Number { number }, run: Run| async move {
        match (run.attempt, number) {
            (1, 1) => Err(Unspeakable.into()),
            (1, _) => std::panic::panic_any(Clings),
            _ => Ok(Answer::Done),
        }
    };
    let backoff = Backoff::fixed(secs(1)).jitter(0.0).tries(2);
    let durable = rig.builder().on(handler).retry::<Number>(backoff).start().await.unwrap();
    for number in [1, 2] {
        durable.at(at(1.0), &Number { number }).save().await.unwrap();
    }
    durable.at(at(5.0), &note("another")).save().await.unwrap();
    rig.sleep(10.0).await;
    let stats = durable.stats();
    assert_eq!((stats.attempts, stats.retried, stats.done), (5, 2, 3));
    assert_eq!(rig.book.texts(), ["another"]);
}

#[derive(Serialize, Deserialize)]
struct Forgotten;

impl Kind for Forgotten {
    const KIND: &'static str = "forgotten";
}

#[tokio::test(start_paused = true)]
async fn a_kind_whose_handler_was_forgotten_is_seen_when_it_is_saved_and_once_it_is_overdue() {
    let rig = Rig::new();
    let durable = rig.start().await;
    durable.at(at(60.0), &Forgotten).save().await.unwrap();
    durable.at(at(61.0), &note("other")).save().await.unwrap();
    assert_eq!(durable.stats().saved_unhandled, 1);
    let mut health = Health::new(secs(90));
    rig.sleep(100.0).await;
    assert_eq!(health.check(&durable.stats()), []);
    rig.sleep(900.0).await;
    durable.at(at(1_001.0), &note("wakes it")).save().await.unwrap();
    rig.sleep(2.0).await;
    let symptoms = health.check(&durable.stats());
    let [Symptom::Unhandled(unhandled)] = &symptoms[..] else { panic!("{symptoms:?}") };
    assert_eq!(unhandled.kind, "forgotten");
    assert!(symptoms[0].to_string().contains("no handler here"), "{}", symptoms[0]);
    durable.cancel(durable.list(Page::default()).await.unwrap()[0].timer.id()).await.unwrap();
    rig.sleep(600.0).await;
    durable.at(at(1_700.0), &note("wakes it")).save().await.unwrap();
    rig.sleep(200.0).await;
    assert_eq!(durable.stats().unhandled, None, "it is gone");
}

#[tokio::test(start_paused = true)]
async fn a_test_runs_until_a_time_with_all_that_is_due_by_then_and_waits_for_no_kind_without_a_handler() {
    let rig = Rig::new();
    let durable = rig.start().await;
    // More than a page, due before all others.
    for _ in 0..150 {
        durable.at(at(0.0), &Says::Bury).save().await.unwrap();
    }
    // Ends at 62 s, and is attempted again ten seconds later.
    durable.at(at(1.0), &Note { takes: 61, fails: 1, ..note("long") }).save().await.unwrap();
    for n in 0..150 {
        durable.at(at(60.0), &note(&n.to_string())).save().await.unwrap();
    }
    durable.at(at(61.0), &note("later")).save().await.unwrap();
    durable.run_until(at(60.0)).await.unwrap();
    let called = rig.book.texts();
    assert!(called.contains(&"long ended".to_owned()) && called.contains(&"later".to_owned()));
    assert_eq!((rig.book.calls().len(), durable.stats().retried), (153, 1));
    assert!((at(62.0)..at(63.0)).contains(&durable.now()));
    // It is over already.
    durable.run_until(at(60.0)).await.unwrap();
    assert!(durable.now() < at(63.0));
}

#[tokio::test(start_paused = true)]
async fn ids_and_answers_are_read_back_by_serde_as_they_were_written() {
    fn check<T>(answer: T, json: &str)
    where
        T: Serialize + serde::de::DeserializeOwned + std::fmt::Debug + PartialEq,
    {
        assert_eq!(serde_json::to_string(&answer).unwrap(), json);
        assert_eq!(serde_json::from_str::<T>(json).unwrap(), answer);
    }
    let rig = Rig::new();
    let durable = rig.start().await;
    let id = durable.at(at(1.0), &note("a")).key("a").save().await.unwrap();
    check(id, &format!("\"{id}\""));
    assert!(serde_json::from_str::<timingwheel_durable::TimerId>("\"order-42\"").is_err());
    check(durable.count().await.unwrap(), r#"{"stored":1,"begun":0,"buried":0,"is_estimate":false}"#);
    check(durable.reschedule("a", at(2.0)).await.unwrap(), &format!(r#"{{"Moved":"{id}"}}"#));
    check(durable.cancel("a").await.unwrap(), r#""Removed""#);
    check(durable.delete_buried(id).await.unwrap(), r#""NotFound""#);
    check(timingwheel_durable::Saved::Kept(id), &format!(r#"{{"Kept":"{id}"}}"#));
}

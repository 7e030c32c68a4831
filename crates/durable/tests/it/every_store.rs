//! Cases from public reports of faults in other libraries, each in every store, by the clock of the machine.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use timingwheel::TimingWheel;
use timingwheel_calendar::{Combine, Cron, Once, Plan};
use timingwheel_durable::store::{
    Begun, Kinds, LARGEST_PAYLOAD, Near, NewTimer, Series, Store, Stored, ToBegin,
};
use timingwheel_durable::{
    Answer, Backoff, Builder, Cancelled, Durable, Error, Health, Kind, MemoryStore, Missed, Moved, Run,
    Saved, Symptom, TimerId,
};
use tokio::sync::Notify;

use crate::proof::hooked::{Hook, Hooked, Injected, Step};

/// The kinds of an owner, for a join, a load or a begin.
pub(crate) fn kinds(names: &[&str]) -> Kinds {
    Arc::new(names.iter().map(ToString::to_string).collect())
}

macro_rules! in_every_store {
    ($($case:ident)*) => {
        mod memory {
            $(
                #[tokio::test]
                async fn $case() {
                    super::$case(timingwheel_durable::MemoryStore::new()).await;
                }
            )*
        }

        #[cfg(feature = "redb")]
        mod redb {
            $(
                #[tokio::test]
                async fn $case() {
                    let folder = crate::folder::folder();
                    let path = folder.path().join("timers.redb");
                    super::$case(timingwheel_durable::RedbStore::create(path).expect("a store")).await;
                }
            )*
        }

        #[cfg(feature = "postgres")]
        mod postgres {
            use timingwheel_durable::tokio_postgres::NoTls;
            use timingwheel_durable::{PostgresOptions, PostgresStore};

            $(
                #[tokio::test]
                async fn $case() {
                    let url = crate::postgres::server::database().await;
                    // Each start has all timers at once, as after a kill in the other stores.
                    let options = PostgresOptions::new(&url).expect("an address").sole();
                    super::$case(PostgresStore::connect_with(options, NoTls).await.expect("a store")).await;
                }
            )*
        }
    };
}

pub(crate) use in_every_store;

in_every_store! {
    a_run_that_is_overdue_at_a_start_gets_the_new_payload_and_policy
    a_run_whose_process_was_killed_gets_the_new_payload
    runs_that_a_wrong_clock_or_other_zone_data_planned_are_planned_anew_at_a_start
    a_single_run_that_was_missed_is_kept_by_a_save_at_the_next_start
    a_handler_saves_the_next_timer_under_its_own_key
    a_cancel_whose_timer_goes_before_the_answer_comes_is_told_that_it_ran
    a_key_has_bounds_and_finds_its_timer
    a_series_replaces_no_timer_that_is_none
    a_save_that_replaces_tells_whether_the_old_handler_is_called
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Note(pub(crate) String);

impl Kind for Note {
    const KIND: &'static str = "note";
}

pub(crate) fn note(text: &str) -> Note {
    Note(text.to_owned())
}

pub(crate) fn later(hours: i64) -> Timestamp {
    Timestamp::from_millisecond(Timestamp::now().as_millisecond()).unwrap()
        + SignedDuration::from_hours(hours)
}

/// The text, the attempt, and the scheduled instant of each call.
pub(crate) type Calls = Arc<Mutex<Vec<(String, u32, Timestamp)>>>;

pub(crate) fn instance<S: Store + Clone>(store: &S) -> Builder {
    Durable::builder(&TimingWheel::new(), store.clone())
}

/// An instance that saves, and has no handlers.
async fn saver<S: Store + Clone>(store: &S) -> Durable {
    instance(store).start().await.expect("a start")
}

/// An instance that notes its calls. The notes `fails` and `waits` fail and wait for ever, at their first attempt.
pub(crate) async fn noting<S: Store + Clone>(store: &S, calls: &Calls) -> Durable {
    let calls = calls.clone();
    let handler = move |Note(text): Note, run: Run| {
        calls.lock().unwrap().push((text.clone(), run.attempt, run.scheduled()));
        async move {
            match (text.as_str(), run.attempt) {
                ("fails", 1) => Err("not yet".into()),
                ("waits", 1) => std::future::pending().await,
                _ => Ok(Answer::Done),
            }
        }
    };
    let backoff = Backoff::fixed(Duration::from_secs(3_600)).jitter(0.0);
    instance(store).on(handler).retry::<Note>(backoff).start().await.expect("a start")
}

pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begin = Instant::now();
    while !holds().await {
        assert!(begin.elapsed() < Duration::from_secs(120), "not within two minutes: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) async fn called(calls: &Calls, count: usize) {
    until("a call", async || calls.lock().unwrap().len() >= count).await;
}

pub(crate) async fn get(durable: &Durable, key: &str) -> Stored {
    durable.get(key).await.expect("an answer").expect("it is stored")
}

pub(crate) async fn stop(durable: Durable) {
    durable.stop(Duration::from_secs(60)).await;
}

/// A rule that is due once a day, was due about a minute ago, long enough to be missed, and is due next tomorrow.
pub(crate) fn daily() -> (Plan, Timestamp) {
    let now = Timestamp::now();
    let due = Timestamp::from_second((now.as_second() - 2) / 60 * 60).unwrap();
    let text = due.to_zoned(TimeZone::UTC).strftime("%-M %-H * * *").to_string();
    (Cron::parse(&text).unwrap().in_zone(TimeZone::UTC).into(), due)
}

/// A run as an earlier program has stored it: of this series, due then, first after `after` by the rule.
pub(crate) fn run_of(plan: &Plan, key: &str, text: &str, due: Timestamp, after: Timestamp) -> NewTimer {
    let series = Series::new(plan.to_string(), Missed::once()).planned_after(after);
    let id = TimerId::new(due, key.len() as u64);
    let payload = serde_json::to_vec(&note(text)).unwrap();
    NewTimer { key: Some(key.into()), series: Some(series), ..NewTimer::new(id, Note::KIND, payload) }
}

/// Stores a run of a series that is due by now.
async fn stores_run<S: Store>(store: &S, text: &str) -> (Plan, Timestamp) {
    let (plan, due) = daily();
    let timer = run_of(&plan, "r", text, due, due - SignedDuration::from_secs(1));
    store.save(vec![timer]).await.unwrap_or_else(|error| panic!("{error}"));
    (plan, due)
}

/// The series gets a new payload: its run is the one that it had.
async fn saves_new(durable: &Durable, plan: &Plan) -> Stored {
    let before = get(durable, "r").await;
    let saved = durable.every("r", plan.clone(), &note("new")).save().await.expect("a save");
    assert_eq!(saved, Saved::Updated(before.timer.id()));
    let after = get(durable, "r").await;
    assert_eq!((after.timer, after.attempts), (before.timer, before.attempts));
    assert_eq!(after.payload, b"\"new\"");
    after
}

/// The run is called once more, with the new payload, and the series goes on tomorrow.
async fn runs_new<S: Store + Clone>(store: &S, calls: &Calls, attempt: u32, due: Timestamp) {
    let durable = noting(store, calls).await;
    let before = calls.lock().unwrap().len();
    called(calls, before + 1).await;
    assert_eq!(calls.lock().unwrap()[before..], [("new".to_owned(), attempt, due)]);
    let tomorrow = due + SignedDuration::from_hours(24);
    until("the next run", async || get(&durable, "r").await.timer.due() == tomorrow).await;
    stop(durable).await;
}

async fn a_run_that_is_overdue_at_a_start_gets_the_new_payload_and_policy(store: impl Store + Clone) {
    let (calls, (plan, due)) = (Calls::default(), stores_run(&store, "old").await);
    let durable = saver(&store).await;
    let each = durable.every("r", plan.clone(), &note("old")).missed(Missed::each(9)).save();
    assert!(matches!(each.await, Ok(Saved::Updated(_))));
    assert_eq!(get(&durable, "r").await.series.map(|series| series.missed), Some(Missed::each(9)));
    saves_new(&durable, &plan).await;
    let again = durable.every("r", plan, &note("new")).save().await.expect("a save");
    assert_eq!(again, Saved::Kept(get(&durable, "r").await.timer.id()));
    stop(durable).await;
    runs_new(&store, &calls, 1, due).await;
}

async fn a_run_whose_process_was_killed_gets_the_new_payload(store: impl Store + Clone) {
    let (calls, (plan, due)) = (Calls::default(), stores_run(&store, "old").await);
    let lease = Duration::from_secs(30);
    let owner = store.join(lease, kinds(&[Note::KIND])).await.unwrap_or_else(|error| panic!("{error}"));
    if store.is_shared() {
        // It has the shards that it is told.
        store.renew(owner, None).await.unwrap_or_else(|error| panic!("{error}"));
    }
    let ask = ToBegin {
        timers: vec![Near::from(TimerId::new(due, 1))],
        kinds: Arc::new([Note::KIND.to_owned()].into()),
    };
    let begun = store.begin(owner, ask).await.unwrap_or_else(|error| panic!("{error}"));
    assert!(matches!(begun[0], Begun::Yours(_)), "{begun:?}");
    let durable = saver(&store).await;
    saves_new(&durable, &plan).await;
    stop(durable).await;
    runs_new(&store, &calls, 2, due).await;
}

async fn runs_that_a_wrong_clock_or_other_zone_data_planned_are_planned_anew_at_a_start(
    store: impl Store + Clone,
) {
    let (calls, (plan, due)) = (Calls::default(), daily());
    let far = due + SignedDuration::from_hours(24 * 1_000);
    let tomorrow = due + SignedDuration::from_hours(24);
    let timers = vec![
        run_of(&plan, "clock", "old", far + SignedDuration::from_hours(24), far),
        run_of(&plan, "earlier", "old", tomorrow - SignedDuration::from_hours(1), due),
        run_of(&plan, "afterwards", "old", tomorrow + SignedDuration::from_hours(1), due),
    ];
    store.save(timers).await.unwrap_or_else(|error| panic!("{error}"));
    let durable = noting(&store, &calls).await;
    until("they are planned anew", async || durable.stats().replanned == 3).await;
    for key in ["clock", "earlier", "afterwards"] {
        let found = get(&durable, key).await.timer;
        assert_eq!(found.due(), tomorrow, "{key}");
        // An instant that has run by a wrong clock does not run again under the same name.
        assert_eq!(found.id().unique() == key.len() as u64, key != "clock", "{key}");
        let saved = durable.every(key, plan.clone(), &note("old")).save().await.expect("a save");
        assert!(matches!(saved, Saved::Kept(_)), "{key}: {saved:?}");
    }
    let symptoms = Health::new(Duration::from_secs(90)).check(&durable.stats());
    assert!(symptoms.contains(&Symptom::Replanned(3)), "{symptoms:?}");
    stop(durable).await;
    assert!(calls.lock().unwrap().is_empty());
}

async fn a_single_run_that_was_missed_is_kept_by_a_save_at_the_next_start(store: impl Store + Clone) {
    let (calls, due) = (Calls::default(), later(-1));
    let plan = Plan::from(Once::at(due));
    let timer = run_of(&plan, "r", "old", due, due - SignedDuration::from_secs(1));
    store.save(vec![timer]).await.unwrap_or_else(|error| panic!("{error}"));
    let durable = saver(&store).await;
    let kept = durable.every("r", plan.clone(), &note("old")).save().await.expect("a save");
    assert_eq!(kept, Saved::Kept(TimerId::new(due, 1)));
    saves_new(&durable, &plan).await;
    stop(durable).await;
    let durable = noting(&store, &calls).await;
    until("it has run", async || durable.get("r").await.expect("an answer").is_none()).await;
    assert_eq!(*calls.lock().unwrap(), [("new".to_owned(), 1, due)]);
    let over = durable.every("r", plan, &note("new")).save().await.expect("no error at any start");
    assert_eq!(over, Saved::Over { dropped: None });
    stop(durable).await;
}

async fn a_handler_saves_the_next_timer_under_its_own_key(store: impl Store + Clone) {
    let (handle, calls): (Arc<OnceLock<Durable>>, Calls) = Default::default();
    let (successor, noted) = (handle.clone(), calls.clone());
    let handler = move |Note(text): Note, run: Run| {
        noted.lock().unwrap().push((text.clone(), run.attempt, run.scheduled()));
        let durable = successor.get().cloned();
        async move {
            let (durable, key) = (durable.ok_or("not yet")?, run.key.unwrap_or_default());
            if text.len() < 3 {
                durable.after(Duration::ZERO, &Note(text + "+")).key(key).replace().save().await?;
            }
            Ok(Answer::Done)
        }
    };
    let durable = instance(&store).on(handler).start().await.expect("a start");
    handle.set(durable.clone()).expect("the first");
    durable.after(Duration::ZERO, &note("a")).key("k").save().await.expect("a save");
    until("all are done", async || durable.stats().done == 3).await;
    let texts: Vec<String> = calls.lock().unwrap().iter().map(|(text, ..)| text.clone()).collect();
    assert_eq!(texts, ["a", "a+", "a++"]);
    assert_eq!(durable.get("k").await.expect("an answer"), None);
    stop(durable).await;
}

async fn a_series_replaces_no_timer_that_is_none(store: impl Store + Clone) {
    let calls = Calls::default();
    let durable = noting(&store, &calls).await;
    let (plan, _) = daily();
    let is_refused = async |id: TimerId| {
        let saved = durable.every("k", plan.clone(), &note("series")).save().await;
        assert!(matches!(saved, Err(Error::KeyTaken(other)) if other == id), "{saved:?}");
    };
    let far = durable.at(later(1), &note("far")).key("k").save().await.expect("a save");
    is_refused(far).await;
    assert_eq!(get(&durable, "k").await.payload, b"\"far\"");
    assert_eq!(durable.cancel("k").await.expect("an answer"), Cancelled::Removed);
    let runs = durable.after(Duration::ZERO, &note("waits")).key("k").save().await.expect("a save");
    called(&calls, 1).await;
    is_refused(runs).await;
    assert_eq!(durable.cancel("k").await.expect("an answer"), Cancelled::Running(1));
    let saved = durable.every("k", plan.clone(), &note("series")).save().await.expect("a save");
    assert!(matches!(saved, Saved::Follows { begun, .. } if begun == runs), "{saved:?}");
    durable.stop(Duration::ZERO).await;
}

async fn a_save_that_replaces_tells_whether_the_old_handler_is_called(store: impl Store + Clone) {
    let calls = Calls::default();
    let durable = noting(&store, &calls).await;
    let replaces = async |text: &str, due: Timestamp| {
        durable.at(due, &note(text)).key("k").replace().save().await.expect("a save")
    };
    let first = replaces("first", later(1)).await;
    let Saved::Stored(first) = first else { panic!("{first:?}") };
    let second = replaces("waits", Timestamp::now()).await;
    let Saved::Replaced { id: second, dropped } = second else { panic!("{second:?}") };
    assert_eq!(dropped.id(), first);
    called(&calls, 1).await;
    let third = replaces("third", later(1)).await;
    let Saved::Follows { id: third, begun } = third else { panic!("{third:?}") };
    assert_eq!((begun, get(&durable, "k").await.timer.id()), (second, third));
    // Whatever the moment, the answer is true.
    durable.cancel("k").await.expect("an answer");
    for number in 0..10 {
        let old = durable.after(Duration::from_millis(20), &Note(format!("old {number}"))).key("k").save();
        let old = old.await.expect("a save");
        tokio::time::sleep(Duration::from_millis(15 + number % 10)).await;
        let saved = replaces("new", later(1)).await;
        durable.cancel("k").await.expect("an answer");
        tokio::time::sleep(Duration::from_millis(50)).await;
        let is_called = async || {
            until("it has ended", async || durable.stats().begun <= 1).await;
            calls.lock().unwrap().iter().any(|(text, ..)| *text == format!("old {number}"))
        };
        match saved {
            Saved::Replaced { dropped, .. } => {
                assert!(dropped.id() == old && !is_called().await, "{saved:?}");
            }
            Saved::Follows { begun, .. } => assert!(begun == old && is_called().await, "{saved:?}"),
            _ => assert!(is_called().await, "{saved:?}"),
        }
    }
    durable.stop(Duration::ZERO).await;
}

#[tokio::test]
async fn a_rule_whose_text_is_too_long_is_refused_in_one_line() {
    let durable = saver(&MemoryStore::new()).await;
    let (plan, due) = daily();
    let holidays = (1..4_000).map(|day| due + SignedDuration::from_hours(24 * day));
    let plan = plan.except_at(holidays);
    let length = plan.to_string().len();
    let refused = durable.every("k", plan, &note("long")).save().await.expect_err("a refusal");
    let expected = format!("a rule cannot be stored: a plan must be at most 65536 bytes long, got {length}");
    assert!(matches!(refused, Error::Rule(_)) && refused.to_string() == expected, "{refused}");
    stop(durable).await;
}

#[derive(Serialize, Deserialize)]
struct Measured {
    celsius: f64,
    note: Option<String>,
}

impl Kind for Measured {
    const KIND: &'static str = "measured";
}

#[tokio::test]
async fn a_number_that_is_not_finite_is_refused_when_it_is_saved() {
    let durable = saver(&MemoryStore::new()).await;
    let save = async |celsius: f64| durable.at(later(1), &Measured { celsius, note: None }).save().await;
    for celsius in [f64::NAN, f64::INFINITY] {
        let refused = save(celsius).await;
        let Err(Error::Encode(error)) = &refused else { panic!("{refused:?}") };
        assert!(
            error.to_string().contains("NaN or infinite") && error.to_string().contains("f64"),
            "{error}"
        );
    }
    save(36.6).await.expect("`null` is what a missing note is");
    assert_eq!(durable.count().await.expect("a count").stored, 1);
    stop(durable).await;
}

/// Holds back the answer to a cancel until no timer is left.
struct Late<S> {
    store: S,
    told: Arc<Notify>,
}

impl<S: Store> Hook for Late<S> {
    async fn at(&self, call: &'static str, step: Step) -> Result<(), Injected> {
        if (call, step) == ("cancel", Step::After) {
            self.told.notify_one();
            while self.store.count().await.ok() != Some(Default::default()) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        Ok(())
    }
}

async fn a_cancel_whose_timer_goes_before_the_answer_comes_is_told_that_it_ran(store: impl Store + Clone) {
    for ending in ["fails", "retries", "snoozes", "is done"] {
        let (began, told) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let may_end = told.clone();
        let begins = began.clone();
        let handler = move |Note(text): Note, _: Run| {
            let (begins, may_end) = (begins.clone(), may_end.clone());
            async move {
                begins.notify_one();
                may_end.notified().await;
                match text.as_str() {
                    "fails" => Err(text.into()),
                    "retries" => Ok(Answer::Retry(Duration::ZERO)),
                    "snoozes" => Ok(Answer::Snooze(Timestamp::now())),
                    _ => Ok(Answer::Done),
                }
            }
        };
        let hooked = Hooked { store: store.clone(), hook: Late { store: store.clone(), told } };
        let durable =
            Durable::builder(&TimingWheel::new(), hooked).on(handler).start().await.expect("a start");
        let id = durable.after(Duration::ZERO, &note(ending)).save().await.expect("a save");
        began.notified().await;
        assert_eq!(durable.cancel(id).await.expect("an answer"), Cancelled::Running(1), "{ending}");
        assert_eq!(durable.cancel(id).await.expect("an answer"), Cancelled::NotFound, "{ending}");
        stop(durable).await;
    }
}

async fn very_many_paused_ones_hide_none(store: impl Store + Clone) {
    let durable = saver(&store).await;
    durable.pause(Note::KIND).await.expect("a pause");
    let timers = (0..2_500).map(|n| NewTimer::new(TimerId::new(later(-2), 64 + n), Note::KIND, *b"\"\""));
    let forgotten = NewTimer::new(TimerId::new(later(-1), 7), "forgotten", *b"{}");
    let timers = timers.chain([forgotten]).collect();
    store.save(timers).await.unwrap_or_else(|error| panic!("{error}"));
    stop(durable).await;
    let durable = noting(&store, &Calls::default()).await;
    let is_forgotten = || durable.stats().unhandled.is_some_and(|unhandled| unhandled.kind == "forgotten");
    until("it is seen", async || is_forgotten()).await;
    stop(durable).await;
}

/// The look goes on after so many pages, five seconds later. A file is looked at in the same way.
#[tokio::test]
async fn very_many_overdue_timers_of_a_paused_kind_hide_none_that_nobody_handles() {
    very_many_paused_ones_hide_none(MemoryStore::new()).await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn very_many_overdue_timers_of_a_paused_kind_hide_none_that_nobody_handles_in_a_database() {
    let url = crate::postgres::server::database().await;
    very_many_paused_ones_hide_none(
        timingwheel_durable::PostgresStore::connect(&url).await.expect("a store"),
    )
    .await;
}

async fn a_key_has_bounds_and_finds_its_timer(store: impl Store + Clone) {
    let (durable, longest) = (saver(&store).await, "x".repeat(1_024));
    let id = durable.at(later(1), &note("a")).key(&longest).save().await.expect("a save");
    let found = get(&durable, &longest).await;
    assert_eq!((found.timer.id(), found.key.as_deref()), (id, Some(longest.as_str())));
    assert_eq!(durable.get(id).await.expect("an answer"), Some(found));
    // What stands in a text for a character that it cannot have.
    let other = "a\u{fffd}b";
    durable.at(later(1), &note("other")).key(other).save().await.expect("a save");
    for key in [String::new(), "x".repeat(1_025), "a\0b".to_owned()] {
        let refused = durable.at(later(1), &note("b")).key(&key).save().await;
        assert!(matches!(&refused, Err(Error::Key(_))), "{refused:?}");
        assert_eq!(durable.get(key.as_str()).await.expect("an answer"), None);
        assert_eq!(durable.show(key.as_str()).await.expect("an answer"), None);
        assert_eq!(durable.reschedule(key.as_str(), later(2)).await.expect("an answer"), Moved::NotFound);
        assert_eq!(durable.cancel(key).await.expect("an answer"), Cancelled::NotFound);
    }
    assert_eq!(durable.cancel(other).await.expect("an answer"), Cancelled::Removed);
    stop(durable).await;
}

#[tokio::test]
async fn a_payload_that_is_too_large_is_refused_alone_with_its_size() {
    let durable = saver(&MemoryStore::new()).await;
    // Two quotes more than its text.
    let notes = [note("a"), Note("x".repeat(LARGEST_PAYLOAD - 1)), note("b")];
    let saves = notes.iter().map(|note| durable.at(later(1), note).save());
    let [first, refused, last] = futures::future::join_all(saves).await.try_into().expect("three");
    assert!(first.is_ok() && last.is_ok(), "those that come with it are saved");
    let expected = "a payload must have 67108864 bytes at the most, got 67108865";
    assert!(matches!(&refused, Err(Error::Payload(text)) if text == expected), "{:?}", refused.err());
    stop(durable).await;
}

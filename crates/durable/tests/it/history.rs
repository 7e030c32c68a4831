//! The history of ended timers: each case in all three stores.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use timingwheel_durable::store::{NewTimer, Series, Store};
use timingwheel_durable::{
    Act, Answer, Backoff, Cancelled, Durable, Filter, Missed, Phase, Run, Saved, Shown, State,
};

use crate::every_store::{Note, daily, in_every_store, instance, later, note, run_of, stop, until};

in_every_store! {
    how_each_timer_of_a_kept_kind_has_ended_is_found_by_key_id_phase_and_time
    of_a_series_each_run_is_kept_and_a_missed_one_is_told_from_one_that_was_done
    history_is_off_until_it_is_asked_for_and_what_is_too_old_is_deleted_in_bounded_steps
    pages_of_the_history_hold_each_end_once_whatever_the_kind
}

const DAY: Duration = Duration::from_secs(86_400);

/// Handles notes: `fails` fails once and is done then, `dies` is buried, `waits` runs until it is cancelled.
async fn noting<S: Store + Clone>(store: &S) -> Durable {
    let handler = |Note(text): Note, run: Run| async move {
        match (text.as_str(), run.attempt) {
            ("fails", 1) => Err("a full box".into()),
            ("dies", _) => Ok(Answer::Bury("no such address".into())),
            ("waits", _) => {
                run.token().cancelled().await;
                Err("interrupted".into())
            }
            _ => Ok(Answer::Done),
        }
    };
    let soon = Backoff::fixed(Duration::from_millis(1)).jitter(0.0);
    instance(store).on(handler).retry::<Note>(soon).start().await.expect("a start")
}

async fn save(durable: &Durable, key: &str, due: Timestamp) {
    durable.at(due, &note(key)).key(key).save().await.expect("a save");
}

async fn shown(durable: &Durable, key: &str) -> Option<Shown> {
    durable.show(key).await.expect("an answer")
}

async fn reaches(durable: &Durable, key: &str, phase: Phase) -> Shown {
    let is_there = async || shown(durable, key).await.is_some_and(|shown| shown.phase == phase);
    until(&format!("{key} is {phase}"), is_there).await;
    shown(durable, key).await.expect("it is there")
}

async fn all(durable: &Durable, filter: Filter) -> Vec<Shown> {
    let (mut found, mut next) = (Vec::new(), Some(filter));
    while let Some(filter) = next {
        let page = durable.look(filter).await.expect("a page");
        found.extend(page.timers);
        next = page.next;
    }
    found
}

async fn how_each_timer_of_a_kept_kind_has_ended_is_found_by_key_id_phase_and_time(
    store: impl Store + Clone,
) {
    let (durable, begin) = (noting(&store).await, later(0));
    durable.keep_history("note", DAY).await.expect("an answer");
    for key in ["fails", "dies", "waits"] {
        save(&durable, key, later(-1)).await;
    }
    save(&durable, "idle", later(1)).await;
    durable.at(later(1), &note("old")).key("old").save().await.expect("a save");
    let replaced = durable.at(later(2), &note("new")).key("old").replace().save().await.expect("a save");
    let Saved::Replaced { dropped, .. } = replaced else { panic!("{replaced:?}") };
    assert_eq!(durable.cancel("idle").await.expect("an answer"), Cancelled::Removed);
    reaches(&durable, "waits", Phase::Running).await;
    assert_eq!(durable.cancel("waits").await.expect("an answer"), Cancelled::Running(1));
    reaches(&durable, "dies", Phase::Buried).await;
    let pruned = durable.act(Filter::new().phase(Phase::Buried), Act::Cancel).await.expect("an answer");
    assert_eq!(pruned.done, 1);
    let end = later(0) + SignedDuration::from_secs(60);
    let is_now = |at: Option<Timestamp>| at.is_some_and(|at| (begin..=end).contains(&at));

    let fails = reaches(&durable, "fails", Phase::Done).await;
    let times = fails.timer.times;
    assert!(is_now(times.made) && is_now(times.begun) && is_now(times.ended), "{fails:?}");
    assert_eq!((fails.timer.attempts, fails.timer.failures[0].error.as_str()), (2, "a full box"));
    assert!(
        matches!(fails.timer.state, State::Begun { attempt: 2, .. }) && is_now(fails.timer.failures[0].at)
    );
    assert_eq!(fails.timer.read::<Note>().expect("a payload").0, "fails");
    assert_eq!(fails.instance.is_some(), store.is_shared());
    assert!(fails.timer.timer.due() > fails.timer.timer.id().first_due(), "when the last attempt was due");

    let waits = reaches(&durable, "waits", Phase::Cancelled).await;
    assert!(is_now(waits.timer.times.begun) && waits.timer.attempts == 1, "{waits:?}");
    let idle = reaches(&durable, "idle", Phase::Cancelled).await;
    assert!(idle.timer.times.begun.is_none() && idle.timer.state == State::Stored, "{idle:?}");
    let dies = reaches(&durable, "dies", Phase::Failed).await;
    assert!(is_now(dies.timer.times.buried) && is_now(dies.timer.times.ended), "{dies:?}");
    assert!(matches!(&dies.timer.state, State::Buried(buried) if buried.reason == "no such address"));
    let json = serde_json::to_value(&dies).expect("JSON");
    assert_eq!((&json["phase"], &json["timer"]["payload"]), (&"failed".into(), &"dies".into()));
    assert_eq!(json["timer"]["state"]["Buried"]["reason"], "no such address");
    // Under its key there is another one now, so its id finds it.
    let old = durable.show(dropped.id()).await.expect("an answer").expect("it is kept");
    assert_eq!((old.phase, old.timer.timer), (Phase::Replaced, dropped));
    assert_eq!(all(&durable, Filter::only("old")).await.len(), 2);

    let mut counts = BTreeMap::new();
    for shown in all(&durable, Filter::history().limit(2)).await {
        *counts.entry(shown.phase.to_string()).or_insert(0) += 1;
        assert_eq!(shown.phase.to_string().parse(), Ok(shown.phase));
    }
    let expected = [("cancelled", 2), ("done", 1), ("failed", 1), ("replaced", 1)];
    assert_eq!(counts, expected.map(|(phase, count)| (phase.to_owned(), count)).into());
    let of = async |filter: Filter| all(&durable, filter).await.len();
    assert_eq!(of(Filter::new().phase(Phase::Cancelled)).await, 2);
    assert_eq!(of(Filter::history().key_prefix("i")).await, 1);
    assert_eq!(of(Filter::history().kind("mail")).await, 0);
    assert_eq!((of(Filter::history().from(begin)).await, of(Filter::history().before(begin)).await), (5, 0));
    assert_eq!(of(Filter::new()).await, 1, "what stands is not mixed with what was");
    // Nothing is done about them.
    let acted = durable.act(Filter::history(), Act::RunNow).await.expect("an answer");
    assert_eq!((acted.done, acted.running), (0, 0));
    stop(durable).await;
}

async fn of_a_series_each_run_is_kept_and_a_missed_one_is_told_from_one_that_was_done(
    store: impl Store + Clone,
) {
    let durable = instance(&store).start().await.expect("a start");
    durable.keep_history("note", DAY).await.expect("an answer");
    let (plan, due) = daily();
    durable.every("daily", plan.clone(), &note("daily")).save().await.expect("a save");
    stop(durable).await;
    let before = due - SignedDuration::from_hours(24);
    let series = Series::new(plan.to_string(), Missed::none()).planned_after(before);
    let run = run_of(&plan, "missed", "missed", due, before);
    store.save(vec![NewTimer { series: Some(series), ..run }]).await.expect("a save");
    let durable = noting(&store).await;
    durable.reschedule("daily", later(0)).await.expect("a move");
    let of_key = async |key: &str| all(&durable, Filter::history().key_prefix(key)).await;
    until("both have ended", async || of_key("daily").await.len() == 1 && of_key("missed").await.len() == 1)
        .await;
    let (daily, missed) = (&of_key("daily").await[0], &of_key("missed").await[0]);
    assert_eq!((daily.phase, missed.phase), (Phase::Done, Phase::Skipped));
    assert_eq!(missed.timer.timer.due(), due);
    assert!(daily.timer.series.is_some());
    // The next run stands before the last one.
    let names = all(&durable, Filter::only("daily")).await.into_iter().map(|shown| shown.phase);
    assert_eq!(names.collect::<Vec<_>>(), [Phase::Waiting, Phase::Done]);
    stop(durable).await;
}

async fn history_is_off_until_it_is_asked_for_and_what_is_too_old_is_deleted_in_bounded_steps(
    store: impl Store + Clone,
) {
    // Without handlers, so that it inspects nothing, and deletes nothing by itself.
    let durable = instance(&store).start().await.expect("a start");
    let ends = async |key: &str| {
        save(&durable, key, later(1)).await;
        durable.cancel(key).await.expect("an answer");
    };
    ends("a").await;
    assert!(shown(&durable, "a").await.is_none() && durable.histories().await.expect("an answer").is_empty());
    durable.keep_history("note", DAY).await.expect("an answer");
    assert_eq!(durable.histories().await.expect("an answer"), [("note".to_owned(), DAY)].into());
    for key in ["b", "c", "d"] {
        ends(key).await;
    }
    assert_eq!(store.prune(10).await.expect("an answer"), 0, "they are young");
    durable.keep_history("note", Duration::from_millis(1)).await.expect("an answer");
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(store.prune(2).await.expect("an answer"), 2);
    assert!(shown(&durable, "b").await.is_none() && shown(&durable, "d").await.is_some());
    durable.keep_history("note", Duration::ZERO).await.expect("an answer");
    assert!(durable.histories().await.expect("an answer").is_empty());
    ends("e").await;
    assert!(shown(&durable, "e").await.is_none());
    stop(durable).await;
    // An instance deletes what is left by itself.
    let durable = noting(&store).await;
    until("it is gone", async || shown(&durable, "d").await.is_none()).await;
    stop(durable).await;
}

async fn pages_of_the_history_hold_each_end_once_whatever_the_kind(store: impl Store + Clone) {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Other;
    impl timingwheel_durable::Kind for Other {
        const KIND: &'static str = "other";
    }
    let durable = instance(&store).start().await.expect("a start");
    for kind in ["note", "other", "nobody's"] {
        durable.keep_history(kind, DAY).await.expect("an answer");
    }
    for n in 0..60 {
        let key = format!("k/{n:02}");
        if n % 3 == 0 {
            durable.at(later(1), &Other).key(&key).save().await.expect("a save");
        } else {
            save(&durable, &key, later(1)).await;
        }
    }
    let cancelled = durable.act(Filter::new(), Act::Cancel).await.expect("an answer");
    assert_eq!(cancelled.done, 60);
    let found = all(&durable, Filter::history().limit(7)).await;
    assert!(found.is_sorted_by_key(|shown| shown.timer.times.ended), "in the order of their ends");
    let mut keys: Vec<_> = found.into_iter().map(|shown| shown.timer.key.expect("a key")).collect();
    keys.sort_unstable();
    assert_eq!(keys, (0..60).map(|n| format!("k/{n:02}")).collect::<Vec<_>>());
    assert_eq!(all(&durable, Filter::history().kind("other").limit(3)).await.len(), 20);
    stop(durable).await;
}

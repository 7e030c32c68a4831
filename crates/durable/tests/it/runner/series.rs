//! Series by rules of a calendar.

use std::collections::HashSet;

use jiff::SignedDuration;
use jiff::tz::TimeZone;
use timingwheel_calendar::{Cron, Once, Periodic, Plan};
use timingwheel_durable::store::{NewTimer, Series, Store};
use timingwheel_durable::{Cancelled, Health, Missed, Saved, Symptom, TimerId};

use super::support::{Note, Rig, at, note, secs};

const HOUR: f64 = 3_600.0;

fn daily(hour: u32) -> Plan {
    Cron::parse(&format!("0 {hour} * * *")).unwrap().in_zone(TimeZone::UTC).into()
}

/// The instants for which the handler was called.
fn scheduled(rig: &Rig) -> Vec<String> {
    let calls = rig.book.calls();
    calls.iter().map(|call| call.run.scheduled().strftime("%d %H:%M").to_string()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_series_goes_on_over_restarts_without_a_hole_and_without_a_double() {
    let rig = Rig::new();
    for _ in 0..3 {
        let durable = rig.start().await;
        durable.every("daily", daily(9), &note("daily")).save().await.unwrap();
        rig.sleep(30.0 * HOUR).await;
        durable.stop(secs(1)).await;
    }
    assert_eq!(scheduled(&rig), ["01 09:00", "02 09:00", "03 09:00", "04 09:00"][..scheduled(&rig).len()]);
    assert_eq!(scheduled(&rig).len(), 4);
    let mut ids: Vec<_> = rig.book.calls().iter().map(|call| call.run.id).collect();
    ids.dedup();
    assert_eq!(ids.len(), 4, "each occurrence has an id of its own");
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_missed_runs_follow_the_policy() {
    for (missed, expected, skipped) in [
        (Missed::once(), &["02 09:00", "05 09:00"][..], 0),
        (Missed::none(), &["05 09:00"], 1),
        (Missed::each(2), &["02 09:00", "03 09:00", "05 09:00"], 0),
        // What is too old is looked at once, and the rest of it is passed.
        (Missed::each(9).none_older_than(SignedDuration::from_hours(24)), &["04 09:00", "05 09:00"], 1),
    ] {
        let rig = Rig::new();
        rig.clock.set(at(10.0 * HOUR));
        let durable = rig.start().await;
        durable.every("daily", daily(9), &note("daily")).missed(missed).save().await.unwrap();
        durable.stop(secs(1)).await;
        rig.clock.set(at((24.0 * 3.0 + 12.0) * HOUR));
        let durable = rig.start().await;
        rig.sleep(22.0 * HOUR).await;
        assert_eq!(scheduled(&rig), expected, "{missed:?}");
        assert_eq!(durable.stats().skipped, skipped, "{missed:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn missed_runs_have_their_bound_also_where_each_first_attempt_fails() {
    for missed in [1, 2] {
        let rig = Rig::new();
        rig.clock.set(at(10.0 * HOUR));
        let durable = rig.start().await;
        let fails = Note { fails: 1, ..note("daily") };
        durable.every("daily", daily(9), &fails).missed(Missed::each(missed)).save().await.unwrap();
        durable.stop(secs(1)).await;
        rig.clock.set(at((24.0 * 9.0 + 12.0) * HOUR));
        let _durable = rig.start().await;
        rig.sleep(22.0 * HOUR).await;
        let mut days = scheduled(&rig);
        days.dedup();
        let expected = ["02 09:00", "03 09:00"][..missed as usize].iter().chain(&["11 09:00"]);
        assert_eq!(days, expected.map(ToString::to_string).collect::<Vec<_>>());
    }
}

#[tokio::test(start_paused = true)]
async fn a_series_that_gets_another_rule_during_its_last_run_goes_on_by_that() {
    let rig = Rig::new();
    let durable = rig.start().await;
    let takes = |text: &str| Note { takes: 600, ..note(text) };
    durable.every("x", Once::at(at(60.0)), &takes("once")).save().await.unwrap();
    rig.sleep(100.0).await;
    durable.every("x", daily(9), &note("daily")).save().await.unwrap();
    rig.sleep(10.0 * HOUR).await;
    assert_eq!(rig.book.texts(), ["once", "once ended", "daily"]);
}

#[tokio::test(start_paused = true)]
async fn an_occurrence_that_fails_is_made_again_and_the_series_goes_on_over_what_is_buried() {
    let rig = Rig::new();
    let durable = rig.start().await;
    durable.every("daily", daily(9), &Note { fails: 99, ..note("daily") }).save().await.unwrap();
    rig.sleep(40.0 * HOUR).await;
    assert_eq!(scheduled(&rig), ["01 09:00", "01 09:00", "01 09:00", "02 09:00", "02 09:00", "02 09:00"]);
    let counts = durable.count().await.unwrap();
    assert_eq!((counts.stored, counts.buried), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn another_rule_takes_over_also_while_a_run_goes_on() {
    let rig = Rig::new();
    let durable = rig.start().await;
    let Saved::Stored(nine) = durable.every("daily", daily(9), &note("nine")).save().await.unwrap() else {
        panic!()
    };
    let again = durable.every("daily", daily(9), &note("nine")).save().await.unwrap();
    assert_eq!(again, Saved::Kept(nine));
    let ten = durable.every("daily", daily(10), &Note { takes: 600, ..note("ten") }).save().await.unwrap();
    assert!(matches!(ten, Saved::Replaced { dropped, .. } if dropped.id() == nine), "{ten:?}");
    rig.sleep(10.0 * HOUR + 60.0).await;
    let eleven = durable.every("daily", daily(11), &note("eleven")).save().await.unwrap();
    assert!(matches!(eleven, Saved::Updated(_)), "{eleven:?}");
    rig.sleep(26.0 * HOUR).await;
    let calls = rig.book.calls();
    let texts: Vec<String> =
        calls.iter().map(|call| format!("{} {}", call.text, call.at.strftime("%d %H:%M"))).collect();
    assert_eq!(texts, ["ten 01 10:00", "ten ended 01 10:10", "eleven 01 11:00", "eleven 02 11:00"]);
}

#[tokio::test(start_paused = true)]
async fn a_series_is_cancelled_by_its_name_also_while_a_run_goes_on() {
    let rig = Rig::new();
    let durable = rig.start().await;
    durable.every("a", daily(9), &note("a")).save().await.unwrap();
    durable.every("b", daily(9), &Note { takes: 60, ..note("b") }).save().await.unwrap();
    assert_eq!(durable.cancel("a").await.unwrap(), Cancelled::Removed);
    rig.sleep(9.0 * HOUR + 30.0).await;
    assert_eq!(durable.cancel("b").await.unwrap(), Cancelled::Running(1));
    rig.sleep(100.0 * HOUR).await;
    assert_eq!(rig.book.texts(), ["b", "b ended"]);
    assert_eq!(durable.count().await.unwrap(), Default::default());
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_is_over_ends_its_series_and_can_be_saved_again() {
    let rig = Rig::new();
    let durable = rig.start().await;
    durable.every("once", Once::at(at(60.0)), &note("once")).save().await.unwrap();
    rig.sleep(100.0).await;
    assert_eq!((rig.book.texts().len(), durable.count().await.unwrap().stored), (1, 0));
    let past = durable.every("once", Once::at(at(60.0)), &note("once")).save().await.unwrap();
    assert_eq!(past, Saved::Over { dropped: None });
    let nameless = Cron::parse("0 9 * * *").unwrap().in_zone(TimeZone::fixed(jiff::tz::offset(7)));
    durable.every("fixed", nameless, &note("fixed")).save().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_moved_to_later_is_not_missed() {
    let rig = Rig::new();
    let durable = rig.start().await;
    let id = durable.every("daily", daily(9), &note("daily")).missed(Missed::none()).save().await.unwrap();
    durable.reschedule(id.id().unwrap(), at(11.0 * HOUR)).await.unwrap();
    rig.sleep(12.0 * HOUR).await;
    assert_eq!((scheduled(&rig).len(), durable.stats().skipped), (1, 0));
}

/// What the runs of the series were called with, each with its attempt.
fn attempts(rig: &Rig) -> Vec<String> {
    rig.book.calls().iter().map(|call| format!("{} {}", call.text, call.run.attempt)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_pending_run_keeps_its_time_and_its_attempts_when_the_series_is_saved_with_another_payload() {
    let rig = Rig::new();
    let durable = rig.start().await;
    let old = Note { fails: 1, ..note("old") };
    durable.every("failed", daily(1), &old).save().await.unwrap();
    let moved = durable.every("moved", daily(2), &old).save().await.unwrap().id().unwrap();
    durable.reschedule(moved, at(5.0 * HOUR)).await.unwrap();
    rig.sleep(1.0 * HOUR + 1.0).await;
    assert_eq!(attempts(&rig), ["old 1"], "and the second attempt waits");
    for (name, hour) in [("failed", 1), ("moved", 2)] {
        let saved = durable.every(name, daily(hour), &note("new")).save().await.unwrap();
        assert!(matches!(saved, Saved::Updated(_)), "{saved:?}");
    }
    rig.sleep(5.0 * HOUR).await;
    assert_eq!(attempts(&rig), ["old 1", "new 2", "new 1"]);
    assert_eq!(scheduled(&rig), ["01 01:00", "01 01:00", "01 02:00"]);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_was_wrong_for_a_moment_silences_no_series() {
    let rig = Rig::new();
    let durable = rig.start().await;
    durable.every("saved before", daily(9), &note("before")).save().await.unwrap();
    rig.clock.set("2029-03-01T12:00:00Z".parse().unwrap());
    rig.sleep(1.0).await;
    assert_eq!(rig.book.texts(), ["before"], "it is late, by what the clock shows");
    durable.every("saved meanwhile", daily(10), &note("meanwhile")).save().await.unwrap();
    rig.sleep(30.0).await;
    rig.clock.set(at(60.0));
    rig.sleep(24.0 * HOUR).await;
    assert_eq!(rig.book.texts(), ["before", "before", "meanwhile"]);
    assert_eq!(durable.stats().replanned, 2);
    let mut health = Health::new(secs(90));
    assert!(health.check(&durable.stats()).contains(&Symptom::Replanned(2)));
    rig.sleep(48.0 * HOUR).await;
    assert_eq!(rig.book.texts().len(), 7);
    no_call_is_named_twice(&rig);
}

/// No two calls have the same id and attempt: by these, users know what they have done already.
fn no_call_is_named_twice(rig: &Rig) {
    let mut seen = HashSet::new();
    for call in rig.book.calls() {
        assert!(seen.insert((call.run.id, call.run.attempt)), "{call:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_interval_goes_on_at_once_after_a_clock_that_was_ahead_is_put_right() {
    for (ahead, is_stopped) in [(0.5, false), (1.0, false), (1.0, true), (30_000.0, false)] {
        let rig = Rig::new();
        let mut durable = rig.start().await;
        let each = Periodic::seconds(300, at(0.0));
        durable.every("interval", each, &note("interval")).save().await.unwrap();
        rig.sleep(HOUR + 10.0).await;
        assert_eq!(rig.book.texts().len(), 12);
        rig.clock.set(at((1.0 + ahead) * HOUR));
        rig.sleep(600.0).await;
        let before = rig.book.texts().len();
        assert!((14..=16).contains(&before), "{before} by a clock that is ahead");
        if is_stopped {
            durable.stop(secs(1)).await;
        }
        rig.clock.set(at(HOUR + 610.0));
        if is_stopped {
            durable = rig.start().await;
        }
        rig.sleep(HOUR).await;
        let times = rig.book.times().split_off(before);
        assert_eq!(times.len(), 12, "{ahead} hours ahead: {times:?}");
        assert!(times[0].1 < HOUR + 905.0, "{ahead} hours ahead: {times:?}");
        assert_eq!(durable.stats().replanned, 1);
        no_call_is_named_twice(&rig);
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_put_back_by_less_than_a_period_makes_no_interval_run_twice() {
    let rig = Rig::new();
    let durable = rig.start().await;
    durable.every("interval", Periodic::seconds(3_600, at(0.0)), &note("interval")).save().await.unwrap();
    rig.sleep(HOUR + 60.0).await;
    rig.clock.set(at(HOUR - 600.0));
    rig.sleep(610.0 + HOUR).await;
    assert_eq!(scheduled(&rig), ["01 01:00", "01 02:00"]);
    assert_eq!(durable.stats().replanned, 0);
}

/// A series of which a run is stored as if other zone data had planned it, at this time.
async fn planned_by_other_data(rig: &Rig, hours: f64) {
    let rule = daily(9).to_string();
    let series = Series::new(rule, Missed::once()).planned_after(at(0.0));
    let timer = NewTimer {
        key: Some("daily".into()),
        series: Some(series),
        ..NewTimer::new(
            TimerId::new(at(hours * HOUR), 7),
            "note",
            serde_json::to_vec(&note("daily")).unwrap(),
        )
    };
    rig.store.save(vec![timer]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_run_that_other_zone_data_planned_is_planned_anew_at_a_start_and_once_a_day() {
    for hours in [8.0, 10.0] {
        let rig = Rig::new();
        planned_by_other_data(&rig, hours).await;
        let durable = rig.start().await;
        rig.sleep(24.0 * HOUR).await;
        let times: Vec<f64> = rig.book.times().into_iter().map(|(_, time)| time).collect();
        assert_eq!((times, scheduled(&rig)), (vec![9.0 * HOUR], vec!["01 09:00".to_owned()]));
        assert_eq!(durable.stats().replanned, 1);
    }
    // While it runs.
    let rig = Rig::new();
    let durable = rig.start().await;
    durable.every("other", daily(1), &note("other")).save().await.unwrap();
    rig.sleep(2.0 * HOUR).await;
    planned_by_other_data(&rig, 50.0).await;
    rig.sleep(23.0 * HOUR).await;
    assert!(
        scheduled(&rig).contains(&"01 09:00".to_owned()),
        "late by what the data was: {:?}",
        scheduled(&rig)
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_that_comes_up_before_its_rule_says_so_waits() {
    let rig = Rig::new();
    let durable = rig.start().await;
    rig.sleep(60.0).await;
    planned_by_other_data(&rig, 8.0).await;
    // Armed, and not looked at since.
    durable.reschedule("daily", at(8.0 * HOUR)).await.unwrap();
    rig.sleep(24.0 * HOUR).await;
    let times: Vec<f64> = rig.book.times().into_iter().map(|(_, time)| time).collect();
    assert_eq!(times, [9.0 * HOUR]);
}

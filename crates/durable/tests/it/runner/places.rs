//! Kinds of which only so many run at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use timingwheel_calendar::{Cron, Plan};
use timingwheel_durable::{Answer, Durable, Kind, Missed, Run, Saved};

use crate::proof::hooked::{Hook, Hooked, Injected, Step};

use super::support::{Note, Rig, at, note, secs};

#[derive(Serialize, Deserialize)]
struct Slow(u32);

impl Kind for Slow {
    const KIND: &'static str = "slow";
}

/// Each call of the runner takes ten milliseconds.
struct Takes;

impl Hook for Takes {
    async fn at(&self, call: &'static str, step: Step) -> Result<(), Injected> {
        if matches!((call, step), ("load" | "begin" | "settle", Step::Before)) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn a_backlog_of_a_kind_that_is_full_delays_no_other_kind_and_is_worked_off_in_order() {
    const SLOW: u32 = 4_000;
    let rig = Rig::new();
    let build = || {
        let store = Hooked { store: rig.store.clone(), hook: Takes };
        Durable::builder(&rig.wheel, store).clock(rig.clock.clone())
    };
    // Saved before the start, so that the window would be full of them for minutes.
    let saving = build().start().await.unwrap();
    for n in 0..SLOW {
        saving.at(at(f64::from(n) / 10_000.0), &Slow(n)).save().await.unwrap();
    }
    for n in 0..100 {
        saving.at(at(0.6 + f64::from(n)), &note("quick")).save().await.unwrap();
    }
    saving.stop(secs(1)).await;
    let (told, mut tells) = tokio::sync::mpsc::unbounded_channel();
    let wheel = rig.wheel.clone();
    let slow = move |Slow(n): Slow, _: Run| {
        let (told, wheel) = (told.clone(), wheel.clone());
        async move {
            wheel.sleep(secs(1)).await;
            told.send(n).unwrap();
            Ok(Answer::Done)
        }
    };
    let quick = |_: Note, _: Run| async { Ok(Answer::Done) };
    let builder = build().on(slow).on(quick).concurrency_of::<Slow>(20).in_memory(60);
    let durable = builder.start().await.unwrap();
    for n in SLOW..SLOW + 100 {
        durable.at(at(0.5), &Slow(n)).save().await.unwrap();
    }
    rig.sleep(105.0).await;
    let stats = durable.stats();
    let quick = &stats.kinds["note"];
    assert_eq!(quick.attempts, 100);
    // Three calls.
    assert!(quick.lateness.quantile(1.0).unwrap() < Duration::from_millis(40), "{:?}", quick.lateness);
    assert!((1..=60).contains(&stats.kinds["slow"].waiting), "{}", stats.kinds["slow"].waiting);
    assert!(stats.behind < secs(1));
    rig.sleep(160.0).await;
    let done: Vec<u32> = std::iter::from_fn(|| tells.try_recv().ok()).collect();
    assert_eq!(done.len(), 4_100);
    let ahead = |(place, n): (usize, &u32)| place.abs_diff(*n as usize);
    assert!(done.iter().enumerate().map(ahead).max() < Some(200), "the earliest first");
    assert_eq!((durable.stats().kinds["slow"].waiting, durable.count().await.unwrap().stored), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_run_of_a_series_that_waits_for_a_place_is_not_missed() {
    for in_memory in [3, 10_000] {
        let rig = Rig::new();
        let builder = rig.builder().concurrency_of::<Note>(1).in_memory(in_memory);
        let durable = builder.start().await.unwrap();
        let midnight: Plan = Cron::parse("0 0 * * *").unwrap().in_zone(TimeZone::UTC).into();
        for n in 0..20 {
            let payload = Note { takes: 60, ..note(&n.to_string()) };
            let saved =
                durable.every(n.to_string(), midnight.clone(), &payload).missed(Missed::none()).save();
            assert!(matches!(saved.await.unwrap(), Saved::Stored(_)));
        }
        rig.sleep(3.0 * 86_400.0 - 60.0).await;
        assert_eq!((durable.stats().done, durable.stats().skipped), (40, 0), "{in_memory} in memory");
    }
}

#[tokio::test(start_paused = true)]
async fn a_series_with_jitter_keeps_its_time_over_saves_and_another_bound_plans_it_anew() {
    let rig = Rig::new();
    let durable = rig.start().await;
    let midnight: Plan = Cron::parse("0 0 * * *").unwrap().in_zone(TimeZone::UTC).into();
    let save = |most: u64| {
        let series = durable.every("report", midnight.clone(), &note("report"));
        async move { series.jitter(secs(most)).save().await.unwrap() }
    };
    let Saved::Stored(id) = save(3_600).await else { panic!("it is new") };
    assert_eq!(save(3_600).await, Saved::Kept(id));
    let by = id.first_due().duration_since(at(0.0));
    assert!(by.is_positive() && by < jiff::SignedDuration::from_hours(1), "{by:?}");
    rig.sleep(2.5 * 86_400.0).await;
    let due: Vec<_> =
        rig.book.calls().iter().map(|call| call.run.scheduled().duration_since(id.first_due())).collect();
    assert_eq!(due, [0, 24, 48].map(jiff::SignedDuration::from_hours));
    assert!(matches!(save(0).await, Saved::Replaced { .. }));
}

/// Counts the calls of the runner.
#[derive(Clone, Default)]
struct Counts(Arc<AtomicUsize>);

impl Hook for Counts {
    async fn at(&self, call: &'static str, step: Step) -> Result<(), Injected> {
        if matches!((call, step), ("load" | "begin", Step::Before)) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn timers_that_wait_for_a_place_of_a_kind_that_is_then_paused_are_not_asked_for_one_by_one() {
    let (rig, counts) = (Rig::new(), Counts::default());
    let store = Hooked { store: rig.store.clone(), hook: counts.clone() };
    let wheel = rig.wheel.clone();
    let slow = move |Slow(_): Slow, _: Run| {
        let wheel = wheel.clone();
        async move {
            wheel.sleep(secs(1)).await;
            Ok(Answer::Done)
        }
    };
    let builder = Durable::builder(&rig.wheel, store).clock(rig.clock.clone()).on(slow);
    let durable = builder.concurrency_of::<Slow>(1).start().await.unwrap();
    for n in 0..500 {
        durable.at(at(1.0), &Slow(n)).save().await.unwrap();
    }
    rig.sleep(5.5).await;
    assert!(durable.stats().kinds["slow"].waiting > 490);
    durable.pause(Slow::KIND).await.unwrap();
    let before = counts.0.load(Ordering::Relaxed);
    rig.sleep(10.0).await;
    assert!(counts.0.load(Ordering::Relaxed) - before < 5, "{}", counts.0.load(Ordering::Relaxed) - before);
    assert_eq!(durable.stats().kinds["slow"].waiting, 0);
    durable.resume(Slow::KIND).await.unwrap();
    rig.sleep(505.0).await;
    assert_eq!(durable.stats().done, 500);
}

#[tokio::test(start_paused = true)]
async fn a_backlog_of_a_full_kind_behind_very_many_timers_of_others_is_loaded_piece_by_piece() {
    const SLOW: u32 = 600;
    let (rig, counts) = (Rig::new(), Counts::default());
    let build = || {
        let store = Hooked { store: rig.store.clone(), hook: counts.clone() };
        Durable::builder(&rig.wheel, store).clock(rig.clock.clone())
    };
    let saving = build().start().await.unwrap();
    // Nobody has a handler for these. One load passes four times as many as it may load.
    for n in 0..4_000 {
        saving.at(at(f64::from(n) / 10_000.0), &note("other")).save().await.unwrap();
    }
    for n in 0..SLOW {
        saving.at(at(0.5 + f64::from(n) / 10_000.0), &Slow(n)).save().await.unwrap();
    }
    saving.stop(secs(1)).await;
    let wheel = rig.wheel.clone();
    let slow = move |Slow(_): Slow, _: Run| {
        let wheel = wheel.clone();
        async move {
            wheel.sleep(secs(1)).await;
            Ok(Answer::Done)
        }
    };
    let builder = build().on(slow).concurrency_of::<Slow>(1).in_memory(60);
    let durable = builder.start().await.unwrap();
    rig.sleep(2.0).await;
    let before = counts.0.load(Ordering::Relaxed);
    rig.sleep(f64::from(SLOW) + 10.0).await;
    assert_eq!(durable.stats().done, u64::from(SLOW));
    // A begin for each, and 17 loads to pass the others.
    let calls = counts.0.load(Ordering::Relaxed) - before;
    assert!(calls < 700, "{calls}");
}

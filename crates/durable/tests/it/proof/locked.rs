//! Timers that somebody else holds in the store for a while, as an open transaction does.

use std::time::Duration;

use timingwheel_calendar::Periodic;
use timingwheel_durable::{Health, Missed, Symptom, TimerId};

use super::hooked::Step;
use super::leased::Leased;
use super::script::{Rig, Tick, What, secs};

#[tokio::test(start_paused = true)]
async fn a_timer_that_somebody_holds_is_begun_after_that_and_keeps_back_no_other() {
    let rig = Rig::on(Leased::new());
    let durable = rig.builder().lease(secs(36_000)).concurrency(1).start().await.unwrap();
    let held = durable.after(secs(1), &Tick(0)).save().await.unwrap();
    durable.after(secs(2), &Tick(0)).save().await.unwrap();
    rig.store.lock([held.unique()]);
    rig.wheel.sleep(secs(10)).await;
    assert_eq!((rig.calls(), durable.stats().begun), (1, 0), "the other one");
    rig.store.lock([]);
    rig.wheel.sleep(secs(2)).await;
    assert_eq!((rig.calls(), durable.stats().done), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_begin_whose_answer_was_lost_is_asked_for_until_nobody_holds_the_timer() {
    let rig = Rig::on(Leased::new());
    let durable = rig.builder().lease(secs(36_000)).start().await.unwrap();
    let held = durable.after(secs(1), &Tick(0)).save().await.unwrap();
    rig.script.next("begin", Step::After, What::Fail);
    while !rig.script.is_over() {
        rig.wheel.sleep(Duration::from_millis(1)).await;
    }
    rig.store.lock([held.unique()]);
    durable.after(secs(2), &Tick(0)).save().await.unwrap();
    rig.wheel.sleep(secs(10)).await;
    assert_eq!((rig.calls(), durable.stats().begun), (1, 1), "the other one");
    rig.store.lock([]);
    rig.wheel.sleep(secs(2)).await;
    assert_eq!((rig.calls(), durable.stats().done), (2, 2));
    assert_eq!(durable.count().await.unwrap(), Default::default());
}

#[tokio::test(start_paused = true)]
async fn an_end_whose_timer_somebody_holds_is_told_after_that_and_keeps_back_no_other() {
    let rig = Rig::on(Leased::new());
    let durable = rig.builder().lease(secs(36_000)).start().await.unwrap();
    let held = durable.after(secs(1), &Tick(2)).save().await.unwrap();
    durable.after(secs(1), &Tick(3)).save().await.unwrap();
    rig.wheel.sleep(secs(2)).await;
    rig.store.lock([held.unique()]);
    rig.wheel.sleep(secs(10)).await;
    assert_eq!((durable.stats().done, durable.stats().begun), (1, 1));
    rig.store.lock([]);
    rig.wheel.sleep(secs(2)).await;
    let stats = durable.stats();
    assert_eq!((stats.done, stats.fenced, stats.begun, rig.calls()), (2, 0, 0, 2));
    assert_eq!(durable.count().await.unwrap(), Default::default());
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_somebody_holds_for_a_moment_is_late_by_no_more_than_twice_that() {
    for (number, held) in (1..).zip([1, 30, 200, 700, 5_000]) {
        let rig = Rig::on(Leased::new());
        let durable = rig.builder().lease(secs(36_000)).start().await.unwrap();
        let timer = durable.after(secs(1), &Tick(0)).save().await.unwrap();
        rig.store.lock([timer.unique()]);
        rig.wheel.sleep(secs(1) + Duration::from_millis(held)).await;
        assert_eq!(rig.calls(), 0, "{number}: it is held");
        rig.store.lock([]);
        rig.wheel.sleep(Duration::from_millis(held.clamp(10, 1_000) + 5)).await;
        assert_eq!(rig.calls(), 1, "held for {held} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_only_held_is_not_missed_however_long_that_was() {
    for held in [50, 1_500, 20_000] {
        let rig = Rig::on(Leased::new());
        let durable = rig.builder().lease(secs(36_000)).start().await.unwrap();
        let hourly = Periodic::seconds(3_600, rig.at(10));
        let series = durable.every("hourly", hourly, &Tick(0)).missed(Missed::none()).save().await.unwrap();
        rig.store.lock(series.id().map(TimerId::unique));
        rig.wheel.sleep(secs(10) + Duration::from_millis(held)).await;
        rig.store.lock([]);
        rig.wheel.sleep(secs(2)).await;
        assert_eq!((rig.calls(), durable.stats().skipped), (1, 0), "held for {held} ms");
        assert_eq!(durable.get("hourly").await.unwrap().unwrap().timer.due(), rig.at(3_610));
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_missed_before_it_was_held_is_left_out() {
    let rig = Rig::on(Leased::new());
    let durable = rig.builder().lease(secs(36_000)).start().await.unwrap();
    let hourly = Periodic::seconds(3_600, rig.at(10));
    let series = durable.every("hourly", hourly, &Tick(0)).missed(Missed::none()).save().await.unwrap();
    rig.store.lock(series.id().map(TimerId::unique));
    rig.clock.set(rig.at(15));
    rig.wheel.sleep(secs(1)).await;
    rig.store.lock([]);
    rig.wheel.sleep(secs(2)).await;
    assert_eq!((rig.calls(), durable.stats().skipped), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn the_health_says_how_late_timers_are_that_are_held_or_whose_begin_takes_long() {
    let rig = Rig::on(Leased::new());
    let durable = rig.builder().lease(secs(36_000)).start().await.unwrap();
    let late = async || {
        let symptoms = Health::new(secs(36_000)).check(&durable.stats());
        let behind =
            |symptom: &Symptom| if let Symptom::Behind(behind) = symptom { Some(*behind) } else { None };
        symptoms.iter().find_map(behind).unwrap_or_default()
    };
    durable.after(secs(1), &Tick(0)).save().await.unwrap();
    rig.script.next("begin", Step::Before, What::Wait(20_000));
    for second in 0..20 {
        rig.wheel.sleep(secs(1)).await;
        let told = if second > 5 { secs(second)..secs(second + 1) } else { secs(0)..secs(6) };
        assert!(told.contains(&late().await), "{:?} after {second} s", late().await);
    }
    rig.wheel.sleep(secs(2)).await;
    assert_eq!((rig.calls(), late().await), (1, secs(0)));
    let held = durable.after(secs(1), &Tick(0)).save().await.unwrap();
    rig.store.lock([held.unique()]);
    rig.wheel.sleep(secs(11)).await;
    assert!(late().await >= secs(9), "{:?}", late().await);
    rig.store.lock([]);
    rig.wheel.sleep(secs(2)).await;
    assert_eq!((rig.calls(), late().await), (2, secs(0)));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waited_for_a_place_and_is_held_as_it_gets_one_is_not_missed() {
    let rig = Rig::on(Leased::new());
    let builder = rig.builder().lease(secs(36_000)).concurrency_of::<Tick>(1);
    let durable = builder.start().await.unwrap();
    let mut ids = Vec::new();
    for name in ["one", "two"] {
        let hourly = Periodic::seconds(3_600, rig.at(10));
        let saved = durable.every(name, hourly, &Tick(60)).missed(Missed::none()).save().await.unwrap();
        ids.extend(saved.id().map(TimerId::unique));
    }
    rig.wheel.sleep(secs(30)).await;
    assert_eq!((rig.calls(), durable.stats().kinds["tick"].waiting), (1, 1));
    // Of whichever waits.
    rig.store.lock(ids);
    rig.wheel.sleep(secs(42)).await;
    assert_eq!(rig.calls(), 1);
    rig.store.lock([]);
    rig.wheel.sleep(secs(3)).await;
    assert_eq!((rig.calls(), durable.stats().skipped), (2, 0));
}

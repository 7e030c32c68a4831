//! An instance that loses its lease, on a store that is shared.

use std::time::Duration;

use jiff::SignedDuration;
use timingwheel_calendar::Periodic;
use timingwheel_durable::store::{Hint, Near, NewTimer, Series, Store};
use timingwheel_durable::{CallBack, Health, Kind, Missed, Outside, Place, Symptom, TimerId};

use super::hooked::Step;
use super::leased::Leased;
use super::script::{Rig, Tick, What, secs};

#[tokio::test(start_paused = true)]
async fn an_instance_that_is_stopped_while_it_joins_again_leaves_its_share() {
    for step in [Step::Before, Step::After] {
        let rig = Rig::on(Leased::new());
        let durable = rig.start().await;
        rig.wheel.sleep(secs(1)).await;
        rig.script.next("join", step, What::Wait(300));
        rig.store.take_away().await;
        rig.wheel.sleep(Duration::from_millis(100)).await;
        assert!(rig.script.is_over(), "it joins");
        durable.stop(secs(5)).await;
        assert_eq!(rig.store.left(), [3], "{step:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_instance_saves_after_it_has_joined_again_is_armed_at_once() {
    let rig = Rig::on(Leased::new());
    // It scans for what others have saved each third of that.
    let durable = rig.builder().lease(secs(600)).start().await.unwrap();
    durable.at(rig.at(50), &Tick(0)).save().await.unwrap();
    rig.wheel.sleep(secs(1)).await;
    rig.store.take_away().await;
    rig.wheel.sleep(secs(1)).await;
    assert_eq!(durable.stats().rejoined, 1);
    durable.at(rig.at(5), &Tick(0)).save().await.unwrap();
    rig.wheel.sleep(secs(5)).await;
    assert_eq!(rig.calls(), 1);
    assert!(format!("{durable:?}").contains(&format!("epoch: {}", rig.store.epoch())));
    rig.wheel.sleep(secs(50)).await;
    assert_eq!(rig.calls(), 2, "and so is what was saved before");
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_hears_of_others_while_it_renews_renews_again_at_once() {
    let rig = Rig::on(Leased::new());
    let durable = rig.builder().lease(secs(36_000)).start().await.unwrap();
    rig.wheel.sleep(secs(1)).await;
    rig.script.next("renew", Step::After, What::Wait(500));
    rig.store.hint(Hint::Shares);
    rig.wheel.sleep(Duration::from_millis(100)).await;
    assert!(rig.script.is_over(), "it renews");
    rig.store.take_away().await;
    rig.wheel.sleep(secs(1)).await;
    assert_eq!((rig.store.renewals(), durable.stats().rejoined), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn what_others_have_saved_is_found_without_hints_and_what_was_due_long_ago_within_a_minute() {
    let rig = Rig::on(Leased::new());
    let durable = rig.builder().lease(secs(30)).start().await.unwrap();
    rig.wheel.sleep(secs(1)).await;
    let save = async |unique, seconds| {
        let timer = NewTimer::new(TimerId::new(rig.at(seconds), unique), Tick::KIND, b"0");
        rig.store.save(vec![timer]).await.unwrap();
    };
    // Also while it has had nothing to do for long.
    for (number, seconds) in (1..).zip([5, 20, 10_000, 10_015, 10_030, 10_045, 10_060]) {
        rig.wheel.sleep_until(rig.began + secs(seconds)).await;
        save(number, i64::try_from(seconds).unwrap() + 1).await;
        rig.wheel.sleep(secs(11)).await;
        assert_eq!(rig.calls(), number, "by the scan of a renewal");
    }
    assert!(rig.store.scans() > 0);
    save(8, -86_400).await;
    rig.wheel.sleep(secs(61)).await;
    assert_eq!(rig.calls(), 8);
    // One that has something to do scans by calls of its own.
    durable.after(secs(1), &Tick(500)).save().await.unwrap();
    rig.wheel.sleep(secs(1)).await;
    let (scans, loads) = (rig.store.scans(), durable.stats().loads);
    rig.wheel.sleep(secs(400)).await;
    assert_eq!(rig.store.scans(), scans, "its lease waits for none");
    assert!(durable.stats().loads >= loads + 30, "{:?}", durable.stats());
}

/// A scheduler that forgets.
struct Forgets;

impl Outside for Forgets {
    fn begins(&self, _: CallBack) {}
    fn hand_over(&self, _: Vec<Near>) {}
    fn forget(&self, _: Vec<Near>) {}
}

#[tokio::test(start_paused = true)]
async fn with_a_scheduler_outside_hints_are_heard_as_without_one() {
    for is_outside in [false, true] {
        let rig = Rig::on(Leased::new());
        let builder = rig.builder().lease(secs(36_000));
        let builder = if is_outside { builder.outside(Forgets, secs(36_000)) } else { builder };
        let durable = builder.start().await.unwrap();
        rig.wheel.sleep(secs(90)).await;
        // Within the horizon, and beyond it.
        for (unique, seconds) in [(1, 95), (2, 100), (3, 120), (4, 300)] {
            let timer = NewTimer::new(TimerId::new(rig.at(seconds), unique), Tick::KIND, b"0");
            rig.store.save(vec![timer]).await.unwrap();
        }
        rig.store.hint(Hint::Saved(rig.at(95), rig.at(100)));
        rig.store.hint(Hint::Saved(rig.at(300), rig.at(300)));
        rig.wheel.sleep(secs(11)).await;
        assert_eq!(rig.calls(), 2, "{is_outside}");
        // A load for another reason, that ends before the last.
        durable.at(rig.at(200), &Tick(0)).save().await.unwrap();
        rig.wheel.sleep(secs(200)).await;
        assert_eq!(rig.calls(), 5, "{is_outside}");
        assert!(durable.stats().loads < 20, "{:?}", durable.stats());
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_whose_wheel_has_ended_renews_until_its_handlers_have_ended_and_hands_over() {
    let rig = Rig::on(Leased::new());
    let durable = rig.builder().lease(secs(30)).start().await.unwrap();
    durable.after(secs(1), &Tick(200)).save().await.unwrap();
    durable.after(secs(50), &Tick(0)).save().await.unwrap();
    tokio::time::sleep(secs(2)).await;
    rig.wheel.shutdown();
    tokio::time::sleep(secs(190)).await;
    let stats = durable.stats();
    assert_eq!((stats.rejoined, stats.begun, rig.store.left()), (0, 1, vec![]));
    assert_eq!(Health::new(secs(30)).check(&stats), [Symptom::WheelEnded]);
    assert!((15..25).contains(&rig.store.renewals()), "{}", rig.store.renewals());
    tokio::time::sleep(secs(20)).await;
    assert_eq!((durable.stats().done, durable.stats().fenced), (1, 0));
    assert_eq!(rig.store.left(), [1]);
    let counts = durable.count().await.unwrap();
    assert_eq!((counts.stored, counts.begun), (1, 0), "the other is whose comes next");
    // On a wheel of its own.
    let next = Rig::on(rig.store.clone());
    let durable = next.builder().clock(rig.clock.clone()).start().await.unwrap();
    next.wheel.sleep(secs(1)).await;
    assert_eq!((next.calls(), durable.stats().done), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_start_loads_from_the_mark_first_and_then_what_is_before_it() {
    let rig = Rig::on(Leased::new());
    let dues = [rig.at(-3_600), rig.at(-30), rig.at(1)];
    let timer = |(unique, due)| NewTimer::new(TimerId::new(due, unique), Tick::KIND, b"0");
    rig.store.save((1..).zip(dues).map(timer).collect()).await.unwrap();
    rig.store.mark(rig.at(-60));
    let durable = rig.builder().lease(secs(36_000)).start().await.unwrap();
    rig.wheel.sleep(secs(2)).await;
    assert_eq!(rig.calls(), 3);
    let before = rig.at(-60) - SignedDuration::from_millis(1);
    assert_eq!(rig.store.loads()[..2], [Place::last_of(before), Place::FIRST]);
    durable.stop(secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn a_scan_that_fails_is_made_again() {
    let rig = Rig::on(Leased::new());
    let durable = rig.builder().lease(secs(36_000)).start().await.unwrap();
    // The window reaches beyond this timer.
    durable.at(rig.at(50), &Tick(0)).save().await.unwrap();
    rig.wheel.sleep(secs(1)).await;
    let timer = NewTimer::new(TimerId::new(rig.at(5), 1), Tick::KIND, b"0");
    rig.store.save(vec![timer]).await.unwrap();
    rig.script.next("load", Step::Before, What::Fail);
    rig.store.hint(Hint::Saved(rig.at(5), rig.at(5)));
    rig.wheel.sleep(secs(5)).await;
    assert!(rig.script.is_over(), "it scans");
    assert_eq!(rig.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_cannot_read_a_rule_tells_the_store_and_renews_at_once() {
    let rig = Rig::on(Leased::new());
    let durable = rig.builder().lease(secs(36_000)).start().await.unwrap();
    rig.wheel.sleep(secs(1)).await;
    let before = rig.store.renewals();
    let series = |number: u64| NewTimer {
        key: Some(number.to_string()),
        series: Some(Series::new("cron 0 9 * * * in Nowhere/Never".into(), Missed::once())),
        ..NewTimer::new(TimerId::new(rig.at(2), number), Tick::KIND, b"0")
    };
    rig.store.save(vec![series(1), series(2)]).await.unwrap();
    rig.store.hint(Hint::Saved(rig.at(2), rig.at(2)));
    rig.wheel.sleep(secs(3)).await;
    let unread = rig.store.unread();
    assert!(unread.len() >= 2 && unread.iter().all(|kind| kind == Tick::KIND), "{unread:?}");
    assert_eq!((rig.store.renewals(), rig.calls()), (before + 1, 0), "one renewal for both");
    durable.stop(secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn a_look_at_overdue_timers_forgets_no_rule_that_a_begin_meanwhile_could_not_read() {
    let rig = Rig::on(Leased::new());
    let series = NewTimer {
        key: Some("series".into()),
        series: Some(Series::new("cron 0 9 * * * in Nowhere/Never".into(), Missed::once())),
        ..NewTimer::new(TimerId::new(rig.at(-1), 1), Tick::KIND, b"0")
    };
    rig.store.save(vec![series]).await.unwrap();
    // The look of the start takes half a second. The timer is begun, and put off for a minute, before it ends.
    rig.script.next("list", Step::After, What::Wait(500));
    let durable = rig.builder().lease(secs(36_000)).start().await.unwrap();
    for millis in [100, 1_000] {
        rig.wheel.sleep(Duration::from_millis(millis)).await;
        assert!(durable.stats().unhandled.is_some(), "after {millis} ms");
    }
    assert!(rig.script.is_over());
}

#[tokio::test(start_paused = true)]
async fn scans_begin_a_minute_ago_also_while_a_timer_is_put_off_that_was_due_long_before() {
    let rig = Rig::on(Leased::new());
    let durable = rig.builder().lease(secs(30)).start().await.unwrap();
    rig.wheel.sleep(secs(1)).await;
    let series = NewTimer {
        key: Some("series".into()),
        series: Some(Series::new("cron 0 9 * * * in Nowhere/Never".into(), Missed::once())),
        ..NewTimer::new(TimerId::new(rig.at(-86_400), 1), Tick::KIND, b"0")
    };
    rig.store.save(vec![series]).await.unwrap();
    rig.wheel.sleep(secs(61)).await;
    assert!(durable.stats().unhandled.is_some(), "it was found, and is put off");
    let before = rig.store.loads().len();
    rig.wheel.sleep(secs(100)).await;
    let loads = rig.store.loads().split_off(before);
    let far = loads.iter().filter(|after| **after > Place::FIRST && after.due() < rig.at(-3_600)).count();
    assert!(loads.len() > 8 && far == 0, "{loads:?}");
}

#[tokio::test(start_paused = true)]
async fn very_many_overdue_timers_that_nobody_begins_are_not_read_each_minute() {
    let rig = Rig::on(Leased::new());
    let timer = |number| NewTimer::new(TimerId::new(rig.at(-1_000), number), "other", b"0");
    rig.store.save((1..=1_000).map(timer).collect()).await.unwrap();
    // One load passes 100.
    let durable = rig.builder().lease(secs(30)).in_memory(25).start().await.unwrap();
    rig.wheel.sleep(secs(90)).await;
    let before = rig.store.loads().len();
    rig.wheel.sleep(secs(3_600)).await;
    let loads = rig.store.loads().len() - before;
    // One for each renewal, and one a minute for those.
    assert!(loads < 360 + 90, "{loads}");
    // A timer of the past is found all the same, without a hint.
    rig.store.save(vec![NewTimer::new(TimerId::new(rig.at(-2_000), 1), Tick::KIND, b"0")]).await.unwrap();
    rig.wheel.sleep(secs(700)).await;
    assert_eq!(rig.calls(), 1);
    durable.stop(secs(5)).await;
}

#[tokio::test(start_paused = true)]
async fn runs_that_wait_for_a_place_are_not_missed_because_their_instance_joins_again() {
    for in_memory in [3, 10_000] {
        let rig = Rig::on(Leased::new());
        let builder = rig.builder().lease(secs(36_000)).concurrency_of::<Tick>(1).in_memory(in_memory);
        let durable = builder.start().await.unwrap();
        for n in 0..20 {
            let daily = Periodic::seconds(86_400, rig.at(10));
            durable.every(n.to_string(), daily, &Tick(60)).missed(Missed::none()).save().await.unwrap();
        }
        for minutes in [2, 5, 11] {
            rig.wheel.sleep_until(rig.began + secs(minutes * 60)).await;
            rig.store.take_away().await;
        }
        rig.wheel.sleep_until(rig.began + secs(3_600)).await;
        let stats = durable.stats();
        assert_eq!((stats.rejoined, stats.fenced, stats.skipped), (3, 3, 0), "{in_memory} in memory");
        assert_eq!((stats.done, rig.calls()), (20, 23), "{in_memory} in memory");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_held_is_not_missed_because_its_instance_joins_again() {
    let rig = Rig::on(Leased::new());
    let durable = rig.builder().lease(secs(36_000)).start().await.unwrap();
    let hourly = Periodic::seconds(3_600, rig.at(10));
    let series = durable.every("hourly", hourly, &Tick(0)).missed(Missed::none()).save().await.unwrap();
    rig.store.lock(series.id().map(TimerId::unique));
    for seconds in [20, 30] {
        rig.wheel.sleep_until(rig.began + secs(seconds)).await;
        rig.store.take_away().await;
    }
    rig.wheel.sleep(secs(10)).await;
    assert_eq!((rig.calls(), durable.stats().rejoined), (0, 2));
    rig.store.lock([]);
    rig.wheel.sleep(secs(2)).await;
    assert_eq!((rig.calls(), durable.stats().skipped), (1, 0));
}

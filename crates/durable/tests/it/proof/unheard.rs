//! Calls of the store whose answer nobody hears: what they have done is done all the same.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use timingwheel_durable::store::Page;
use timingwheel_durable::{Answer, Backoff, Cancelled, Error, Kind};

use super::hooked::Step;
use super::script::{Rig, Tick, What, secs};

#[tokio::test(start_paused = true)]
async fn a_move_a_save_and_a_retry_whose_answers_are_lost_are_armed_all_the_same() {
    let rig = Rig::new();
    let durable = rig.start().await;
    durable.at(rig.at(5_000), &Tick(0)).key("far").save().await.unwrap();
    rig.wheel.sleep(secs(1)).await;
    rig.script.next("reschedule", Step::After, What::Fail);
    assert!(matches!(durable.reschedule("far", rig.at(5)).await, Err(Error::Store { .. })));
    rig.wheel.sleep(secs(5)).await;
    assert_eq!(rig.calls(), 1, "moved");

    rig.script.next("save", Step::After, What::Fail);
    assert!(matches!(durable.at(rig.at(10), &Tick(0)).save().await, Err(Error::Store { .. })));
    rig.wheel.sleep(secs(10)).await;
    assert_eq!(rig.calls(), 2, "saved");

    let id = durable.at(rig.at(20), &Broken).save().await.unwrap();
    durable.stop(secs(1)).await;
    let once = Backoff::default().tries(1);
    let builder = rig.builder().on(|_: Mended, _| async { Ok(Answer::Done) }).retry::<Mended>(once);
    let durable = builder.start().await.unwrap();
    rig.wheel.sleep(secs(10)).await;
    assert_eq!(durable.list(Page { buried: true, ..Page::default() }).await.unwrap().len(), 1);
    rig.script.next("unbury", Step::After, What::Fail);
    assert!(matches!(durable.retry_buried(id).await, Err(Error::Store { .. })));
    rig.wheel.sleep(secs(1)).await;
    assert_eq!(durable.stats().buried, 2, "retried, and buried again");
    assert!(rig.script.is_over());
}

#[derive(Serialize, Deserialize)]
struct Broken;

impl Kind for Broken {
    const KIND: &'static str = "broken";
}

#[derive(Serialize, Deserialize)]
struct Mended(u64);

impl Kind for Mended {
    const KIND: &'static str = "broken";
}

#[tokio::test(start_paused = true)]
async fn a_move_whose_caller_has_gone_is_armed_all_the_same() {
    let rig = Rig::new();
    let durable = rig.start().await;
    durable.at(rig.at(5_000), &Tick(0)).key("far").save().await.unwrap();
    rig.wheel.sleep(secs(1)).await;
    rig.script.next("reschedule", Step::After, What::Wait(500));
    let moving = durable.reschedule("far", rig.at(5));
    assert!(tokio::time::timeout(Duration::from_millis(100), moving).await.is_err());
    rig.wheel.sleep(secs(6)).await;
    assert_eq!(rig.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_refused_tells_its_owner_that_another_one_has_taken_over_and_it_takes_nothing_more()
{
    let rig = Rig::new();
    let old = rig.start().await;
    old.after(secs(1), &Tick(5)).key("k").save().await.unwrap();
    rig.wheel.sleep(secs(2)).await;
    let _new = rig.start().await;
    rig.wheel.sleep(secs(1)).await;
    assert_eq!((old.stats().fenced, old.stats().lost), (0, false));
    let loads = old.stats().loads;
    rig.wheel.sleep(secs(10)).await;
    assert_eq!((old.stats().fenced, old.stats().lost, old.stats().loads), (1, true, loads));
    assert!(matches!(old.after(secs(1), &Tick(0)).save().await, Err(Error::Lost)));
    assert!(matches!(old.reschedule("k", rig.at(1)).await, Err(Error::Lost)));
    assert!(matches!(old.cancel("k").await, Err(Error::Lost)));
}

#[tokio::test(start_paused = true)]
async fn what_may_have_begun_is_not_left_to_a_later_load() {
    let rig = Rig::new();
    let durable = rig.builder().in_memory(2).start().await.unwrap();
    durable.at(rig.at(1), &Tick(0)).key("first").save().await.unwrap();
    rig.script.next("begin", Step::After, What::Fail);
    rig.wheel.sleep(Duration::from_millis(1_010)).await;
    assert!(rig.script.is_over() && rig.calls() == 0);
    // So many that are due before it that memory has no room for it.
    for _ in 0..20 {
        durable.at(rig.at(0), &Tick(0)).save().await.unwrap();
    }
    rig.wheel.sleep(secs(30)).await;
    assert_eq!(rig.calls(), 21);
    assert_eq!(durable.count().await.unwrap(), Default::default());
}

#[tokio::test(start_paused = true)]
async fn a_begin_whose_answer_was_lost_is_no_attempt() {
    let rig = Rig::new();
    let tries = Backoff::fixed(secs(1)).tries(1);
    let durable = rig.builder().retry::<Tick>(tries).start().await.unwrap();
    durable.at(rig.at(1), &Tick(0)).save().await.unwrap();
    for step in [Step::After, Step::After, Step::Before] {
        rig.script.next("begin", step, What::Fail);
    }
    rig.wheel.sleep(secs(10)).await;
    assert!(rig.script.is_over());
    assert_eq!((rig.calls(), durable.stats().done, durable.stats().buried), (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_is_cancelled_after_a_begin_whose_answer_was_lost_is_not_called() {
    let rig = Rig::new();
    let durable = rig.start().await;
    durable.at(rig.at(1), &Tick(0)).key("k").save().await.unwrap();
    rig.script.next("begin", Step::After, What::Fail);
    rig.wheel.sleep(Duration::from_millis(1_010)).await;
    assert!(rig.script.is_over() && rig.calls() == 0);
    assert_eq!(durable.cancel("k").await.unwrap(), Cancelled::Running(1));
    rig.wheel.sleep(secs(10)).await;
    assert_eq!((rig.calls(), durable.stats().removed), (0, 1));
    assert_eq!(durable.count().await.unwrap(), Default::default());
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ends_after_its_wheel_is_stored_also_if_the_store_fails_at_first() {
    let rig = Rig::new();
    let durable = rig.start().await;
    durable.after(secs(1), &Tick(5)).save().await.unwrap();
    rig.wheel.sleep(secs(2)).await;
    rig.wheel.shutdown();
    rig.script.next("settle", Step::Before, What::Fail);
    tokio::time::sleep(secs(10)).await;
    assert!(rig.script.is_over());
    assert_eq!(durable.count().await.unwrap(), Default::default());
}

#[tokio::test(start_paused = true)]
async fn a_stop_comes_to_an_end_also_where_the_store_hangs() {
    for call in ["leave", "save", "settle", "begin"] {
        let rig = Rig::new();
        let durable = rig.start().await;
        rig.script.next(call, Step::Before, What::Hang);
        durable.after(secs(1), &Tick(1)).key("k").save().now_or_later().await;
        rig.wheel.sleep(secs(3)).await;
        let stopped = tokio::time::timeout(secs(60), durable.stop(secs(5))).await;
        assert!(stopped.is_ok(), "{call}");
        assert!(rig.script.is_over(), "{call}");
    }
}

trait NowOrLater: Future + Sized {
    /// For a moment.
    async fn now_or_later(self) {
        drop(tokio::time::timeout(Duration::from_millis(100), self).await);
    }
}

impl<F: Future> NowOrLater for F {}

/// On a thread of its own: one that goes round in circles never comes to an end.
#[test]
fn who_waits_for_a_store_after_a_failure_does_not_go_round_in_circles() {
    let (tell, told) = std::sync::mpsc::channel();
    let work = std::thread::spawn(move || {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let rig = Rig::new();
            rig.script.next("begin", Step::Before, What::Fail);
            rig.script.next("begin", Step::Before, What::Wait(60_000));
            let durable = rig.start().await;
            // The second one has to wait for the begin of the first.
            for due in [1, 3] {
                durable.at(rig.at(due), &Tick(0)).save().await.unwrap();
            }
            tokio::time::sleep(secs(100)).await;
            assert!(rig.script.is_over());
            let _ = tell.send(rig.calls());
        });
    });
    let calls = told.recv_timeout(secs(300)).expect("it comes to an end");
    work.join().expect("no panic");
    assert_eq!(calls, 2);
}

/// A store may work on a call that was dropped, and hold its file meanwhile.
#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_calls_of_the_store_that_are_under_way() {
    let rig = Rig::new();
    for call in ["load", "list"] {
        rig.script.next(call, Step::After, What::Wait(500));
        let durable = rig.start().await;
        while !rig.script.is_over() {
            tokio::task::yield_now().await;
        }
        let begin = tokio::time::Instant::now();
        durable.stop(secs(5)).await;
        assert!(begin.elapsed() >= Duration::from_millis(500), "{call}: {:?}", begin.elapsed());
    }
    // Its caller has gone.
    let durable = rig.start().await;
    durable.at(rig.at(5_000), &Tick(0)).key("far").save().await.unwrap();
    rig.script.next("reschedule", Step::After, What::Wait(500));
    let moving = durable.reschedule("far", rig.at(6_000));
    assert!(tokio::time::timeout(Duration::from_millis(1), moving).await.is_err());
    let begin = tokio::time::Instant::now();
    durable.stop(secs(5)).await;
    assert!(begin.elapsed() >= Duration::from_millis(498), "{:?}", begin.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_timer_whose_begin_went_unheard_before_its_kind_was_paused_runs_once_the_kind_is_resumed() {
    let rig = Rig::new();
    let durable = rig.start().await;
    durable.at(rig.at(1), &Tick(0)).save().await.unwrap();
    rig.script.next("begin", Step::After, What::Fail);
    rig.wheel.sleep(Duration::from_millis(1_010)).await;
    assert!(rig.script.is_over() && rig.calls() == 0);
    durable.pause(Tick::KIND).await.unwrap();
    rig.wheel.sleep(secs(10)).await;
    assert_eq!((rig.calls(), durable.count().await.unwrap().begun), (0, 0), "it waits as any other");
    durable.resume(Tick::KIND).await.unwrap();
    rig.wheel.sleep(secs(1)).await;
    assert_eq!((rig.calls(), durable.stats().done), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn of_two_kinds_that_are_paused_at_a_time_both_are_whichever_answer_comes_first() {
    let rig = Rig::new();
    let durable = rig.start().await;
    rig.script.next("pause", Step::After, What::Wait(100));
    let (other, tick) = tokio::join!(durable.pause("other"), durable.pause(Tick::KIND));
    other.and(tick).unwrap();
    durable.at(rig.at(1), &Tick(0)).save().await.unwrap();
    rig.wheel.sleep(secs(10)).await;
    assert_eq!(rig.calls(), 0);
}

//! The end.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Waker};
use std::time::Duration;

use jiff::tz::TimeZone;
use timingwheel::TimingWheel;
use timingwheel_calendar::Cron;
use timingwheel_durable::{Answer, Durable, Error, Missed, Stopped};
use tokio::runtime::Handle;

use super::support::{Note, Rig, at, note, secs};

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_what_runs_and_begins_nothing_more() {
    let rig = Rig::new();
    let durable = rig.start().await;
    durable.at(at(1.0), &Note { takes: 10, ..note("runs") }).save().await.unwrap();
    durable.at(at(5.0), &note("near")).save().await.unwrap();
    rig.sleep(2.0).await;
    let stopped = durable.stop(secs(60)).await;
    assert_eq!((stopped.finished, stopped.aborted, stopped.unsettled), (1, 0, 0));
    assert_eq!(rig.book.texts(), ["runs", "runs ended"]);
    rig.sleep(100.0).await;
    assert_eq!(rig.book.texts().len(), 2, "nothing after the stop");
    assert_eq!(durable.count().await.unwrap().stored, 1);
    assert!(matches!(durable.at(at(9.0), &note("late")).save().await, Err(Error::Stopped)));
    assert!(matches!(durable.cancel("k").await, Err(Error::Stopped)));
    assert_eq!(durable.stop(secs(1)).await, Default::default(), "again");
    assert!(durable.stats().stopped);
    let next = rig.start().await;
    rig.sleep(1.0).await;
    assert_eq!(rig.book.texts().last().unwrap(), "near");
    drop(next);
}

#[tokio::test(start_paused = true)]
async fn a_stop_gives_back_what_is_not_done_at_its_limit_and_the_attempt_counts() {
    let rig = Rig::new();
    let durable = rig.start().await;
    durable.at(at(1.0), &Note { takes: 100, ..note("long") }).save().await.unwrap();
    rig.sleep(2.0).await;
    let stopped = durable.stop(secs(5)).await;
    assert_eq!((stopped.finished, stopped.aborted, stopped.left_running), (0, 1, 0));
    rig.sleep(200.0).await;
    assert_eq!(rig.book.texts(), ["long"]);
    assert_eq!(durable.count().await.unwrap().begun, 0);
    let _next = rig.start().await;
    rig.sleep(1.0).await;
    assert_eq!(rig.book.calls().last().unwrap().run.attempt, 2);
}

/// Asks for a stop from another thread, and comes back once the runner has been woken for it.
fn ask_for_a_stop(durable: Durable, limit: Duration) -> Pin<Box<dyn Future<Output = Stopped> + Send>> {
    let runtime = Handle::current();
    let ask = move || {
        let _entered = runtime.enter();
        let mut stop: Pin<Box<dyn Future<Output = _> + Send>> =
            Box::pin(async move { durable.stop(limit).await });
        assert!(stop.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        stop
    };
    std::thread::spawn(ask).join().unwrap()
}

#[test]
fn a_stop_calls_no_handler_any_more_and_what_was_not_called_is_no_attempt() {
    const TIMERS: u64 = 20;
    // On its only thread, what another thread wakes goes before the calls on their way.
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).global_queue_interval(1).build().unwrap();
    for limit in [0, 60] {
        runtime.block_on(async {
            let rig = Rig::new();
            let itself = Arc::new(OnceLock::<Durable>::new());
            let (stopping, mut stop) = tokio::sync::mpsc::unbounded_channel();
            let handle = itself.clone();
            let durable = Durable::builder(&rig.wheel, rig.store.clone())
                .clock(rig.clock.clone())
                .on(move |_: Note, _| {
                    stopping.send(ask_for_a_stop(handle.get().unwrap().clone(), secs(limit))).unwrap();
                    async { Ok(Answer::Done) }
                })
                .start()
                .await
                .unwrap();
            itself.set(durable.clone()).unwrap();
            for number in 0..TIMERS {
                durable.at(at(1.0), &note(&number.to_string())).save().await.unwrap();
            }
            let stopped = stop.recv().await.unwrap().await;
            assert!(stop.try_recv().is_err(), "one handler was called");
            assert_eq!((stopped.finished, stopped.given_back, stopped.aborted), (1, TIMERS - 1, 0));
            let next = rig.start().await;
            rig.sleep(1.0).await;
            let again = rig.book.calls();
            assert_eq!(again.len() as u64, TIMERS - 1);
            assert!(again.iter().all(|call| call.run.attempt == 1));
            drop(next);
        });
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_handle_what_runs_ends_and_nothing_more_begins() {
    let rig = Rig::new();
    let durable = rig.start().await;
    durable.at(at(1.0), &Note { takes: 5, ..note("runs") }).save().await.unwrap();
    durable.at(at(3.0), &note("near")).save().await.unwrap();
    rig.sleep(2.0).await;
    drop(durable);
    rig.sleep(100.0).await;
    assert_eq!(rig.book.texts(), ["runs", "runs ended"]);
    let next = rig.start().await;
    assert_eq!(next.count().await.unwrap().stored, 1);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_wheel_is_a_stop() {
    let rig = Rig::new();
    let durable = rig.start().await;
    durable.at(at(10.0), &note("a")).save().await.unwrap();
    rig.wheel.shutdown();
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(durable.stats().stopped);
    assert!(matches!(durable.at(at(9.0), &note("late")).save().await, Err(Error::Stopped)));
    assert!(matches!(rig.builder().start().await, Err(Error::Stopped)), "on a wheel that has ended");
    let wheel = TimingWheel::new();
    let next = Durable::builder(&wheel, rig.store.clone()).start().await.unwrap();
    assert_eq!(next.count().await.unwrap().stored, 1);
}

#[tokio::test(start_paused = true)]
async fn a_stop_under_load_leaves_nothing_begun_and_loses_nothing() {
    const TIMERS: u64 = 1_500;
    for (limit, seed) in [(0, 1), (1, 2), (60, 3)] {
        let rig = Rig::new();
        let durable = rig.builder().concurrency(200).in_memory(500).start().await.unwrap();
        let mut random = fastrand::Rng::with_seed(seed);
        for number in 0..TIMERS {
            let payload = Note { takes: random.u64(..4), ..note(&number.to_string()) };
            durable.at(at(1.0 + random.f64() * 20.0), &payload).save().await.unwrap();
        }
        rig.sleep(10.0).await;
        let before = durable.stats();
        assert!(before.begun > 50 && before.done > 100, "{before:?}");
        let stopped = durable.stop(secs(limit)).await;
        let called = rig.book.calls().len();
        let stats = durable.stats();
        assert_eq!((stopped.left_running, stopped.unsettled), (0, 0), "{stopped:?}");
        assert_eq!(stopped.aborted > 0, limit < 3, "{stopped:?}");
        assert_eq!(stats.done, before.done + stopped.finished, "{stopped:?}");
        // Done or stored, and nobody's.
        let counts = durable.count().await.unwrap();
        assert_eq!((counts.stored, counts.begun), (TIMERS - stats.done, 0));
        rig.sleep(30.0).await;
        assert_eq!(rig.book.calls().len(), called, "nothing is called after a stop");
        let next = rig.builder().start().await.unwrap();
        rig.sleep(60.0).await;
        assert_eq!(next.count().await.unwrap(), Default::default());
        let again = rig
            .book
            .calls()
            .iter()
            .filter(|call| call.run.attempt == 2 && !call.text.ends_with("ended"))
            .count();
        assert_eq!(again as u64, stopped.aborted, "only what was dropped is attempted again");
        let first = rig
            .book
            .calls()
            .iter()
            .filter(|call| call.run.attempt == 1 && !call.text.ends_with("ended"))
            .count();
        assert_eq!(first as u64, TIMERS);
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_month_off_all_comes_in_order_within_bounds_and_series_by_their_policies() {
    let rig = Rig::new();
    let durable = rig.start().await;
    let mut random = fastrand::Rng::with_seed(5);
    let day = 86_400.0;
    for _ in 0..1_500 {
        let due = 60.0 + random.f64() * 29.0 * day;
        durable.at(at(due), &note("timer")).save().await.unwrap();
    }
    let minutely = || Cron::parse("* * * * *").unwrap().in_zone(TimeZone::UTC);
    for (name, missed) in [("none", Missed::none()), ("once", Missed::once()), ("five", Missed::each(5))] {
        durable.every(name, minutely(), &note(name)).missed(missed).save().await.unwrap();
    }
    durable.stop(secs(1)).await;
    rig.clock.set(at(30.0 * day + 30.0));
    // The most that are called at a time, by handlers that take no time.
    let durable = rig.builder().in_memory(100).concurrency(10).start().await.unwrap();
    for _ in 0..200 {
        rig.sleep(0.1).await;
        let stats = durable.stats();
        assert!(stats.armed <= 200 && stats.begun <= 10, "{stats:?}");
    }
    let calls = rig.book.calls();
    let of = |text: &str| calls.iter().filter(|call| call.text == text).collect::<Vec<_>>();
    let timers: Vec<_> = of("timer").iter().map(|call| call.run.due).collect();
    assert_eq!(timers.len(), 1_500);
    assert!(of("timer")[0].run.late > secs(86_400));
    // Of those that begin together any may be called first.
    for (index, due) in timers.iter().enumerate() {
        assert!(timers[(index + 10).min(1_499)..].iter().all(|later| later >= due), "in order");
    }
    assert_eq!([of("none").len(), of("once").len(), of("five").len()], [0, 1, 5]);
    rig.sleep(30.0).await;
    for name in ["none", "once", "five"] {
        let calls = rig.book.calls();
        let last = calls.iter().rfind(|call| call.text == name).expect("it goes on");
        assert_eq!(last.run.scheduled(), at(30.0 * day + 60.0));
    }
}

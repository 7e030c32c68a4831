//! Timers in memory, and timers left to the store.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_durable::{Error, Health, Symptom};

use super::support::{Note, Rig, at, note, secs};

#[tokio::test(start_paused = true)]
async fn no_more_is_in_memory_than_the_window_and_all_fire_at_their_time() {
    let rig = Rig::new();
    let filling = rig.start().await;
    for number in 0..2_000 {
        filling.at(at(100.0 + f64::from(number) * 0.05), &note(&number.to_string())).save().await.unwrap();
    }
    filling.stop(secs(1)).await;
    let durable = rig.builder().in_memory(100).start().await.unwrap();
    for _ in 0..250 {
        rig.sleep(1.0).await;
        let stats = durable.stats();
        assert!(stats.armed <= 200, "{}", stats.armed);
    }
    let times = rig.book.times();
    assert_eq!(times.len(), 2_000);
    for (number, (text, time)) in times.into_iter().enumerate() {
        let due = 100.0 + number as f64 * 0.05;
        assert!(
            text == number.to_string() && (due - 1e-6..due + 0.003).contains(&time),
            "{text} at {time}, due at {due}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_saved_among_what_is_near_does_not_fill_the_memory_either() {
    let rig = Rig::new();
    let durable = rig.builder().in_memory(50).start().await.unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    let mut due: Vec<f64> = (0..1_000).map(|_| 5.0 + random.f64() * 40.0).collect();
    for &due in &due {
        durable.at(at(due), &note(&due.to_string())).save().await.unwrap();
        tokio::task::yield_now().await;
        assert!(durable.stats().armed <= 110, "{}", durable.stats().armed);
    }
    rig.sleep(60.0).await;
    let mut called: Vec<f64> = rig.book.texts().iter().map(|text| text.parse().unwrap()).collect();
    called.sort_by(f64::total_cmp);
    due.sort_by(f64::total_cmp);
    assert_eq!(called, due);
    for (text, time) in rig.book.times() {
        let due: f64 = text.parse().unwrap();
        assert!(time >= due - 0.001 && time < due + 0.005, "due at {due}, called at {time}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_far_timer_wakes_nobody_but_for_a_look_at_the_clock_every_five_minutes() {
    let rig = Rig::new();
    let durable = rig.start().await;
    durable.at(at(86_400.0 * 30.0), &note("a month")).save().await.unwrap();
    rig.sleep(1.0).await;
    let before = durable.stats();
    let turns = rig.wheel.stats().turns;
    tokio::time::sleep(Duration::from_secs(3_000)).await;
    let (after, turned) = (durable.stats(), rig.wheel.stats().turns - turns);
    assert_eq!((after.loads - before.loads, after.armed), (0, 0));
    // A look is a timer on the wheel, which goes down a few levels. A look each second would be 3,000.
    assert!(turned <= 80, "{turned} turns in 50 minutes");
    rig.sleep(86_400.0 * 30.0).await;
    assert_eq!(rig.book.texts(), ["a month"]);
}

#[tokio::test(start_paused = true)]
async fn a_wheel_that_is_full_delays_little_and_ends_nothing() {
    let rig = Rig { wheel: TimingWheel::builder().max_pending(4).build().unwrap(), ..Rig::new() };
    let mut others: Vec<_> = (0..8).map(|_| Box::pin(rig.wheel.sleep(secs(10_000)))).collect();
    let refused = poll_fn(|cx| {
        let polls = others.iter_mut().map(|sleep| sleep.poll_wait(cx));
        Poll::Ready(polls.filter(|poll| matches!(poll, Poll::Ready(Err(_)))).count())
    });
    assert_eq!(refused.await, 4, "it is full");
    let durable = rig.start().await;
    for due in [5.0, 6.0, 100.0] {
        durable.at(at(due), &note(&due.to_string())).save().await.unwrap();
    }
    tokio::time::sleep(secs(10)).await;
    drop(others);
    tokio::time::sleep(secs(100)).await;
    assert!(!durable.stats().stopped);
    assert_eq!(rig.book.texts(), ["5", "6", "100"]);
    for (text, time) in rig.book.times() {
        let due: f64 = text.parse().unwrap();
        assert!((due..due + 0.1).contains(&time), "due at {due}, called at {time}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_save_on_a_wheel_that_has_ended_is_refused() {
    let rig = Rig::new();
    let durable = rig.start().await;
    rig.wheel.shutdown();
    let saved = durable.at(at(1.0), &note("late")).save().await;
    assert!(matches!(saved, Err(Error::Stopped)), "{saved:?}");
    assert_eq!(durable.count().await.unwrap().stored, 0);
}

#[tokio::test(start_paused = true)]
async fn saves_of_large_payloads_go_to_the_store_in_parts() {
    let rig = Rig::new();
    let durable = rig.start().await;
    // Of five megabytes each: three are below sixteen.
    let text = "x".repeat(5 << 20);
    let saves = (0..4).map(|_| durable.at(at(1e6), &note(&text)).save());
    let saved = futures::future::join_all(saves).await;
    assert!(saved.iter().all(Result::is_ok), "{saved:?}");
    assert_eq!(durable.stats().save_batches, 2);
}

#[tokio::test(start_paused = true)]
async fn where_too_few_handlers_run_the_health_says_how_late_timers_are() {
    let rig = Rig::new();
    let durable = rig.builder().concurrency(1).in_memory(2).start().await.unwrap();
    for number in 0..10 {
        durable.at(at(1.0), &Note { takes: 4, ..note(&number.to_string()) }).save().await.unwrap();
    }
    let mut health = Health::new(secs(90));
    rig.sleep(3.0).await;
    assert_eq!(health.check(&durable.stats()), []);
    rig.sleep(10.0).await;
    let symptoms = health.check(&durable.stats());
    assert!(matches!(symptoms[..], [Symptom::Behind(behind)] if behind >= secs(8)), "{symptoms:?}");
    rig.sleep(60.0).await;
    assert_eq!((durable.stats().done, health.check(&durable.stats())), (10, vec![]));
}

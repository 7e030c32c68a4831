//! Tolerances of intervals, adapters of streams, and delay queues.

use std::pin::pin;
use std::time::Duration;

use futures::{StreamExt, stream};
use timingwheel::stream::StreamTimeExt;
use timingwheel::time::DelayQueue;
use timingwheel::{TimingWheel, Tolerance};
use tokio::time::{Instant, MissedTickBehavior, sleep};

use crate::tolerance::{eighth, odd_time, secs};

#[tokio::test(start_paused = true)]
async fn ticks_of_a_tolerant_interval_are_late_by_less_than_they_may_be_and_its_schedule_is_exact() {
    let wheel = TimingWheel::new();
    odd_time().await;
    for behavior in [MissedTickBehavior::Burst, MissedTickBehavior::Delay, MissedTickBehavior::Skip] {
        let start = Instant::now();
        let period = Duration::from_millis(30_700);
        let mut interval = wheel.interval(period).with_tolerance(eighth());
        interval.set_missed_tick_behavior(behavior);
        let mut latest = Duration::ZERO;
        for n in 0..100 {
            let scheduled = start + n * period;
            assert_eq!(interval.tick().await, scheduled, "{behavior:?}");
            let late = scheduled.elapsed();
            assert!(late < Duration::from_millis(3_750), "{late:?}");
            latest = latest.max(late);
        }
        assert!(latest > secs(1), "it is as late as it may be at times: {latest:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_tolerant_interval_that_is_reset_stays_tolerant_and_ticks_at_once_where_it_is_to() {
    let wheel = TimingWheel::new();
    odd_time().await;
    let mut interval = wheel.interval(secs(30)).with_tolerance(eighth());
    let start = Instant::now();
    interval.tick().await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    interval.reset();
    assert_eq!(interval.tick().await, start + secs(30));
    let late = start.elapsed() - secs(30);
    assert!(late > Duration::ZERO && late < secs(4));
    interval.reset_immediately();
    let now = Instant::now();
    interval.tick().await;
    assert_eq!(now.elapsed(), Duration::ZERO);
    interval.reset_after(secs(10));
    assert_eq!(interval.tick().await, now + secs(10));
    interval.reset_at(now + secs(51));
    assert_eq!(interval.tick().await, now + secs(51));
    assert_ne!(now.elapsed(), secs(51), "late");
}

#[tokio::test(start_paused = true)]
async fn tolerant_intervals_tick_together() {
    let wheel = TimingWheel::new();
    let mut tasks = Vec::new();
    for _ in 0..100 {
        let mut interval = wheel.interval(secs(60)).with_tolerance(eighth());
        tasks.push(tokio::spawn(async move {
            interval.tick().await;
            interval.tick().await;
            Instant::now()
        }));
        sleep(Duration::from_millis(3)).await;
    }
    let mut ends = Vec::new();
    for task in tasks {
        ends.push(task.await.unwrap());
    }
    ends.dedup();
    assert!(ends.len() <= 2, "{ends:?}");
}

#[tokio::test(start_paused = true)]
async fn a_tolerant_adapter_of_a_stream_is_late_by_less_than_it_may_be_in_each_gap() {
    let wheel = TimingWheel::new();
    odd_time().await;
    let limit = Duration::from_millis(31_500);
    let check = |since: Instant, what: &str| {
        let late = since.elapsed().checked_sub(limit).expect("it is not early");
        assert!(late > Duration::ZERO && late < limit / 8, "{what}: {late:?}");
    };
    let items = || stream::iter([(); 2]).chain(stream::pending());

    let mut timeout = pin!(items().timeout_on(&wheel, limit).with_tolerance(eighth()));
    let start = Instant::now();
    assert_eq!(timeout.next().await, Some(Ok(())));
    assert_eq!(timeout.next().await, Some(Ok(())));
    assert!(timeout.next().await.unwrap().is_err());
    check(start, "timeout");

    let first = stream::pending::<()>();
    let mut first = pin!(first.timeout_on(&wheel, limit).with_tolerance(Tolerance::time(limit / 8)));
    let start = Instant::now();
    assert!(first.next().await.unwrap().is_err());
    check(start, "the first gap");

    let mut idle = pin!(items().idle_timeout_on(&wheel, limit).with_tolerance(eighth()));
    let start = Instant::now();
    assert_eq!(idle.by_ref().count().await, 3);
    check(start, "idle timeout");

    let interval = wheel.interval_at(Instant::now() + limit, limit).with_tolerance(eighth());
    let mut repeating = pin!(stream::pending::<()>().timeout_repeating_on(interval));
    let start = Instant::now();
    assert!(repeating.next().await.unwrap().is_err());
    check(start, "repeating");
}

#[tokio::test(start_paused = true)]
async fn items_of_a_tolerant_queue_come_in_order_with_their_deadlines_and_together() {
    const ITEMS: u64 = 1_000;
    let wheel = TimingWheel::new();
    odd_time().await;
    for is_on_wheel in [false, true] {
        let queue = if is_on_wheel { wheel.delay_queue() } else { DelayQueue::new() };
        let mut queue = queue.with_tolerance(Tolerance::time(secs(4)));
        let start = Instant::now();
        for n in 0..ITEMS {
            // Some before others that were inserted earlier.
            queue.insert(n, secs(60) + Duration::from_millis(n * 7_919 % 60_000));
        }
        let mut instants = Vec::new();
        let mut before = start;
        while let Some(expired) = queue.next().await {
            let late = expired.deadline().elapsed();
            assert!(late < secs(4), "{late:?}");
            assert!(expired.deadline() >= before);
            before = expired.deadline();
            instants.push(Instant::now());
        }
        assert_eq!(instants.len() as u64, ITEMS);
        instants.dedup();
        assert!(instants.len() <= 60 && before - start > secs(119), "{} instants", instants.len());
    }
}

#[tokio::test(start_paused = true)]
async fn an_earlier_item_wakes_the_task_of_a_tolerant_queue_in_its_time() {
    odd_time().await;
    let mut queue = TimingWheel::new().delay_queue().with_tolerance(Tolerance::time(secs(4)));
    queue.insert("later", secs(600));
    assert!(futures::poll!(queue.next()).is_pending());
    let start = Instant::now();
    queue.insert("sooner", secs(10));
    assert_eq!(queue.next().await.unwrap().into_inner(), "sooner");
    assert!((secs(10)..secs(14)).contains(&start.elapsed()), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_process_is_woken_at_most_twice_as_often_as_a_tolerance_would_allow() {
    for (tolerance, most) in
        [(Duration::from_millis(1_024), 64), (secs(1), 127), (Duration::from_millis(513), 127)]
    {
        let wheel = TimingWheel::new();
        let mut sleeps = Vec::new();
        for n in 0..5_000 {
            let sleep = wheel.sleep(secs(10) + Duration::from_millis(n * 13));
            sleeps.push(sleep.with_tolerance(Tolerance::time(tolerance)).deadline());
        }
        sleeps.dedup();
        assert!(sleeps.len() <= most + 1, "{tolerance:?}: {} instants in 65 s", sleeps.len());
    }
}

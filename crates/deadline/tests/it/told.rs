//! What is counted of requests.

use std::future::{Future, pending, poll_fn};
use std::task::Poll;
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_deadline::{DeadlineCounters, DeadlineStats, Ended};
use tokio::time::{advance, sleep};

use crate::{ms, pending_once};

/// How many requests came to their end.
fn all(stats: &DeadlineStats) -> u64 {
    stats.too_late + stats.used.iter().sum::<u64>() + stats.passed[0] + stats.cancelled[0]
}

#[tokio::test(start_paused = true)]
async fn each_request_is_counted_once_when_it_ends() {
    let (wheel, counters) = (TimingWheel::new(), DeadlineCounters::new());
    let request = || counters.deadline_in(&wheel, ms(100));
    // In time: at once, after 39 of 100 ms, and after 99 of 200, because it was moved.
    drop(request());
    let deadline = request();
    let clone = deadline.clone();
    deadline.run(sleep(ms(39))).await.unwrap();
    drop(deadline);
    assert_eq!(all(&counters.stats()), 1, "a clone is there");
    drop(clone);
    let deadline = request();
    advance(ms(50)).await;
    assert!(deadline.reset_after(ms(150)));
    advance(ms(49)).await;
    drop(deadline);
    let mut expected = DeadlineStats::default();
    expected.used = [1, 0, 0, 1, 1, 0, 0, 0, 0, 0];
    assert_eq!(counters.stats(), expected);

    // Passed, while a future waited and while none did; cancelled; too late.
    assert_eq!(request().passed().await, Ended::Passed);
    let unseen = request();
    advance(ms(100)).await;
    drop(unseen);
    let cancelled = request();
    cancelled.cancel();
    cancelled.cancel();
    advance(ms(100)).await;
    drop(cancelled);
    assert_eq!(counters.deadline_in(&wheel, Duration::ZERO).passed().await, Ended::Passed);
    (expected.passed[0], expected.cancelled[0], expected.too_late) = (2, 1, 1);
    assert_eq!(counters.stats(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_limit_of_a_call_is_counted_once_also_if_its_task_is_out_of_budget() {
    let (wheel, counters) = (TimingWheel::new(), DeadlineCounters::new());
    let request = counters.deadline_in(&wheel, ms(60_000));
    let mut calls: Vec<_> = (0..200).map(|_| Box::pin(request.run_in(ms(10), pending::<()>()))).collect();
    poll_fn(|cx| {
        calls.retain_mut(|call| call.as_mut().poll(cx).is_pending());
        if calls.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    assert_eq!(counters.stats().passed[1], 200);
}

#[tokio::test(start_paused = true)]
async fn an_end_is_counted_in_its_own_depth_and_not_below() {
    let (wheel, counters) = (TimingWheel::new(), DeadlineCounters::new());
    let request = counters.deadline_in(&wheel, ms(100));
    let child = request.child_in(ms(50));
    let mut deep = child.child();
    for _ in 0..20 {
        deep = deep.child_in(ms(200));
    }
    let waits = pending_once(deep.passed());
    // A call's limit is as a child.
    assert!(child.run_in(ms(10), pending::<()>()).await.is_err());
    let other = request.child();
    other.child_in(ms(500)).child().cancel();
    assert_eq!(waits.await, Ended::Passed);
    deep.cancel();
    let stats = counters.stats();
    assert_eq!(stats.passed, [0, 1, 1, 0, 0, 0, 0, 0], "the child's, and the call's within");
    assert_eq!(stats.cancelled, [0, 0, 0, 1, 0, 0, 0, 0]);
    // The request ends, and what is left below with it.
    let (a, b) = (pending_once(request.passed()), pending_once(other.run_in(ms(500), pending::<()>())));
    assert_eq!((a.await, b.await), (Ended::Passed, Err(Ended::Passed)));
    assert_eq!(counters.stats().passed, [1, 1, 1, 0, 0, 0, 0, 0]);
    // Those that are due together end by the one above.
    let request = counters.deadline_in(&wheel, ms(100));
    assert_eq!(
        request.child_in(ms(100)).child_in(ms(100)).run_in(ms(100), pending::<()>()).await,
        Err(Ended::Passed)
    );
    assert_eq!(counters.stats().passed, [2, 1, 1, 0, 0, 0, 0, 0]);
    let very_deep = counters.deadline_in(&wheel, ms(100));
    let mut deep = very_deep.clone();
    for _ in 0..20 {
        deep = deep.child();
    }
    deep.cancel();
    assert_eq!(counters.stats().cancelled[7], 1);
}

#[cfg(feature = "metrics")]
#[tokio::test(start_paused = true)]
async fn metrics_tell_what_came_since() {
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};
    use timingwheel_deadline::metrics::{DeadlineMetrics, describe};

    let recorder = DebuggingRecorder::new();
    let (wheel, counters) = (TimingWheel::new(), DeadlineCounters::new());
    let metrics = DeadlineMetrics::new("rpc", &counters);
    for round in 0..2 {
        let deadline = counters.deadline_in(&wheel, ms(100));
        advance(ms(75)).await;
        drop(deadline);
        counters.deadline_in(&wheel, ms(100)).child().cancel();
        counters.deadline_in(&wheel, ms(100)).passed().await;
        drop(counters.deadline_in(&wheel, ms(0)));
        metrics::with_local_recorder(&recorder, || {
            describe();
            metrics.record();
            metrics.record();
        });
        let mut found: Vec<String> = Vec::new();
        for (key, _, about, value) in recorder.snapshotter().snapshot().into_vec() {
            assert!(about.is_some());
            let labels: Vec<_> = key.key().labels().map(|label| label.value().to_owned()).collect();
            match value {
                DebugValue::Counter(0) => {}
                DebugValue::Counter(count) => found.push(format!("{} {labels:?} {count}", key.key().name())),
                DebugValue::Histogram(values) => {
                    found.push(format!("{} {labels:?} {values:?}", key.key().name()));
                }
                DebugValue::Gauge(_) => unreachable!("there is none"),
            }
        }
        found.sort();
        assert_eq!(
            found,
            [
                r#"timingwheel_deadline_cancelled_total ["rpc", "1"] 1"#,
                r#"timingwheel_deadline_passed_total ["rpc", "0"] 1"#,
                r#"timingwheel_deadline_too_late_total ["rpc"] 1"#,
                r#"timingwheel_deadline_used_ratio ["rpc"] [0.1, 0.8]"#,
            ],
            "in round {round}"
        );
    }
}

//! Random scripts, run on both.

use std::time::Duration;

use proptest::prelude::*;
use tokio::time::MissedTickBehavior;

use super::trace::{Event, Trace, assert_same, run};
use super::{on_tokio, on_wheel};

/// The operations of each task.
pub(crate) type Script = Vec<Vec<Step>>;

/// Offsets are milliseconds from the time of the step.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Sleep(Duration),
    SleepUntil(i64),
    Timeout { limit: Duration, work: Duration },
    TimeoutAt { offset: i64, work: Duration },
    Select(Duration, Duration),
    Join(Vec<Duration>),
    MoveKept(i64),
    AwaitKept(Duration),
    Tick(Duration),
    Missed(MissedTickBehavior),
    ResetInterval(Reset),
    NewInterval { offset: i64, period: Duration },
    Advance(Duration),
    Yield,
}

#[derive(Clone, Debug)]
pub(crate) enum Reset {
    Period,
    Immediately,
    After(Duration),
    At(i64),
}

/// Milliseconds: mostly few, so that tasks meet, and round the borders of both wheels' levels.
fn millis() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => 0..12_u64,
        3 => 0..150_u64,
        2 => 4_090..4_102_u64,
        1 => 262_140..262_150_u64,
        1 => 0..5_000_000_u64,
    ]
}

fn time() -> impl Strategy<Value = Duration> {
    millis().prop_map(Duration::from_millis)
}

fn offset() -> impl Strategy<Value = i64> {
    prop_oneof![4 => millis().prop_map(u64::cast_signed), 1 => -50..0_i64]
}

fn reset() -> impl Strategy<Value = Reset> {
    prop_oneof![
        Just(Reset::Period),
        Just(Reset::Immediately),
        time().prop_map(Reset::After),
        offset().prop_map(Reset::At),
    ]
}

fn missed() -> impl Strategy<Value = MissedTickBehavior> {
    prop_oneof![
        Just(MissedTickBehavior::Burst),
        Just(MissedTickBehavior::Delay),
        Just(MissedTickBehavior::Skip)
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => time().prop_map(Step::Sleep),
        1 => offset().prop_map(Step::SleepUntil),
        3 => (time(), time()).prop_map(|(limit, work)| Step::Timeout { limit, work }),
        1 => (offset(), time()).prop_map(|(offset, work)| Step::TimeoutAt { offset, work }),
        2 => (time(), time()).prop_map(|(first, second)| Step::Select(first, second)),
        1 => prop::collection::vec(time(), 1..6).prop_map(Step::Join),
        2 => offset().prop_map(Step::MoveKept),
        3 => time().prop_map(Step::AwaitKept),
        4 => time().prop_map(Step::Tick),
        1 => missed().prop_map(Step::Missed),
        1 => reset().prop_map(Step::ResetInterval),
        1 => (offset(), 1..100_u64).prop_map(|(offset, period)| Step::NewInterval {
            offset,
            period: Duration::from_millis(period),
        }),
        1 => Just(Step::Yield),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..20)
}

fn script() -> impl Strategy<Value = Script> {
    prop::collection::vec(steps(), 1..TASKS)
}

/// A task that moves the clock itself as well.
fn steps_and_advances() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(prop_oneof![4 => step(), 1 => time().prop_map(Step::Advance)], 1..30)
}

/// More than there are tasks. So each has a remainder of its own, in milliseconds, to which its times lead.
const SCALE: u32 = 6;
const TASKS: usize = 6;

/// The events of each task. Tasks do not meet, so the order of tasks at an instant does not matter.
fn by_task(mut events: Vec<Event>) -> Vec<Event> {
    events.sort_by_key(|(_, event)| event.split(':').next().map(str::to_owned));
    events
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_of_many_random_tasks_sees_the_same_events_at_the_same_instants(script in script()) {
        let tokios = run(async |trace: Trace| on_tokio::same::script::run(script.clone(), 1, trace).await);
        let ours = run(async |trace: Trace| on_wheel::same::script::run(script.clone(), 1, trace).await);
        prop_assert!(!tokios.is_empty());
        prop_assert_eq!(by_task(ours), by_task(tokios));
    }

    #[test]
    fn random_tasks_that_are_never_due_together_run_in_the_same_order(script in script()) {
        assert_same(
            async |trace| on_tokio::same::script::run(script.clone(), SCALE, trace).await,
            async |trace| on_wheel::same::script::run(script.clone(), SCALE, trace).await,
        );
    }

    #[test]
    fn a_random_task_that_moves_the_clock_sees_the_same_events(steps in steps_and_advances()) {
        assert_same(
            async |trace| on_tokio::same::script::run(vec![steps.clone()], 1, trace).await,
            async |trace| on_wheel::same::script::run(vec![steps.clone()], 1, trace).await,
        );
    }
}

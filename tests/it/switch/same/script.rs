//! Runs scripts: operations of random tasks on their timers.

use std::pin::Pin;

use tokio::task::{JoinSet, yield_now};

use super::time::{
    Duration, Instant, Interval, Sleep, advance, interval, interval_at, sleep, sleep_until, timeout,
    timeout_at,
};
use crate::switch::scripts::{Reset, Script, Step};
use crate::switch::trace::Trace;

/// One task: it has a sleep and an interval that it keeps, and makes others.
struct Task {
    name: usize,
    scale: u32,
    trace: Trace,
    kept: Pin<Box<Sleep>>,
    interval: Interval,
}

/// Runs a task for each list of steps. Each begins a millisecond after the one before it; all other times are `scale`
/// times as long as the script says.
pub(crate) async fn run(script: Script, scale: u32, trace: Trace) {
    let mut tasks = JoinSet::new();
    for (name, steps) in script.into_iter().enumerate() {
        let trace = trace.clone();
        tasks.spawn(async move {
            sleep(Duration::from_millis(name as u64)).await;
            let kept = Box::pin(sleep(Duration::from_millis(100) * scale));
            let interval = interval(Duration::from_millis(30) * scale);
            let mut task = Task { name, scale, trace, kept, interval };
            for step in steps {
                task.take(step).await;
            }
        });
    }
    while let Some(task) = tasks.join_next().await {
        task.expect("no panic");
    }
}

impl Task {
    fn note(&self, event: impl std::fmt::Debug) {
        self.trace.note(format_args!("task {}: {event:?}", self.name));
    }

    /// An instant so long after, or before, now.
    fn at(&self, offset: i64) -> Instant {
        let distance = Duration::from_millis(offset.unsigned_abs()) * self.scale;
        if offset < 0 { Instant::now() - distance } else { Instant::now() + distance }
    }

    async fn take(&mut self, step: Step) {
        let (start, scale) = (self.trace.start_instant(), self.scale);
        self.note(&step);
        match step {
            Step::Sleep(time) => sleep(time * scale).await,
            Step::SleepUntil(offset) => sleep_until(self.at(offset)).await,
            Step::Timeout { limit, work } => {
                let is_in_time = timeout(limit * scale, sleep(work * scale)).await.is_ok();
                self.note(is_in_time);
            }
            Step::TimeoutAt { offset, work } => {
                let is_in_time = timeout_at(self.at(offset), sleep(work * scale)).await.is_ok();
                self.note(is_in_time);
            }
            Step::Select(first, second) => tokio::select! {
                biased;
                () = sleep(first * scale) => self.note("first"),
                () = sleep(second * scale) => self.note("second"),
            },
            Step::Join(times) => {
                let sleeps: JoinSet<()> = times.into_iter().map(|time| sleep(time * scale)).collect();
                sleeps.join_all().await;
            }
            Step::MoveKept(offset) => {
                let deadline = self.at(offset);
                self.kept.as_mut().reset(deadline);
            }
            Step::AwaitKept(limit) => {
                let is_in_time = timeout(limit * scale, &mut self.kept).await.is_ok();
                self.note((is_in_time, self.kept.is_elapsed(), self.kept.deadline() - start));
            }
            Step::Tick(limit) => {
                let due = timeout(limit * scale, self.interval.tick()).await;
                self.note(due.ok().map(|due| due.saturating_duration_since(start)));
            }
            Step::Missed(behavior) => self.interval.set_missed_tick_behavior(behavior),
            Step::ResetInterval(reset) => match reset {
                Reset::Period => self.interval.reset(),
                Reset::Immediately => self.interval.reset_immediately(),
                Reset::After(time) => self.interval.reset_after(time * scale),
                Reset::At(offset) => self.interval.reset_at(self.at(offset)),
            },
            Step::NewInterval { offset, period } => {
                self.interval = interval_at(self.at(offset), period * scale);
            }
            Step::Advance(time) => advance(time * scale).await,
            Step::Yield => yield_now().await,
        }
        self.note("done");
    }
}

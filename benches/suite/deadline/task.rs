//! A spawned task that makes ten calls, each of which has to wait once, and a limit for each.

use std::future::poll_fn;
use std::task::Poll;

use timingwheel::TimingWheel;
use timingwheel_deadline::DeadlineExt;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::{EACH, OPERATION};
use crate::sides::{Rig, multi_thread};
use crate::support::{Scale, Table, Unit, cpu_time, median, number, target, warm_rounds};

const CALLS: usize = 10;
/// Tasks in a round.
const TASKS: usize = 20_000;

#[derive(Clone, Copy)]
enum Way {
    NoLimits,
    Token,
    TokenAndTimeout,
    Deadline,
}

impl Way {
    const ALL: [Self; 4] = [Self::NoLimits, Self::Token, Self::TokenAndTimeout, Self::Deadline];

    const fn name(self) -> &'static str {
        match self {
            Self::NoLimits => "no limits",
            Self::Token => "a token, a tokio::time::timeout for each call",
            Self::TokenAndTimeout => "the same, and a timeout for all",
            Self::Deadline => "a deadline, run_within for each call",
        }
    }

    async fn task(self, wheel: &TimingWheel) {
        let task = match self {
            Self::NoLimits => tokio::spawn(async {
                for _ in 0..CALLS {
                    call().await;
                }
                true
            }),
            Self::Token => {
                let token = CancellationToken::new();
                let limited = token.clone().run_until_cancelled_owned(by_timeouts());
                tokio::spawn(async { limited.await == Some(true) })
            }
            Self::TokenAndTimeout => {
                let token = CancellationToken::new();
                let limited = timeout(OPERATION, token.clone().run_until_cancelled_owned(by_timeouts()));
                tokio::spawn(async { limited.await == Ok(Some(true)) })
            }
            Self::Deadline => {
                let deadline = wheel.deadline_in(OPERATION);
                let calls = deadline.clone();
                let limited = deadline.run(async move {
                    let mut all = true;
                    for _ in 0..CALLS {
                        all &= calls.run_within(EACH, call()).await.is_ok();
                    }
                    all
                });
                tokio::spawn(async { limited.await == Ok(true) })
            }
        };
        assert!(task.await.expect("it does not panic"), "{}: a limit was reached", self.name());
    }
}

async fn by_timeouts() -> bool {
    let mut all = true;
    for _ in 0..CALLS {
        all &= timeout(EACH, call()).await.is_ok();
    }
    all
}

async fn call() {
    let mut waits = true;
    poll_fn(|cx| {
        if !std::mem::take(&mut waits) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// The CPU time of a task, in nanoseconds.
fn cost(Rig { wheel, runtime }: &Rig, tasks: usize, way: Way) -> f64 {
    let (armed, cpu) = (wheel.stats().armed, cpu_time());
    let owned = wheel.clone();
    let all = async move {
        for _ in 0..tasks {
            way.task(&owned).await;
        }
    };
    runtime.block_on(async { tokio::spawn(all).await.expect("it does not panic") });
    let cpu = cpu_time() - cpu;
    // One left over may be used again.
    let expected = if let Way::Deadline = way { tasks } else { 0 };
    let armed = wheel.stats().armed - armed;
    assert!(armed >= expected as u64, "{}: the wheel saw {armed} timers", way.name());
    cpu.as_nanos() as f64 / tasks as f64
}

pub(super) fn table(scale: Scale) -> Table {
    let rig = Rig::by_name(multi_thread(1));
    let tasks = scale.of(TASKS);
    let mut sides = Way::ALL.map(|way| {
        let rig = &rig;
        move || cost(rig, tasks, way)
    });
    let mut sides: Vec<&mut dyn FnMut() -> f64> =
        sides.iter_mut().map(|side| side as &mut dyn FnMut() -> f64).collect();
    let found = warm_rounds(scale.few_rounds(), &mut sides);
    let mut table = Table::new("CPU time of a spawned task of ten calls", ["limits by", "1 worker"]);
    for (i, way) in Way::ALL.into_iter().enumerate() {
        let typical = median(found.iter().map(|round| round[i]));
        table = table.row([way.name().to_owned(), Unit::Nanos.show(typical)]);
    }
    let beside = |other: usize| median(found.iter().map(|round| round[3] / round[other]));
    let token = beside(1);
    table.note(format!(
        "A deadline beside ten timeouts and a token, which bound no whole: {}. Beside those that do: {}.",
        target(format!("{}, at most 1", number(token)), token <= 1.0),
        number(beside(2))
    ))
}

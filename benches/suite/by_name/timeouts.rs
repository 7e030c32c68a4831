//! A timeout round a future that is ready, one round a future that is pending, and very many armed and dropped.

use std::future::{pending, ready};
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use super::build;
use super::rows::{Measured, Rows};
use super::sides::{FAR, Load, Rig, Timers, thread_cpu};
use crate::support::{Findings, Scale, Unit};

const OPERATIONS: usize = 100_000;
pub(super) const EXPLAINED: &str = "The CPU time of the task's thread. Ready: a timeout of 30 s round a future that is ready \
                                    at once, on the stack. Pending once: round one that is ready when it is polled again. \
                                    Armed: of 100,000 in boxes, round a future that stays pending; dropped: those. An \
                                    earlier timer is pending on both sides.";

pub(super) fn run(scale: Scale) -> Findings {
    build::without_test_util("by_name", scale, |scale| {
        let multi_thread = [Some(0.8), Some(0.75), Some(0.85), Some(0.9)];
        let current_thread = [Some(0.8), Some(0.9), Some(0.9), Some(0.9)];
        Findings::from_iter([
            measure(scale, "1 worker", &Rig::workers(1), multi_thread),
            measure(scale, "2 workers", &Rig::workers(2), [None; 4]),
            measure(scale, "1 thread", &Rig::current_thread(), current_thread).explain(EXPLAINED),
        ])
    })
}

/// `limits` are those of a timeout round a future that is ready, of one round a future that is pending once, of many that
/// are armed, and of those dropped.
pub(super) fn measure(scale: Scale, runtime: &'static str, rig: &Rig, limits: [Option<f64>; 4]) -> Rows {
    let [ready, once, armed, dropped] = limits;
    let mut rows = Rows::new("Timeouts", runtime, build::name());
    for (operation, parts) in [
        (Operation::Ready, &[("ready", ready)][..]),
        (Operation::ReadyInBox, &[("ready, in a box", None)]),
        (Operation::PendingOnce, &[("pending once", once)]),
        (Operation::PendingOnceInBox, &[("pending once, in a box", None)]),
        (Operation::ManyInBoxes, &[("armed", armed), ("dropped", dropped)]),
    ] {
        eprintln!("{runtime}: {operation:?}");
        let rounds = rig.rounds_beside_earlier(scale, &Timeouts { operation, count: scale.of(OPERATIONS) });
        for (place, &(what, limit)) in parts.iter().enumerate() {
            rows = rows.add(&Measured { what, unit: Unit::Nanos, rounds: &rounds, place, limit });
        }
    }
    rows
}

#[derive(Clone, Copy, Debug)]
enum Operation {
    Ready,
    ReadyInBox,
    PendingOnce,
    PendingOnceInBox,
    ManyInBoxes,
}

#[derive(Clone, Copy)]
struct Timeouts {
    operation: Operation,
    count: usize,
}

impl Load for Timeouts {
    fn run<T: Timers>(&self, rig: &Rig, timers: T) -> Vec<f64> {
        let Self { operation, count } = *self;
        let took = rig.in_task(move |cx| match operation {
            Operation::Ready => vec![thread_cpu(|| {
                for _ in 0..count {
                    assert_ready(pin!(timers.timeout(black_box(FAR), ready(()))), cx);
                }
            })],
            Operation::ReadyInBox => vec![thread_cpu(|| {
                for _ in 0..count {
                    assert_ready(black_box(Box::pin(timers.timeout(black_box(FAR), ready(())))).as_mut(), cx);
                }
            })],
            Operation::PendingOnce => vec![thread_cpu(|| {
                for _ in 0..count {
                    let mut timeout = pin!(timers.timeout(black_box(FAR), PendingOnce::default()));
                    assert_pending(timeout.as_mut(), cx);
                    assert_ready(timeout, cx);
                }
            })],
            Operation::PendingOnceInBox => vec![thread_cpu(|| {
                for _ in 0..count {
                    let timeout = Box::pin(timers.timeout(black_box(FAR), PendingOnce::default()));
                    let mut timeout = black_box(timeout);
                    assert_pending(timeout.as_mut(), cx);
                    assert_ready(timeout.as_mut(), cx);
                }
            })],
            Operation::ManyInBoxes => {
                let mut all = Vec::with_capacity(count);
                let armed = thread_cpu(|| {
                    for _ in 0..count {
                        let mut timeout = Box::pin(timers.timeout(black_box(FAR), pending()));
                        assert_pending(timeout.as_mut(), cx);
                        all.push(timeout);
                    }
                });
                vec![armed, thread_cpu(|| drop(all))]
            }
        });
        took.into_iter().map(|nanos| nanos / count as f64).collect()
    }

    fn armed(&self) -> usize {
        match self.operation {
            Operation::Ready | Operation::ReadyInBox => 0,
            Operation::PendingOnce | Operation::PendingOnceInBox | Operation::ManyInBoxes => self.count,
        }
    }
}

/// Ready at the second poll. It wakes nobody: it is polled by hand.
#[derive(Default)]
struct PendingOnce {
    was_polled: bool,
}

impl Future for PendingOnce {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.was_polled, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

fn assert_pending<E>(timeout: Pin<&mut impl Future<Output = Result<(), E>>>, cx: &mut Context<'_>) {
    assert!(timeout.poll(cx).is_pending(), "the timer was not registered");
}

fn assert_ready<E>(timeout: Pin<&mut impl Future<Output = Result<(), E>>>, cx: &mut Context<'_>) {
    assert!(matches!(timeout.poll(cx), Poll::Ready(Ok(()))), "the future was ready, and its time not up");
}

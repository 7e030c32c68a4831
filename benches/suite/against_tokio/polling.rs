//! Polls of what is pending, and of a timeout that never comes to be.

use std::future::ready;
use std::pin::{Pin, pin};
use std::task::Context;

use tokio::time::{sleep, timeout};

use super::rig::{FAR, Rig, assert_pending};
use super::{row, targets};
use crate::support::{Comparison, Findings, Scale, compare};

pub(super) fn run(scale: Scale) -> Findings {
    let rig = Rig::new(1);
    targets()
        .row(row(&poll_again(scale, &rig), Some(0.6)))
        .row(row(&ready_at_once(scale, &rig), Some(0.7)))
        .into()
}

fn poll_again(scale: Scale, rig: &Rig) -> Comparison {
    let operations = scale.of(1_000_000);
    let before = rig.wheel.stats();
    let comparison = compare(
        scale,
        "poll a pending sleep again",
        operations,
        || rig.time(|cx| again(operations, pin!(rig.wheel.sleep(FAR)), cx)),
        || rig.time(|cx| again(operations, pin!(sleep(FAR)), cx)),
    );
    rig.assert_armed(before, 1);
    comparison
}

fn again<S: Future>(operations: usize, mut timer: Pin<&mut S>, cx: &mut Context<'_>) {
    (0..operations).for_each(|_| assert_pending(timer.as_mut(), cx));
}

fn ready_at_once(scale: Scale, rig: &Rig) -> Comparison {
    let operations = scale.of(1_000_000);
    compare(
        scale,
        "a timeout round a ready future",
        operations,
        || {
            rig.time(|cx| {
                for _ in 0..operations {
                    assert!(pin!(rig.wheel.timeout(FAR, ready(()))).poll(cx).is_ready());
                }
            })
        },
        || {
            rig.time(|cx| {
                for _ in 0..operations {
                    assert!(pin!(timeout(FAR, ready(()))).poll(cx).is_ready());
                }
            })
        },
    )
}

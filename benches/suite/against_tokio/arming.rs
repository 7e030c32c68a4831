//! Making a timer, polling it, dropping it.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use timingwheel::Sleep;
use tokio::time::sleep;

use super::rig::{FAR, Rig, Wakes, arm_all, assert_pending};
use super::{row, targets};
use crate::support::{Comparison, Findings, Scale, compare};

pub(super) fn run(scale: Scale) -> Findings {
    let rig = Rig::new(1);
    targets()
        .row(row(&arm_and_cancel(scale, &rig), Some(0.65)))
        .row(row(&replace_among_many(scale, &rig), Some(0.85)))
        .into()
}

fn arm_and_cancel(scale: Scale, rig: &Rig) -> Comparison {
    let operations = scale.of(500_000);
    let before = rig.wheel.stats();
    let comparison = compare(
        scale,
        "create, first poll, drop; one thread",
        operations,
        || rig.time(|cx| (0..operations).for_each(|_| assert_pending(pin!(rig.wheel.sleep(FAR)), cx))),
        || rig.time(|cx| (0..operations).for_each(|_| assert_pending(pin!(sleep(FAR)), cx))),
    );
    rig.assert_armed(before, operations);
    comparison
}

fn replace_among_many(scale: Scale, rig: &Rig) -> Comparison {
    let (timers, operations) = (scale.of(1_000_000), scale.of(300_000));
    let delay = || Duration::from_millis(fastrand::u64(1_000_000..2_000_000));
    let delays: Vec<Duration> = (0..timers).map(|_| delay()).collect();
    let before = rig.wheel.stats();
    let (mut ours, mut rival): (Vec<Sleep>, Vec<Pin<Box<tokio::time::Sleep>>>) = {
        let _within = rig.runtime.enter();
        let wakes = Arc::<Wakes>::default();
        (
            arm_all(&delays, &wakes, |delay| rig.wheel.sleep(delay)),
            arm_all(&delays, &wakes, |delay| Box::pin(sleep(delay))),
        )
    };
    let comparison = compare(
        scale,
        "replace a random timer among a million",
        operations,
        || {
            rig.time(|cx| {
                for _ in 0..operations {
                    let place = &mut ours[fastrand::usize(..timers)];
                    *place = rig.wheel.sleep(delay());
                    assert_pending(Pin::new(place), cx);
                }
            })
        },
        || {
            rig.time(|cx| {
                for _ in 0..operations {
                    let place = &mut rival[fastrand::usize(..timers)];
                    place.set(sleep(delay()));
                    assert_pending(place.as_mut(), cx);
                }
            })
        },
    );
    rig.assert_armed(before, timers + operations);
    assert_eq!(rig.wheel.pending(), timers);
    comparison
}

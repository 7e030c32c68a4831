//! In a build with tokio's `test-util`: timeouts on a runtime whose clock could be paused, and the jumps of a paused one.

use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::Instant;

use super::build::{build_name, has_test_util};
use super::{EXPLAINED, Load, Measured, Rows, measure_timeouts, thread_cpu};
use crate::sides::{Rig, Timeouts};
use crate::support::{Findings, Scale, Unit};

const JUMPS: usize = 5_000;
const STEP: Duration = Duration::from_millis(1);

pub(super) fn run(scale: Scale) -> Findings {
    assert!(has_test_util(), "the feature of that name turns it on");
    // First, because a clock that was paused once makes tokio's slower in the whole process.
    let running = measure_timeouts(
        scale,
        "1 thread",
        &Rig::on_one_thread(&mut Builder::new_current_thread()),
        [None; 4],
    )
    .explain(EXPLAINED);
    eprintln!("jumps of a paused clock");
    let rig = Rig::on_one_thread(Builder::new_current_thread().start_paused(true));
    let before = rig.wheel.stats();
    let load = Jumps { count: scale.of(JUMPS) };
    let rounds = rig.rounds(scale, &load);
    let after = rig.wheel.stats();
    assert_eq!(after.fired - before.fired, after.armed - before.armed, "all that were armed fired");
    let jump = Measured { what: "a jump", unit: Unit::Nanos, rounds: &rounds, place: 0, limit: Some(1.5) };
    Findings::from_iter([
        running,
        Rows::new("Jumps", "paused clock", build_name())
            .add(&jump)
            .explain("A jump: the CPU time of the thread for each `sleep(1 ms)`, one after the other."),
    ])
}

struct Jumps {
    count: usize,
}

impl Load for Jumps {
    fn run(&self, rig: &Rig, timers: impl Timeouts) -> Vec<f64> {
        let count = self.count;
        let jumps = async {
            let start = Instant::now();
            for _ in 0..count {
                let before = Instant::now();
                timers.sleep(STEP).await;
                assert!(before.elapsed() >= STEP, "the clock did not jump");
            }
            // Each sleep ends with a tick.
            assert!(
                start.elapsed().as_millis() <= 2 * STEP.as_millis() * (count + 1) as u128,
                "the clock jumped too far"
            );
        };
        vec![thread_cpu(|| rig.runtime.block_on(jumps)) / count as f64]
    }

    fn armed(&self) -> usize {
        self.count
    }
}

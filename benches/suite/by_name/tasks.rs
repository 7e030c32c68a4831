//! Timeouts round a future that gives way once, in 64 tasks on 1, 2 and 8 workers.

use tokio::task::{JoinSet, yield_now};

use super::build;
use super::rows::{Measured, Rows};
use super::sides::{FAR, Load, Rig, Timers};
use crate::support::{Findings, Scale, Unit, context_switches, cpu_time};

const TASKS: usize = 64;
const EACH: usize = 4_000;

pub(super) fn run(scale: Scale) -> Findings {
    build::without_test_util("by_name_tasks", scale, |scale| {
        Findings::from_iter([
            measure(scale, 1, "1 worker", 0.8),
            measure(scale, 2, "2 workers", 0.4),
            measure(scale, 8, "8 workers", 0.45).explain(
                "64 tasks: the CPU time of the process for each `timeout(30 s, yield_now())`, and context switches for \
                 1,000. Workers are in each other's way only while they run at once, so the ratio of 2 workers is \
                 nearer to that of 1 on a machine that does something else too.",
            ),
        ])
    })
}

fn measure(scale: Scale, workers: usize, runtime: &'static str, limit: f64) -> Rows {
    eprintln!("{TASKS} tasks, {runtime}");
    let rounds = Rig::workers(workers).rounds_beside_earlier(scale, &Tasks { each: scale.of(EACH) });
    let measured = |what, unit, place, limit| Measured { what, unit, rounds: &rounds, place, limit };
    Rows::new("Tasks", runtime, build::name())
        .add(&measured("64 tasks", Unit::Nanos, 0, Some(limit)))
        .add(&measured("switches for 1,000", Unit::Count, 1, None))
}

struct Tasks {
    each: usize,
}

impl Load for Tasks {
    fn run<T: Timers>(&self, rig: &Rig, timers: T) -> Vec<f64> {
        let each = self.each;
        let look = || (cpu_time(), context_switches());
        let before = look();
        rig.runtime.block_on(async {
            let mut tasks = JoinSet::new();
            for _ in 0..TASKS {
                let timers = timers.clone();
                tasks.spawn(async move {
                    for _ in 0..each {
                        assert!(timers.timeout(FAR, yield_now()).await.is_ok(), "time enough");
                    }
                });
            }
            tasks.join_all().await;
        });
        let after = look();
        let done = (TASKS * each) as f64;
        vec![(after.0 - before.0).as_nanos() as f64 / done, (after.1 - before.1) as f64 * 1e3 / done]
    }

    fn armed(&self) -> usize {
        TASKS * self.each
    }
}

//! Many calls of one request reach their limits in the same millisecond. How late is another timer of the wheel meanwhile?
//!
//! Each call is a task, which has to be woken and polled once. So a timer that fires among them waits for some of them,
//! whoever limits them. Beside calls under a deadline stand those that `wheel.timeout` limits.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_deadline::{Deadline, DeadlineExt};
use tokio::time::Instant;

use crate::sides::{FAR, Rig, join};
use crate::support::{Comparison, Scale, Table, Unit, cpu_time, warm_rounds};

const CALLS: [usize; 4] = [100, 1_000, 4_000, 16_000];
/// How long it takes to spawn a call, at most.
const SPAWN: Duration = Duration::from_micros(10);
const LEAD: Duration = Duration::from_millis(20);
/// What a deadline may add to the lateness.
const MOST: f64 = 1.1;

/// What a way's calls took in a round, in nanoseconds.
#[derive(Clone, Copy)]
struct Found {
    /// The largest lateness of the bystander.
    late: f64,
    /// The CPU time of a call, from its spawn.
    cpu: f64,
}

/// Makes the calls, in a task each. `request` limits them, or the wheel alone.
fn burst(Rig { wheel, runtime }: &Rig, calls: usize, request: Option<&Deadline>) -> Found {
    let (before, cpu) = (wheel.stats(), cpu_time());
    let late = runtime.block_on(async {
        let is_over = Arc::new(AtomicBool::new(false));
        let bystander = tokio::spawn(largest_lateness(wheel.clone(), is_over.clone()));
        let at = Instant::now() + LEAD + SPAWN * u32::try_from(calls).expect("thousands");
        let tasks: Vec<_> = (0..calls)
            .map(|_| match request {
                Some(request) => {
                    let call = request.run_within(at.duration_since(Instant::now()), pending::<()>());
                    tokio::spawn(async { call.await.is_err() })
                }
                None => {
                    let call = wheel.timeout_at(at, pending::<()>());
                    tokio::spawn(async { call.await.is_err() })
                }
            })
            .collect();
        assert!(Instant::now() < at, "spawning took longer than the limit");
        assert!(join(tasks).await.into_iter().all(|is_late| is_late), "each call reaches its limit");
        is_over.store(true, Ordering::Relaxed);
        bystander.await.expect("it does not panic")
    });
    let fired = wheel.stats().fired - before.fired;
    assert!(fired >= calls as u64, "the wheel fired {fired} timers for {calls} calls");
    Found { late: late.as_nanos() as f64, cpu: (cpu_time() - cpu).as_nanos() as f64 / calls as f64 }
}

/// Of timers of a millisecond, one after the other.
async fn largest_lateness(wheel: TimingWheel, is_over: Arc<AtomicBool>) -> Duration {
    let mut late = Duration::ZERO;
    while !is_over.load(Ordering::Relaxed) {
        let at = Instant::now() + Duration::from_millis(1);
        wheel.sleep_until(at).await;
        late = late.max(at.elapsed());
    }
    late
}

pub(super) fn tables(scale: Scale) -> [Table; 2] {
    let rig = Rig::new(2);
    // It ends after the case.
    let request = rig.wheel.deadline_in(FAR * 100);
    let table = |title: &str| {
        Table::new(title, ["what", "run_within", "wheel.timeout", "ratio", "target"])
            .ratio_within("ratio", "`run_within` divided by `wheel.timeout`")
    };
    let mut late = table("Lateness of another timer while all calls of a request reach their limits");
    let mut cpu = table("CPU time of a call that reaches its limit with all others");
    for calls in CALLS.map(|calls| scale.of(calls)) {
        eprintln!("{calls} calls");
        let mut ours = || burst(&rig, calls, Some(&request));
        let mut rival = || burst(&rig, calls, None);
        let found = warm_rounds(scale.rounds(), &mut [&mut ours, &mut rival]);
        let row = |what: &str, value: fn(&Found) -> f64| {
            let cost = Comparison::of_rounds("", Unit::Nanos, &found, (0, 1), value);
            let mut cells = cost.cells();
            cells[0] = format!("{what}, {} calls", Unit::Count.show(calls as f64));
            cells.into_iter().chain([cost.target(Some(MOST))])
        };
        late = late.row(row("lateness of a bystander", |found| found.late));
        cpu = cpu.row(row("CPU", |found| found.cpu));
    }
    let late = late.note(
        "The largest of a round, on 2 workers. Another timer is late by the tasks that are woken and polled before its own, \
         whoever limits them: a deadline adds the ratio.",
    );
    [late, cpu]
}

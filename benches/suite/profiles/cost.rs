//! Arming, moving and cancelling.

use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use timingwheel::{Sleep, TimingWheel};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use super::settings;
use crate::support::{Findings, Scale, Table, Unit, cpu_time, median, rounds};

const TIMERS: usize = 100_000;

/// A wheel on a runtime of its own, with one worker.
struct Rig {
    wheel: TimingWheel,
    /// Last, so that it outlives its timers.
    runtime: Runtime,
}

impl Rig {
    fn new(settings: timingwheel::Builder) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let wheel = runtime.block_on(async { settings.build() }).expect("settings within their limits");
        Self { wheel, runtime }
    }

    /// Timers as a server has them: some calls, many connections.
    fn arm(&self, delays: &[Duration]) -> Vec<Sleep> {
        let mut cx = Context::from_waker(Waker::noop());
        let arm = |&delay| {
            let mut sleep = self.wheel.sleep(delay);
            assert!(sleep.poll_wait(&mut cx).is_pending(), "the timer was not registered");
            sleep
        };
        delays.iter().map(arm).collect()
    }
}

struct Run {
    arm: Duration,
    later: Duration,
    cancel: Duration,
}

pub(super) fn run(scale: Scale) -> Findings {
    let timers = scale.of(TIMERS);
    let delays: Vec<Duration> =
        (0..timers).map(|_| Duration::from_millis(fastrand::u64(1_000..300_000))).collect();
    let settings = settings();
    let rigs: Vec<Rig> = settings.iter().map(|(_, settings)| Rig::new(settings.clone())).collect();
    let mut sides: Vec<_> = rigs.iter().map(|rig| || once(rig, &delays)).collect();
    let mut sides: Vec<&mut dyn FnMut() -> Run> = sides.iter_mut().map(|side| side as _).collect();
    eprintln!("{timers} timers with each profile");
    // In the first, which does not count, memory grows that is kept later.
    let found = rounds(scale.rounds() + 1, &mut sides);

    let header = ["profile", "arm", "move to later", "cancel"];
    let mut table = Table::new("100,000 timers of 1 s to 300 s", header);
    for (side, (name, _)) in settings.iter().enumerate() {
        let each = |value: fn(&Run) -> Duration| {
            let times = found.iter().skip(1).map(|sides| value(&sides[side]).as_nanos() as f64);
            Unit::Nanos.show(median(times) / timers as f64)
        };
        table = table.row([name.clone(), each(|run| run.arm), each(|run| run.later), each(|run| run.cancel)]);
    }
    table.note("CPU time of the process for each timer. Arm: make and poll.").into()
}

fn once(rig: &Rig, delays: &[Duration]) -> Run {
    let _within = rig.runtime.enter();
    let mut timers = Vec::new();
    let arm = cpu(|| timers = rig.arm(delays));
    assert_eq!(rig.wheel.pending(), delays.len());
    let far = Instant::now() + Duration::from_secs(600);
    let later = cpu(|| timers.iter_mut().for_each(|timer| Pin::new(timer).reset(far)));
    let cancel = cpu(|| timers.clear());
    assert_eq!(rig.wheel.pending(), 0);
    Run { arm, later, cancel }
}

/// The CPU time that `work` takes.
fn cpu(work: impl FnOnce()) -> Duration {
    let before = cpu_time();
    work();
    cpu_time() - before
}

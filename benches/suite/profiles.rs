//! What does each profile of settings cost, and what does it give?
//!
//! Counts of the core, and what a wheel with these settings takes on the real clock. Memory and moves of single timers,
//! which do not vary, are in the documentation of `Profile`.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use timingwheel::{Builder, Profile, Sleep, TimingWheel};
use tokio::runtime::Runtime;
use tokio::time::Instant;

use crate::sides::{Rig, Slept, Wakes, arm_all, deadlines, multi_thread, sleep_in_tasks};
use crate::support::{Case, Findings, Scale, Table, Unit, cpu_time, median, number, rounds, warm_rounds};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "profiles_cost",
            "What do arming and pending timers cost with each profile of settings?",
            cost,
        ),
        Case::new(
            "profiles_lateness",
            "How late are timers with each profile of settings, and what CPU time does that take?",
            lateness,
        ),
    ]
}

/// The profiles, and last the default settings.
fn settings() -> Vec<(String, Builder)> {
    let profiles = Profile::all()
        .iter()
        .map(|&profile| (format!("{profile:?}"), TimingWheel::builder().profile(profile)));
    profiles.into_iter().chain([("default".to_owned(), TimingWheel::builder())]).collect()
}

// Arming, moving and cancelling.

const ARMED: usize = 100_000;

/// Timers as a server has them: some calls, many connections.
fn arm(wheel: &TimingWheel, delays: &[Duration]) -> Vec<Sleep> {
    let sleeps = delays.iter().map(|&delay| wheel.sleep(delay));
    arm_all::<TimingWheel>(sleeps, &Arc::<Wakes>::default())
}

struct Cost {
    arm: Duration,
    later: Duration,
    cancel: Duration,
}

fn cost(scale: Scale) -> Findings {
    let timers = scale.of(ARMED);
    let delays: Vec<Duration> =
        (0..timers).map(|_| Duration::from_millis(fastrand::u64(1_000..300_000))).collect();
    let settings = settings();
    let rigs: Vec<Rig> =
        settings.iter().map(|(_, settings)| Rig::with(multi_thread(1), settings.clone())).collect();
    let mut sides: Vec<_> = rigs.iter().map(|rig| || once(rig, &delays)).collect();
    let mut sides: Vec<&mut dyn FnMut() -> Cost> = sides.iter_mut().map(|side| side as _).collect();
    eprintln!("{timers} timers with each profile");
    let found = warm_rounds(scale.rounds(), &mut sides);

    let header = ["profile", "arm", "move to later", "cancel"];
    let mut table = Table::new("100,000 timers of 1 s to 300 s", header);
    for (side, (name, _)) in settings.iter().enumerate() {
        let each = |value: fn(&Cost) -> Duration| {
            let times = found.iter().map(|sides| value(&sides[side]).as_nanos() as f64);
            Unit::Nanos.show(median(times) / timers as f64)
        };
        table = table.row([name.clone(), each(|run| run.arm), each(|run| run.later), each(|run| run.cancel)]);
    }
    table.note("CPU time of the process for each timer. Arm: make and poll.").into()
}

fn once(rig: &Rig, delays: &[Duration]) -> Cost {
    let _within = rig.runtime.enter();
    let mut timers = Vec::new();
    let arm = cpu(|| timers = arm(&rig.wheel, delays));
    assert_eq!(rig.wheel.pending(), delays.len());
    let far = Instant::now() + Duration::from_secs(600);
    let later = cpu(|| timers.iter_mut().for_each(|timer| Pin::new(timer).reset(far)));
    let cancel = cpu(|| timers.clear());
    assert_eq!(rig.wheel.pending(), 0);
    Cost { arm, later, cancel }
}

/// The CPU time that `work` takes.
fn cpu(work: impl FnOnce()) -> Duration {
    let before = cpu_time();
    work();
    cpu_time() - before
}

// Timers that fire, each awaited by a task.

/// About four to a millisecond.
const TIMERS: usize = 8_000;
const SPREAD: Duration = Duration::from_secs(2);
/// Delays are so much longer than that.
const LEAD: Duration = Duration::from_millis(500);

struct Run {
    slept: Slept,
    wakeups: u64,
    cascaded: u64,
}

fn lateness(scale: Scale) -> Findings {
    let timers = scale.of(TIMERS);
    let spread = scale.length(SPREAD);
    let settings = settings();
    let runtime = multi_thread(2);
    let wheels: Vec<TimingWheel> = settings
        .iter()
        .map(|(_, settings)| {
            let build = async { settings.clone().build() };
            runtime.block_on(build).expect("settings within their limits")
        })
        .collect();
    eprintln!("{timers} timers with each profile");
    let mut sides: Vec<_> =
        wheels.iter().map(|wheel| || watch(&runtime, wheel, &deadlines(timers, LEAD, spread))).collect();
    let mut sides: Vec<&mut dyn FnMut() -> Run> = sides.iter_mut().map(|side| side as _).collect();
    let found = rounds(scale.few_rounds(), &mut sides);

    let header =
        ["profile", "lateness p50", "p99", "wake-ups in a second", "moves of a timer", "CPU for each"];
    let mut table = Table::new("About four timers to a millisecond, by profile", header);
    for (side, (name, _)) in settings.iter().enumerate() {
        let of_runs = |value: &dyn Fn(&Run) -> f64| median(found.iter().map(|sides| value(&sides[side])));
        let late = |quantile| of_runs(&|run| run.slept.late.value_at_quantile(quantile) as f64);
        table = table.row([
            name.clone(),
            Unit::Nanos.show(late(0.5)),
            Unit::Nanos.show(late(0.99)),
            Unit::Count.show((of_runs(&|run| run.wakeups as f64) / spread.as_secs_f64()).round()),
            number(of_runs(&|run| run.cascaded as f64) / timers as f64),
            Unit::Nanos.show(of_runs(&|run| run.slept.cpu.as_nanos() as f64) / timers as f64),
        ]);
    }
    table
        .note("Tasks on 2 workers, with delays of 0.5 s to 2.5 s; none was early. CPU time is that of the whole process.")
        .into()
}

fn watch(runtime: &Runtime, wheel: &TimingWheel, deadlines: &[Instant]) -> Run {
    let before = wheel.stats();
    let slept = sleep_in_tasks(runtime, deadlines, wheel);
    let after = wheel.stats();
    assert_eq!(after.fired - before.fired, deadlines.len() as u64, "each reached the wheel");
    Run { slept, wakeups: after.turns - before.turns, cascaded: after.cascaded - before.cascaded }
}

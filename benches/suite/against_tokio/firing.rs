//! Timers that fire, or wait: their CPU time, their lateness, and whom they hold up or wake.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::time::Instant;

use super::{SIDES, row, row_of_values, targets};
use crate::sides::{
    FAR, Rig, Slept, Timers, Tokio, Wakes, arm_all, assert_pending, deadlines, sleep_in_tasks, take_all,
};
use crate::support::{
    Comparison, Duel, Findings, Scale, Table, Unit, cpu_time, rounds, sleeps_of_other_threads, target,
};

fn nanos(time: Duration) -> f64 {
    time.as_nanos() as f64
}

/// Arms all of them before the first is due.
fn arm_until<T: Timers>(timers: &T, deadlines: &[Instant], wakes: &Arc<Wakes>) -> Vec<T::Kept> {
    let armed = arm_all::<T>(deadlines.iter().map(|&deadline| timers.sleep_until(deadline)), wakes);
    let first = deadlines.iter().min().expect("some");
    assert!(Instant::now() < *first, "arming took longer than the time until the first deadline");
    assert_eq!(wakes.count(), 0, "a timer was early");
    armed
}

/// Nanoseconds of CPU for each timer: wall-clock time would be its delay.
#[derive(Clone, Copy)]
struct Spent {
    arm: f64,
    fire: f64,
    take: f64,
}

pub(super) fn cpu(scale: Scale) -> Findings {
    let rig = Rig::new(1);
    let _within = rig.runtime.enter();
    let lead = Duration::from_millis(if scale.is_test() { 100 } else { 2_000 });
    let over = scale.length(Duration::from_secs(2));
    let mut parts = Table::new("CPU time of a timer that fires", ["what", "ours", "tokio", "ratio"])
        .about("CPU")
        .ratio("ratio", "ours", "tokio")
        .note(
            "A waker that only counts stands for the task. Arm: make and poll. Fire: all until it is woken. Take: the poll \
             that is ready, and the drop.",
        );
    let mut targets = targets();
    let timers = scale.of(1_000_000);
    for (name, spread, shape) in [
        ("CPU for each of a million timers over 2 s", over, "over 2 s"),
        ("CPU for each of a million timers within 10 ms", Duration::from_millis(10), "within 10 ms"),
    ] {
        eprintln!("{name}");
        let before = rig.wheel.stats();
        let times = || deadlines(timers, lead, spread);
        let found = rounds(
            scale.few_rounds(),
            &mut [&mut || spent(&times(), &rig.wheel), &mut || spent(&times(), &Tokio)],
        );
        assert_eq!(rig.wheel.stats().fired - before.fired, (timers * found.len()) as u64);
        let of =
            |name, part: fn(&Spent) -> f64| Comparison::of_rounds(name, Unit::Nanos, &found, SIDES, part);
        for part in
            [of("arm", |spent| spent.arm), of("fire", |spent| spent.fire), of("take", |spent| spent.take)]
        {
            let mut cells = part.cells();
            cells[0] = format!("{}, {shape}", part.name);
            parts = parts.row(cells);
        }
        targets = targets.row(row(&of(name, |spent| spent.arm + spent.fire + spent.take), Some(0.45)));
    }
    let name = "CPU for each of 300,000 tasks that sleep, over 2 s";
    eprintln!("{name}");
    let timers = scale.of(300_000);
    let before = rig.wheel.stats();
    let times = || deadlines(timers, lead, over);
    let found = rounds(
        scale.few_rounds(),
        &mut [&mut || sleep_in_tasks(&rig.runtime, &times(), &rig.wheel).cpu, &mut || {
            sleep_in_tasks(&rig.runtime, &times(), &Tokio).cpu
        }],
    );
    assert_eq!(rig.wheel.stats().fired - before.fired, (timers * found.len()) as u64);
    let each = |cpu: &Duration| nanos(*cpu) / timers as f64;
    let spawned = Comparison::of_rounds(name, Unit::Nanos, &found, SIDES, each);
    Findings { tables: vec![targets.row(row(&spawned, None)), parts] }
}

fn spent(deadlines: &[Instant], timers: &impl Timers) -> Spent {
    let wakes = Arc::<Wakes>::default();
    let start = cpu_time();
    let timers = arm_until(timers, deadlines, &wakes);
    let armed = cpu_time();
    let last = deadlines.iter().max().expect("some");
    thread::sleep(last.saturating_duration_since(Instant::now()));
    while wakes.count() < deadlines.len() {
        thread::sleep(Duration::from_millis(1));
    }
    let fired = cpu_time();
    take_all(timers);
    let each = |time: Duration| nanos(time) / deadlines.len() as f64;
    Spent { arm: each(armed - start), fire: each(fired - armed), take: each(cpu_time() - fired) }
}

/// A light load: about four timers to a millisecond.
const TIMERS: usize = 12_000;
const SPREAD: Duration = Duration::from_secs(3);
/// After all are spawned.
const LEAD: Duration = Duration::from_millis(200);

pub(super) fn lateness(scale: Scale) -> Findings {
    let rig = Rig::new(2);
    let short = TimingWheel::builder().tick(Duration::from_micros(100));
    let short = rig.runtime.block_on(async { short.build() }).expect("a wheel with a short tick");
    let timers = scale.of(TIMERS);
    eprintln!("lateness of {timers} timers");
    let times = || deadlines(timers, LEAD, scale.length(SPREAD));
    let on = |wheel: &TimingWheel| {
        let before = wheel.stats();
        let found = sleep_in_tasks(&rig.runtime, &times(), wheel);
        assert_eq!(wheel.stats().fired - before.fired, timers as u64, "each reached the wheel");
        found
    };
    let found = rounds(
        scale.few_rounds(),
        &mut [&mut || on(&rig.wheel), &mut || on(&short), &mut || {
            sleep_in_tasks(&rig.runtime, &times(), &Tokio)
        }],
    );

    let (ours, ours_short, tokio) = (0, 1, 2);
    let of = |name, side, quantile: f64, target| {
        let at = |run: &Slept| run.late.value_at_quantile(quantile) as f64;
        row(&Comparison::of_rounds(name, Unit::Nanos, &found, (side, tokio), at), Some(target))
    };
    let targets = targets()
        .row(of("lateness p50 at a tick of 1 ms", ours, 0.5, 0.4))
        .row(of("lateness p50 at a tick of 100 µs", ours_short, 0.5, 0.2))
        .row(of("lateness p99 at a tick of 100 µs", ours_short, 0.99, 0.2))
        .note("Lateness: tasks on 2 workers, about four timers to a millisecond; none was early.");
    let mut table = Table::new("Lateness", ["side", "p50", "p90", "p99", "p99.9", "most", "CPU for each"]);
    let cpu_of = |side: usize| {
        let cpu: Duration = found.iter().map(|sides| sides[side].cpu).sum();
        nanos(cpu) / (timers * found.len()) as f64
    };
    let names = ["timingwheel, tick 1 ms", "timingwheel, tick 100 µs", "tokio"];
    for (side, name) in names.into_iter().enumerate() {
        let mut all = found[0][side].late.clone();
        found[1..].iter().for_each(|sides| all.add(&sides[side].late).expect("the same range"));
        let quantiles = [0.5, 0.9, 0.99, 0.999, 1.0];
        let cells = quantiles.map(|quantile| Unit::Nanos.show(all.value_at_quantile(quantile) as f64));
        if let Some(tick) = name.strip_prefix("timingwheel, ") {
            let what = format!("CPU of a task that sleeps once, {tick}");
            table = table.duel(Duel::new(what, Unit::Nanos, cpu_of(side), ("tokio", cpu_of(tokio))));
        }
        let cpu = Unit::Nanos.show(cpu_of(side));
        table = table.row([name.to_owned()].into_iter().chain(cells).chain([cpu]));
    }
    Findings { tables: vec![targets, table] }
}

/// The longest that arming and cancelling a timer takes, in nanoseconds, while very many others move down the levels and
/// fire, and while nothing else happens.
struct Longest {
    alone: f64,
    beside: f64,
}

pub(super) fn pauses(scale: Scale) -> Findings {
    /// Enough for a median of what a scheduler disturbs.
    const ROUNDS: usize = 7;
    let rig = Rig::new(1);
    let _within = rig.runtime.enter();
    let timers = scale.of(1_000_000);
    let before = rig.wheel.stats();
    eprintln!("arming while a million fire");
    let count = if scale.is_test() { 1 } else { ROUNDS };
    let found = rounds(
        count,
        &mut [&mut || longest(scale, timers, &rig.wheel), &mut || longest(scale, timers, &Tokio)],
    );
    let stats = rig.wheel.stats();
    assert_eq!(stats.fired - before.fired, (timers * count) as u64);
    assert!(stats.cascaded >= stats.fired, "all that fired came down from a higher level");
    let of = |name, part: fn(&Longest) -> f64| Comparison::of_rounds(name, Unit::Nanos, &found, SIDES, part);
    let beside = of("worst arm while a million timers move down and fire", |longest| longest.beside);
    // Its ratio would be one of two accidents.
    let alone = of("worst arm with nothing else to do, for 200 ms", |longest| longest.alone);
    let shown = [alone.ours, alone.rival].map(|worst| Unit::Nanos.show(worst));
    targets()
        .row(row(&beside, Some(0.3)))
        .row(row_of_values(alone.name, shown, String::new()))
        .note(format!(
            "Worst arm: one thread arms and cancels in a loop while the only worker moves down and fires a million timers \
             that are due within 50 ms; the median of the worst of {ROUNDS} rounds."
        ))
        .into()
}

fn longest(scale: Scale, timers: usize, side: &impl Timers) -> Longest {
    /// Less than a slot of the second level at either side, 64 ms.
    const SPREAD: Duration = Duration::from_millis(50);
    /// How long the loop runs alone, to see what the machine's own pauses are.
    const ALONE: Duration = Duration::from_millis(200);
    let mut cx = Context::from_waker(Waker::noop());
    let mut longest_until = |done: &dyn Fn() -> bool| {
        let mut longest = Duration::ZERO;
        while !done() {
            let start = std::time::Instant::now();
            assert_pending(pin!(side.sleep(FAR)), &mut cx);
            longest = longest.max(start.elapsed());
        }
        nanos(longest)
    };
    let alone_until = Instant::now() + scale.length(ALONE);
    let alone = longest_until(&|| Instant::now() >= alone_until);
    let lead = Duration::from_millis(if scale.is_test() { 200 } else { 2_000 });
    let wakes = Arc::<Wakes>::default();
    let pending = arm_until(side, &deadlines(timers, lead, SPREAD), &wakes);
    let beside = longest_until(&|| wakes.count() == timers);
    take_all(pending);
    Longest { alone, beside }
}

pub(super) fn idle(scale: Scale) -> Findings {
    /// A share of the minute of which the target speaks.
    const WATCHED: Duration = Duration::from_secs(6);
    const WATCHED_IN_A_MINUTE: f64 = 10.0;
    const TARGET: f64 = 10.0;
    /// What arming sets going is over then.
    const SETTLED: Duration = Duration::from_millis(200);
    /// How often the other threads went to sleep while a far timer was pending, and how often the driver was woken. In a
    /// runtime of its own, as all threads of the process are counted.
    fn watch<T: Timers>(scale: Scale, timers: impl Fn(&Rig) -> T) -> (Option<f64>, f64) {
        let rig = Rig::new(2);
        let _within = rig.runtime.enter();
        let side = timers(&rig);
        let mut timer = pin!(side.sleep(Duration::from_secs(3600)));
        let mut cx = Context::from_waker(Waker::noop());
        assert_pending(timer.as_mut(), &mut cx);
        thread::sleep(scale.length(SETTLED));
        let look = || (sleeps_of_other_threads(), rig.wheel.stats().turns);
        let before = look();
        thread::sleep(scale.length(WATCHED));
        let after = look();
        assert_pending(timer, &mut cx);
        assert!(side.stats().is_none_or(|stats| stats.armed == 1), "the timer reached the wheel");
        (after.0.zip(before.0).map(|(after, before)| after - before), (after.1 - before.1) as f64)
    }
    eprintln!("an hour, watched for {} s", WATCHED.as_secs());
    let (ours, wakeups) = watch(scale, |rig| rig.wheel.clone());
    let (rival, _) = watch(scale, |_| Tokio);
    let per_minute = |count: f64| Unit::Count.show(count * WATCHED_IN_A_MINUTE);
    let shown = |sleeps: Option<f64>| sleeps.map_or_else(|| "unknown".into(), per_minute);
    let target = |count: f64| {
        let is_met = count * WATCHED_IN_A_MINUTE < TARGET;
        target(format!("fewer than {TARGET}"), is_met)
    };
    targets()
        .row(row_of_values(
            "wake-ups of the driver in a minute, one timer an hour away",
            [per_minute(wakeups), String::new()],
            target(wakeups),
        ))
        .row(row_of_values(
            "wake-ups of all threads in a minute, one timer an hour away",
            [shown(ours), shown(rival)],
            ours.map(target).unwrap_or_default(),
        ))
        .note(
            "Wake-ups: ten times those of 6 s. Of all threads: their voluntary context switches, 2 workers.",
        )
        .into()
}

//! The core alone, on a clock of its own: ten minutes pass as fast as the core gets through them.

use std::time::Duration;

use timingwheel::wheel::{Hierarchy, Key, Nanos, Progress, Resolution};

use super::connections::Connections;
use super::{EXACT, SHARE, SIDES, TARGET, TOLERANT};
use crate::support::{Comparison, Duel, Findings, Scale, Table, Unit, cpu_time, median, rounds};

const CONNECTIONS: usize = 100_000;
const PERIOD: Duration = Duration::from_secs(600);
const TICK: Duration = Duration::from_millis(1);
const SLOTS: usize = 64;

#[derive(Default)]
struct Run {
    cpu: Duration,
    armed: u64,
    moved: u64,
    fired: u64,
    cascaded: u64,
    wakeups: u64,
}

pub(super) fn run(scale: Scale) -> Findings {
    let connections = Connections::new(scale.of(CONNECTIONS), PERIOD);
    eprintln!("{} connections for {} s", connections.limits.len(), PERIOD.as_secs());
    let found = rounds(
        scale.few_rounds() + 1,
        &mut [&mut || Server::new(&connections, None).run(), &mut || {
            Server::new(&connections, Some(SHARE)).run()
        }],
    );
    let header = ["timers", "armed", "moved to later", "fired", "cascades", "wake-ups", "CPU", "ratio"];
    let mut table = Table::new("100,000 idle connections for ten minutes, the core alone", header)
        .about("the core alone")
        .ratio_within("ratio", "the CPU time with a tolerance divided by that without");
    let pairs: Vec<_> = found
        .iter()
        .map(|sides| (sides[TOLERANT].cpu.as_nanos() as f64, sides[EXACT].cpu.as_nanos() as f64))
        .collect();
    let compared = Comparison::of("", Unit::Nanos, &pairs);
    let cpu = |side: usize| median(found.iter().map(|sides| sides[side].cpu.as_nanos() as f64));
    let exact = ("exact timers", cpu(EXACT));
    let duel = Duel::new(format!("CPU, {}", SIDES[TOLERANT]), Unit::Nanos, cpu(TOLERANT), exact);
    table = table.duel(duel.with_pairs(&compared));
    for (side, name) in SIDES.into_iter().enumerate() {
        let Run { armed, moved, fired, cascaded, wakeups, .. } = found[0][side];
        let counts = [armed, moved, fired, cascaded, wakeups].map(|count| Unit::Count.show(count as f64));
        let ratio = if side == TOLERANT { compared.ratio_cell() } else { String::new() };
        table =
            table.row([name.into()].into_iter().chain(counts).chain([Unit::Nanos.show(cpu(side)), ratio]));
    }
    table
        .note(format!(
            "What a wake-up costs a process is not in this, so the \
             target, {TARGET} at most, is that of the whole process, below."
        ))
        .into()
}

/// Turns the core as the driver does, and does to it what connections do.
struct Server<'a> {
    connections: &'a Connections,
    /// Of each connection, its limit and how late its timers may be, whatever is left of that. They stand side by side, as a
    /// server has them.
    limits: Vec<(Duration, Duration)>,
    is_tolerant: bool,
    wheel: Hierarchy<usize>,
    /// Of those whose timers are pending.
    keys: Vec<Option<Key>>,
    expired: Vec<usize>,
    run: Run,
}

impl<'a> Server<'a> {
    fn new(connections: &'a Connections, share: Option<f64>) -> Self {
        let wheel = Hierarchy::new(Resolution::new(TICK).expect("not zero"), SLOTS);
        let keys = vec![None; connections.limits.len()];
        let with_tolerance = |limit: &Duration| (*limit, limit.mul_f64(share.unwrap_or(0.0)));
        let limits = connections.limits.iter().map(with_tolerance).collect();
        let is_tolerant = share.is_some();
        Self { connections, limits, is_tolerant, wheel, keys, expired: Vec::new(), run: Run::default() }
    }

    fn run(mut self) -> Run {
        let before = cpu_time();
        for (number, &end) in self.connections.first_ends.iter().enumerate() {
            self.arm(number, Duration::ZERO, end, self.limits[number].1);
        }
        for &(at, number) in &self.connections.activities {
            self.turn(at);
            let (limit, tolerance) = self.limits[number];
            if self.keys[number].is_some() {
                self.move_on(number, at, limit, tolerance);
            } else {
                self.arm(number, at, limit, tolerance);
            }
        }
        Run { cpu: cpu_time() - before, cascaded: self.wheel.cascaded(), ..self.run }
    }

    fn arm(&mut self, number: usize, at: Duration, delay: Duration, tolerance: Duration) {
        let (now, deadline) = (Nanos::from_duration(at), Nanos::from_duration(at + delay));
        let key = self.wheel.insert(now, self.rounded(deadline, tolerance), number);
        self.keys[number] = key.ok();
        self.run.armed += 1;
    }

    fn move_on(&mut self, number: usize, at: Duration, delay: Duration, tolerance: Duration) {
        let deadline = self.rounded(Nanos::from_duration(at + delay), tolerance);
        let key = self.keys[number].expect("its timer is pending");
        assert!(self.wheel.reschedule(key, deadline), "what was handed out has no key");
        self.run.moved += 1;
    }

    fn rounded(&self, deadline: Nanos, tolerance: Duration) -> Nanos {
        if self.is_tolerant { self.wheel.resolution().round_up_within(deadline, tolerance) } else { deadline }
    }

    fn turn(&mut self, now: Duration) {
        const ALL: usize = usize::MAX;
        let now = Nanos::from_duration(now);
        while let Some(at) = self.wheel.next_expiration().filter(|&at| at <= now) {
            assert_eq!(self.wheel.advance(at, ALL, &mut self.expired), Progress::Done);
            self.run.wakeups += 1;
            self.run.fired += self.expired.len() as u64;
            for number in self.expired.drain(..) {
                self.keys[number] = None;
            }
        }
    }
}

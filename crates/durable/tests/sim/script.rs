//! What happens in a world: drawn from a seed, cut down by shrinking, written as lines and read back.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::lack::Lack;

/// The size of a world.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Script {
    pub(crate) seed: u64,
    /// How long there are faults and calls.
    pub(crate) span_ms: i64,
    pub(crate) lease_ms: i64,
    pub(crate) timeout_ms: i64,
    pub(crate) horizon_ms: i64,
    pub(crate) in_memory: usize,
    pub(crate) concurrency: usize,
    pub(crate) tries: u32,
    /// How long a begun or ended timer is on its way, beside others of its batch.
    #[serde(default)]
    pub(crate) row_ms: i64,
    /// What the database or its client lacks: a mend that is undone, to see that it is found.
    #[serde(default)]
    pub(crate) lacks: Option<Lack>,
    #[serde(skip)]
    pub(crate) steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Step {
    pub(crate) at: i64,
    pub(crate) does: Action,
}

/// `by` is an instance, counted among those that run. Keys and payloads are named by numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Action {
    Start { slot: usize, kinds: Vec<u8>, is_new: bool, has_zones: bool, clock_ms: i64, drift_ppm: i64 },
    Stop { slot: usize, limit_ms: i64 },
    Kill { slot: usize },
    Freeze { slot: usize, ms: i64 },
    SetClock { slot: usize, by_ms: i64 },
    Cut { slot: usize, ms: i64 },
    Flaky { slot: usize, ms: i64 },
    SetDbClock { by_ms: i64 },
    Slow { ms: i64 },
    DeadRows { ms: i64 },
    ServerDown { ms: i64 },
    ReadOnly { ms: i64 },
    // The last commits are lost.
    GoBack { by_ms: i64 },
    Save { by: usize, key: u32, due_in_ms: i64, replaces: bool, job: Job },
    SaveIn { key: u32, due_in_ms: i64, replaces: bool, job: Job, holds_ms: i64, commits: bool },
    Every { by: usize, key: u32, minutes: i64, missed: u32, job: Job },
    Cancel { by: usize, key: u32 },
    // So many timers at once, due at the same time.
    Burst { by: usize, due_in_ms: i64, count: u32, job: Job },
    // So many at once.
    Crowd { by: usize, key: u32, count: usize },
    CancelIn { key: u32, holds_ms: i64, commits: bool },
    // Changes nothing, and holds the timer.
    Hold { key: u32, holds_ms: i64 },
    Move { by: usize, key: u32, due_in_ms: i64 },
    RetryBuried { by: usize },
    DeleteBuried { by: usize },
    // For so long.
    Pause { by: usize, kind: u8, ms: i64 },
}

/// The text that no store takes.
pub(crate) const POISON: &str = "poison";

/// A payload, and what its handler does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) n: u32,
    pub(crate) kind: u8,
    /// Of a shape that old programs cannot read.
    pub(crate) is_new: bool,
    pub(crate) takes_ms: i64,
    /// How many attempts fail before one does not.
    pub(crate) fails: u32,
    pub(crate) ends: Ends,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ends {
    Done,
    /// Once.
    Snooze(i64),
    Bury,
    /// With an error that the store cannot take.
    Poison,
    /// In a transaction of its own, which it holds for so long.
    InTransaction(i64),
    /// Its attempts that fail do so by ending their process.
    Kills,
}

impl Action {
    /// Of those that are no calls.
    pub(crate) fn is_fault(&self) -> bool {
        match self {
            Self::Start { clock_ms, drift_ppm, .. } => *clock_ms != 0 || *drift_ppm != 0,
            Self::Stop { .. } => false,
            _ => true,
        }
    }

    /// The key that a call is about.
    pub(crate) fn key(&mut self) -> Option<&mut u32> {
        use Action::*;
        match self {
            Save { key, .. } | SaveIn { key, .. } | Every { key, .. } | Cancel { key, .. } => Some(key),
            Crowd { key, .. } | CancelIn { key, .. } | Hold { key, .. } | Move { key, .. } => Some(key),
            _ => None,
        }
    }

    /// The instance that is called.
    pub(crate) fn by(&self) -> usize {
        use Action::*;
        match self {
            Save { by, .. } | Every { by, .. } | Cancel { by, .. } | Move { by, .. } => *by,
            RetryBuried { by } | DeleteBuried { by } | Pause { by, .. } => *by,
            _ => 0,
        }
    }

    pub(crate) fn due_in_ms(&self) -> Option<i64> {
        use Action::*;
        match self {
            Save { due_in_ms, .. } | SaveIn { due_in_ms, .. } | Move { due_in_ms, .. } => Some(*due_in_ms),
            _ => None,
        }
    }
}

/// A divisor of an hour or of a day, in minutes.
pub(crate) fn every_minutes(minutes: i64) -> i64 {
    let divisor = |of: i64, n: i64| (n.clamp(1, of / 2)..=of).find(|n| of % n == 0).unwrap_or(1);
    if minutes < 60 { divisor(60, minutes) } else { 60 * divisor(24, minutes / 60) }
}

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

struct Draws {
    random: fastrand::Rng,
    span: i64,
    lease: i64,
    numbers: u32,
    /// The timers of earlier steps: the key, when it is due, how often, and how long its handler takes.
    dues: Vec<(u32, i64, i64, i64)>,
}

impl Draws {
    /// Mostly small, seldom up to `most`.
    fn small(&mut self, most: i64) -> i64 {
        let bits = self.random.u32(0..=63 - most.max(1).leading_zeros());
        self.random.i64(0..=(1_i64 << bits).min(most))
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.random.u32(0..n) == 0
    }

    fn number(&mut self) -> u32 {
        self.numbers += 1;
        self.numbers
    }

    fn job(&mut self) -> Job {
        let n = self.number();
        let ends = match self.random.u8(0..12) {
            11 => Ends::Kills,
            10 => Ends::Poison,
            0 => Ends::Snooze(self.small(2 * self.lease)),
            1 => Ends::Bury,
            2 | 3 => Ends::InTransaction(self.small(2_000)),
            _ => Ends::Done,
        };
        let takes = if self.one_in(6) { self.lease } else { 2_000 };
        let fails = match ends {
            // More often than any timer may.
            Ends::Kills if self.one_in(4) => 30,
            _ if self.one_in(3) => self.random.u32(0..4),
            _ => 0,
        };
        Job {
            n,
            kind: self.random.u8(0..3),
            is_new: self.one_in(6),
            takes_ms: self.small(if fails > 20 { MINUTE } else { takes }),
            fails,
            ends,
        }
    }

    fn due_in(&mut self) -> i64 {
        match self.random.u8(0..8) {
            0 => -self.small(10 * MINUTE),
            1..=4 => self.small(self.lease),
            _ => self.small(self.span),
        }
    }

    fn key(&mut self) -> u32 {
        self.random.u32(0..8)
    }

    /// The moments of this step's timer, for later steps.
    fn note(&mut self, at: i64, does: &Action) {
        let every = |minutes: i64| every_minutes(minutes) * MINUTE;
        self.dues.extend(match does {
            Action::Save { key, due_in_ms, job, .. } => Some((*key, at + due_in_ms.max(&0), 0, job.takes_ms)),
            Action::SaveIn { key, due_in_ms, holds_ms, job, .. } => {
                Some((*key, at + due_in_ms.max(holds_ms), 0, job.takes_ms))
            }
            Action::Every { key, minutes, job, .. } => Some((*key, at, every(*minutes), job.takes_ms)),
            Action::Move { key, due_in_ms, .. } => Some((*key, at + due_in_ms.max(&0), 0, 2_000)),
            _ => None,
        });
    }

    /// A moment at which a timer of an earlier step may be run, and its key.
    fn run_of_earlier(&mut self) -> Option<(u32, i64)> {
        let (key, due, every, takes) = *self.random.choice(&self.dues)?;
        let due =
            if every > 0 { (self.random.i64(due..=self.span.max(due)) / every + 1) * every } else { due };
        let at = due + self.random.i64(-20..=takes.max(20));
        (0..self.span).contains(&at).then_some((key, at))
    }

    /// The key of a series.
    fn series(&mut self) -> Option<u32> {
        let series = self.dues.iter().filter(|(_, _, every, _)| *every > 0).map(|(key, ..)| *key);
        self.random.choice(series.collect::<Vec<_>>())
    }

    fn start(&mut self, slot: usize) -> Action {
        let clock_ms = if self.one_in(3) { self.random.i64(-600_000..=600_000) } else { 0 };
        let drift_ppm = if self.one_in(4) { self.random.i64(-300..=300) } else { 0 };
        let kinds = if self.one_in(4) { vec![self.random.u8(0..3)] } else { vec![0, 1, 2] };
        Action::Start {
            slot,
            kinds,
            is_new: !self.one_in(4),
            has_zones: !self.one_in(6),
            clock_ms,
            drift_ppm,
        }
    }

    fn fault(&mut self, slots: usize) -> Action {
        use Action::*;
        let slot = self.random.usize(0..slots);
        // Longer than a lease: then the others have its timers.
        let long = self.small((3 * self.lease).min(self.lease + 30 * MINUTE));
        match self.random.u8(0..24) {
            0..=2 => self.start(slot),
            3 | 4 => Stop { slot, limit_ms: self.small(self.lease) },
            5 | 6 => Kill { slot },
            7 | 8 => Freeze { slot, ms: long },
            9 => SetClock { slot, by_ms: self.random.i64(-HOUR..=HOUR) },
            10 | 11 => Cut { slot, ms: long },
            12..=14 => Flaky { slot, ms: long },
            15 => SetDbClock { by_ms: self.random.i64(-10_000..=10_000) },
            16 | 17 => Slow { ms: long },
            18 => DeadRows { ms: long },
            19 | 20 => ServerDown { ms: long },
            21 | 22 => ReadOnly { ms: long },
            _ => GoBack { by_ms: self.small(2 * self.lease) },
        }
    }

    fn call(&mut self) -> Action {
        use Action::*;
        let (by, key) = (self.random.usize(0..16), self.key());
        let (due_in_ms, job) = (self.due_in(), self.job());
        let (holds_ms, commits) = (self.small(self.lease), !self.one_in(4));
        match self.random.u8(0..27) {
            26 => Pause { by, kind: self.random.u8(0..3), ms: self.small(3 * self.lease) },
            24 => Burst {
                by,
                due_in_ms,
                count: self.random.u32(20..150),
                job: Job { takes_ms: 1, fails: 0, ..job },
            },
            25 => RetryBuried { by },
            0..=8 => Save { by, key, due_in_ms, replaces: self.one_in(2), job },
            9 | 10 => SaveIn { key, due_in_ms, replaces: self.one_in(2), job, holds_ms, commits },
            11..=13 => {
                // At most a hundred runs: one is like the other.
                let minutes = self.span / MINUTE;
                let minutes = (minutes / 100).max(1) + self.small((minutes / 20).max(2));
                // Its runs do not bury it, so that it goes on.
                let job = Job { ends: Ends::Done, takes_ms: job.takes_ms.min(minutes * MINUTE / 2), ..job };
                Every { by, key, minutes, missed: self.random.u32(0..3), job }
            }
            14 | 15 => Cancel { by, key },
            16 => Crowd { by, key, count: self.random.usize(2..40) },
            17 => CancelIn { key, holds_ms, commits },
            18 if self.one_in(2) => {
                // Who finds it held asks each second, so longer would be more of the same.
                Hold { key: self.series().unwrap_or(key), holds_ms: (2 * self.lease).min(20 * MINUTE) }
            }
            18 => Hold { key, holds_ms: self.small(1_000) },
            19..=21 => Move { by, key, due_in_ms },
            22 => RetryBuried { by },
            _ => DeleteBuried { by },
        }
    }
}

impl Script {
    pub(crate) fn of(seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        let mut draws = Draws { random, span: 0, lease: 0, numbers: 0, dues: Vec::new() };
        draws.span = [10 * MINUTE, 10 * MINUTE, 2 * HOUR, DAY][draws.random.usize(0..4)];
        draws.lease = (draws.span / [20, 60, 200][draws.random.usize(0..3)]).clamp(3_000, 2 * HOUR);
        let slots = draws.random.usize(1..=6);
        let steps = draws.random.usize(20..60);
        Self::drawn(seed, draws, slots, steps)
    }

    /// A week with eight instances.
    pub(crate) fn week(seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        let draws = Draws { random, span: 7 * DAY, lease: 2 * HOUR, numbers: 0, dues: Vec::new() };
        Self::drawn(seed, draws, 8, 80)
    }

    fn drawn(seed: u64, mut draws: Draws, slots: usize, count: usize) -> Self {
        let mut steps: Vec<Step> = Vec::new();
        for slot in 0..slots {
            let at = if slot == 0 { 0 } else { draws.small(draws.span) };
            steps.push(Step { at, does: draws.start(slot) });
        }
        let mut recent = 0;
        for _ in 0..count {
            // Half of them come close to others.
            recent = if draws.one_in(2) {
                draws.random.i64(0..draws.span)
            } else {
                (recent + draws.small(2 * draws.lease)).min(draws.span)
            };
            let mut does = if draws.one_in(3) { draws.fault(slots) } else { draws.call() };
            // Some come while a timer of an earlier step is run.
            if draws.one_in(3)
                && let Some((key, at)) = draws.run_of_earlier()
            {
                recent = at;
                does.key().into_iter().for_each(|of| *of = key);
            }
            draws.note(recent, &does);
            match &does {
                // One that joins before it is forgotten, and then another one has its number.
                Action::GoBack { by_ms } => {
                    let slot = draws.random.usize(0..slots);
                    steps.push(Step { at: (recent - by_ms / 2).max(0), does: draws.start(slot) });
                    let (at, slot) = (recent + draws.small(60_000), (slot + 1) % slots);
                    steps.push(Step { at: at.min(draws.span), does: draws.start(slot) });
                }
                // One that runs beside it, and ends nothing.
                Action::Save { by, key, due_in_ms, job, .. } if job.ends == Ends::Kills && job.fails > 3 => {
                    let (takes_ms, n) = (1_000 + draws.small(draws.lease), draws.number());
                    let job = Job { n, takes_ms, fails: 0, ends: Ends::Done, ..job.clone() };
                    let (by, key, due_in_ms, replaces) = (*by, (key + 1) % 8, *due_in_ms, true);
                    steps.push(Step { at: recent, does: Action::Save { by, key, due_in_ms, replaces, job } });
                }
                // A transaction holds it while a run is due, for longer than a run may be late.
                Action::Every { key, minutes, .. } if draws.one_in(3) => {
                    let every = every_minutes(*minutes) * MINUTE;
                    let run = (draws.random.i64(recent..=draws.span) / every + 1) * every;
                    let holds_ms = draws.small(draws.lease.min(20 * MINUTE)) + 10_000;
                    let at = run - draws.small(every);
                    let does = Action::Hold { key: *key, holds_ms: run - at + holds_ms };
                    steps.extend((recent..draws.span).contains(&at).then_some(Step { at, does }));
                }
                // They wait for a transaction.
                Action::Crowd { key, .. } => {
                    let long = if draws.one_in(2) { draws.lease } else { 0 };
                    let holds_ms = long + draws.small(2 * draws.lease);
                    steps.push(Step { at: (recent - 10).max(0), does: Action::Hold { key: *key, holds_ms } });
                }
                _ => {}
            }
            steps.push(Step { at: recent, does });
        }
        steps.sort_by_key(|step| step.at);
        let is_tight = draws.one_in(6);
        Self {
            seed,
            span_ms: draws.span,
            lease_ms: draws.lease,
            timeout_ms: [5_000, 30_000][draws.random.usize(0..2)],
            horizon_ms: [1_000, MINUTE, 10 * MINUTE][draws.random.usize(0..3)].min(draws.lease * 4),
            in_memory: if is_tight { draws.random.usize(1..6) } else { 10_000 },
            concurrency: if is_tight { draws.random.usize(1..4) } else { 1_024 },
            tries: draws.random.u32(1..8),
            row_ms: if draws.one_in(4) { 100 } else { 0 },
            lacks: None,
            steps,
        }
    }

    /// Timers may wait for others.
    pub(crate) fn is_tight(&self) -> bool {
        self.in_memory < 1_000 || self.row_ms > 0
    }

    /// A line for the settings, and a line for each step.
    pub(crate) fn text(&self) -> String {
        let mut text = serde_json::to_string(self).expect("settings are JSON");
        for step in &self.steps {
            let _ = write!(text, "\n{}", serde_json::to_string(step).expect("a step is JSON"));
        }
        text
    }

    pub(crate) fn read(text: &str) -> Result<Self, serde_json::Error> {
        let mut lines = text.lines().filter(|line| line.starts_with('{'));
        let mut script: Self = serde_json::from_str(lines.next().unwrap_or_default())?;
        script.steps = lines.map(serde_json::from_str).collect::<Result<_, _>>()?;
        Ok(script)
    }
}

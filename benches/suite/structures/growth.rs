//! What an operation costs with so many timers pending.

use std::time::{Duration, Instant};

use timingwheel::wheel::Nanos;

use super::kept::{TICK, Timers};

/// Timers are started with delays up to this many ticks: a minute, at a tick of 1 ms.
pub(super) const LONGEST_DELAY: u64 = 60_000;
/// A lap turns the clock by this many ticks, unless its time is over first.
const TICKS: u64 = 1_000;
/// How long a lap goes on with each of its parts.
const PART: Duration = Duration::from_millis(20);
/// Stops, and then as many starts, between two readings of the clock: many enough for the reading not to count.
const BATCH: usize = 100;

/// Deadlines of timers that are all started at time zero.
pub(super) struct Workload {
    pub(super) deadlines: Vec<Nanos>,
}

impl Workload {
    pub(super) fn random(size: usize) -> Self {
        let mut random = fastrand::Rng::with_seed(size as u64);
        Self { deadlines: (0..size).map(|_| random_deadline(&mut random)).collect() }
    }
}

fn random_deadline(random: &mut fastrand::Rng) -> Nanos {
    Nanos(random.u64(1..=LONGEST_DELAY) * TICK.0)
}

/// Operations, and the time they took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    operations: u64,
    time: Duration,
}

impl Cost {
    fn measure(&mut self, operations: u64, work: impl FnOnce()) {
        let start = Instant::now();
        work();
        self.time += start.elapsed();
        self.operations += operations;
    }

    fn add(&mut self, other: Self) {
        self.operations += other.operations;
        self.time += other.time;
    }

    pub(super) fn nanos_each(self) -> f64 {
        self.time.as_nanos() as f64 / self.operations as f64
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    pub(super) start: Cost,
    pub(super) stop: Cost,
    pub(super) tick: Cost,
}

impl Sample {
    pub(super) fn add(&mut self, Self { start, stop, tick }: Self) {
        self.start.add(start);
        self.stop.add(stop);
        self.tick.add(tick);
    }
}

/// Fills a structure, then replaces timers at random, then turns the clock tick by tick.
///
/// It replaces each timer once at the most, so that a heap that removes lazily holds no more than one dead timer for
/// each that lives.
pub(super) fn lap<T: Timers>(workload: &Workload) -> Sample {
    let mut deadlines = workload.deadlines.clone();
    let mut timers = T::new(deadlines.len());
    let mut handles: Vec<T::Handle> = (0..)
        .zip(&deadlines)
        .map(|(payload, &deadline)| timers.start(Nanos::ZERO, deadline, payload))
        .collect();
    let mut sample = Sample::default();
    replace(&mut timers, &mut handles, &mut deadlines, &mut sample);
    turn(&mut timers, &deadlines, &mut sample);
    sample
}

fn replace<T: Timers>(
    timers: &mut T,
    handles: &mut [T::Handle],
    deadlines: &mut [Nanos],
    sample: &mut Sample,
) {
    let size = handles.len();
    let batch = BATCH.min(size);
    let mut random = fastrand::Rng::new();
    let mut found = 0;
    let begin = Instant::now();
    for _ in 0..size / batch {
        // One from each of as many equal parts, so that none is chosen twice, and in random order.
        let mut chosen: Vec<usize> =
            (0..batch).map(|part| part * (size / batch) + random.usize(..size / batch)).collect();
        random.shuffle(&mut chosen);
        // Gathered first: otherwise looking into the long vectors would be measured too.
        let old: Vec<T::Handle> = chosen.iter().map(|&position| handles[position]).collect();
        let new: Vec<(Nanos, u32)> = chosen
            .iter()
            .map(|&position| (random_deadline(&mut random), u32::try_from(position).expect("a payload")))
            .collect();
        sample.stop.measure(batch as u64, || {
            found += old.iter().filter(|&&handle| timers.stop(handle)).count();
        });
        let mut started = Vec::with_capacity(batch);
        sample.start.measure(batch as u64, || {
            started.extend(new.iter().map(|&(at, payload)| timers.start(Nanos::ZERO, at, payload)));
        });
        for ((&position, handle), (deadline, _)) in chosen.iter().zip(started).zip(new) {
            handles[position] = handle;
            deadlines[position] = deadline;
        }
        if begin.elapsed() > PART {
            break;
        }
    }
    assert_eq!(found as u64, sample.stop.operations, "{} did not find what it should stop", T::NAME);
}

fn turn<T: Timers>(timers: &mut T, deadlines: &[Nanos], sample: &mut Sample) {
    let mut fired = Vec::new();
    let mut tick = 0;
    let mut batch = 1;
    // Twice as many each time, so that the readings of the clock do not count.
    while tick < TICKS && sample.tick.time < PART {
        let end = (tick + batch).min(TICKS);
        sample.tick.measure(end - tick, || {
            for tick in tick + 1..=end {
                timers.advance(Nanos(tick * TICK.0), &mut fired);
            }
        });
        tick = end;
        batch *= 2;
    }
    let now = Nanos(tick * TICK.0);
    assert!(fired.iter().all(|&payload| deadlines[payload as usize] <= now), "{} fired early", T::NAME);
    let due = deadlines.iter().filter(|&&deadline| deadline <= now).count();
    assert_eq!(fired.len(), due, "{} did not fire what was due", T::NAME);
}

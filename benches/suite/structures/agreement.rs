//! Whether all structures fire the same timers at the same ticks.

use timingwheel::wheel::Nanos;

use super::timers::{TICK, Timers};
use super::{SUBJECTS, Subject};
use crate::support::Scale;

/// Steps of which each starts a timer, stops one that may long have fired, and turns the clock.
pub(super) struct Script {
    steps: Vec<Step>,
}

struct Step {
    delay: Nanos,
    /// The number of the start whose timer is stopped, if it has not fired.
    stop: usize,
    turn: Nanos,
}

/// What a structure did.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Replay {
    /// Whether each stop found its timer.
    stopped: Vec<bool>,
    /// The numbers of what fired at each turn, sorted.
    fired: Vec<Vec<u32>>,
}

impl Script {
    fn random(steps: usize) -> Self {
        /// Beyond the hashed wheel's ring, and on the third level of ours.
        const LONGEST_DELAY: u64 = 10_000;
        const LONGEST_TURN: u64 = 20;
        let mut random = fastrand::Rng::with_seed(0);
        let mut ticks = |range: std::ops::RangeInclusive<u64>| Nanos(random.u64(range) * TICK.0);
        let mut stops = fastrand::Rng::with_seed(1);
        let steps = (0..steps)
            .map(|number| Step {
                delay: ticks(1..=LONGEST_DELAY),
                stop: stops.usize(..=number),
                turn: ticks(0..=LONGEST_TURN),
            })
            .collect();
        Self { steps }
    }
}

pub(super) fn replay<T: Timers>(script: &Script) -> Replay {
    let mut timers = T::new(script.steps.len());
    let mut replay = Replay::default();
    let mut now = Nanos::ZERO;
    let mut started: Vec<(T::Handle, Nanos)> = Vec::new();
    let mut turn = |timers: &mut T, now: Nanos, started: &[(T::Handle, Nanos)]| {
        let mut fired = Vec::new();
        timers.advance(now, &mut fired);
        for &payload in &fired {
            assert!(started[payload as usize].1 <= now, "{} fired a timer early", T::NAME);
        }
        fired.sort_unstable();
        replay.fired.push(fired);
    };
    for (number, step) in (0..).zip(&script.steps) {
        let deadline = Nanos(now.0 + step.delay.0);
        started.push((timers.start(now, deadline, number), deadline));
        replay.stopped.push(timers.stop(started[step.stop].0));
        now = Nanos(now.0 + step.turn.0);
        turn(&mut timers, now, &started);
    }
    let last = started.iter().map(|&(_, deadline)| deadline).max().unwrap_or(now);
    turn(&mut timers, last.max(now), &started);
    let stopped = replay.stopped.iter().filter(|&&was_there| was_there).count();
    let fired = replay.fired.iter().map(Vec::len).sum::<usize>();
    assert_eq!(stopped + fired, started.len(), "{} lost timers, or fired some twice", T::NAME);
    replay
}

/// # Panics
/// If two structures differ.
pub(super) fn check(scale: Scale) {
    const STEPS: usize = 20_000;
    let script = Script::random(if scale.is_test() { STEPS / 10 } else { STEPS });
    let [first, others @ ..] = &SUBJECTS;
    let expected = (first.replay)(&script);
    assert!(expected.fired.iter().any(|fired| !fired.is_empty()), "no timer fired");
    assert!(expected.stopped.contains(&true) && expected.stopped.contains(&false), "stops were all alike");
    for Subject { name, replay, .. } in others {
        assert!(replay(&script) == expected, "{name} and {} differ", first.name);
    }
}

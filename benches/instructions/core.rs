//! The pure core, told what time it is: nothing in it varies but the code.

use std::hint::black_box;
use std::time::Duration;

use timingwheel::wheel::{Hierarchy, Key, Nanos, Progress, Resolution};

use crate::operation::{Operation, Prepared, REPETITIONS};

pub(crate) static OURS: [Operation; 6] = [
    Operation::new("core: insert", insert),
    Operation::new("core: cancel", cancel),
    Operation::new("core: move to later", move_to_later),
    Operation::new("core: move to earlier", move_to_earlier),
    Operation::new("core: hand out", hand_out),
    Operation::new("core: cascade", cascade),
];

const TICK: Duration = Duration::from_millis(1);
const SLOTS: u32 = 64;
/// A slot is as wide as so many of the level below.
const GROWTH: u32 = 8;
/// At least as many entries as any slot holds, but for the one that cascades.
const IN_A_SLOT: u32 = 20;

/// A wheel with its entries, and when they are due.
struct Core {
    wheel: Hierarchy<usize>,
    deadlines: Vec<Nanos>,
    /// Of the pending entries, in the order in which they are to be cancelled or moved.
    keys: Vec<Key>,
    expired: Vec<usize>,
}

impl Core {
    /// A warm wheel: each slot of five levels has held as many entries as it ever will, and all are gone.
    fn warm(deadline: fn(u32) -> Duration) -> Self {
        const LEVELS: u32 = 5;
        let mut core = Self {
            wheel: Hierarchy::new(Resolution::new(TICK).expect("not zero"), SLOTS as usize),
            deadlines: vec![],
            keys: vec![],
            expired: Vec::with_capacity(REPETITIONS as usize),
        };
        for level in 0..LEVELS {
            let width = TICK * GROWTH.pow(level);
            core.deadlines
                .extend((0..IN_A_SLOT * SLOTS).map(|n| Nanos::from_duration(width * (1 + n % SLOTS))));
        }
        core.insert();
        core.cancel();
        core.deadlines = (0..REPETITIONS).map(|n| Nanos::from_duration(deadline(n))).collect();
        core.insert();
        core.cancel();
        core
    }

    /// A warm wheel with these entries pending.
    fn pending(deadline: fn(u32) -> Duration) -> Self {
        let mut core = Self::warm(deadline);
        core.insert();
        // Entries leave and move in no order.
        fastrand::Rng::with_seed(1).shuffle(&mut core.keys);
        core
    }

    fn insert(&mut self) {
        for (payload, &deadline) in self.deadlines.iter().enumerate() {
            let key = self.wheel.insert(black_box(Nanos::ZERO), black_box(deadline), payload);
            self.keys.push(key.expect("the deadline lies ahead"));
        }
    }

    fn cancel(&mut self) {
        for key in self.keys.drain(..) {
            assert!(self.wheel.cancel(black_box(key)).is_some());
        }
    }

    fn reschedule(&mut self) {
        for (key, &deadline) in self.keys.iter().zip(&self.deadlines) {
            assert!(self.wheel.reschedule(black_box(*key), black_box(deadline)));
        }
    }

    fn advance(&mut self, now: Duration) {
        let now = Nanos::from_duration(now);
        let progress = self.wheel.advance(black_box(now), 2 * REPETITIONS as usize, &mut self.expired);
        assert_eq!(progress, Progress::Done);
    }

    fn assert_pending(&self, pending: usize) {
        assert_eq!(self.wheel.len(), pending);
    }
}

/// Deadlines seconds to minutes ahead, as those of calls are: most of them on the fifth level, some sixteen in each
/// of its slots.
fn far(n: u32) -> Duration {
    Duration::from_secs(5) + Duration::from_millis(250) * n
}

fn insert() -> Prepared {
    Prepared::new(Core::warm(far), Core::insert, |core| core.assert_pending(REPETITIONS as usize))
}

fn cancel() -> Prepared {
    Prepared::new(Core::pending(far), Core::cancel, |core| core.assert_pending(0))
}

fn move_to_later() -> Prepared {
    let mut core = Core::pending(far);
    for deadline in &mut core.deadlines {
        *deadline = Nanos(2 * deadline.0);
    }
    Prepared::new(core, Core::reschedule, |core| core.assert_pending(REPETITIONS as usize))
}

fn move_to_earlier() -> Prepared {
    let mut core = Core::pending(far);
    for deadline in &mut core.deadlines {
        *deadline = Nanos(deadline.0 / 2);
    }
    Prepared::new(core, Core::reschedule, |core| core.assert_pending(REPETITIONS as usize))
}

/// The span of the first level.
fn first_level() -> Duration {
    TICK * SLOTS
}

fn spread_over_first_level(n: u32) -> Duration {
    first_level() * (n + 1) / (REPETITIONS + 1)
}

fn hand_out() -> Prepared {
    Prepared::new(
        Core::pending(spread_over_first_level),
        |core| core.advance(first_level()),
        |core| assert_eq!(core.expired.len(), REPETITIONS as usize),
    )
}

/// Deadlines spread over one slot of the second level, which begins.
fn cascade() -> Prepared {
    Prepared::new(
        Core::pending(|n| first_level() + spread_over_first_level(n) * GROWTH / SLOTS),
        |core| core.advance(first_level()),
        |core| assert_eq!((core.wheel.cascaded(), core.expired.len()), (u64::from(REPETITIONS), 0)),
    )
}

//! Profiles: settings of a wheel that go together.

use std::time::Duration;

/// Settings of a wheel that go together, for [`Builder::profile`](crate::Builder::profile).
///
/// | profile | tick | slots in a level | shards |
/// |---|---|---|---|
/// | [`HighConcurrency`](Self::HighConcurrency) | 1 ms | 1,024 | one for each worker |
/// | [`LowLatency`](Self::LowLatency) | 100 µs | 1,024 | one for each worker |
/// | [`SmallMemory`](Self::SmallMemory) | 10 ms | 16 | 1 |
/// | none of them, the default | 1 ms | 64 | one for each worker |
///
/// The effect on timers, at the most:
///
/// | profile | moves of a timer of 1 s | 30 s | 10 min | 1 day | bytes of a shard's slots, empty | with timers of all four | wake-ups in a second |
/// |---|---|---|---|---|---|---|---|
/// | `HighConcurrency` | 0 | 1 | 1 | 2 | 49,176 | 196,896 | 1,000 |
/// | `LowLatency` | 1 | 1 | 2 | 2 | 49,176 | 246,048 | 10,000 |
/// | `SmallMemory` | 1 | 2 | 3 | 5 | 792 | 4,704 | 100 |
/// | default | 1 | 2 | 3 | 4 | 3,096 | 15,648 | 1,000 |
///
/// A timer moves when the clock comes to its slot on a coarser level, unless it was cancelled before. A slot that was
/// used keeps up to 512 bytes more. The wheel is turned about once for each tick in which a timer is due, so a shorter tick
/// costs CPU time as soon as timers fire in more ticks. The report, in `benches/report` beside the sources, shows lateness,
/// CPU time and the cost of arming.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Profile {
    /// For very many timers with delays of seconds and minutes: few of them move, and workers do not wait for each other.
    HighConcurrency,
    /// Late by less than a tenth of a millisecond, or two tenths where many fire, plus the delay of the runtime, at
    /// the price of more wake-ups.
    LowLatency,
    /// Little memory and few wake-ups. Timers are late by up to 10 ms.
    SmallMemory,
}

impl Profile {
    /// All profiles.
    #[must_use]
    pub const fn all() -> &'static [Self] {
        &[Self::HighConcurrency, Self::LowLatency, Self::SmallMemory]
    }

    /// The profile's tick: [`Builder::tick`](crate::Builder::tick).
    #[must_use]
    pub const fn tick(self) -> Duration {
        match self {
            Self::HighConcurrency => Duration::from_millis(1),
            Self::LowLatency => Duration::from_micros(100),
            Self::SmallMemory => Duration::from_millis(10),
        }
    }

    /// How many slots the profile's levels have: [`Builder::wheel_size`](crate::Builder::wheel_size).
    #[must_use]
    pub const fn wheel_size(self) -> usize {
        match self {
            Self::HighConcurrency | Self::LowLatency => 1_024,
            Self::SmallMemory => 16,
        }
    }

    /// How many [shards](crate::Builder::shards) the profile has. `None` means one for each worker.
    #[must_use]
    pub const fn shards(self) -> Option<usize> {
        match self {
            Self::HighConcurrency | Self::LowLatency => None,
            Self::SmallMemory => Some(1),
        }
    }
}

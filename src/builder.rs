//! The settings of a wheel and their limits. `build` makes a wheel of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;

use crate::engine::alarm::Alarm;
use crate::engine::max_pending::MaxPending;
use crate::engine::shard::Shard;
use crate::engine::turn::Turner;
use crate::error::BuildError;
use crate::handle::{Settings, TimingWheel, Wheel};
use crate::platform::clock::Clock;
use crate::telemetry::counters::Counters;
use crate::wheel::{Hierarchy, Resolution};

impl TimingWheel {
    /// Makes a wheel with the default settings, on the current tokio runtime.
    ///
    /// # Panics
    /// If this thread is not within a tokio runtime, or if [`Builder::build`] panics. The message names the caller.
    #[must_use]
    #[track_caller]
    #[expect(clippy::new_without_default, reason = "it starts a driver, and may panic")]
    pub fn new() -> Self {
        match Self::builder().build() {
            Ok(wheel) => wheel,
            Err(error) => panic!("`TimingWheel::new` failed: {error}"),
        }
    }

    /// Settings for a wheel.
    pub const fn builder() -> Builder {
        let settings =
            Settings { tick: Duration::from_millis(1), wheel_size: 64, shards: None, max_pending: None };
        Builder { settings, name: None }
    }

    /// Settings for another wheel like this one, with the same name.
    pub(crate) fn builder_of_another(&self) -> Builder {
        Builder { settings: self.wheel.settings, name: Some(self.name().into()) }
    }
}

/// The settings of a [`TimingWheel`], from [`TimingWheel::builder`].
///
/// | setting | default | limits |
/// |---|---|---|
/// | [`tick`](Self::tick) | 1 ms | 1 µs to `u64::MAX` ns |
/// | [`wheel_size`](Self::wheel_size) | 64 slots | 2 to 65,536 |
/// | [`shards`](Self::shards) | one for each worker, as far as slots allow | 1 to 1,024 |
/// | [`max_pending`](Self::max_pending) | no bound | any number; 0 refuses every timer |
/// | [`name`](Self::name) | `wheel-1`, `wheel-2` and so on | any text |
///
/// Shards times slots must be at most 8,388,608, which take 400 MB. A [`profile`](Self::profile) sets the first three
/// settings at once.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), timingwheel::BuildError> {
/// use std::time::Duration;
/// use timingwheel::TimingWheel;
///
/// let wheel = TimingWheel::builder().tick(Duration::from_micros(100)).max_pending(100_000).build()?;
/// wheel.sleep(Duration::from_micros(250)).await;
///
/// let error = TimingWheel::builder().wheel_size(1).build().unwrap_err();
/// assert_eq!(error.to_string(), "wheel size must be 2 to 65536, got 1");
/// # Ok(())
/// # }
/// ```
#[must_use = "a builder does nothing until `build` is called"]
#[derive(Clone, Debug)]
pub struct Builder {
    pub(crate) settings: Settings,
    name: Option<String>,
}

/// A name for a wheel that was given none.
fn next_name() -> String {
    static NAMED: AtomicU64 = AtomicU64::new(0);
    format!("wheel-{}", NAMED.fetch_add(1, Ordering::Relaxed) + 1)
}

const MIN_TICK: Duration = Duration::from_micros(1);
const MAX_TICK: Duration = Duration::from_nanos(u64::MAX);
const MAX_SHARDS: usize = 1024;
/// In a level of all shards together.
const MAX_SLOTS: usize = 128 * Wakers::MAX_SLOTS;

type Wakers = Hierarchy<std::task::Waker>;

impl Builder {
    /// Sets tick, wheel size and shards for a purpose: see [`Profile`]. Settings that follow override it.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), timingwheel::BuildError> {
    /// use std::time::Duration;
    /// use timingwheel::{Profile, TimingWheel};
    ///
    /// let wheel = TimingWheel::builder().profile(Profile::LowLatency).shards(1).build()?;
    /// wheel.sleep(Duration::from_micros(250)).await;
    /// # Ok(())
    /// # }
    /// ```
    pub const fn profile(mut self, profile: Profile) -> Self {
        let (tick, wheel_size, shards) = match profile {
            Profile::HighConcurrency => (Duration::from_millis(1), 1_024, None),
            Profile::LowLatency => (Duration::from_micros(100), 1_024, None),
            Profile::SmallMemory => (Duration::from_millis(10), 16, Some(1)),
        };
        self.settings = Settings { tick, wheel_size, shards, ..self.settings };
        self
    }

    /// How long a tick is. Timers fire less than a tick after their deadlines, or less than two on a
    /// [busy wheel](TimingWheel#precision).
    ///
    /// On a multi-thread runtime the wheel is turned at most about once in a tick, for all shards together. Where the
    /// clock can be paused it may be turned once in a tick for each shard.
    ///
    /// With 1 ms, the default, a busy wheel takes less CPU time than tokio's timers and is as late. With 500 µs it is half
    /// as late. Where hundreds of timers fire in a millisecond, it still takes less CPU time than tokio's timers. Where some
    /// tens fire, it takes up to twice as much.
    pub const fn tick(mut self, tick: Duration) -> Self {
        self.settings.tick = tick;
        self
    }

    /// How many slots each level has. With more slots a timer moves down fewer times, and each level takes more memory.
    /// In every shard a slot takes 48 bytes, and 8 bytes for each key in it. An emptied slot keeps at most 512 bytes
    /// for keys. A level whose slots no timer needs takes no memory. The module [`wheel`](crate::wheel#how-it-works)
    /// tells how wide the slots of each level are.
    pub const fn wheel_size(mut self, slots: usize) -> Self {
        self.settings.wheel_size = slots;
        self
    }

    /// Over how many shards the timers are spread. Each shard has its own lock. If more threads make timers than there
    /// are shards, some threads wait for each other.
    pub const fn shards(mut self, shards: usize) -> Self {
        self.settings.shards = Some(shards);
        self
    }

    /// How many timers may be pending at a time. Each pending timer holds a permit, like one of tokio's semaphore. The
    /// wheel refuses a timer for which no permit is left. Each method that makes timers tells what it does then. A
    /// timer that is due at its first poll needs no permit.
    ///
    /// All shards share one counter. It costs as much as sharding saves. So set a bound only if you need one. Without a
    /// bound, timers may take all memory, and Rust then aborts the process.
    pub const fn max_pending(mut self, timers: usize) -> Self {
        self.settings.max_pending = Some(timers);
        self
    }

    /// The wheel's name in [metrics and events](crate::monitor). Wheels without a name are numbered.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Builds the wheel on the current tokio runtime, as [`build_on`](Self::build_on) does.
    ///
    /// # Errors
    /// - A setting is beyond its limits.
    /// - This thread is not within a tokio runtime.
    ///
    /// # Panics
    /// As [`build_on`](Self::build_on).
    #[track_caller]
    pub fn build(self) -> Result<TimingWheel, BuildError> {
        self.build_within(&Handle::try_current().map_err(|_| BuildError::NoRuntime)?)
    }

    /// Builds the wheel, with its driver as a task on `runtime`, which this thread need not be within.
    ///
    /// # Errors
    /// If a setting is beyond its limits.
    ///
    /// # Panics
    /// If the runtime lacks the driver that calls the wheel. Build the runtime with `enable_all`. tokio gives no way to
    /// ask for its drivers, so the panic is tokio's.
    ///
    /// - A multi-thread runtime needs its I/O driver.
    /// - A current-thread runtime needs tokio's timers. With a tick of less than a millisecond it needs the I/O driver
    ///   instead, unless tokio has its feature `test-util`.
    /// - Every runtime needs tokio's timers instead on systems without timerfds, and without the feature `timerfd`.
    /// - If the system refuses a timerfd, the wheel needs tokio's timers in addition to the I/O driver. An
    ///   [event](crate::monitor#events) tells why the system refused.
    #[track_caller]
    pub fn build_on(self, runtime: &Handle) -> Result<TimingWheel, BuildError> {
        let _entered = runtime.enter();
        self.build_within(runtime)
    }

    /// Builds the wheel on the current runtime. That is not entered here: tokio may hold its context borrowed, as when an
    /// ending runtime drops a future that it refuses.
    #[track_caller]
    fn build_within(self, runtime: &Handle) -> Result<TimingWheel, BuildError> {
        let Self { settings: Settings { tick, wheel_size, shards, max_pending }, name } = self;
        if tick < MIN_TICK {
            return Err(BuildError::TickTooShort { tick, min: MIN_TICK });
        }
        let Some(resolution) = Resolution::new(tick) else {
            return Err(BuildError::TickTooLong { tick, max: MAX_TICK });
        };
        let (min, max) = (Wakers::MIN_SLOTS, Wakers::MAX_SLOTS);
        if !(min..=max).contains(&wheel_size) {
            return Err(BuildError::WheelSize { wheel_size, min, max });
        }
        if let Some(shards) = shards
            && !(1..=MAX_SHARDS).contains(&shards)
        {
            return Err(BuildError::Shards { shards, max: MAX_SHARDS });
        }
        let workers = runtime.metrics().num_workers();
        let shards = shards.unwrap_or_else(|| workers.clamp(1, MAX_SHARDS.min(MAX_SLOTS / wheel_size)));
        if shards * wheel_size > MAX_SLOTS {
            return Err(BuildError::Slots { shards, wheel_size, max: MAX_SLOTS });
        }
        let clock = Clock::of(runtime);
        // Tests count in ticks from when they begin.
        let resolution =
            if clock.is_pausable { resolution.with_a_border_at(clock.now()) } else { resolution };
        let counters = Counters::of(name.unwrap_or_else(next_name));
        let alarm = Arc::new(Alarm::new(clock.clone(), resolution, counters));
        let bound = max_pending.map(|max_pending| Arc::new(MaxPending::new(max_pending)));
        let shards: Box<[Arc<Shard>]> = (0..shards)
            .map(|number| {
                let hierarchy = Hierarchy::new(resolution, wheel_size);
                Arc::new(Shard::new((number, shards), hierarchy, clock.clone(), alarm.clone(), bound.clone()))
            })
            .collect();

        let turner = Arc::new(Turner::new(&shards, alarm, clock));
        let driver = turner.begin(workers);
        turner.alarm.counters.begins(tick, wheel_size, shards.len(), max_pending);
        runtime.spawn(driver);
        let settings = Settings { tick, wheel_size, shards: Some(shards.len()), max_pending };
        let runtime = Some(runtime.id());
        Ok(TimingWheel { wheel: Arc::new(Wheel { shards, turner, runtime, settings }) })
    }
}

/// Settings of a wheel that go together, for [`Builder::profile`](crate::Builder::profile).
///
/// | profile | tick | slots in a level | shards |
/// |---|---|---|---|
/// | [`HighConcurrency`](Self::HighConcurrency) | 1 ms | 1,024 | one for each worker |
/// | [`LowLatency`](Self::LowLatency) | 100 µs | 1,024 | one for each worker |
/// | [`SmallMemory`](Self::SmallMemory) | 10 ms | 16 | 1 |
/// | none of them, the default | 1 ms | 64 | one for each worker |
///
/// More slots take more memory, and timers move less often: with 1,024 slots at 1 ms, a timer of 30 seconds or 10
/// minutes moves at most once. The wheel is turned about once for each tick in which a timer is due. So a shorter tick
/// costs CPU time if it spreads the timers over more ticks. The reports, in `benches/report` of the repository, show
/// lateness, CPU time and the cost of arming.
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
}

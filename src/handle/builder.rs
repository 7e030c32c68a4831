//! The settings of a wheel, their limits, and putting a wheel together.

use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::engine::alarm::Alarm;
use crate::engine::bound::Bound;
use crate::engine::driver::{CannotDrive, DrivenShards, DriverTask};
use crate::engine::shard::Shard;
use crate::error::BuildError;
use crate::handle::profile::Profile;
use crate::handle::timing_wheel::TimingWheel;
use crate::platform::clock::Clock;
use crate::telemetry::counters::Counters;
use crate::wheel::{Hierarchy, Resolution};

impl TimingWheel {
    /// Makes a wheel with the default settings, on the current tokio runtime.
    ///
    /// # Panics
    /// If [`Builder::build`] would return an error: this thread is not within a tokio runtime, the runtime is a
    /// current-thread one without `enable_time`, or the operating system gives no thread for the watchdog. The message
    /// names the caller.
    #[must_use]
    #[track_caller]
    #[expect(clippy::new_without_default, reason = "it starts a driver, and may panic")]
    pub fn new() -> Self {
        match Self::builder().build() {
            Ok(wheel) => wheel,
            Err(error) => match error.source() {
                Some(source) => panic!("`TimingWheel::new` failed: {error}: {source}"),
                None => panic!("`TimingWheel::new` failed: {error}"),
            },
        }
    }

    /// Settings for a wheel.
    pub const fn builder() -> Builder {
        Builder {
            tick: Duration::from_millis(1),
            wheel_size: 64,
            shards: None,
            max_pending: None,
            name: None,
        }
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
    tick: Duration,
    wheel_size: usize,
    shards: Option<usize>,
    max_pending: Option<usize>,
    name: Option<String>,
}

/// A name for a wheel that was given none.
fn next_name() -> String {
    static NAMED: AtomicU64 = AtomicU64::new(0);
    // As much memory whatever the number.
    let mut name = String::with_capacity("wheel-".len() + u64::MAX.ilog10() as usize + 1);
    name.push_str("wheel-");
    name.push_str(&(NAMED.fetch_add(1, Ordering::Relaxed) + 1).to_string());
    name
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
        self.tick = profile.tick();
        self.wheel_size = profile.wheel_size();
        self.shards = profile.shards();
        self
    }

    /// How long a tick is. Timers fire less than a tick after their deadlines, or less than two on a
    /// [busy wheel](TimingWheel#precision).
    ///
    /// On a multi-thread runtime the wheel is turned at most about once in a tick, for all shards together. On a
    /// current-thread runtime it may be turned once in a tick for each shard.
    ///
    /// With 1 ms, the default, a busy wheel takes less CPU time than tokio's timers and is as late. With 500 µs it is half as
    /// late, takes as much CPU time or less, and up to 1.2 times the context switches.
    pub const fn tick(mut self, tick: Duration) -> Self {
        self.tick = tick;
        self
    }

    /// How many slots each level has. With more slots a timer moves down fewer times, and each level takes more
    /// memory: 48 bytes a slot in every shard, and up to 512 bytes more for the keys of a slot in use. How wide the slots of
    /// each level are tells [`wheel`](crate::wheel#how-it-works); a level whose slots no timer needs takes no memory.
    pub const fn wheel_size(mut self, slots: usize) -> Self {
        self.wheel_size = slots;
        self
    }

    /// Over how many shards the timers are spread. Each shard has its own lock. If more threads make timers than there
    /// are shards, some threads wait for each other.
    pub const fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// How many timers may be pending at a time. Each takes a permit, as of tokio's semaphore, until it is no longer
    /// pending. The wheel refuses one more, as the methods that make timers say. A timer that is due at its first poll
    /// needs no permit.
    ///
    /// All shards share one counter. It costs as much as sharding saves. So set a bound only if you need one. Without a
    /// bound, timers may take all memory, and Rust then aborts the process.
    pub const fn max_pending(mut self, timers: usize) -> Self {
        self.max_pending = Some(timers);
        self
    }

    /// The wheel's name in [metrics and events](crate::monitor). Wheels without a name are numbered.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Builds the wheel, with its driver as a task on the current tokio runtime.
    ///
    /// # Errors
    /// - A setting is beyond its limits.
    /// - This thread is not within a tokio runtime.
    /// - The runtime is a current-thread one without `enable_time`, so the wheel could not follow its clock.
    /// - The runtime has neither an I/O driver nor timers, and the operating system gives no thread for the watchdog,
    ///   which alone could wake the wheel there.
    ///
    /// # Panics
    /// Never, if panics unwind. If panics abort, this call aborts the process when its runtime has no I/O driver and
    /// another runtime of the process has one, or when its runtime is a current-thread one without `enable_time`: tokio
    /// reports a missing driver only by a panic. In such a program, turn the feature `timerfd` off, and enable time.
    pub fn build(self) -> Result<TimingWheel, BuildError> {
        let Self { tick, wheel_size, shards, max_pending, name } = self;
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
        let runtime = Handle::try_current().map_err(|_| BuildError::NoRuntime)?;
        let pausable = runtime.runtime_flavor() != RuntimeFlavor::MultiThread;

        let workers = runtime.metrics().num_workers();
        let shards = shards.unwrap_or_else(|| workers.clamp(1, MAX_SHARDS.min(MAX_SLOTS / wheel_size)));
        if shards * wheel_size > MAX_SLOTS {
            return Err(BuildError::Slots { shards, wheel_size, max: MAX_SLOTS });
        }
        let clock = Clock::start().that_pauses(pausable);
        let name = name.unwrap_or_else(next_name);
        let alarm = Arc::new(Alarm::new(clock, pausable, shards, Counters::of(name)));
        let bound = max_pending.map(|max_pending| Arc::new(Bound::new(max_pending)));
        let shards: Box<[Arc<Shard>]> = (0..shards)
            .map(|number| {
                let hierarchy = Hierarchy::new(resolution, wheel_size);
                Arc::new(Shard::new((number, shards), hierarchy, clock, alarm.clone(), bound.clone()))
            })
            .collect();

        let driven = Arc::new(DrivenShards::new(&shards));
        let driver = DriverTask::new(driven.clone(), alarm.clone(), clock, resolution);
        driver.begin(workers).map_err(|cannot| match cannot {
            CannotDrive::NoTimers => BuildError::NoTimers,
            CannotDrive::NoThread(error) => BuildError::WatchdogThread(error),
        })?;
        alarm.counters().begins(tick, wheel_size, shards.len(), max_pending);
        runtime.spawn(driver);
        Ok(TimingWheel::from_parts(shards, driven, alarm, Some(runtime.id())))
    }
}

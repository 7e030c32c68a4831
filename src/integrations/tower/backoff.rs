//! Waiting between retries: longer each time, and by lot.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::tower::retry::backoff::{Backoff, MakeBackoff};
use ::tower::util::rng::{HasherRng, Rng};

use super::BackoffError;
use crate::handle::timing_wheel::TimingWheel;
use crate::timers::sleep::Sleep;

const SHORTEST_MAX: Duration = Duration::from_nanos(1);
const SMALLEST_JITTER: f64 = 0.0;
const LARGEST_JITTER: f64 = 100.0;

/// Makes [`ExponentialBackoff`]s, as `tower::retry::backoff::ExponentialBackoffMaker` does, that wait on a wheel.
///
/// # Differences
///
/// | | here | in tower 0.5.3 |
/// |---|---|---|
/// | random numbers | one sequence for all back-offs of a maker | each begins the sequence anew, so requests that fail together try again together |
/// | jitter | a share, to the nanosecond | its whole seconds and its nanoseconds are rounded down apart: at 1 s a share below 1 adds nothing |
/// | doubling | until the longest is reached | ends after 31 times |
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), timingwheel::tower::BackoffError> {
/// use std::time::Duration;
/// use timingwheel::{TimingWheel, tower::ExponentialBackoffMaker};
/// use tokio::time::Instant;
/// use tower::retry::backoff::{Backoff, MakeBackoff};
/// use tower::util::rng::HasherRng;
///
/// let wheel = TimingWheel::new();
/// let (min, max) = (Duration::from_millis(50), Duration::from_secs(10));
/// let mut maker = ExponentialBackoffMaker::new(wheel, min, max, 0.5, HasherRng::new())?;
///
/// let mut backoff = maker.make_backoff();
/// let start = Instant::now();
/// backoff.next_backoff().await; // 50 to 75 ms.
/// backoff.next_backoff().await; // 100 to 150 ms.
/// assert!((150..=225).contains(&start.elapsed().as_millis()));
/// # Ok(())
/// # }
/// ```
#[must_use = "a maker does nothing until it makes a back-off"]
pub struct ExponentialBackoffMaker<R = HasherRng> {
    wheel: TimingWheel,
    min: Duration,
    max: Duration,
    jitter: f64,
    /// One for all, so that requests which fail together do not wait for the same times.
    rng: Arc<Mutex<R>>,
}

impl<R: Rng> ExponentialBackoffMaker<R> {
    /// The first back-off is `min`. Each later one is twice as long, up to `max`. Each is made longer by a random share
    /// of itself, from 0 to `jitter`, drawn with `rng`, but not beyond `max`. If `min` is zero, no back-off waits.
    ///
    /// # Errors
    /// If `max` is zero or less than `min`, or if `jitter` is not a number from 0 to 100.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::{TimingWheel, tower::ExponentialBackoffMaker};
    /// use tower::util::rng::HasherRng;
    ///
    /// let (min, max) = (Duration::from_millis(50), Duration::from_secs(10));
    /// let made = ExponentialBackoffMaker::new(TimingWheel::new(), min, max, -0.5, HasherRng::new());
    /// assert_eq!(made.unwrap_err().to_string(), "jitter must be 0 to 100, got -0.5");
    /// # }
    /// ```
    pub fn new(
        wheel: TimingWheel,
        min: Duration,
        max: Duration,
        jitter: f64,
        rng: R,
    ) -> Result<Self, BackoffError> {
        if max < SHORTEST_MAX {
            return Err(BackoffError::MaxTooShort { max, shortest: SHORTEST_MAX });
        }
        if max < min {
            return Err(BackoffError::MaxBelowMin { max, min });
        }
        // No range contains what is not a number.
        if !(SMALLEST_JITTER..=LARGEST_JITTER).contains(&jitter) {
            return Err(BackoffError::Jitter { jitter, smallest: SMALLEST_JITTER, largest: LARGEST_JITTER });
        }
        Ok(Self { wheel, min, max, jitter, rng: Arc::new(Mutex::new(rng)) })
    }

    fn begin(&self) -> ExponentialBackoff<R> {
        ExponentialBackoff { maker: self.clone(), base: self.min }
    }
}

impl<R: Rng> MakeBackoff for ExponentialBackoffMaker<R> {
    type Backoff = ExponentialBackoff<R>;

    fn make_backoff(&mut self) -> ExponentialBackoff<R> {
        self.begin()
    }
}

impl<R> Clone for ExponentialBackoffMaker<R> {
    fn clone(&self) -> Self {
        let Self { wheel, min, max, jitter, rng } = self;
        Self { wheel: wheel.clone(), min: *min, max: *max, jitter: *jitter, rng: rng.clone() }
    }
}

/// Back-offs for the retries of one request, from [`ExponentialBackoffMaker`].
///
/// The future of each back-off is a [`Sleep`], which panics if the wheel has ended or is full; [`Sleep::try_wait`]
/// returns an error instead.
///
/// A clone begins again with the shortest back-off, as [`Backoff`] asks for, and draws from the same sequence of random
/// numbers. So each request that gets a clone of the policy has its own times.
#[must_use = "a back-off does nothing until its futures are awaited"]
pub struct ExponentialBackoff<R = HasherRng> {
    maker: ExponentialBackoffMaker<R>,
    /// The next one, without jitter.
    base: Duration,
}

impl<R: Rng> Backoff for ExponentialBackoff<R> {
    type Future = Sleep;

    fn next_backoff(&mut self) -> Sleep {
        let Self { maker: ExponentialBackoffMaker { wheel, min: _, max, jitter, rng }, base } = self;
        let mut wait = *base;
        if *jitter > 0.0 {
            // The numbers are as good after a panic in there as before.
            let drawn = rng.lock().unwrap_or_else(PoisonError::into_inner).next_f64();
            let longer = Duration::try_from_secs_f64(base.as_secs_f64() * drawn * *jitter);
            // What no duration can hold is beyond `max` as well.
            wait = longer.map_or(*max, |longer| base.saturating_add(longer).min(*max));
        }
        *base = base.saturating_mul(2).min(*max);
        wheel.sleep(wait)
    }
}

impl<R: Rng> Clone for ExponentialBackoff<R> {
    fn clone(&self) -> Self {
        self.maker.begin()
    }
}

impl<R> fmt::Debug for ExponentialBackoffMaker<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wheel: _, min, max, jitter, rng: _ } = self;
        f.debug_struct("ExponentialBackoffMaker")
            .field("min", min)
            .field("max", max)
            .field("jitter", jitter)
            .finish_non_exhaustive()
    }
}

impl<R> fmt::Debug for ExponentialBackoff<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { maker, base } = self;
        f.debug_struct("ExponentialBackoff").field("maker", maker).field("base", base).finish()
    }
}

//! The wall clock, and the looks by which it notices that somebody has set it.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use timingwheel::TimingWheel;
use timingwheel_jobs::{JobsExt, LastRun};
use tokio::time::Instant;

use super::lock;
use super::schedule::{Planned, WallSchedule};
use crate::rule::Rule;

/// A look at both clocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) shown: Timestamp,
    pub(super) at: Instant,
}

impl Reading {
    /// By how much the wall clock was set forward between the two readings. It is negative if it was set back.
    pub(super) fn set_since(&self, before: &Self) -> SignedDuration {
        let passed = self.at.saturating_duration_since(before.at);
        let passed = SignedDuration::try_from(passed).unwrap_or(SignedDuration::MAX);
        self.shown.duration_since(before.shown).saturating_sub(passed)
    }

    /// When the clock will show this, if nobody sets it. A past time is now, and one that no [`Instant`] can hold is never.
    pub(super) fn instant(&self, shown: Timestamp) -> Instant {
        /// A wheel takes this for never.
        const NEVER: Duration = Duration::from_secs(1_000 * 365 * 24 * 60 * 60);
        let wait = Duration::try_from(shown.duration_since(self.shown)).unwrap_or_default();
        self.at.checked_add(wait.min(NEVER)).unwrap_or(self.at)
    }
}

/// Fewer dead schedules are not worth a sweep.
const FEW: usize = 16;

/// Adds a weak reference. When the list is full, dead ones are swept out, and it gets room for twice as many as are left. So
/// this takes constant time on average.
fn add<T>(all: &mut Vec<Weak<T>>, one: &Arc<T>) {
    if all.len() == all.capacity() {
        sweep(all);
        all.shrink_to(2 * all.len().max(FEW));
        all.reserve_exact(all.len().max(FEW));
    }
    all.push(Arc::downgrade(one));
}

fn sweep<T>(all: &mut Vec<Weak<T>>) {
    all.retain(|one| one.strong_count() > 0);
}

/// How often the clock is read while a job waits for it.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How far the wall clock may drift from the one that only counts, before pending runs are computed anew.
const TOLERATED: SignedDuration = SignedDuration::from_millis(100);

/// The wall clock, by which rules run on a wheel.
///
/// A wheel counts the time that passes. It does not notice when a clock is set, when a time server slows a clock down
/// or speeds it up, or how long the machine was suspended. So while a job waits by a schedule of this clock, the wall
/// time is compared with the counted time once a second. If they differ by more than 100 ms, all pending runs are
/// computed anew, except those that a user has [reset](timingwheel_jobs::Repeating::reset). One timer does this for all
/// jobs of a clock, so make one clock for a program, and clone it.
///
/// If [`new`](Self::new) is called while tokio's clock is paused, the clock follows tokio's. Tests need no setup.
///
/// # Precision
/// While nobody sets the clock, a run is as punctual as that of any job on the wheel. While a time server slows the
/// clock down or speeds it up, a job may run up to 100 ms early or late by that clock. If somebody set the clock less
/// than a second before, a job may be off by up to a second.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use jiff::tz::TimeZone;
/// use timingwheel::TimingWheel;
/// use timingwheel_jobs::{Jobs, JobsExt, Schedule};
/// use timingwheel_calendar::{Cron, WallClock};
///
/// let wheel = TimingWheel::new();
/// let clock = WallClock::new(&wheel);
/// let every_morning = Cron::parse("0 9 * * *")?.in_zone(TimeZone::get("Europe/Berlin")?);
///
/// let job = wheel.run_by(clock.schedule(every_morning.clone()).times(3), || async { /* Say good morning. */ });
/// assert_eq!(job.await?, 3);
///
/// // Or under a key.
/// let jobs = Jobs::new(&wheel);
/// jobs.try_run_by("good morning", clock.schedule(every_morning), || async {})?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct WallClock(Arc<Shared>);

struct Shared {
    wheel: TimingWheel,
    source: Source,
    watch: Mutex<Watch>,
}

enum Source {
    System,
    Function(Box<dyn Fn() -> Timestamp + Send + Sync>),
    /// The time that was set, and when it was set.
    Set(Mutex<(Timestamp, Instant)>),
}

struct Watch {
    /// The reading by which all pending runs were planned.
    reference: Reading,
    planned: Vec<Weak<Planned>>,
    /// Whether some pending runs may still follow an older reading.
    has_outdated: bool,
    is_running: bool,
}

impl WallClock {
    /// The system's clock.
    ///
    /// If tokio's clock is paused, this clock starts at the present time and then follows tokio's clock.
    /// [`set`](Self::set) sets it.
    #[must_use]
    pub fn new(wheel: &TimingWheel) -> Self {
        if is_paused() {
            return Self::starting_at(wheel, Timestamp::now());
        }
        Self::with(wheel, Source::System)
    }

    /// A clock for tests, that shows this now and goes on by tokio's, paused or not. [`set`](Self::set) sets it.
    #[must_use]
    pub fn starting_at(wheel: &TimingWheel, now: Timestamp) -> Self {
        Self::with(wheel, Source::Set(Mutex::new((now, Instant::now()))))
    }

    /// A clock that shows the time of this function, which should follow real time.
    #[must_use]
    pub fn from_fn(wheel: &TimingWheel, now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self::with(wheel, Source::Function(Box::new(now)))
    }

    fn with(wheel: &TimingWheel, source: Source) -> Self {
        let reference = source.reading();
        let watch = Watch { reference, planned: Vec::new(), has_outdated: false, is_running: false };
        Self(Arc::new(Shared { wheel: wheel.clone(), source, watch: Mutex::new(watch) }))
    }

    /// The time that this clock shows.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.reading().shown
    }

    pub(super) fn reading(&self) -> Reading {
        self.0.source.reading()
    }

    /// Sets a clock that was made by [`starting_at`](Self::starting_at), or by [`new`](Self::new) while tokio's clock
    /// was paused, and computes pending runs anew. Any other clock stays as it is. Returns whether this clock can be
    /// set.
    pub fn set(&self, now: Timestamp) -> bool {
        let Source::Set(shown) = &self.0.source else { return false };
        *lock(shown) = (now, Instant::now());
        self.0.plan_anew(|_| true);
        self.see_to_looks();
        true
    }

    /// A schedule by this rule, for [`run_by`](JobsExt::run_by) of a wheel, or of
    /// [`Jobs`](timingwheel_jobs::Jobs). The first run is after now.
    pub fn schedule(&self, rule: impl Rule + Send + 'static) -> WallSchedule {
        WallSchedule::new(self.clone(), Box::new(rule))
    }

    /// Adds a schedule to those that are planned anew when the clock is set.
    pub(super) fn watch(&self, planned: &Arc<Planned>) {
        let mut watch = lock(&self.0.watch);
        if watch.planned.is_empty() {
            watch.reference = self.reading();
        }
        add(&mut watch.planned, planned);
        drop(watch);
        // The clock was set after the run was planned, and before the schedule was added.
        if self.reading().set_since(&planned.reading()).abs() > TOLERATED {
            planned.is_outdated();
            lock(&self.0.watch).has_outdated = true;
        }
        self.see_to_looks();
    }

    /// Starts the looks at the clock if they are needed and do not run, as after the wheel was full.
    pub(super) fn see_to_looks(&self) {
        let mut watch = lock(&self.0.watch);
        let starts = !watch.is_running && self.0.needs_looks(&watch);
        watch.is_running |= starts;
        drop(watch);
        if starts {
            self.look_every_second();
        }
    }

    fn look_every_second(&self) {
        let (clock, looking) = (Arc::downgrade(&self.0), Arc::downgrade(&self.0));
        let while_needed = move |last: LastRun| {
            let is_needed = clock.upgrade().is_some_and(|clock| clock.is_needed());
            is_needed.then(|| last.ended + LOOK_EVERY)
        };
        let look = move || {
            if let Some(clock) = looking.upgrade() {
                // The next look may find a function that does not panic.
                contained(|| clock.look());
            }
            async {}
        };
        // A wheel that is full or has ended refuses the looks. The next run and the next schedule try again.
        if self.0.wheel.try_run_by(while_needed, look).is_err() {
            lock(&self.0.watch).is_running = false;
        }
    }
}

impl Source {
    fn reading(&self) -> Reading {
        // Shown first: if this thread is kept from going on in between, a run is late by that, and not early.
        let shown = match self {
            Self::System => Timestamp::now(),
            Self::Function(now) => now(),
            Self::Set(set) => {
                let (shown, since) = *lock(set);
                let at = Instant::now();
                let passed = SignedDuration::try_from(at - since).unwrap_or(SignedDuration::MAX);
                let shown = shown.saturating_add(passed).unwrap_or(Timestamp::MAX);
                return Reading { shown, at };
            }
        };
        Reading { shown, at: Instant::now() }
    }
}

impl Shared {
    /// A clock that is set by a call needs looks only for runs that the call could not move.
    fn needs_looks(&self, watch: &Watch) -> bool {
        let tells = matches!(self.source, Source::Set(_));
        !watch.planned.is_empty() && (watch.has_outdated || !tells)
    }

    fn is_needed(&self) -> bool {
        let mut watch = lock(&self.watch);
        sweep(&mut watch.planned);
        // Under the lock: a schedule that is added after this starts the looks again.
        watch.is_running = self.needs_looks(&watch);
        watch.is_running
    }

    fn look(&self) {
        let (reference, has_outdated) = {
            let watch = lock(&self.watch);
            (watch.reference, watch.has_outdated)
        };
        if self.source.reading().set_since(&reference).abs() > TOLERATED {
            self.plan_anew(|_| true);
        } else if has_outdated {
            self.plan_anew(Planned::needs_plan);
        }
    }

    fn plan_anew(&self, which: impl Fn(&Planned) -> bool) {
        let mut watch = lock(&self.watch);
        watch.reference = self.source.reading();
        watch.has_outdated = false;
        let planned: Vec<_> = watch.planned.iter().filter_map(Weak::upgrade).collect();
        drop(watch);
        let mut has_outdated = false;
        for planned in planned.iter().filter(|planned| which(planned)) {
            // A rule that panics does not keep the others from being planned.
            contained(|| has_outdated |= !planned.plan_anew());
        }
        lock(&self.watch).has_outdated |= has_outdated;
    }
}

/// Runs a user's code, which may panic. The panic hook has reported the panic.
fn contained(run: impl FnOnce()) {
    // The payload may panic as it is dropped, and so may the payload of that panic: the second one is forgotten.
    if let Err(panic) = catch_unwind(AssertUnwindSafe(run))
        && let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic)))
    {
        std::mem::forget(again);
    }
}

/// Whether tokio's clock stands while std's goes on.
fn is_paused() -> bool {
    let (before, std_before) = (Instant::now(), std::time::Instant::now());
    while std::time::Instant::now() == std_before {
        std::hint::spin_loop();
    }
    Instant::now() == before
}

impl fmt::Debug for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WallClock").field("now", &self.now()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_many_sweeps_few_times() {
        let (mut watched, mut sweeps) = (Vec::new(), 0);
        let all: Vec<Arc<usize>> = (0..10_000).map(Arc::new).collect();
        for one in &all {
            sweeps += u32::from(watched.len() == watched.capacity());
            add(&mut watched, one);
        }
        assert_eq!(watched.len(), 10_000);
        assert!((1..20).contains(&sweeps), "{sweeps} sweeps");
    }

    #[test]
    fn those_that_are_over_do_not_pile_up() {
        let mut watched = Vec::new();
        for one in 0..10_000 {
            add(&mut watched, &Arc::new(one));
            assert!(watched.len() <= FEW);
        }
        sweep(&mut watched);
        assert!(watched.is_empty());
    }
}

//! The statistics of durable timers, and a health check of them in words.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use jiff::SignedDuration;
use timingwheel::Histogram;

/// Counts since the [start](crate::Builder::start) and the present state, from [`Durable::stats`](crate::Durable::stats).
///
/// The number of timers in the store is [`Durable::count`](crate::Durable::count).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Timers in memory: on the wheel, or due and waiting for a handler.
    pub armed: usize,
    /// Timers that have begun and not ended.
    pub begun: usize,
    /// Timers that were saved.
    pub saved: u64,
    /// Batches in which saves went to the store: `saved / save_batches` is the mean size of a batch.
    pub save_batches: u64,
    /// Times that the store was asked for near timers.
    pub loads: u64,
    /// Timers that were loaded.
    pub loaded: u64,
    /// Attempts whose handler was called.
    pub attempts: u64,
    /// Timers that are done.
    pub done: u64,
    /// Attempts that failed or asked for another attempt, and after which the timer is attempted again.
    pub retried: u64,
    /// Timers that were put off by their handlers.
    pub snoozed: u64,
    /// Timers that were buried.
    pub buried: u64,
    /// Occurrences of series that were missed, and left out.
    pub skipped: u64,
    /// Pending runs of series that were planned again, because a clock had been wrong or zone data has changed.
    pub replanned: u64,
    /// Damaged timers: the store cannot read them, and keeps their bytes.
    pub damaged: u64,
    /// Timers that were saved here without a handler for their kind, although other kinds have handlers.
    pub saved_unhandled: u64,
    /// An overdue timer that waits, because no instance that lives has a handler for its kind, or its rule cannot be read here.
    /// Every five minutes the instance looks for one among its own timers.
    pub unhandled: Option<Unhandled>,
    /// Timers that were cancelled after they had begun, and whose process ended before their handlers did: they are removed, and
    /// not attempted again.
    pub removed: u64,
    /// Attempts that are made again, because the process of the attempt before ended without an answer.
    pub crashes: u64,
    /// Handlers that panicked. The panic hook has reported each.
    pub panicked: u64,
    /// Results that were refused, because another instance had taken over.
    pub fenced: u64,
    /// Calls of the store that failed: saves, and calls of the runner such as loads, begins and renewals.
    ///
    /// Cancels, moves and lists are not counted: their callers get the errors.
    pub store_errors: u64,
    /// How many times the runner noticed that a clock had been set.
    pub clock_set: u64,
    /// How late handlers were called, by the wall clock.
    pub lateness: Histogram,
    /// The attempts of each kind that this instance has called a handler for.
    pub kinds: BTreeMap<&'static str, KindStats>,
    /// How long the earliest timer that this instance knows has been due without having begun. Timers that wait for a place of
    /// their kind do not count.
    pub behind: Duration,
    /// Shards that were taken over from instances that were silent for too long.
    pub takeovers: u64,
    /// How many shards this instance has, and how many there are. It is (0, 0) if the store is not shared, or if the instance has
    /// no handlers.
    pub shards: (u32, u32),
    /// How many times this instance has renewed its lease.
    pub renewals: u64,
    /// At the last renewal of the lease: how much was left of the time in which this instance may begin timers. At zero
    /// the instance begins no timers.
    pub lease_margin: Duration,
    /// Times that this instance was silent for too long, and joined again.
    pub rejoined: u64,
    /// How far the clock by which timers are due is ahead of the instance's own.
    pub clock_offset: SignedDuration,
    /// Scans for timers of other instances that found nothing.
    pub empty_scans: u64,
    /// Whether another instance has taken over the store. Then no more timers begin here.
    pub lost: bool,
    /// Whether a task of this `Durable` has panicked, for example in a clock or a store of yours. The program has to
    /// start again.
    pub failed: bool,
    /// Whether its wheel ended before [`stop`](crate::Durable::stop) was called. Then no more timers begin here.
    pub wheel_ended: bool,
    /// Whether this `Durable` has stopped: [`stop`](crate::Durable::stop) was called, or its wheel has ended. A stop is no
    /// [`Symptom`].
    pub stopped: bool,
}

/// Counts of one kind, from [`Stats::kinds`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KindStats {
    /// Attempts whose handler was called.
    pub attempts: u64,
    /// Attempts that ended by an error, a panic, a payload that cannot be read, or the limit of a stop.
    pub errors: u64,
    /// Timers that are due and wait for a place, because [so many](crate::Builder::concurrency_of) run. At most a thousand are
    /// counted: if more wait, the others are in the store alone.
    pub waiting: usize,
    /// How late handlers were called, by the wall clock.
    pub lateness: Histogram,
    /// How long attempts took.
    pub took: Histogram,
}

/// A timer that nobody handles, from [`Stats::unhandled`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unhandled {
    /// The kind. If there is no `rule`, [`Builder::on`](crate::Builder::on) was not called for it.
    pub kind: String,
    /// Why the rule of its series cannot be read here: for example because this machine does not know its zone.
    pub rule: Option<String>,
    /// How long the timer was overdue when it was looked at.
    pub overdue: Duration,
}

impl Unhandled {
    pub(crate) fn new(kind: &str, rule: Option<String>, overdue: SignedDuration) -> Self {
        let overdue = Duration::try_from(overdue).unwrap_or(Duration::ZERO);
        Self { kind: kind.to_owned(), rule, overdue }
    }
}

/// How far clocks may be apart.
const CLOCKS: SignedDuration = SignedDuration::from_secs(1);

/// How long a timer may be due and not begun.
const BEHIND: Duration = Duration::from_secs(5);

/// Compares [`Stats`] with those of the last check, and tells what is wrong: for example for the health check of an
/// orchestrator.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use timingwheel::TimingWheel;
/// use timingwheel_durable::{Durable, Health, MemoryStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let lease = Duration::from_secs(30);
/// let durable = Durable::builder(&TimingWheel::new(), MemoryStore::new()).lease(lease).start().await?;
/// let mut health = Health::new(lease);
/// // Each time that somebody asks, not more often than a renewal is made: a third of the lease.
/// let symptoms = health.check(&durable.stats());
/// assert!(symptoms.is_empty(), "{}", symptoms[0]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Health {
    lease: Duration,
    before: Stats,
}

/// Something that is wrong. Its `Display` says what, and what to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Symptom {
    /// A task of the `Durable` has panicked, for example in a clock or a store of yours.
    Failed,
    /// Another instance has taken over for good: no more timers begin here.
    Lost,
    /// The wheel has ended, and nobody has stopped the `Durable`: no more timers begin here.
    WheelEnded,
    /// So many calls of the store have failed since the last check, and none has succeeded. In a store that is shared only
    /// renewals of the lease count as a success.
    NotReached(u64),
    /// So many calls of the store have failed since the last check, and others have succeeded.
    Failing(u64),
    /// At the last renewal only so much was left of the time in which the instance may begin timers: less than a tenth
    /// of the lease.
    Margin(Duration),
    /// So many times since the last check, the instance was taken for dead though it was alive.
    Rejoined(u64),
    /// So many results were refused since the last check, because they came too late.
    Fenced(u64),
    /// The clock by which timers are due is more than a second ahead of the instance's own, or behind it.
    Clock(SignedDuration),
    /// Other instances have all shards: there are more instances than shards.
    NoShard,
    /// A timer has been due for so long, more than five seconds, and has not begun: there are too few
    /// [handlers](crate::Builder::concurrency) or too few timers [in memory](crate::Builder::in_memory), or the store is
    /// slow.
    Behind(Duration),
    /// A timer is overdue, and cannot be run here: see [`Stats::unhandled`].
    Unhandled(Unhandled),
    /// So many timers were buried since the last check, for people to look at.
    Buried(u64),
    /// So many damaged timers were found since the last check.
    Damaged(u64),
    /// So many runs of series were planned anew since the last check: their rule would not have planned them like that.
    Replanned(u64),
}

impl fmt::Display for Symptom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed => {
                f.write_str("a task of durable timers has panicked: the program has to start again")
            }
            Self::Lost => f.write_str("another instance has taken over: nothing begins here any more"),
            Self::WheelEnded => f.write_str(
                "the wheel has ended: nothing begins here any more, until the program starts again",
            ),
            Self::NotReached(calls) => write!(f, "the store is not reached: {calls} calls have failed"),
            Self::Failing(calls) => write!(f, "{calls} calls of the store have failed, and were made again"),
            Self::Margin(left) => write!(
                f,
                "the lease was renewed with {left:?} left: the store answers too slowly, or the lease is too short"
            ),
            Self::Rejoined(times) => write!(
                f,
                "the instance was silent for longer than its lease, and has joined again, {times} times"
            ),
            Self::Fenced(results) => {
                write!(
                    f,
                    "{results} results came too late, and were refused: their timers are attempted again"
                )
            }
            Self::Clock(offset) => {
                let way = if offset.is_negative() { "behind" } else { "ahead of" };
                write!(
                    f,
                    "the store's clock is {:?} {way} this machine's: one of them is wrong",
                    offset.abs()
                )
            }
            Self::Behind(behind) => write!(
                f,
                "timers begin {behind:?} late: `concurrency` or `in_memory` is too small, or the store is slow"
            ),
            Self::Unhandled(Unhandled { kind, rule: Some(why), overdue }) => {
                write!(f, "a timer of the kind {kind:?} is overdue by {overdue:?}: {why}")
            }
            Self::Unhandled(Unhandled { kind, rule: None, overdue }) => write!(
                f,
                "a timer of the kind {kind:?} is overdue by {overdue:?}: the kind has no handler here, which `on` sets"
            ),
            Self::Buried(timers) => {
                write!(f, "{timers} timers were buried, for people to look at: `list` has their errors")
            }
            Self::Damaged(timers) => {
                write!(f, "{timers} timers are damaged, and are not run: a disk or a hand has changed them")
            }
            Self::Replanned(runs) => write!(
                f,
                "{runs} runs of series were planned anew: a clock had been wrong, or the zone data has changed"
            ),
            Self::NoShard => {
                f.write_str("other instances have all shards: there are more instances than shards")
            }
        }
    }
}

impl Health {
    /// Of an instance with this [lease](crate::Builder::lease).
    #[must_use]
    pub fn new(lease: Duration) -> Self {
        Self { lease, before: Stats::default() }
    }

    /// The symptoms now and since the last check. None, if the instance is well.
    pub fn check(&mut self, now: &Stats) -> Vec<Symptom> {
        let before = std::mem::replace(&mut self.before, now.clone());
        let grown = |count: fn(&Stats) -> u64| count(now).saturating_sub(count(&before));
        let count = |count: u64| (count > 0).then_some(count);
        let failed = grown(|stats| stats.store_errors);
        // A store with one owner is not renewed.
        let is_shared = now.renewals > 0;
        let succeeded = grown(if is_shared {
            |stats| stats.renewals
        } else {
            |stats| stats.loads + stats.save_batches + stats.done + stats.retried + stats.buried
        });
        [
            now.failed.then_some(Symptom::Failed),
            now.lost.then_some(Symptom::Lost),
            now.wheel_ended.then_some(Symptom::WheelEnded),
            (failed > 0 && succeeded == 0).then_some(Symptom::NotReached(failed)),
            (failed > 0 && succeeded > 0).then_some(Symptom::Failing(failed)),
            (is_shared && now.lease_margin < self.lease / 10).then_some(Symptom::Margin(now.lease_margin)),
            count(grown(|stats| stats.rejoined)).map(Symptom::Rejoined),
            count(grown(|stats| stats.fenced)).map(Symptom::Fenced),
            (now.clock_offset.abs() > CLOCKS).then_some(Symptom::Clock(now.clock_offset)),
            (is_shared && now.shards.0 == 0 && now.shards.1 > 0).then_some(Symptom::NoShard),
            (now.behind > BEHIND).then_some(Symptom::Behind(now.behind)),
            now.unhandled.clone().map(Symptom::Unhandled),
            count(grown(|stats| stats.buried)).map(Symptom::Buried),
            count(grown(|stats| stats.damaged)).map(Symptom::Damaged),
            count(grown(|stats| stats.replanned)).map(Symptom::Replanned),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    fn sound() -> Stats {
        Stats {
            renewals: 3,
            lease_margin: LEASE / 2,
            shards: (32, 64),
            loads: 3,
            empty_scans: 40,
            ..Stats::default()
        }
    }

    fn check(change: impl Fn(&mut Stats)) -> Vec<Symptom> {
        let mut health = Health::new(LEASE);
        assert_eq!(health.check(&sound()), [], "it is well");
        let mut now = sound();
        change(&mut now);
        health.check(&now)
    }

    #[test]
    fn each_symptom_is_told_alone_and_what_is_within_bounds_is_none() {
        let second = SignedDuration::from_secs(1);
        assert_eq!(check(|now| now.failed = true), [Symptom::Failed]);
        assert_eq!(check(|now| now.lost = true), [Symptom::Lost]);
        assert_eq!(check(|now| now.wheel_ended = true), [Symptom::WheelEnded]);
        assert_eq!(check(|now| now.store_errors = 2), [Symptom::NotReached(2)]);
        assert_eq!(check(|now| (now.store_errors, now.renewals) = (2, 4)), [Symptom::Failing(2)]);
        let margin = LEASE / 10 - Duration::from_millis(1);
        assert_eq!(check(|now| now.lease_margin = margin), [Symptom::Margin(margin)]);
        assert_eq!(check(|now| now.lease_margin = LEASE / 10), []);
        assert_eq!(check(|now| now.rejoined = 1), [Symptom::Rejoined(1)]);
        assert_eq!(check(|now| now.fenced = 5), [Symptom::Fenced(5)]);
        assert_eq!(check(|now| now.clock_offset = second), []);
        for offset in [second * 2, -second * 2] {
            assert_eq!(check(|now| now.clock_offset = offset), [Symptom::Clock(offset)]);
        }
        assert_eq!(check(|now| now.shards = (0, 64)), [Symptom::NoShard]);
        assert_eq!(check(|now| now.behind = BEHIND), []);
        assert_eq!(check(|now| now.behind = BEHIND * 2), [Symptom::Behind(BEHIND * 2)]);
        assert_eq!(check(|now| now.buried = 2), [Symptom::Buried(2)]);
        assert_eq!(check(|now| now.damaged = 3), [Symptom::Damaged(3)]);
        assert_eq!(check(|now| now.replanned = 4), [Symptom::Replanned(4)]);
        let unhandled = Unhandled { kind: "mail".into(), rule: None, overdue: Duration::from_secs(150) };
        let symptoms = check(|now| now.unhandled = Some(unhandled.clone()));
        assert_eq!(symptoms, [Symptom::Unhandled(unhandled.clone())]);
    }

    #[test]
    fn what_is_over_is_told_once_and_what_goes_on_again() {
        let (mut health, mut now) = (Health::new(LEASE), sound());
        (now.fenced, now.clock_offset) = (5, SignedDuration::from_secs(-3));
        assert_eq!(health.check(&now).len(), 2);
        let again = health.check(&now);
        assert_eq!(again, [Symptom::Clock(SignedDuration::from_secs(-3))]);
        assert_eq!(
            again[0].to_string(),
            "the store's clock is 3s behind this machine's: one of them is wrong"
        );
    }

    #[test]
    fn a_store_with_one_owner_is_reached_as_long_as_anything_succeeds() {
        let mut health = Health::new(LEASE);
        let alone = Stats { loads: 1, ..Stats::default() };
        assert_eq!(health.check(&alone), []);
        let failing = Stats { store_errors: 1, save_batches: 1, ..alone.clone() };
        assert_eq!(health.check(&failing), [Symptom::Failing(1)]);
        let gone = Stats { store_errors: 4, ..failing };
        assert_eq!(health.check(&gone), [Symptom::NotReached(3)]);
    }
}

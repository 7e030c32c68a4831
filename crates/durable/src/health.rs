//! What is wrong with an instance, in words.

use std::fmt;
use std::time::Duration;

use jiff::SignedDuration;

use crate::stats::{Stats, Unhandled};

/// How far clocks may be apart.
const CLOCKS: SignedDuration = SignedDuration::from_secs(1);

/// How long a timer may be due and not begun.
const BEHIND: Duration = Duration::from_secs(5);

/// How many looks may find nothing for each renewal, beside one a second: hints cause them.
const EMPTY: u64 = 20;

/// Looks at [`Stats`] again and again, as for a health check of an orchestrator, and tells what is wrong.
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
    /// One of its tasks has panicked, as by a clock or a store of the user's.
    Failed,
    /// Another owner has followed for good: nothing more begins here.
    Followed,
    /// So many calls of the store have failed since the last check, and none has succeeded. In a store that is shared only
    /// renewals of the lease count as a success.
    NotReached(u64),
    /// So many calls of the store have failed since the last check, and others have succeeded.
    Failing(u64),
    /// At the last renewal only this much was left of the time in which the instance may begin timers: less than a
    /// tenth of the lease.
    Margin(Duration),
    /// So many times since the last check, the instance was taken for dead though it was alive.
    Rejoined(u64),
    /// So many results were refused since the last check, as they came too late.
    Fenced(u64),
    /// The clock by which timers are due is more than a second ahead of the instance's own, or behind it.
    Clock(SignedDuration),
    /// So many looks have found nothing since the last check: more than 20 for each renewal, and one for each second between
    /// two.
    EmptyScans(u64),
    /// Other instances have all shards: there are more instances than shards.
    NoShard,
    /// A timer has been due for so long, more than five seconds, and has not begun: there are too few
    /// [handlers](crate::Builder::concurrency) or too few timers [in memory](crate::Builder::in_memory), or the store is slow.
    Behind(Duration),
    /// A timer is overdue, and its kind has no handler here: see [`Stats::unhandled`].
    Unhandled(Unhandled),
    /// So many timers were put aside since the last check, for people to look at.
    Buried(u64),
    /// So many timers were put aside since the last check, because they are damaged.
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
            Self::Followed => f.write_str("another owner has followed: nothing begins here any more"),
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
            Self::EmptyScans(looks) => write!(
                f,
                "{looks} looks for what others have saved found nothing: hints tell of timers that are not there"
            ),
            Self::Behind(behind) => write!(
                f,
                "timers begin {behind:?} late: `concurrency` or `in_memory` is too small, or the store is slow"
            ),
            Self::Unhandled(Unhandled { kind, overdue }) => write!(
                f,
                "a timer of the kind {kind:?} is overdue by {overdue:?}: the kind has no handler here, which `on` sets"
            ),
            Self::Buried(timers) => {
                write!(f, "{timers} timers are put aside, for people to look at: `list` has their errors")
            }
            Self::Damaged(timers) => {
                write!(f, "{timers} timers cannot be read, and are put aside: the disk may fail")
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

    /// What is wrong now, or was since the last check; nothing, if the instance is well.
    pub fn check(&mut self, now: &Stats) -> Vec<Symptom> {
        let before = std::mem::replace(&mut self.before, now.clone());
        let grown = |count: fn(&Stats) -> u64| count(now).saturating_sub(count(&before));
        let count = |count: u64| (count > 0).then_some(count);
        let (failed, rejoined) = (grown(|stats| stats.store_errors), grown(|stats| stats.rejoined));
        let (fenced, empty) = (grown(|stats| stats.fenced), grown(|stats| stats.empty_scans));
        let renewed = grown(|stats| stats.renewals);
        // A store with one owner is not renewed.
        let is_shared = now.renewals > 0;
        let succeeded = if is_shared {
            renewed
        } else {
            grown(|stats| stats.loads + stats.save_batches + stats.done + stats.retried + stats.buried)
        };
        [
            now.failed.then_some(Symptom::Failed),
            now.lost.then_some(Symptom::Followed),
            (failed > 0 && succeeded == 0).then_some(Symptom::NotReached(failed)),
            (failed > 0 && succeeded > 0).then_some(Symptom::Failing(failed)),
            (is_shared && now.lease_margin < self.lease / 10).then_some(Symptom::Margin(now.lease_margin)),
            (rejoined > 0).then_some(Symptom::Rejoined(rejoined)),
            (fenced > 0).then_some(Symptom::Fenced(fenced)),
            (now.clock_offset.abs() > CLOCKS).then_some(Symptom::Clock(now.clock_offset)),
            (empty > (EMPTY + self.lease.as_secs() / 3) * (renewed + 1))
                .then_some(Symptom::EmptyScans(empty)),
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
        assert_eq!(check(|now| now.lost = true), [Symptom::Followed]);
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
        assert_eq!(check(|now| (now.empty_scans, now.renewals) = (100, 4)), []);
        assert_eq!(check(|now| (now.empty_scans, now.renewals) = (101, 4)), [Symptom::EmptyScans(61)]);
        assert_eq!(check(|now| now.shards = (0, 64)), [Symptom::NoShard]);
        assert_eq!(check(|now| now.behind = BEHIND), []);
        assert_eq!(check(|now| now.behind = BEHIND * 2), [Symptom::Behind(BEHIND * 2)]);
        assert_eq!(check(|now| now.buried = 2), [Symptom::Buried(2)]);
        assert_eq!(check(|now| now.damaged = 3), [Symptom::Damaged(3)]);
        assert_eq!(check(|now| now.replanned = 4), [Symptom::Replanned(4)]);
        let unhandled = Unhandled { kind: "mail".into(), overdue: Duration::from_secs(150) };
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

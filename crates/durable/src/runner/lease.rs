//! The lease of an instance that shares its store: renewing it, and until when no other instance may have its timers.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::Runner;
use crate::error::Error;
use crate::id::Place;
use crate::store::{Answered, Hint, Owner, Renewed, Standing};

/// After a failure: how long until the owner renews again.
pub(super) const AGAIN: Duration = Duration::from_millis(250);

/// Until when this owner begins timers and calls handlers: a while before other instances may have them. Calls on their way
/// share it, and look at it when they are made.
#[derive(Clone, Default)]
pub(super) struct Lease(Arc<Mutex<Option<Instant>>>);

impl Lease {
    pub(super) fn until(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set(&self, until: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }

    pub(super) fn is_good(&self) -> bool {
        self.until().is_some_and(|until| Instant::now() < until)
    }
}

/// The runner's part in a store that is shared.
pub(super) struct Share {
    /// The renewal under way: when it was made, by both clocks, and the time from which it scans for the first due timer.
    renewing: Option<(Instant, Timestamp, Option<Timestamp>, Answered<Renewed>)>,
    pub(super) renew_at: Instant,
    /// A hint came during the renewal, which may not have seen its cause. So the owner renews again.
    renews_again: bool,
    pub(super) joining: Option<Answered<Owner>>,
    pub(super) hinting: Option<BoxFuture<'static, Hint>>,
    pub(super) lease: Lease,
    /// A load to come within the window: from a place to a time.
    pub(super) scan: Option<Scan>,
    /// The load under way is one of those.
    pub(super) is_scanning: bool,
    pub(super) scanned_from_first: Instant,
}

/// A scan for timers that other instances have stored.
#[derive(Clone, Copy)]
pub(super) struct Scan {
    pub(super) after: Place,
    /// Up to this time. `None` for the whole window.
    pub(super) until_ms: Option<i64>,
}

impl Share {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            renewing: None,
            renew_at: now,
            renews_again: false,
            joining: None,
            hinting: None,
            lease: Lease::default(),
            scan: None,
            is_scanning: false,
            scanned_from_first: now,
        }
    }

    /// Others share out the timers anew.
    pub(super) fn shares_have_changed(&mut self) {
        self.renew_at = Instant::now();
        self.renews_again = self.renewing.is_some();
    }

    pub(super) fn scan_for(&mut self, scan: Scan) {
        self.scan = Some(match self.scan {
            None => scan,
            Some(other) => Scan {
                after: other.after.min(scan.after),
                until_ms: other.until_ms.zip(scan.until_ms).map(|(one, two)| one.max(two)),
            },
        });
    }
}

impl Runner {
    /// Whether others, as far as is known here, have none of this owner's timers.
    pub(super) fn is_good(&self) -> bool {
        self.share.as_ref().is_none_or(|share| share.lease.is_good())
    }

    /// For calls of handlers. `None` if no other instance may have the timers.
    pub(super) fn lease(&self) -> Option<Lease> {
        self.share.as_ref().map(|share| share.lease.clone())
    }

    /// When the runner has to renew, whatever else there is. `None` once another owner has taken over for good.
    pub(super) fn next_renewal(&self) -> Option<Instant> {
        let share = self.share.as_ref()?;
        let may_renew = share.renewing.is_none() && share.joining.is_none() && !self.is_lost();
        may_renew.then_some(share.renew_at)
    }

    /// Renews, if it is time, and joins again after a loss.
    pub(super) fn renew(&mut self) {
        if self.next_renewal().is_none_or(|at| Instant::now() < at) {
            return;
        }
        let (now, wall) = (Instant::now(), self.shared.clock.now());
        let from = self.scans_as_it_renews();
        let renewing = self.store.clone().renew(self.owner, from);
        if let Some(share) = &mut self.share {
            share.renewing = Some((now, wall, from, renewing));
        }
    }

    /// Takes in the answers of a shared store.
    pub(super) fn poll_share(&mut self, cx: &mut Context<'_>) -> bool {
        let mut has_happened = false;
        let Some(share) = &mut self.share else { return false };
        if let Some((.., renewing)) = &mut share.renewing
            && let Poll::Ready(answer) = renewing.as_mut().poll(cx)
            && let Some((asked, wall, from, _)) = share.renewing.take()
        {
            self.renewed((asked, wall), from.is_some(), answer);
            has_happened = true;
        }
        let Some(share) = &mut self.share else { return false };
        if let Some(joining) = &mut share.joining
            && let Poll::Ready(answer) = joining.as_mut().poll(cx)
        {
            share.joining = None;
            self.joined(answer);
            has_happened = true;
        }
        let is_stopping = self.stopping.is_some() || self.is_lost();
        let Some(share) = &mut self.share else { return false };
        if is_stopping || share.joining.is_some() {
            share.hinting = None;
            return has_happened;
        }
        let (store, owner) = (&self.store, self.owner);
        let hinting = share.hinting.get_or_insert_with(|| store.clone().hint(owner));
        if let Poll::Ready(hint) = hinting.as_mut().poll(cx) {
            share.hinting = None;
            self.hinted(hint);
            has_happened = true;
        }
        has_happened
    }

    fn renewed(
        &mut self,
        (asked, wall): (Instant, Timestamp),
        has_scanned: bool,
        answer: Result<Renewed, Error>,
    ) {
        let renewed = match answer {
            Ok(renewed) => renewed,
            Err(error) => {
                self.shared.failed(&error);
                if let Some(share) = &mut self.share {
                    share.renew_at = Instant::now() + AGAIN;
                }
                return;
            }
        };
        match renewed.standing {
            Standing::Lost => return self.lose_for_good(),
            Standing::Expired => return self.join_again(),
            Standing::Same | Standing::Changed => {}
        }
        let Some(share) = &mut self.share else { return };
        let margin = share.lease.until().map(|until| until.saturating_duration_since(Instant::now()));
        share.lease.set(Some(asked + renewed.good_for));
        let renews_again = std::mem::take(&mut share.renews_again);
        share.renew_at = Instant::now() + if renews_again { Duration::ZERO } else { renewed.again_in };
        {
            let mut stats = self.shared.stats();
            stats.takeovers += u64::from(renewed.taken);
            stats.shards = renewed.shards;
            stats.lease_margin = margin.unwrap_or(renewed.good_for);
            stats.renewals += 1;
        }
        if let Some(clock) = renewed.clock {
            self.compare(wall, asked.elapsed(), clock);
        }
        if renewed.standing == Standing::Changed {
            self.forget_what_is_near();
        } else {
            self.scan_for_what_others_saved(has_scanned, renewed.first_due);
        }
    }

    /// Timers are due by the store's clock. It was read between `wall` and now, so it is wrong by half of that at most.
    fn compare(&mut self, wall: Timestamp, took: Duration, clock: Timestamp) {
        let took = SignedDuration::try_from(took).unwrap_or(SignedDuration::MAX);
        let offset = clock.duration_since(wall) - took / 2;
        let known = self.shared.offset();
        // A smaller change may be an error of the measurement.
        let is_beyond_error = (offset - known).abs() > took / 2 + SignedDuration::from_millis(1);
        if is_beyond_error {
            self.shared.set_offset(offset);
            self.look_at_the_clock();
        }
    }
}

//! A store that instances share: the lease and its loss, joining again, and the timers that other instances store.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::Timestamp;
use tokio::time::Instant;

use super::{GRACE, Runner};
use crate::error::Error;
use crate::handler::Interrupt;
use crate::id::{Place, timestamp};
use crate::store::{Answered, Ask, Hint, Owner, Renewed, Standing};
use crate::window::Window;

/// After a failure: how long until the owner renews or joins again. A short lease cannot wait for long, and a server that is down
/// for hours need not be asked four times a second.
fn again(lease: Duration) -> Duration {
    (lease / 60).clamp(Duration::from_millis(250), Duration::from_secs(5))
}

/// Most scans begin this long ago. A timer that another instance saves with an earlier due time waits for a scan from the
/// beginning.
const GRACE_MS: i64 = 60_000;

/// The shortest time between two scans from the beginning, for each load that the last one took: many overdue timers of a paused
/// kind are not read each minute.
const FROM_FIRST: Duration = Duration::from_secs(60);
/// It is no longer than this.
const FROM_FIRST_MOST: Duration = Duration::from_secs(3_600);

/// Until when this owner begins timers and calls handlers: a while before other instances may have them. Calls on their way
/// share it, and look at it when they are made.
#[derive(Clone, Default)]
pub(super) struct Lease(Arc<Mutex<Option<Instant>>>);

impl Lease {
    fn until(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, until: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }

    pub(super) fn is_good(&self) -> bool {
        self.until().is_some_and(|until| Instant::now() < until)
    }
}

/// The runner's part in a store that is shared.
pub(super) struct Share {
    /// The renewal under way: when it was made, and the time from which it scans for the first due timer.
    renewing: Option<(Instant, Option<Timestamp>, Answered<Renewed>)>,
    renew_at: Instant,
    /// A hint came during the renewal, which may not have seen its cause. So the owner renews again.
    renews_again: bool,
    joining: Option<Answered<Owner>>,
    hinting: Option<BoxFuture<'static, Hint>>,
    pub(super) lease: Lease,
    /// The kinds of series that this owner was found not to read.
    unread: HashSet<String>,
    /// A load to come within the window: from a place to a time.
    scan: Option<Scan>,
    /// The load under way is one of those.
    is_scanning: bool,
    scanned_from_first: Instant,
    /// How many loads that scan took.
    scan_loads: u32,
}

/// A scan for timers that other instances have stored.
#[derive(Clone, Copy)]
struct Scan {
    after: Place,
    /// Up to this time. `None` for the whole window.
    until_ms: Option<i64>,
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
            unread: HashSet::new(),
            scan: None,
            is_scanning: false,
            scanned_from_first: now,
            scan_loads: 1,
        }
    }

    fn scan_for(&mut self, scan: Scan) {
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

    /// When the runner has to renew, whatever else there is. `None` once another owner has taken over for good.
    pub(super) fn next_renewal(&self) -> Option<Instant> {
        let share = self.share.as_ref()?;
        let may_renew = share.renewing.is_none() && share.joining.is_none() && !self.is_lost;
        may_renew.then_some(share.renew_at)
    }

    /// Renews, if it is time, and joins again after a loss.
    pub(super) fn renew(&mut self) {
        if self.next_renewal().is_none_or(|at| Instant::now() < at) {
            return;
        }
        let now = Instant::now();
        let from = self.scans_as_it_renews();
        let renewing = self.store.clone().renew(self.owner, from);
        if let Some(share) = &mut self.share {
            share.renewing = Some((now, from, renewing));
        }
    }

    /// Takes in the answers of a shared store.
    pub(super) fn poll_share(&mut self, cx: &mut Context<'_>) -> bool {
        let mut has_happened = false;
        let Some(share) = &mut self.share else { return false };
        if let Some((.., renewing)) = &mut share.renewing
            && let Poll::Ready(answer) = renewing.as_mut().poll(cx)
            && let Some((asked, from, _)) = share.renewing.take()
        {
            self.renewed(asked, from.is_some(), answer);
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
        let is_stopping = self.stopping.is_some() || self.is_lost;
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

    fn renewed(&mut self, asked: Instant, has_scanned: bool, answer: Result<Renewed, Error>) {
        let renewed = match answer {
            Ok(renewed) => renewed,
            Err(error) => {
                self.shared.failed(&error);
                if error.is_too_old() {
                    return self.lose_for_good();
                }
                if let Some(share) = &mut self.share {
                    share.renew_at = Instant::now() + again(self.settings.lease);
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
        self.set_paused(&renewed.paused);
        if let Some(clock) = renewed.clock
            && self.shared.compare((asked, Instant::now()), clock)
        {
            self.look_at_the_clock();
        }
        if renewed.standing == Standing::Changed {
            self.forget_what_is_near();
            self.begin_at(renewed.low);
            // The owner before may have planned series by other zone data.
            self.inspects_now();
        } else {
            self.scan_for_what_others_saved(has_scanned, renewed.first_due);
        }
    }

    /// Another owner has taken over, or others have its timers. If the store is shared, the owner asks it how it stands.
    pub(super) fn lose(&mut self) {
        let Some(share) = &mut self.share else { return self.lose_for_good() };
        share.lease.set(None);
        share.renew_at = Instant::now();
    }

    fn lose_for_good(&mut self) {
        if !std::mem::replace(&mut self.is_lost, true) {
            self.shared.events.lost(self.owner.epoch);
        }
        self.interrupt_all(Interrupt::Lost);
        self.shared.stats().lost = true;
        self.forget_what_may_have_begun();
        self.disarm_all();
    }

    /// A rule of this kind cannot be read here, and perhaps by another instance.
    pub(super) fn hand_over(&mut self, kind: &str) {
        let Some(share) = &mut self.share else { return };
        self.store.cannot_read(self.owner, kind);
        if share.unread.insert(kind.to_owned()) {
            (share.renew_at, share.renews_again) = (Instant::now(), share.renewing.is_some());
        }
    }

    /// The owner has other shards than before: near timers are loaded anew, and attempts go on.
    fn forget_what_is_near(&mut self) {
        self.disarm_all();
        self.loading = None;
        self.loads_anew = false;
        self.window = Window::new();
        if let Some(share) = &mut self.share {
            (share.scan, share.is_scanning) = (None, false);
        }
    }

    /// Of the timers that are loaded anew, those from here on come first: before it there may be many that are deleted.
    fn begin_at(&mut self, low: Option<Timestamp>) {
        let (Some(low), Some(share)) = (low, &mut self.share) else { return };
        let before = low.as_millisecond().saturating_sub(1);
        self.window = Window::after(Place { due_ms: before, unique: u64::MAX });
        share.scan_for(Scan { after: Place::FIRST, until_ms: Some(before) });
    }

    /// Other instances have the timers. Tells the handlers that run, and joins as a new owner.
    fn join_again(&mut self) {
        self.interrupt_all(Interrupt::Lost);
        self.shared.events.lease_lost(self.owner.epoch);
        self.forget_what_is_near();
        self.forget_what_may_have_begun();
        let Some(share) = &mut self.share else { return };
        share.lease.set(None);
        if self.stopping.is_none() {
            share.joining = Some(self.store.clone().join(self.settings.lease, self.kinds.clone()));
        } else {
            // Only the ends of attempts are left to be told.
            share.renew_at = Instant::now() + self.settings.lease;
        }
    }

    /// Waits for a join that is under way. So a stop gives back the shards of the new owner too.
    pub(super) async fn finish_joining(&mut self) {
        let joining = self.share.as_mut().and_then(|share| share.joining.take());
        if let Some(joining) = joining
            && let Ok(answer) = tokio::time::timeout(GRACE, joining).await
        {
            self.joined(answer);
        }
    }

    fn joined(&mut self, answer: Result<Owner, Error>) {
        match answer {
            Ok(owner) => {
                self.shared.events.joined_again(self.owner.epoch, owner.epoch);
                self.owner = owner;
                self.has_rejoined = true;
                self.shared.set_owner(owner);
                self.shared.stats().rejoined += 1;
                self.inspects_now();
                if let Some(share) = &mut self.share {
                    share.renew_at = Instant::now();
                    share.hinting = None;
                    share.unread.clear();
                }
            }
            Err(error) => {
                self.shared.failed(&error);
                if let Some(share) = &mut self.share {
                    // Then it renews, is told again that it is lost, and joins.
                    share.renew_at = Instant::now() + again(self.settings.lease);
                }
            }
        }
    }

    fn hinted(&mut self, hint: Hint) {
        let Some(share) = &mut self.share else { return };
        match hint {
            // If a renewal is under way, it may be too early to tell.
            Hint::Shares => (share.renew_at, share.renews_again) = (Instant::now(), share.renewing.is_some()),
            Hint::Cancelled(id) => self.cancelled(id),
            Hint::Saved(from, to) => {
                let from = from.as_millisecond().saturating_sub(1);
                let after = Place { due_ms: from, unique: u64::MAX };
                share.scan_for(Scan { after, until_ms: Some(to.as_millisecond()) });
                if let Some(outside) = &mut self.outside {
                    outside.hinted(to.as_millisecond());
                }
            }
        }
    }

    /// From which time a renewal is to scan for the first due timer. So an idle instance makes one call instead of two. A busy
    /// instance scans by a call of its own, so that its lease does not wait for the scan.
    fn scans_as_it_renews(&self) -> Option<Timestamp> {
        (self.is_idle() && !self.kinds.is_empty()).then(|| timestamp(self.mark()))
    }

    pub(super) fn is_idle(&self) -> bool {
        self.near() == 0 && self.live.is_empty()
    }

    /// Where scans begin, except one a minute.
    fn mark(&self) -> i64 {
        self.clocks.wall().as_millisecond().saturating_sub(GRACE_MS)
    }

    /// Plans one scan after each renewal: now and then from the beginning, and mostly from a minute ago. A renewal that has found
    /// nothing new replaces the scan.
    fn scan_for_what_others_saved(&mut self, has_scanned: bool, first_due: Option<Timestamp>) {
        let next = self.window.next_due();
        let is_known = first_due.is_none_or(|due| next.is_some_and(|next| next <= due.as_millisecond()));
        let is_found = has_scanned && self.is_idle() && (is_known || self.window.is_loading());
        // Timers that are put off wait on the wheel, and nobody saves others beside them.
        let mark = self.mark();
        let mark = self.ready.first().map_or(mark, |oldest| oldest.due_ms.saturating_sub(1).min(mark));
        let Some(share) = &mut self.share else { return };
        let wait = FROM_FIRST.saturating_mul(share.scan_loads).min(FROM_FIRST_MOST);
        if share.scanned_from_first.elapsed() >= wait {
            (share.scanned_from_first, share.scan_loads) = (Instant::now(), 1);
            share.scan_for(Scan { after: Place::FIRST, until_ms: None });
        } else if !is_found {
            share.scan_for(Scan { after: Place { due_ms: mark, unique: u64::MAX }, until_ms: None });
        }
    }

    /// The next load within the window, if one is wanted.
    pub(super) fn scan(&mut self, now_ms: i64) -> Option<Ask> {
        if !self.may_begin()
            || self.kinds.is_empty()
            || !self.is_good()
            || self.near() > self.settings.in_memory.saturating_mul(2)
        {
            return None;
        }
        let end = self.window.end();
        let share = self.share.as_mut()?;
        let scan = share.scan.take()?;
        if scan.after >= end
            && let Some(until) = scan.until_ms
        {
            // It is beyond the window. A load finds it when its time comes near.
            self.window.expect(until.min(scan.after.due_ms.saturating_add(1)));
            return None;
        }
        // The window of an idle instance may have ended long ago. Nobody has scanned beyond it.
        let after = scan.after.min(end);
        if let Some(until) = scan.until_ms.filter(|until| *until > end.due_ms) {
            // The rest is beyond the window.
            self.window.expect(end.due_ms.saturating_add(1).min(until));
        }
        let until_ms = scan.until_ms.unwrap_or(now_ms.max(end.due_ms)).min(end.due_ms.max(now_ms));
        self.window.begin_load();
        share.is_scanning = true;
        self.looks_again_from(after);
        let (limit, kinds) = (self.settings.in_memory, self.kinds_to_load());
        Some(Ask { after, until: timestamp(until_ms), limit, kinds })
    }

    /// If the load was a scan, it is made again: nothing else would find its timers before the next renewal.
    pub(super) fn scan_failed(&mut self, after: Place, until_ms: i64) {
        let Some(share) = &mut self.share else { return };
        if std::mem::take(&mut share.is_scanning) {
            share.scan_for(Scan { after, until_ms: Some(until_ms) });
        }
    }

    /// Whether a scan is to come.
    pub(super) fn has_scan(&self) -> bool {
        self.share.as_ref().is_some_and(|share| share.scan.is_some())
    }

    /// A load has ended. `new` of its timers were not known.
    pub(super) fn scanned(&mut self, end: Place, until_ms: i64, new: usize) {
        let Some(share) = &mut self.share else { return };
        if !std::mem::take(&mut share.is_scanning) {
            return;
        }
        if new == 0 {
            self.shared.stats().empty_scans += 1;
        }
        // There was more than is asked for at a time.
        if end < Place::last_of(timestamp(until_ms)) {
            share.scan_loads = share.scan_loads.saturating_add(1);
            share.scan_for(Scan { after: end, until_ms: Some(until_ms) });
        }
    }
}

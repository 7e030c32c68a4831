//! A store that instances share: the lease and its loss, joining again, and the timers that other instances store.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Context;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use tokio::time::Instant;

use super::poll::answer_of;
use super::{AnsweredWith, GRACE, Runner};
use crate::error::Error;
use crate::events::event;
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
    /// If not, the owner has all timers for good, and does nothing of this.
    pub(super) is_shared: bool,
    /// The renewal under way: when it was made, and whether it scans for the first due timer.
    renewing: Option<AnsweredWith<(Instant, bool), Renewed>>,
    renew_at: Instant,
    /// The last renewal failed, perhaps because of its scan: somebody may have locked the table of timers.
    has_failed: bool,
    /// A hint came during the renewal, which may not have seen its cause. So the owner renews again.
    renews_again: bool,
    joining: Option<Answered<Owner>>,
    hinting: Option<BoxFuture<'static, Hint>>,
    pub(super) lease: Lease,
    /// The kinds of series that this owner was found not to read.
    unread: HashSet<String>,
    /// A load to come within the window: from a place to a time.
    scan: Option<Scan>,
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
    pub(super) fn new(is_shared: bool) -> Self {
        let now = Instant::now();
        Self {
            is_shared,
            renewing: None,
            renew_at: now,
            has_failed: false,
            renews_again: false,
            joining: None,
            hinting: None,
            lease: Lease::default(),
            unread: HashSet::new(),
            scan: None,
            scanned_from_first: now,
            scan_loads: 1,
        }
    }
}

impl Runner {
    /// Whether others, as far as is known here, have none of this owner's timers.
    pub(super) fn is_good(&self) -> bool {
        !self.share.is_shared || self.share.lease.is_good()
    }

    /// When the runner has to renew, whatever else there is. `None` once another owner has taken over for good.
    pub(super) fn next_renewal(&self) -> Option<Instant> {
        let share = &self.share;
        let may_renew =
            share.is_shared && share.renewing.is_none() && share.joining.is_none() && !self.is_lost;
        may_renew.then_some(share.renew_at)
    }

    /// Renews, if it is time, and joins again after a loss.
    pub(super) fn renew(&mut self) {
        if self.next_renewal().is_none_or(|at| Instant::now() < at) {
            return;
        }
        let (now, from) = (Instant::now(), self.scans_as_it_renews());
        let renewing = self.store.clone().renew(self.owner, from);
        self.share.renewing = Some(renewing.map(move |answer| ((now, from.is_some()), answer)).boxed());
    }

    /// Takes in the answers of a shared store.
    pub(super) fn poll_share(&mut self, cx: &mut Context<'_>) -> bool {
        let mut has_happened = false;
        if let Some(((asked, has_scanned), answer)) = answer_of(&mut self.share.renewing, cx) {
            self.renewed(asked, has_scanned, answer);
            has_happened = true;
        }
        if let Some(answer) = answer_of(&mut self.share.joining, cx) {
            self.joined(answer);
            has_happened = true;
        }
        let is_heard = self.share.is_shared && self.stopping.is_none() && !self.is_lost;
        if !is_heard || self.share.joining.is_some() {
            self.share.hinting = None;
            return has_happened;
        }
        let (store, owner) = (&self.store, self.owner);
        self.share.hinting.get_or_insert_with(|| store.clone().hint(owner));
        if let Some(hint) = answer_of(&mut self.share.hinting, cx) {
            self.hinted(hint);
            has_happened = true;
        }
        has_happened
    }

    fn renewed(&mut self, asked: Instant, has_scanned: bool, answer: Result<Renewed, Error>) {
        self.share.has_failed = answer.is_err();
        let renewed = match answer {
            Ok(renewed) => renewed,
            Err(error) => {
                self.shared.failed(&error);
                if error.is_too_old() {
                    return self.lose_for_good();
                }
                self.share.renew_at = Instant::now() + again(self.settings.lease);
                return;
            }
        };
        match renewed.standing {
            Standing::Lost => return self.lose_for_good(),
            Standing::Expired => return self.join_again(),
            Standing::Same | Standing::Changed => {}
        }
        let share = &mut self.share;
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
            self.check_the_clock();
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
        if !self.share.is_shared {
            return self.lose_for_good();
        }
        self.share.lease.set(None);
        self.share.renew_at = Instant::now();
    }

    fn lose_for_good(&mut self) {
        if !std::mem::replace(&mut self.is_lost, true) {
            event!(warn, epoch = self.owner.epoch, "another instance has taken over the store of timers");
        }
        self.interrupt_all(Interrupt::Lost);
        self.shared.stats().lost = true;
        self.forget_what_may_have_begun();
        self.disarm_all();
    }

    /// A rule of this kind cannot be read here, and perhaps by another instance.
    pub(super) fn hand_over(&mut self, kind: &str) {
        let share = &mut self.share;
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
        self.share.scan = None;
    }

    /// Of the timers that are loaded anew, those from here on come first: before it there may be many that are deleted.
    fn begin_at(&mut self, low: Option<Timestamp>) {
        let Some(low) = low else { return };
        let before = low.as_millisecond().saturating_sub(1);
        self.window = Window::after(Place { due_ms: before, unique: u64::MAX });
        self.scan_for(Place::FIRST, Some(before));
    }

    /// Other instances have the timers. Tells the handlers that run, and joins as a new owner.
    fn join_again(&mut self) {
        self.interrupt_all(Interrupt::Lost);
        event!(warn, epoch = self.owner.epoch, "the lease is over, and other instances have the timers");
        self.forget_what_is_near();
        self.forget_what_may_have_begun();
        let share = &mut self.share;
        share.lease.set(None);
        if self.stopping.is_none() {
            share.joining = Some(self.store.clone().join(self.settings.lease, self.kinds.clone()));
        } else {
            // Only the ends of attempts are left to be told.
            share.renew_at = Instant::now() + self.settings.lease;
        }
    }

    /// Asks for no more hints, and returns the renewal under way: it has the connection by which the owner leaves.
    pub(super) fn last_renewal(&mut self) -> Option<AnsweredWith<(Instant, bool), Renewed>> {
        self.share.hinting = None;
        self.share.renewing.take()
    }

    /// Waits for a join that is under way. So a stop gives back the shards of the new owner too.
    pub(super) async fn finish_joining(&mut self) {
        if let Some(joining) = self.share.joining.take()
            && let Ok(answer) = tokio::time::timeout(GRACE, joining).await
        {
            self.joined(answer);
        }
    }

    fn joined(&mut self, answer: Result<Owner, Error>) {
        match answer {
            Ok(owner) => {
                let before = self.owner.epoch;
                event!(warn, before, epoch = owner.epoch, "the instance joined again");
                self.owner = owner;
                self.shared.set_owner(owner);
                self.shared.stats().rejoined += 1;
                self.inspects_now();
                self.share.renew_at = Instant::now();
                self.share.hinting = None;
                self.share.unread.clear();
            }
            Err(error) => {
                self.shared.failed(&error);
                // Then it renews, is told again that it is lost, and joins.
                self.share.renew_at = Instant::now() + again(self.settings.lease);
            }
        }
    }

    fn hinted(&mut self, hint: Hint) {
        let share = &mut self.share;
        match hint {
            // If a renewal is under way, it may be too early to tell.
            Hint::Shares => (share.renew_at, share.renews_again) = (Instant::now(), share.renewing.is_some()),
            Hint::Cancelled(id) => self.cancelled(id),
            Hint::Saved(from, to) => {
                let from = from.as_millisecond().saturating_sub(1);
                let after = Place { due_ms: from, unique: u64::MAX };
                self.scan_for(after, Some(to.as_millisecond()));
                self.outside.hinted(to.as_millisecond());
            }
        }
    }

    /// From which time a renewal is to scan for the first due timer. So an idle instance makes one call instead of two. A busy
    /// instance scans by a call of its own, so that its lease does not wait for the scan.
    fn scans_as_it_renews(&self) -> Option<Timestamp> {
        let scans = self.is_idle() && !self.kinds.is_empty() && !self.share.has_failed;
        scans.then(|| timestamp(self.mark()))
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
        let share = &mut self.share;
        let wait = FROM_FIRST.saturating_mul(share.scan_loads).min(FROM_FIRST_MOST);
        if share.scanned_from_first.elapsed() >= wait {
            (share.scanned_from_first, share.scan_loads) = (Instant::now(), 1);
            self.scan_for(Place::FIRST, None);
        } else if !is_found {
            self.scan_for(Place { due_ms: mark, unique: u64::MAX }, None);
        }
    }

    /// The next load within the window, if one is wanted.
    pub(super) fn scan(&mut self, now_ms: i64) -> Option<Ask> {
        if self.kinds.is_empty() || self.near() > self.settings.in_memory.saturating_mul(2) {
            return None;
        }
        let end = self.window.end();
        let scan = self.share.scan.take()?;
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
        self.loads_again_from(after);
        let (limit, kinds) = (self.settings.in_memory, self.kinds_to_load());
        Some(Ask { after, until: timestamp(until_ms), limit, kinds })
    }

    /// A scan has ended. `new` of its timers were not known.
    pub(super) fn scanned(&mut self, end: Place, until_ms: i64, new: usize) {
        if new == 0 {
            self.shared.stats().empty_scans += 1;
        }
        // There was more than is asked for at a time.
        if end < Place::last_of(timestamp(until_ms)) {
            self.share.scan_loads = self.share.scan_loads.saturating_add(1);
            self.scan_for(end, Some(until_ms));
        }
    }

    /// A scan is to come from this place on. `None`: for the whole window.
    pub(super) fn scan_for(&mut self, after: Place, until_ms: Option<i64>) {
        self.share.scan = Some(match self.share.scan {
            None => Scan { after, until_ms },
            Some(other) => Scan {
                after: other.after.min(after),
                until_ms: other.until_ms.zip(until_ms).map(|(one, two)| one.max(two)),
            },
        });
    }
}

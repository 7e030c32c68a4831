//! The other instances of a shared store: losing the lease to them, joining again, and finding the timers that they store.

use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;

use super::lease::{AGAIN, Scan};
use super::{GRACE, Runner};
use crate::error::Error;
use crate::id::{Place, timestamp};
use crate::store::{Ask, Hint, Owner};
use crate::window::Window;

/// Most scans begin this long ago. A timer that another instance saves with an earlier due time waits for a scan from the
/// beginning.
const GRACE_MS: i64 = 60_000;

/// The shortest time between two scans from the beginning.
const FROM_FIRST: Duration = Duration::from_secs(60);

impl Runner {
    /// Another owner has taken over, or others have its timers. If the store is shared, the owner asks it how it stands.
    pub(super) fn lose(&mut self) {
        let Some(share) = &mut self.share else { return self.lose_for_good() };
        share.lease.set(None);
        share.renew_at = Instant::now();
    }

    pub(super) fn lose_for_good(&mut self) {
        if !self.lost.send_replace(true) {
            self.shared.events.lost(self.owner.epoch);
        }
        self.shared.stats().lost = true;
        self.forget_what_may_have_begun();
        self.disarm_all();
        self.forget_what_waits();
    }

    /// The owner has other shards than before: near timers are loaded anew, and attempts go on.
    pub(super) fn forget_what_is_near(&mut self) {
        self.disarm_all();
        self.loading = None;
        self.loads_anew = false;
        self.window = Window::new();
        if let Some(share) = &mut self.share {
            (share.scan, share.is_scanning) = (None, false);
        }
    }

    /// Other instances have the timers. Tells the handlers that run, and joins as a new owner.
    pub(super) fn join_again(&mut self) {
        let lost = std::mem::replace(&mut self.lost, watch::Sender::new(false));
        lost.send_replace(true);
        self.shared.events.lease_lost(self.owner.epoch);
        self.forget_what_is_near();
        self.forget_what_may_have_begun();
        self.forget_what_waits();
        let Some(share) = &mut self.share else { return };
        share.lease.set(None);
        if self.stopping.is_none() {
            share.joining = Some(self.store.clone().join(self.settings.lease, !self.handlers.is_empty()));
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

    pub(super) fn joined(&mut self, answer: Result<Owner, Error>) {
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
                }
            }
            Err(error) => {
                self.shared.failed(&error);
                if let Some(share) = &mut self.share {
                    // Then it renews, is told again that it is lost, and joins.
                    share.renew_at = Instant::now() + AGAIN;
                }
            }
        }
    }

    pub(super) fn hinted(&mut self, hint: Hint) {
        let Some(share) = &mut self.share else { return };
        match hint {
            Hint::Shares => share.shares_have_changed(),
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
    pub(super) fn scans_as_it_renews(&self) -> Option<Timestamp> {
        (self.is_idle() && !self.kinds.is_empty()).then(|| timestamp(self.mark()))
    }

    fn is_idle(&self) -> bool {
        self.near() == 0 && self.live.is_empty()
    }

    /// Where scans begin, except one a minute.
    fn mark(&self) -> i64 {
        self.clocks.wall().as_millisecond().saturating_sub(GRACE_MS)
    }

    /// Plans one scan after each renewal: now and then from the beginning, and mostly from a minute ago. A renewal that has found
    /// nothing new replaces the scan.
    pub(super) fn scan_for_what_others_saved(&mut self, has_scanned: bool, first_due: Option<Timestamp>) {
        let next = self.window.next_due();
        let is_known = first_due.is_none_or(|due| next.is_some_and(|next| next <= due.as_millisecond()));
        let is_found = has_scanned && self.is_idle() && (is_known || self.window.is_loading());
        let oldest = self.keys.keys().chain(self.ready.first()).map(|near| near.due_ms).min();
        let mark = self.mark();
        let mark = oldest.map_or(mark, |oldest| oldest.saturating_sub(1).min(mark));
        let Some(share) = &mut self.share else { return };
        if share.scanned_from_first.elapsed() >= FROM_FIRST {
            share.scanned_from_first = Instant::now();
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
        let (limit, kinds) = (self.settings.in_memory, self.kinds.clone());
        Some(Ask { after, until: timestamp(until_ms), limit, kinds })
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
            share.scan_for(Scan { after: end, until_ms: Some(until_ms) });
        }
    }
}

//! A store that several instances share: staying an owner, and looking for what others have stored.

use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio::time::Instant;

use super::{GRACE, Runner};
use crate::error::Error;
use crate::id::Place;
use crate::store::{Answered, Ask, Hint, Owner, Renewed, Standing};
use crate::window::Window;

/// How long after its time a timer may come that others save, until it is looked for from the beginning.
const GRACE_MS: i64 = 60_000;

/// How often that is at the most.
const FROM_FIRST: Duration = Duration::from_secs(60);

/// After a failure: how long until the owner renews again.
const AGAIN: Duration = Duration::from_millis(250);

/// What the runner has of a store that is shared.
pub(super) struct Share {
    /// When the call was made, by both clocks.
    renewing: Option<(Instant, Timestamp, Answered<Renewed>)>,
    renew_at: Instant,
    joining: Option<Answered<Owner>>,
    hinting: Option<BoxFuture<'static, Hint>>,
    /// Until when timers are begun: a while before others may have them.
    good_until: Option<Instant>,
    /// What is to be looked for, although it is within the window: from a place to a time.
    scan: Option<Scan>,
    /// The load under way is one of those.
    is_scanning: bool,
    scanned_from_first: Instant,
}

#[derive(Clone, Copy)]
struct Scan {
    after: Place,
    /// Up to there; `None` for the whole window.
    until_ms: Option<i64>,
}

impl Share {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            renewing: None,
            renew_at: now,
            joining: None,
            hinting: None,
            good_until: None,
            scan: None,
            is_scanning: false,
            scanned_from_first: now,
        }
    }

    /// Whether timers may be begun now.
    fn is_good(&self) -> bool {
        self.good_until.is_some_and(|until| Instant::now() < until)
    }

    fn look_for(&mut self, scan: Scan) {
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
        self.share.as_ref().is_none_or(Share::is_good)
    }

    /// Whether the owner is none any more, and a new one is made.
    pub(super) fn joins(&self) -> bool {
        self.share.as_ref().is_some_and(|share| share.joining.is_some())
    }

    /// Until when handlers may be called that are on their way; `None` if nobody else may have the timers.
    pub(super) fn good_until(&self) -> Option<Instant> {
        self.share.as_ref()?.good_until
    }

    /// When the runner has to renew, whatever else there is. `None` once another owner has followed for good.
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
        let renewing = self.store.clone().renew(self.owner);
        if let Some(share) = &mut self.share {
            share.renewing = Some((now, wall, renewing));
        }
    }

    /// Takes in what a shared store has answered.
    pub(super) fn poll_share(&mut self, cx: &mut Context<'_>) -> bool {
        let mut has_happened = false;
        let Some(share) = &mut self.share else { return false };
        if let Some((_, _, renewing)) = &mut share.renewing
            && let Poll::Ready(answer) = renewing.as_mut().poll(cx)
            && let Some((asked, wall, _)) = share.renewing.take()
        {
            self.renewed(asked, wall, answer);
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

    fn hinted(&mut self, hint: Hint) {
        let Some(share) = &mut self.share else { return };
        match hint {
            Hint::Shares => share.renew_at = Instant::now(),
            Hint::Saved(from, to) => {
                let from = from.as_millisecond().saturating_sub(1);
                let after = Place { due_ms: from, unique: u64::MAX };
                share.look_for(Scan { after, until_ms: Some(to.as_millisecond()) });
                if let Some(outside) = &mut self.outside {
                    outside.hinted(to.as_millisecond());
                }
            }
        }
    }

    fn renewed(&mut self, asked: Instant, wall: Timestamp, answer: Result<Renewed, Error>) {
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
            Standing::Followed => return self.lose_for_good(),
            Standing::Lost => return self.join_again(),
            Standing::Same | Standing::Changed => {}
        }
        let Some(share) = &mut self.share else { return };
        let margin = share.good_until.map(|until| until.saturating_duration_since(Instant::now()));
        share.good_until = Some(asked + renewed.good_for);
        share.renew_at = Instant::now() + renewed.again_in;
        {
            let mut stats = self.shared.stats();
            stats.takeovers += u64::from(renewed.taken);
            stats.parts = renewed.parts;
            stats.lease_margin = margin.unwrap_or(renewed.good_for);
            stats.renewals += 1;
        }
        if let Some(clock) = renewed.clock {
            self.compare(wall, asked.elapsed(), clock);
        }
        if renewed.standing == Standing::Changed {
            self.forget_what_is_near();
        } else {
            self.look_for_what_others_saved(renewed.first_due);
        }
    }

    /// The store's clock is what counts. It was read between `wall` and now; half of that is the error.
    fn compare(&mut self, wall: Timestamp, took: Duration, clock: Timestamp) {
        let took = SignedDuration::try_from(took).unwrap_or(SignedDuration::MAX);
        let offset = clock.duration_since(wall) - took / 2;
        let known = self.shared.offset();
        // What may be an error of the measurement moves nothing.
        let is_beyond_error = (offset - known).abs() > took / 2 + SignedDuration::from_millis(1);
        if is_beyond_error {
            self.shared.set_offset(offset);
            self.look_at_the_clock();
        }
    }

    /// Once for each renewal: from the beginning now and then, and mostly from what may be new.
    fn look_for_what_others_saved(&mut self, first_due: Option<Timestamp>) {
        let is_idle = self.near() == 0 && self.live.is_empty();
        let next = self.window.next_due();
        let is_known = first_due.is_none_or(|due| next.is_some_and(|next| next <= due.as_millisecond()));
        if is_idle && (is_known || self.window.is_loading()) {
            return;
        }
        let oldest = self.keys.keys().chain(self.ready.first()).map(|near| near.due_ms).min();
        let mark = self.times.wall().as_millisecond().saturating_sub(GRACE_MS);
        let mark = oldest.map_or(mark, |oldest| oldest.saturating_sub(1).min(mark));
        let Some(share) = &mut self.share else { return };
        let mut after = Place { due_ms: mark, unique: u64::MAX };
        if is_idle || share.scanned_from_first.elapsed() >= FROM_FIRST {
            share.scanned_from_first = Instant::now();
            after = Place::FIRST;
        }
        share.look_for(Scan { after, until_ms: None });
    }

    /// What is to be asked for next, if something within the window is to be looked for.
    pub(super) fn scan(&mut self, now_ms: i64) -> Option<Ask> {
        if !self.may_begin() || !self.is_good() || self.near() > self.settings.window.saturating_mul(2) {
            return None;
        }
        let end = self.window.end();
        let share = self.share.as_mut()?;
        let scan = share.scan.take()?;
        if scan.after >= end {
            // It is beyond the window: the next load finds it, at its time.
            if let Some(until) = scan.until_ms {
                self.window.expect(until.min(scan.after.due_ms.saturating_add(1)));
            }
            return None;
        }
        if let Some(until) = scan.until_ms.filter(|until| *until > end.due_ms) {
            // The rest is beyond the window.
            self.window.expect(end.due_ms.saturating_add(1).min(until));
        }
        let until_ms = scan.until_ms.unwrap_or(now_ms.max(end.due_ms)).min(end.due_ms.max(now_ms));
        self.window.begin_scan();
        share.is_scanning = true;
        let (limit, kinds) = (self.settings.window, self.kinds.clone());
        Some(Ask { after: scan.after, until: crate::id::timestamp(until_ms), limit, kinds })
    }

    /// A load has ended, with this many timers, of which some were not known.
    pub(super) fn scanned(&mut self, end: Place, until_ms: i64, new: usize) {
        let Some(share) = &mut self.share else { return };
        if !std::mem::take(&mut share.is_scanning) {
            return;
        }
        if new == 0 {
            self.shared.stats().empty_scans += 1;
        }
        // There was more than is asked for at a time.
        if end < Place::last_of(crate::id::timestamp(until_ms)) {
            share.look_for(Scan { after: end, until_ms: Some(until_ms) });
        }
    }

    /// What the owner has is other than before: what is near is loaded anew. What has begun goes on.
    fn forget_what_is_near(&mut self) {
        self.armed.clear();
        self.keys.clear();
        self.ready.clear();
        self.give_up_load();
        self.looks_anew = false;
        self.window = Window::new();
        if let Some(share) = &mut self.share {
            (share.scan, share.is_scanning) = (None, false);
        }
    }

    /// Others may have the timers. Tells whether the owner asks how it stands, and is not lost for good.
    pub(super) fn asks_how_it_stands(&mut self) -> bool {
        let Some(share) = &mut self.share else { return false };
        share.good_until = None;
        share.renew_at = Instant::now();
        true
    }

    /// Others have the timers. Handlers that run are told, and a new owner is made.
    fn join_again(&mut self) {
        let lost = std::mem::replace(&mut self.lost, watch::Sender::new(false));
        lost.send_replace(true);
        self.shared.events.lease_lost(self.owner.epoch);
        self.forget_what_is_near();
        self.forget_what_may_have_begun();
        self.forget_what_waits();
        self.unsure.clear();
        for ended in std::mem::take(&mut self.doubts) {
            self.was_fenced(&ended);
        }
        let Some(share) = &mut self.share else { return };
        share.good_until = None;
        if self.stopping.is_none() {
            share.joining = Some(self.store.clone().join(self.settings.lease));
        } else {
            // Nothing is left but to tell what has ended.
            share.renew_at = Instant::now() + self.settings.lease;
        }
    }

    /// It stops. If it joins again, its share is the new owner's, which is none yet.
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
                self.shared.set_owner(owner);
                // What was told meanwhile, the owner before has told.
                self.unsure.clear();
                self.shared.stats().rejoined += 1;
                if let Some(share) = &mut self.share {
                    share.renew_at = Instant::now();
                    share.hinting = None;
                }
            }
            Err(error) => {
                self.shared.failed(&error);
                if let Some(share) = &mut self.share {
                    // It asks how it stands, is told again that it is lost, and joins.
                    share.renew_at = Instant::now() + AGAIN;
                }
            }
        }
    }
}

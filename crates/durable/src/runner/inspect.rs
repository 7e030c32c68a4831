//! Inspections: looks through the store now and then for runs that their rule would no longer plan, for timers whose kind has no
//! handler, and for those that this owner has begun and ended, and that a restore has brought back. Nothing else would notice
//! these. Old history is deleted then, too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Context;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::Runner;
use super::poll::answer_of;
use super::settle::occurrence;
use crate::error::Error;
use crate::events::event;
use crate::health::Unhandled;
use crate::id::Place;
use crate::next_run;
use crate::shared::Shared;
use crate::store::{Change, Ended, ErasedStore, Kinds, Near, Overdue, Owner, Settled, State, Stored};

/// How often overdue timers are inspected.
const OVERDUE: Duration = Duration::from_secs(300);

/// How many pages of them are asked for at a time, and how long after these the next ones.
const PAGES: usize = 20;
const GOES_ON: Duration = Duration::from_secs(5);

/// How often all series are inspected, as the zone data of a machine may change.
const SERIES: Duration = Duration::from_secs(86_400);

/// How long a timer is overdue before it counts as one that nobody handles.
const LATE: SignedDuration = SignedDuration::from_mins(2);

/// How many series are asked for at a time.
const PAGE: usize = 1_000;

/// How many ended timers are deleted at a time.
const PRUNED: usize = 5_000;

pub(super) struct Inspections {
    series_at: Instant,
    overdue_at: Instant,
    /// Where the look at overdue timers goes on, and whether it or a begin meanwhile has found one that nobody handles.
    overdue_after: Place,
    has_found: bool,
    pub(super) under_way: Option<BoxFuture<'static, Result<Found, Error>>>,
}

/// The findings of an inspection.
pub(super) struct Found {
    planned_anew: Vec<Near>,
    /// A timer that nobody handles.
    unhandled: Option<Unhandled>,
    /// The owner has begun these, minutes ago.
    begun: Vec<Near>,
    /// Up to here overdue timers were looked at. `None` if all were.
    end: Option<Place>,
}

struct Inspection {
    store: Arc<dyn ErasedStore>,
    owner: Owner,
    shared: Arc<Shared>,
    kinds: Kinds,
    overdue_after: Place,
    is_stopping: Arc<AtomicBool>,
}

impl Inspections {
    /// The first is at once.
    pub(super) fn new() -> Self {
        let now = Instant::now();
        let overdue_after = Place::FIRST;
        Self { series_at: now, overdue_at: now, overdue_after, has_found: false, under_way: None }
    }
}

impl Runner {
    /// All series are to be inspected.
    pub(super) fn inspects_now(&mut self) {
        self.inspections.series_at = Instant::now();
    }

    /// When this task is to be woken for an inspection.
    pub(super) fn next_inspection(&self) -> Option<Instant> {
        // Series are inspected together with overdue timers. With a clock for tests, only due timers wake this task.
        let is_woken = self.inspections.under_way.is_none() && self.may_inspect() && !self.clocks.tells;
        is_woken.then_some(self.inspections.overdue_at)
    }

    fn may_inspect(&self) -> bool {
        self.may_begin() && self.is_good() && !self.kinds.is_empty()
    }

    /// Inspects, if it is time.
    pub(super) fn inspect(&mut self) {
        let now = Instant::now();
        let of_series = self.inspections.series_at <= now;
        let is_time = of_series || self.inspections.overdue_at <= now;
        if self.inspections.under_way.is_some() || !is_time || !self.may_inspect() {
            return;
        }
        let inspection = Inspection {
            store: Arc::clone(&self.store),
            owner: self.owner,
            shared: Arc::clone(&self.shared),
            kinds: Arc::clone(&self.kinds),
            overdue_after: self.inspections.overdue_after,
            is_stopping: Arc::clone(&self.is_stopping),
        };
        if of_series {
            self.inspections.series_at = now + SERIES;
        }
        self.inspections.overdue_at = now + OVERDUE;
        self.inspections.under_way = Some(inspection.make(of_series).boxed());
    }

    pub(super) fn poll_inspection(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(found) = answer_of(&mut self.inspections.under_way, cx) else { return false };
        match found {
            Ok(Found { planned_anew, unhandled, begun, end }) => {
                let overdue = &mut self.inspections;
                let has_found = overdue.has_found | unhandled.is_some();
                overdue.has_found = has_found && end.is_some();
                overdue.overdue_after = end.unwrap_or(Place::FIRST);
                if end.is_some() {
                    overdue.overdue_at = Instant::now() + GOES_ON;
                }
                {
                    let mut stats = self.shared.stats();
                    stats.replanned += planned_anew.len() as u64;
                    // What was found before stays until all were looked at.
                    if unhandled.is_some() || !(has_found || end.is_some()) {
                        stats.unhandled.clone_from(&unhandled);
                    }
                }
                if let Some(unhandled) = unhandled {
                    tell_of(&unhandled);
                }
                for near in planned_anew {
                    let id = near.id();
                    event!(warn, %id, "a series is planned anew, as its rule would not plan what was stored");
                    self.saved(near);
                }
                // Of those that still run this is a notice that waits. The store answers a begin of the others with the same attempt.
                if self.may_begin() {
                    begun.into_iter().for_each(|near| self.arm(near));
                }
            }
            Err(error) => {
                self.shared.failed(&error);
                // It may have stored runs that were planned again.
                self.loads_anew = true;
                self.inspections.series_at = self.inspections.overdue_at;
            }
        }
        true
    }
}

impl Runner {
    /// A timer that has begun waits, because its rule cannot be read here. An event names the first of several.
    pub(super) fn note_unreadable(&mut self, stored: &Stored, why: String, now: Timestamp) {
        // A look that is under way may have missed the timer: it had begun then, or is not overdue for long enough.
        let is_looking =
            self.inspections.under_way.is_some() || self.inspections.overdue_after > Place::FIRST;
        self.inspections.has_found |= is_looking;
        let unhandled = Unhandled::new(&stored.kind, Some(why), now.duration_since(stored.timer.due()));
        let before = self.shared.stats().unhandled.replace(unhandled.clone());
        if before.is_none_or(|before| before.rule != unhandled.rule) {
            tell_of(&unhandled);
        }
    }
}

fn tell_of(Unhandled { kind, rule, overdue }: &Unhandled) {
    match rule {
        Some(why) => event!(warn, kind, why, ?overdue, "a timer is overdue whose rule cannot be read here"),
        None => event!(warn, kind, ?overdue, "a timer is overdue whose kind has no handler here"),
    }
}

impl Inspection {
    async fn make(self, of_series: bool) -> Result<Found, Error> {
        let planned_anew = if of_series { self.inspect_series().await? } else { Vec::new() };
        let mut found =
            Found { planned_anew, unhandled: None, begun: Vec::new(), end: Some(self.overdue_after) };
        self.overdue(&mut found).await?;
        let is_kept = !self.store.clone().histories().await?.is_empty();
        while is_kept
            && !self.is_stopping.load(Ordering::Acquire)
            && self.store.clone().prune(PRUNED).await? == PRUNED
        {}
        Ok(found)
    }

    /// The runs that were planned anew.
    async fn inspect_series(&self) -> Result<Vec<Near>, Error> {
        let (mut planned_anew, mut after) = (Vec::new(), Place::FIRST);
        // A stop waits for the page that is asked for, and for no more.
        while !self.is_stopping.load(Ordering::Acquire) {
            let series = self.store.clone().series(self.owner, after, PAGE).await?;
            let Some(last) = series.last() else { break };
            after = last.timer.place();
            planned_anew.extend(self.plan_anew(&series).await?);
        }
        Ok(planned_anew)
    }

    /// Plans again the runs that their rule would no longer plan.
    async fn plan_anew(&self, series: &[Stored]) -> Result<Vec<Near>, Error> {
        let now = self.shared.now();
        let (mut nears, mut ends) = (Vec::new(), Vec::new());
        for Stored { timer, kind, series, attempts, version, state, .. } in series {
            let (id, scheduled) = (timer.id(), timer.id().first_due());
            // A run that was moved or tried, or is overdue, keeps its place.
            let is_pending =
                *state == State::Stored && *attempts == 0 && timer.due() == scheduled && scheduled > now;
            // If a rule cannot be read, the end of its run reports that.
            if let (Some(series), true) = (series, is_pending)
                && let Ok(Some(next)) = next_run::anew(series, scheduled, now)
            {
                let number = |due| self.store.number(self.owner, self.shared.count(), due, kind);
                let put = occurrence(id, next, number);
                nears.push(put.timer);
                ends.push(Ended { timer: *timer, attempt: 0, version: *version, change: Change::Put(put) });
            }
        }
        if ends.is_empty() {
            return Ok(nears);
        }
        let settled = self.store.clone().settle(self.owner, ends).await?;
        let mut settled = settled.into_iter();
        // Other instances plan by the same clock, so their changes are right.
        nears.retain(|_| settled.next() == Some(Settled::Done));
        Ok(nears)
    }

    /// Of the timers that are overdue by minutes the first of a kind that nobody handles, or with a rule that cannot be read here; and
    /// those that the owner has begun.
    async fn overdue(&self, found: &mut Found) -> Result<(), Error> {
        let now = self.shared.now();
        let until = now.checked_sub(LATE).unwrap_or(Timestamp::MIN);
        for _ in 0..PAGES {
            let Some(after) = found.end.filter(|_| !self.is_stopping.load(Ordering::Acquire)) else { break };
            let asked = self.store.clone().overdue(self.owner, after, until, self.kinds.clone());
            let (timers, end) = asked.await?;
            found.end = end;
            for Overdue { timer, kind, rule, is_handled, has_begun } in timers {
                if has_begun {
                    found.begun.push(timer);
                } else if found.unhandled.is_none() {
                    let why_not = rule.and_then(|rule| next_run::read(&rule).err());
                    let is_unhandled = why_not.is_some() || !is_handled;
                    let unhandled = || Unhandled::new(&kind, why_not, now.duration_since(timer.due()));
                    found.unhandled = is_unhandled.then(unhandled);
                }
            }
        }
        Ok(())
    }
}

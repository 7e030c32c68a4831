//! The interface to a scheduler outside, which calls back when far timers are near.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;

use crate::error::contained;
use crate::runner::Command;
use crate::store::Near;

/// A scheduler outside: timers that are far are handed to it, and it calls back when they are near.
///
/// The store keeps each timer until its work is done. So the scheduler may forget a timer, or call back twice, early,
/// late, in any order, or about a timer that is gone. The [scan](crate::Builder::outside) finds every timer that the
/// scheduler does not call back about.
///
/// A scheduler outside is of use if asking the store is expensive, or if something else wakes the machine: the store is
/// then asked only as often as the scan says. The example `outside` has such a scheduler, over any store.
///
/// The calls come one after the other, and must not block. A panic in one is contained, and the timers of that call are
/// left to the scan.
pub trait Outside: Send + Sync + 'static {
    /// Called before all other methods, and again at each start. Use `call_back` for all later call backs.
    fn begins(&self, call_back: CallBack);

    /// These are far. Call back about each, [so long](CallBack::ahead) before it is due.
    ///
    /// A timer may be handed over again, as after a call back that came too early.
    fn hand_over(&self, far: Vec<Near>);

    /// No call back is needed for these any more: they were cancelled, or are near. It may never have had them.
    fn forget(&self, timers: Vec<Near>);
}

/// Tells durable timers which of them are near.
#[derive(Clone)]
pub struct CallBack {
    pub(crate) runner: UnboundedSender<Command>,
    pub(crate) ahead: Duration,
}

impl CallBack {
    /// Reports that these timers, which were [handed over](Outside::hand_over), are near. Returns `false` if nobody
    /// listens any more, as after a stop.
    pub fn near(&self, timers: Vec<Near>) -> bool {
        self.runner.send(Command::Near(timers)).is_ok()
    }

    /// How long before a timer is due the call back about it is to come: half of the [horizon](crate::Builder::horizon). A
    /// call back more than a whole horizon ahead is too early.
    #[must_use]
    pub const fn ahead(&self) -> Duration {
        self.ahead
    }
}

impl fmt::Debug for CallBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallBack").field("ahead", &self.ahead).finish_non_exhaustive()
    }
}

/// The scheduler outside, as the runner knows it, if there is one.
pub(crate) struct Far {
    outside: Option<Arc<dyn Outside>>,
    scan_ms: i64,
    /// When the store was asked last, and up to which due time.
    scanned: (i64, i64),
    /// The last due time among the timers that other instances have hinted at. These were never handed over.
    hinted: i64,
    /// Timers to be handed over next.
    far: Vec<Near>,
}

impl Far {
    pub(crate) fn new(outside: Option<Arc<dyn Outside>>, scan: Duration) -> Self {
        let scan_ms = i64::try_from(scan.as_millis()).unwrap_or(i64::MAX);
        Self { outside, scan_ms, scanned: (i64::MIN, i64::MIN), hinted: i64::MIN, far: Vec::new() }
    }

    pub(crate) fn begins(&self, call_back: CallBack) {
        if let Some(outside) = &self.outside {
            contained(|| outside.begins(call_back));
        }
    }

    /// When to ask the store for a timer that is due then. Without a scheduler outside that would be at `usual`.
    pub(crate) fn next_scan(&self, usual: i64, due_ms: i64) -> i64 {
        let (at, until) = self.scanned;
        // Timers that the last load left over were never handed over.
        if self.outside.is_none() || due_ms <= until.max(self.hinted) {
            usual
        } else {
            usual.max(at.saturating_add(self.scan_ms))
        }
    }

    pub(crate) fn scanned(&mut self, at: i64, until: i64) {
        self.scanned = (at, until);
    }

    /// Other instances have stored timers that are due up to then.
    pub(crate) fn hinted(&mut self, until: i64) {
        self.hinted = self.hinted.max(until);
    }

    /// A clock was set: nobody knows when the last scan was.
    pub(crate) fn forget_scan(&mut self) {
        self.scanned.0 = i64::MIN;
    }

    pub(crate) fn is_far(&mut self, near: Near) {
        if self.outside.is_some() {
            self.far.push(near);
        }
    }

    /// Hands over all gathered timers.
    pub(crate) fn hand_over(&mut self) {
        let far = std::mem::take(&mut self.far);
        if let Some(outside) = self.outside.as_ref().filter(|_| !far.is_empty()) {
            contained(|| outside.hand_over(far));
        }
    }

    pub(crate) fn forget(&mut self, timers: &[Near]) {
        // The scheduler hears of events in their order.
        self.hand_over();
        if let Some(outside) = self.outside.as_ref().filter(|_| !timers.is_empty()) {
            contained(|| outside.forget(timers.to_vec()));
        }
    }
}

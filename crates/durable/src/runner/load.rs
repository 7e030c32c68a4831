//! What is near: loading, arming, and when to look next.

use std::time::Duration;

use timingwheel::time::delay_queue::Expired;
use tokio::time::Instant;

use super::Runner;
use crate::error::Error;
use crate::id::timestamp;
use crate::store::{Ask, Loaded, Near};

/// How long nobody compares the clocks at the most, while something is armed.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// And while nothing is.
const LOOK_IDLE: Duration = Duration::from_secs(300);

/// As the clock counts.
fn in_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl Runner {
    /// How many timers are in memory that have not begun.
    pub(super) fn near(&self) -> usize {
        self.keys.len() + self.ready.len()
    }

    /// When the next load is to be, on the wall; `None` if nothing is known to be stored, or there is no room.
    fn next_load(&self) -> Option<i64> {
        let has_room = self.near() <= self.settings.window / 2;
        let next_due = self.window.next_due().filter(|_| has_room && self.may_begin())?;
        // Half a horizon ahead, so that each load brings the other half with it.
        Some(next_due.saturating_sub(in_millis(self.settings.horizon / 2)))
    }

    /// Loads, if it is time.
    pub(super) fn load(&mut self) {
        let now = self.times.wall();
        let is_time = self.is_in_doubt || self.next_load().is_some_and(|at| at <= now.as_millisecond());
        if self.loading.is_some() {
            return;
        }
        if !is_time {
            if let Some(ask) = self.scan(now.as_millisecond()) {
                self.ask_for(ask);
            }
            return;
        }
        self.is_in_doubt = false;
        self.look_at_the_clock();
        let until = timestamp(now.as_millisecond().saturating_add(in_millis(self.settings.horizon)));
        let after = self.window.begin_load();
        let limit = self.settings.window - self.near().min(self.settings.window / 2);
        let ask = Ask { after, until, limit, kinds: self.kinds.clone() };
        self.ask_for(ask);
    }

    fn ask_for(&mut self, ask: Ask) {
        let until = ask.until.as_millisecond();
        self.loading = Some((until, self.store.clone().load(self.owner, ask)));
    }

    pub(super) fn loaded(&mut self, until_ms: i64, answer: Result<Loaded, Error>) {
        match answer {
            Err(error) => {
                self.window.load_failed();
                self.failed(&error);
            }
            Ok(loaded) if loaded.lost => {
                self.window.load_failed();
                self.lose();
            }
            Ok(loaded) => {
                self.succeeded();
                {
                    let mut stats = self.shared.stats();
                    stats.loads += 1;
                    stats.loaded += loaded.timers.len() as u64;
                }
                let (end, before) = (loaded.end, self.near());
                let to_arm = self.window.loaded(loaded);
                if self.may_begin() {
                    to_arm.into_iter().for_each(|near| self.arm(near));
                    self.scanned(end, until_ms, self.near() - before);
                    self.shrink();
                }
            }
        }
    }

    /// Puts a timer on the wheel until it is to begin, or where it begins at once.
    pub(super) fn arm(&mut self, near: Near) {
        if self.ready.contains(&near) || self.keys.contains_key(&near) {
            return;
        }
        let begins = near.due_ms.saturating_sub(in_millis(self.times.ahead()));
        match self.times.instant(begins) {
            None => drop(self.ready.insert(near)),
            Some(at) => drop(self.keys.insert(near, self.armed.insert_at(near, at))),
        }
    }

    pub(super) fn disarm(&mut self, near: Near) {
        if let Some(key) = self.keys.remove(&near) {
            self.armed.try_remove(&key);
        }
        self.ready.remove(&near);
    }

    /// So many were saved before the end that they are too many: the last are left to a later load.
    pub(super) fn shrink(&mut self) {
        let window = self.settings.window;
        if self.near() <= window.saturating_mul(2) || self.window.is_loading() {
            return;
        }
        let mut nears: Vec<Near> = self.keys.keys().copied().chain(self.ready.iter().copied()).collect();
        nears.sort_unstable_by_key(|near| near.place());
        let beyond = nears.split_off(window);
        let (Some(last), Some(first)) = (nears.last(), beyond.first()) else { return };
        self.window.shrink(last.place(), first.due_ms);
        beyond.into_iter().for_each(|near| self.disarm(near));
    }

    /// Compares the clocks, if that is long ago.
    pub(super) fn look_now_and_then(&mut self) {
        if self.times.last_look().elapsed() >= LOOK_EVERY {
            self.look_at_the_clock();
        }
    }

    /// Compares the clocks; if one was set, all that waits is armed anew.
    pub(super) fn look_at_the_clock(&mut self) {
        if !self.times.was_set() {
            return;
        }
        self.shared.stats().clock_set += 1;
        let armed: Vec<Near> = self.armed.drain().map(Expired::into_inner).collect();
        self.keys.clear();
        let ready = std::mem::take(&mut self.ready);
        armed.into_iter().chain(ready).for_each(|near| self.arm(near));
        let waiting: Vec<_> = self.waits.drain().map(Expired::into_inner).collect();
        waiting.into_iter().for_each(|id| self.wait_anew(id));
    }

    /// Sleeps until there is something to do that nobody else wakes this task for.
    pub(super) fn sleep_until_next(&mut self) {
        let is_idle = self.near() == 0 && self.live.is_empty();
        let mut next = self.times.last_look() + if is_idle { LOOK_IDLE } else { LOOK_EVERY };
        if let Some(at) = self.next_load() {
            next = next.min(self.times.instant(at).unwrap_or_else(Instant::now));
        }
        // Once it is over a call is under way, whose answer wakes this task.
        if let Some((until, _)) = self.pause.filter(|(until, _)| *until > Instant::now()) {
            let waits = self.window.next_due().is_some() || !self.ends.is_empty() || !self.ready.is_empty();
            // Nothing is asked of the store before that.
            next = if waits { until } else { next.max(until) };
        }
        if let Some(at) = self.next_renewal() {
            next = next.min(at);
        }
        if self.look.deadline() != next {
            std::pin::Pin::new(&mut self.look).reset(next);
        }
    }

    /// Another owner has followed, or others have its timers.
    pub(super) fn lose(&mut self) {
        if !self.doubts() {
            self.lose_for_good();
        }
    }

    pub(super) fn lose_for_good(&mut self) {
        self.lost.send_replace(true);
        self.armed.clear();
        self.keys.clear();
        self.ready.clear();
        self.forget_what_waits();
    }
}

//! Loads near timers, arms them, and decides when to load next.

use std::time::Duration;

use futures::FutureExt;
use jiff::Timestamp;
use timingwheel::time::delay_queue::Expired;
use tokio::time::Instant;

use super::{ONE_CLOCK_READING, Runner};
use crate::error::Error;
use crate::events::event;
use crate::id::{Place, timestamp};
use crate::store::{Ask, Loaded, Near};
use crate::window::Window;

/// The longest time between two comparisons of the clocks while timers are armed.
const COMPARED: Duration = Duration::from_secs(60);
/// The same while no timer is armed.
const COMPARED_IDLE: Duration = Duration::from_secs(300);

/// Long enough to mean never, and short enough to be added to an instant.
const NEVER: Duration = Duration::from_secs(365 * 86_400);

/// In the unit of due times.
fn in_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// The load under way.
pub(super) struct LoadAsked {
    why: Why,
    after: Place,
    until_ms: i64,
}

/// What a load is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    /// The window goes on, or starts at the first timer.
    Next,
    /// Others may have stored timers within the window.
    Scan,
    /// This kind alone has places again.
    Kind(&'static str),
}

impl Runner {
    /// How many timers are in memory that have not begun.
    pub(super) fn near(&self) -> usize {
        self.keys.len() + self.ready.len() + self.alone.len()
    }

    /// When the next load is to be, by the wall clock. `None` if no timer is known to be stored, or there is no room.
    fn next_load(&self) -> Option<i64> {
        let has_room = self.near() <= self.settings.in_memory / 2;
        let next_due = self.window.next_due().filter(|_| has_room && self.may_begin() && self.is_good())?;
        // Half a horizon ahead, so that each load brings the other half with it.
        let usual = next_due.saturating_sub(in_millis(self.settings.horizon / 2));
        Some(self.outside.next_scan(usual, next_due))
    }

    /// Timers that are due up to this time are near.
    pub(super) fn horizon(&self) -> i64 {
        self.clocks.wall().as_millisecond().saturating_add(in_millis(self.settings.horizon))
    }

    /// Loads, if it is time.
    pub(super) fn load(&mut self) {
        if self.loading.is_some() || !self.may_begin() || !self.is_good() {
            return;
        }
        let now = self.clocks.wall();
        let is_time = self.loads_anew || self.next_load().is_some_and(|at| at <= now.as_millisecond());
        if let Some((kind, ask)) = self.load_of_one_kind(now) {
            return self.ask_for(ask, Why::Kind(kind));
        }
        if !is_time {
            if let Some(ask) = self.scan(now.as_millisecond()) {
                self.ask_for(ask, Why::Scan);
            }
            return;
        }
        self.check_the_clock();
        if std::mem::take(&mut self.loads_anew) {
            // A timer may be stored that nobody reported. Armed timers stay armed: if one is armed twice, `begin` finds it gone the
            // second time.
            self.window = Window::new();
            self.loads_again_from(Place::FIRST);
        }
        let until = self.horizon();
        self.outside.scanned(now.as_millisecond(), until);
        let after = self.window.begin_load();
        // Most of the timers that it finds again are armed already.
        let armed = if after == Place::FIRST { 0 } else { self.near().min(self.settings.in_memory / 2) };
        let ask = Ask {
            after,
            until: timestamp(until),
            limit: self.settings.in_memory - armed,
            kinds: self.kinds_to_load(),
        };
        self.ask_for(ask, Why::Next);
    }

    fn ask_for(&mut self, ask: Ask, why: Why) {
        let asked = LoadAsked { why, after: ask.after, until_ms: ask.until.as_millisecond() };
        let call = self.store.clone().load(self.owner, ask);
        self.loading = Some(call.map(move |answer| (asked, answer)).boxed());
    }

    pub(super) fn loaded(&mut self, asked: LoadAsked, answer: Result<Loaded, Error>) {
        let LoadAsked { why, after, until_ms } = asked;
        if !matches!(why, Why::Kind(_)) && answer.as_ref().map_or(true, |loaded| loaded.lost) {
            self.window.load_failed();
        }
        match answer {
            Err(error) => {
                self.loads_anew |= why == Why::Next && after == Place::FIRST;
                if why == Why::Scan {
                    // Nothing else would find its timers before the next renewal.
                    self.scan_for(after, Some(until_ms));
                }
                self.failed(&error);
            }
            Ok(loaded) if loaded.lost => self.lose(),
            Ok(loaded) => {
                self.has_succeeded();
                if let Why::Kind(kind) = why {
                    return self.loaded_of_one_kind(kind, loaded, until_ms);
                }
                {
                    let mut stats = self.shared.stats();
                    stats.loads += 1;
                    stats.loaded += loaded.timers.len() as u64;
                }
                let (end, before) = (loaded.end, self.near());
                let to_arm = self.window.loaded(loaded);
                if self.may_begin() {
                    self.outside.forget(&to_arm);
                    for nears in to_arm.chunks(ONE_CLOCK_READING) {
                        let wall = self.clocks.wall();
                        nears.iter().for_each(|near| self.arm_after(wall, *near));
                    }
                    if why == Why::Scan {
                        self.scanned(end, until_ms, self.near() - before);
                    }
                    self.shrink();
                }
            }
        }
    }

    /// Puts a timer on the wheel until it is to begin, or among those that begin at once.
    pub(super) fn arm(&mut self, near: Near) {
        self.arm_after(self.clocks.wall(), near);
    }

    /// The same, where the wall clock has shown `wall` just now.
    fn arm_after(&mut self, wall: Timestamp, near: Near) {
        if self.keys.contains_key(&near) || self.alone.contains_key(&near) || self.waits_for_a_place(near) {
            return;
        }
        match self.clocks.instant_after(wall, near.due_ms) {
            None => drop(self.ready.insert(near)),
            Some(_) if self.ready.contains(&near) => {}
            Some(at) => drop(self.keys.insert(near, self.armed.insert_at(near, at))),
        }
    }

    /// Puts a timer on the wheel until then, whenever it is due.
    pub(super) fn arm_at(&mut self, near: Near, at: Instant) {
        if !self.keys.contains_key(&near) && !self.ready.contains(&near) {
            self.keys.insert(near, self.armed.insert_at(near, at));
        }
    }

    pub(super) fn disarm(&mut self, near: Near) {
        self.put_off.is_free(near.id());
        if let Some(key) = self.keys.remove(&near) {
            self.armed.try_remove(&key);
        }
        self.ready.remove(&near);
        self.alone.remove(&near);
        self.waits_no_more(near);
    }

    pub(super) fn disarm_all(&mut self) {
        self.armed.clear();
        self.keys.clear();
        self.ready.clear();
        self.alone.clear();
        self.forget_all_that_wait();
        self.waited.extend(self.put_off.all_are_free());
    }

    /// If there are too many timers in memory, leaves the last ones to a later load.
    pub(super) fn shrink(&mut self) {
        let window = self.settings.in_memory;
        if self.near() <= window.saturating_mul(2) || self.window.is_loading() {
            return;
        }
        let here = self.keys.keys().chain(&self.ready).chain(self.alone.keys());
        let mut nears: Vec<Near> = here.copied().collect();
        nears.sort_unstable_by_key(|near| near.place());
        let beyond = nears.split_off(window);
        let (Some(last), Some(first)) = (nears.last(), beyond.first()) else { return };
        self.window.shrink(last.place(), first.due_ms);
        for near in beyond {
            self.disarm(near);
            self.outside.is_far(near);
        }
    }

    /// Compares the clocks, if that is long ago.
    pub(super) fn check_the_clock_now_and_then(&mut self) {
        if self.clocks.tells || self.clocks.compared.elapsed() >= COMPARED {
            self.check_the_clock();
        }
    }

    /// Compares the clocks. If one was set, arms all waiting timers again.
    pub(super) fn check_the_clock(&mut self) {
        if !self.clocks.was_set() {
            return;
        }
        self.shared.stats().clock_set += 1;
        event!(info, "a clock was set, and timers are armed anew");
        // Runs that were planned by a wrong clock are planned again.
        self.inspects_now();
        self.outside.forget_scan();
        let armed: Vec<Near> = self.armed.drain().map(Expired::into_inner).collect();
        self.keys.clear();
        let ready = std::mem::take(&mut self.ready);
        armed.into_iter().chain(ready).for_each(|near| self.arm(near));
    }

    /// Sets the alarm for the next thing to do that no other event announces.
    pub(super) fn sleep_until_next(&mut self) {
        // A clock that tells when it is set need not be compared.
        let every = if self.clocks.tells {
            NEVER
        } else if self.is_idle() {
            COMPARED_IDLE
        } else {
            COMPARED
        };
        let load = self.next_load();
        let load =
            load.map(|at| self.clocks.instant_after(self.clocks.wall(), at).unwrap_or_else(Instant::now));
        let compared = self.clocks.compared + every;
        let mut next = self.next_inspection().into_iter().chain(load).fold(compared, Instant::min);
        // Nothing is asked of the store before the pause is over.
        if let Some((until, _)) = self.pause.filter(|(until, _)| *until > Instant::now()) {
            next = until;
        }
        // A suspect that may begin by now waits for another event: an answer of the store, the lease, or an end. To wake for it
        // would be to wake without end.
        let suspect = self.suspect_at().filter(|at| *at > Instant::now());
        // The renewal keeps the handlers that still run this owner's.
        let others = self.put_off.at().into_iter().chain(suspect).chain(self.next_renewal());
        next = others.fold(next, Instant::min);
        if self.has_wheel_ended {
            self.nap_until(next);
        }
        if self.alarm.deadline() != next {
            std::pin::Pin::new(&mut self.alarm).reset(next);
        }
    }
}

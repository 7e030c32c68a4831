//! The window: decides which timers are in memory. Pure: its owner tells it of saves and loads, and arms the timers that it
//! names.

use std::collections::HashSet;

use crate::id::Place;
use crate::store::{Loaded, Near};

/// Up to `end`, all stored timers are armed or have begun. Beyond it none are.
#[derive(Debug)]
pub(crate) struct Window {
    end: Place,
    /// When the first timer that is known of beyond the end is due.
    next_due: Option<i64>,
    /// A load that is under way.
    load: Option<Load>,
}

/// Saves and removals during a load, which may have seen them or not.
#[derive(Debug, Default)]
struct Load {
    saved: Vec<Near>,
    removed: HashSet<Near>,
}

impl Window {
    /// Nothing is known of the store.
    pub(crate) const fn new() -> Self {
        Self::after(Place::FIRST)
    }

    /// Nothing is known of the store, and the next load begins here. The owner looks for what is before.
    pub(crate) const fn after(place: Place) -> Self {
        Self { end: place, next_due: Some(i64::MIN), load: None }
    }

    /// A timer is stored. Tells whether it is to be armed.
    pub(crate) fn saved(&mut self, near: Near) -> bool {
        if near.place() <= self.end {
            return true;
        }
        match &mut self.load {
            Some(load) => {
                load.removed.remove(&near);
                load.saved.push(near);
            }
            None => self.expect(near.due_ms),
        }
        false
    }

    /// A timer is gone for good. Whoever asks takes it off the wheel.
    ///
    /// Not for a timer that was moved. It may be moved back, and the notices of two moves may come in the wrong order. If it is
    /// armed for its former place, `begin` finds it gone.
    pub(crate) fn removed(&mut self, near: Near) {
        if let Some(load) = &mut self.load {
            load.saved.retain(|saved| *saved != near);
            load.removed.insert(near);
        }
    }

    /// When the first timer beyond the end is due, if there is one; `None` too while a load is under way.
    pub(crate) fn next_due(&self) -> Option<i64> {
        if self.load.is_some() { None } else { self.next_due }
    }

    /// The same, also while a load is under way.
    pub(crate) const fn first_beyond(&self) -> Option<i64> {
        self.next_due
    }

    /// A load begins, after this place, or within the window, for timers that others may have stored there.
    pub(crate) fn begin_load(&mut self) -> Place {
        self.load = Some(Load::default());
        self.end
    }

    /// All timers up to here are armed, or have begun.
    pub(crate) const fn end(&self) -> Place {
        self.end
    }

    pub(crate) fn is_loading(&self) -> bool {
        self.load.is_some()
    }

    /// A load has ended. Returns the timers to arm.
    pub(crate) fn loaded(&mut self, loaded: Loaded) -> Vec<Near> {
        let Loaded { timers: mut to_arm, end, next_due, lost: _ } = loaded;
        let Load { saved, removed } = self.load.take().unwrap_or_default();
        // A load that ends within the window knows nothing of later timers.
        if end >= self.end {
            self.end = end;
            self.next_due = next_due.map(jiff::Timestamp::as_millisecond);
        }
        to_arm.retain(|near| !removed.contains(near));
        for near in saved {
            if near.place() <= self.end {
                to_arm.push(near);
            } else {
                self.expect(near.due_ms);
            }
        }
        to_arm
    }

    /// A load has failed. The next one finds the timers that were saved meanwhile.
    pub(crate) fn load_failed(&mut self) {
        for near in self.load.take().unwrap_or_default().saved {
            self.expect(near.due_ms);
        }
    }

    /// Brings the end back to this place. The caller disarms the timers beyond it. Not to be called during a load, which goes on
    /// from the old end.
    pub(crate) fn shrink(&mut self, end: Place, first_beyond: i64) {
        debug_assert!(self.load.is_none());
        self.end = self.end.min(end);
        self.expect(first_beyond);
    }

    /// A timer beyond the end is due then.
    pub(crate) fn expect(&mut self, due_ms: i64) {
        self.next_due = Some(self.next_due.map_or(due_ms, |next| next.min(due_ms)));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::id::{self, TimerId};

    fn near(due: i64) -> Near {
        Near::from(TimerId { due_ms: due, unique: 1 })
    }

    fn loaded(timers: &[Near], end: i64, next_due: Option<i64>) -> Loaded {
        let end = Place { due_ms: end, unique: u64::MAX };
        Loaded { timers: timers.to_vec(), end, next_due: next_due.map(id::timestamp), lost: false }
    }

    #[test]
    fn what_is_saved_before_the_end_is_armed_and_what_is_after_it_brings_the_next_load_forward() {
        let mut window = Window::new();
        window.begin_load();
        assert_eq!(window.loaded(loaded(&[near(1)], 10, Some(90))), [near(1)]);
        assert!(window.saved(near(10)), "at the end");
        assert!(window.saved(near(-10)), "in the past");
        assert_eq!(window.next_due(), Some(90));
        assert!(!window.saved(near(11)));
        assert_eq!(window.next_due(), Some(11));
        assert!(!window.saved(near(12)));
        assert_eq!(window.next_due(), Some(11));
    }

    #[test]
    fn what_is_removed_during_a_load_is_left_out_and_what_comes_again_is_not() {
        let mut window = Window::new();
        window.begin_load();
        window.removed(near(1));
        window.removed(near(2));
        window.saved(near(2));
        window.saved(near(3));
        window.removed(near(3));
        // Whoever arms them arms each once.
        let to_arm: BTreeSet<Near> =
            window.loaded(loaded(&[near(1), near(2), near(3)], 10, None)).into_iter().collect();
        assert_eq!(to_arm, BTreeSet::from([near(2)]));
    }

    #[test]
    fn after_a_load_that_failed_the_next_one_finds_what_was_saved_meanwhile() {
        let mut window = Window::new();
        window.begin_load();
        window.loaded(loaded(&[], 10, None));
        window.begin_load();
        window.saved(near(12));
        assert_eq!(window.next_due(), None, "during a load");
        window.load_failed();
        assert_eq!(window.next_due(), Some(12));
    }

    /// The store of a model: what stands in it. Loads see it as it is at some moment between their beginning and their
    /// end; notices of saves and removals come later than these, in order.
    #[test]
    fn in_random_orders_of_saves_removals_loads_and_notices_none_is_missed_up_to_the_end() {
        for seed in 0..3_000 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (mut window, mut store, mut armed) = (Window::new(), BTreeSet::new(), BTreeSet::new());
            let mut notices: Vec<(bool, Near)> = Vec::new();
            let (mut load, mut seen): (Option<Place>, Option<Loaded>) = (None, None);
            for _ in 0..40 {
                match random.u8(..8) {
                    0 | 1 => {
                        let near = near(random.i64(..30));
                        if store.insert(near) {
                            notices.push((true, near));
                        }
                    }
                    2 => {
                        if let Some(near) = random.choice(store.iter().copied().collect::<Vec<_>>()) {
                            store.remove(&near);
                            notices.push((false, near));
                        }
                    }
                    3 | 4 if !notices.is_empty() => match notices.remove(0) {
                        (true, near) if window.saved(near) => drop(armed.insert(near)),
                        (true, _) => {}
                        (false, near) => {
                            window.removed(near);
                            armed.remove(&near);
                        }
                    },
                    5 if load.is_none() => load = Some(window.begin_load()),
                    6 if load.is_some() && seen.is_none() => {
                        let after = load.expect("is some");
                        let until = after.due_ms.max(0) + random.i64(1..8);
                        let (within, beyond): (Vec<Near>, Vec<Near>) = store
                            .iter()
                            .filter(|near| near.place() > after)
                            .partition(|near| near.due_ms <= until);
                        seen = Some(loaded(&within, until, beyond.first().map(|near| near.due_ms)));
                    }
                    7 if seen.is_some() => {
                        load = None;
                        armed.extend(window.loaded(seen.take().expect("is some")));
                    }
                    _ => {}
                }
            }
            if let Some(seen) = seen {
                armed.extend(window.loaded(seen));
            } else if load.is_some() {
                window.load_failed();
            }
            for (is_saved, near) in notices {
                if !is_saved {
                    window.removed(near);
                    armed.remove(&near);
                } else if window.saved(near) {
                    armed.insert(near);
                }
            }
            for near in store {
                let is_known =
                    armed.contains(&near) || window.next_due().is_some_and(|next| next <= near.due_ms);
                assert!(is_known, "seed {seed}: {near:?} is neither armed nor waited for");
            }
        }
    }
}

//! What do starting a timer, stopping one and a tick cost in the structures that timers have been kept in, and how do
//! the costs grow with the number of timers?
//!
//! The structures alone, in one thread, without a lock, a clock or a waker: the lists, heaps, trees and wheels of the
//! literature beside our [`Hierarchy`](timingwheel::wheel::Hierarchy). Before anything is measured all of them are
//! given the same timers, and have to fire the same ones at the same ticks.

mod agreement;
mod bag;
mod growth;
mod heaps;
mod lists;
mod ordered_map;
mod report;
mod timers;
mod wheels;

pub(crate) use heaps::{IndexedHeap, LazyHeap};
pub(crate) use timers::Timers;
pub(crate) use wheels::OurWheel;

use agreement::{Replay, Script};
use growth::{Sample, Workload};
use lists::{SortedList, UnsortedList};
use ordered_map::OrderedMap;
use wheels::{DEFAULT_SLOTS, HashedWheel};

use crate::support::Case;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case {
        name: "structures",
        question: "What do starting a timer, stopping one and a tick cost in each structure, and how do the costs grow?",
        run: report::run,
    }]
}

/// A structure, and how it takes part.
struct Subject {
    name: &'static str,
    /// The greatest number of timers at which it is measured.
    limit: usize,
    /// It is filled by deadline, because filling it in any other order takes a time that grows with the square.
    fills_in_order: bool,
    lap: fn(&Workload) -> Sample,
    replay: fn(&Script) -> Replay,
}

impl Subject {
    const fn of<T: Timers>() -> Self {
        Self {
            name: T::NAME,
            limit: usize::MAX,
            fills_in_order: false,
            lap: growth::lap::<T>,
            replay: agreement::replay::<T>,
        }
    }
}

const SUBJECTS: [Subject; 7] = [
    Subject::of::<OurWheel<DEFAULT_SLOTS>>(),
    Subject::of::<HashedWheel>(),
    Subject::of::<OrderedMap>(),
    Subject::of::<IndexedHeap>(),
    Subject::of::<LazyHeap>(),
    Subject { limit: 1_000_000, fills_in_order: true, ..Subject::of::<SortedList>() },
    Subject::of::<UnsortedList>(),
];

//! What do starting a timer, stopping one and a tick cost in the structures that timers have been kept in, and how do the costs
//! grow with the number of timers? It is the table of Varghese and Lauck, measured.
//!
//! The structures alone, on one thread, without a lock, a clock or a waker. Each fires the same timers at the same ticks.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::iter;
use std::time::{Duration, Instant};

use slab::Slab;
use timingwheel::wheel::{Hierarchy, Key, Nanos, Progress, Resolution};

use crate::support::{Case, Duel, Findings, Scale, Table, Unit, median, rounds};

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new(
        "structures",
        "What do starting a timer, stopping one and a tick cost in each structure, and how do the costs grow?",
        run,
    )]
}

/// Times are numbers of ticks. `start` is given a later one than the last `tick`.
trait Timers {
    type Handle: Copy;

    fn new() -> Self;
    fn start(&mut self, due: u64, payload: u32) -> Self::Handle;
    /// Starts the first ones, which is not measured.
    fn fill(&mut self, due: &[u64]) -> Vec<Self::Handle> {
        (0..).zip(due).map(|(payload, due)| self.start(*due, payload)).collect()
    }
    /// Tells whether the timer was there.
    fn stop(&mut self, handle: Self::Handle) -> bool;
    /// Counts the timers that are due. `now` goes up by one each time.
    fn tick(&mut self, now: u64) -> u64;
}

const TICK: Nanos = Nanos(1_000_000);

struct OurWheel(Hierarchy<u32>, Vec<u32>);

impl Timers for OurWheel {
    type Handle = Key;

    fn new() -> Self {
        let resolution = Resolution::new(Duration::from_nanos(TICK.0)).expect("a tick is not zero");
        Self(Hierarchy::new(resolution, 64), Vec::new())
    }

    fn start(&mut self, due: u64, payload: u32) -> Key {
        self.0.insert(Nanos::ZERO, Nanos(due * TICK.0), payload).expect("it is not due")
    }

    fn stop(&mut self, handle: Key) -> bool {
        self.0.cancel(handle).is_some()
    }

    fn tick(&mut self, now: u64) -> u64 {
        while self.0.advance(Nanos(now * TICK.0), 1_024, &mut self.1) == Progress::More {}
        self.1.drain(..).count() as u64
    }
}

/// One ring of slots. Timers beyond the ring wait in their slot for as many rounds as it takes, so a tick looks at all timers of a
/// slot. With 512 slots it is Netty's wheel, with one a list in no order.
struct Ring<const SLOTS: usize>(Vec<Slab<(u64, u32)>>);

impl<const SLOTS: usize> Ring<SLOTS> {
    fn slot(tick: u64) -> usize {
        usize::try_from(tick % SLOTS as u64).expect("a slot")
    }
}

impl<const SLOTS: usize> Timers for Ring<SLOTS> {
    type Handle = (usize, usize);

    fn new() -> Self {
        Self(iter::repeat_with(Slab::new).take(SLOTS).collect())
    }

    fn start(&mut self, due: u64, payload: u32) -> Self::Handle {
        let slot = Self::slot(due);
        (slot, self.0[slot].insert((due, payload)))
    }

    fn stop(&mut self, (slot, place): Self::Handle) -> bool {
        self.0[slot].try_remove(place).is_some()
    }

    fn tick(&mut self, now: u64) -> u64 {
        let slot = &mut self.0[Self::slot(now)];
        let before = slot.len();
        slot.retain(|_, (due, _)| *due > now);
        (before - slot.len()) as u64
    }
}

/// The first one is the last, so that it is taken off the end. A place is found by bisection; what is behind it moves.
struct SortedList(Vec<(Reverse<u64>, u32)>);

impl Timers for SortedList {
    type Handle = (Reverse<u64>, u32);

    fn new() -> Self {
        Self(Vec::new())
    }

    fn start(&mut self, due: u64, payload: u32) -> Self::Handle {
        let timer = (Reverse(due), payload);
        self.0.insert(self.0.partition_point(|other| *other < timer), timer);
        timer
    }

    /// One at a time would take minutes.
    fn fill(&mut self, due: &[u64]) -> Vec<Self::Handle> {
        self.0.extend(due.iter().map(|due| Reverse(*due)).zip(0..));
        let handles = self.0.clone();
        self.0.sort_unstable();
        handles
    }

    fn stop(&mut self, handle: Self::Handle) -> bool {
        self.0.binary_search(&handle).is_ok_and(|place| self.0.remove(place) == handle)
    }

    fn tick(&mut self, now: u64) -> u64 {
        iter::from_fn(|| self.0.pop_if(|(Reverse(due), _)| *due <= now)).count() as u64
    }
}

/// std's B-tree, in place of a red-black tree.
struct Tree(BTreeSet<(u64, u32)>);

impl Timers for Tree {
    type Handle = (u64, u32);

    fn new() -> Self {
        Self(BTreeSet::new())
    }

    fn start(&mut self, due: u64, payload: u32) -> Self::Handle {
        self.0.insert((due, payload));
        (due, payload)
    }

    fn stop(&mut self, handle: Self::Handle) -> bool {
        self.0.remove(&handle)
    }

    fn tick(&mut self, now: u64) -> u64 {
        let mut fired = 0;
        while self.0.first().is_some_and(|(due, _)| *due <= now) {
            self.0.pop_first();
            fired += 1;
        }
        fired
    }
}

/// A stop only marks the timer, which stays in the heap until its time comes.
struct Heap {
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    is_stopped: Vec<bool>,
}

impl Timers for Heap {
    type Handle = usize;

    fn new() -> Self {
        Self { heap: BinaryHeap::new(), is_stopped: Vec::new() }
    }

    fn start(&mut self, due: u64, _payload: u32) -> usize {
        let handle = self.is_stopped.len();
        self.is_stopped.push(false);
        self.heap.push(Reverse((due, handle)));
        handle
    }

    fn stop(&mut self, handle: usize) -> bool {
        !std::mem::replace(&mut self.is_stopped[handle], true)
    }

    fn tick(&mut self, now: u64) -> u64 {
        let mut fired = 0;
        while self.heap.peek().is_some_and(|Reverse((due, _))| *due <= now) {
            let Some(Reverse((_, handle))) = self.heap.pop() else { break };
            fired += u64::from(!self.is_stopped[handle]);
        }
        fired
    }
}

/// Its name, and what a start, a stop and a tick cost beside so many timers.
type Structure = (&'static str, fn(usize) -> [f64; 3]);

/// The first one is ours.
const STRUCTURES: [Structure; 6] = [
    ("timingwheel's hierarchy", lap::<OurWheel>),
    ("hashed wheel, 512 slots", lap::<Ring<512>>),
    ("heap, lazy removal", lap::<Heap>),
    ("ordered set", lap::<Tree>),
    ("sorted list", lap::<SortedList>),
    ("unsorted list", lap::<Ring<1>>),
];

const ASPECTS: [&str; 3] = ["Starting a timer", "Stopping a timer", "A tick"];
const SIZES: [usize; 5] = [100, 1_000, 10_000, 100_000, 1_000_000];
/// Timers are due within a minute, at a tick of 1 ms.
const LONGEST: u64 = 60_000;
/// A part of a lap takes no longer.
const PART: Duration = Duration::from_millis(20);

/// Nanoseconds for a start, a stop and a tick beside so many timers.
fn lap<T: Timers>(size: usize) -> [f64; 3] {
    // The same for all structures.
    let mut random = fastrand::Rng::with_seed(size as u64);
    let mut due = iter::repeat_with(|| random.u64(1..=LONGEST));
    let mut timers = T::new();
    let first: Vec<u64> = due.by_ref().take(size).collect();
    let mut pending: Vec<(T::Handle, u64)> = timers.fill(&first).into_iter().zip(first).collect();
    let batch = size.min(100);
    let [mut start, mut stop, mut tick] = [(0, Duration::ZERO); 3];
    // Each timer is replaced once at the most, those of a batch from everywhere.
    for first in 0..size / batch {
        let chosen: Vec<usize> = (0..batch).map(|part| part * (size / batch) + first).collect();
        let old: Vec<T::Handle> = chosen.iter().map(|place| pending[*place].0).collect();
        let dues: Vec<u64> = due.by_ref().take(batch).collect();
        let begin = Instant::now();
        let stopped = old.iter().filter(|handle| timers.stop(**handle)).count();
        stop = (stop.0 + batch, stop.1 + begin.elapsed());
        assert_eq!(stopped, batch, "each was there");
        let payload = u32::try_from(size + first * batch).expect("a payload");
        let begin = Instant::now();
        let new: Vec<T::Handle> =
            (payload..).zip(&dues).map(|(payload, due)| timers.start(*due, payload)).collect();
        start = (start.0 + batch, start.1 + begin.elapsed());
        chosen.into_iter().zip(new.into_iter().zip(dues)).for_each(|(place, new)| pending[place] = new);
        if start.1 + stop.1 > PART {
            break;
        }
    }
    let mut fired = 0;
    let begin = Instant::now();
    while tick.1 < PART && tick.0 < 1_000 {
        // So that few readings of the clock count.
        for _ in 0..10 {
            tick.0 += 1;
            fired += timers.tick(tick.0 as u64);
        }
        tick.1 = begin.elapsed();
    }
    let are_due = pending.iter().filter(|(_, due)| *due <= tick.0 as u64).count();
    assert_eq!(fired, are_due as u64, "those fire that are due");
    [start, stop, tick].map(|(count, time): (usize, Duration)| time.as_nanos() as f64 / count as f64)
}

fn run(scale: Scale) -> Findings {
    let sizes = &SIZES[..if scale.is_test() { 2 } else { SIZES.len() }];
    // Of each size and structure the medians of the aspects.
    let costs: Vec<Vec<[f64; 3]>> = sizes
        .iter()
        .map(|size| {
            eprintln!("{size} timers");
            let mut laps = STRUCTURES.map(|(_, lap)| move || lap(*size));
            let mut sides = laps.each_mut().map(|lap| lap as &mut dyn FnMut() -> [f64; 3]);
            let found = rounds(scale.rounds(), &mut sides);
            let of = |side: usize, aspect: usize| median(found.iter().map(|round| round[side][aspect]));
            (0..STRUCTURES.len()).map(|side| [0, 1, 2].map(|aspect| of(side, aspect))).collect()
        })
        .collect();
    let tables = ASPECTS.iter().enumerate().map(|(aspect, title)| {
        let shown = sizes.iter().map(|size| Unit::Count.show(*size as f64));
        let mut table = Table::new(title, iter::once("timers pending".to_owned()).chain(shown));
        for (side, (name, _)) in STRUCTURES.iter().enumerate() {
            let cells = costs.iter().map(|sides| Unit::Nanos.show(sides[side][aspect]));
            table = table.row(iter::once((*name).to_owned()).chain(cells));
        }
        for (size, sides) in sizes.iter().zip(&costs) {
            let what = format!("{}, {} pending", title.to_lowercase(), Unit::Count.show(*size as f64));
            let others = STRUCTURES.iter().zip(sides).skip(1).map(|((name, _), costs)| (*name, costs[aspect]));
            let best = others.min_by(|one, other| one.1.total_cmp(&other.1)).expect("others");
            table = table.duel(Duel::new(what, Unit::Nanos, sides[0][aspect], best));
        }
        table.note(
            "Medians, without a lock, a clock or a waker. A tick of the wheel only looks at the next bucket, and moves timers of upper \
             levels down. Each comparison is with the best of the others.",
        )
    });
    Findings { tables: tables.collect() }
}

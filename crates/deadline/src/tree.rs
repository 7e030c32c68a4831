//! The tree of a deadline and its children: one lock, one timer, and the tasks that wait.
//!
//! Ground rules:
//! - [`State`] is under the tree's lock. No code of a user's runs under it: wakers are cloned, woken and dropped outside.
//! - A child is in the tree for as long as its [`Child`] is referred to, so an index of one that is referred to is valid.
//! - A deadline's end is reckoned, not kept: it follows from the instants and cancels of its ancestors and itself. A
//!   deadline that has ended, by the clock that is read under the lock, is neither moved nor cancelled, and what happens
//!   above it later changes nothing. So what one thread has seen ended stays so for all.
//! - The first task that waits stands apart from the list. It stays registered when its future is gone, so that its next
//!   future finds it there. While no other task asks for the timer, the timer wakes that task itself, which then has to
//!   look: nobody else has seen the timer fire.
//! - The timer fires no later than the earliest [`Waiter::at`]. It may fire earlier, for a deadline that was moved or a
//!   future that is gone. Then it is armed anew.
//! - The timer is polled, moved and dropped outside of the lock, because any of these may drop other timers' wakers. A
//!   thread that does so takes the timer out of the state. Another thread that finds it taken leaves a note, and the first
//!   looks again.
//! - If the wheel refuses the timer, each future keeps its own time, in the runtime that polls it. It asks the wheel again
//!   at each poll, and is woken when its deadline moves.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use std::{error, fmt, io, iter::successors, mem, pin::Pin};

use slab::Slab;
use tokio::time::Instant;

use crate::stats::Used;
use crate::sync::{Mutex, MutexGuard, Sleep, TimingWheel};

/// Why a future that ran under a [`Deadline`](crate::Deadline) was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ended {
    /// The deadline has passed, or that of an ancestor, or the future's own limit.
    Passed,
    /// The deadline was cancelled, or an ancestor was.
    Cancelled,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Passed => "the deadline has passed",
            Self::Cancelled => "the deadline was cancelled",
        })
    }
}

impl error::Error for Ended {}

/// `TimedOut` for a deadline that has passed, `ConnectionAborted` for one that was cancelled.
impl From<Ended> for io::Error {
    fn from(ended: Ended) -> Self {
        let kind = match ended {
            Ended::Passed => io::ErrorKind::TimedOut,
            Ended::Cancelled => io::ErrorKind::ConnectionAborted,
        };
        Self::new(kind, ended)
    }
}

pub(crate) struct Tree {
    pub(crate) wheel: TimingWheel,
    used: Option<Used>,
    state: Mutex<State>,
}

pub(crate) struct State {
    root: Node,
    children: Slab<Node>,
    /// Stays when its future is gone, for the next one of the same task.
    first: Waiter,
    others: Slab<Waiter>,
    timer: Timer,
    /// The latest time that the timer has reached.
    reached: Option<Instant>,
}

/// A deadline of the tree.
struct Node {
    parent: Place,
    at: Instant,
    cancelled: Option<Instant>,
    /// Whether it was counted as passed.
    is_counted: bool,
}

/// Where a deadline stands among the children; `None` is the root.
pub(crate) type Place = Option<usize>;

/// A task that waits for the end of a deadline.
#[derive(Default)]
struct Waiter {
    node: Place,
    /// By when the timer has to fire. `None` while the task keeps its own time.
    at: Option<Instant>,
    /// `None` once it was taken to be woken.
    waker: Option<Waker>,
}

impl Waiter {
    fn take(&mut self) -> Option<Waker> {
        self.at = None;
        self.waker.take()
    }

    fn is_of(&self, node: Place, waker: &Waker) -> bool {
        self.node == node && self.waker.as_ref().is_some_and(|kept| kept.will_wake(waker))
    }
}

/// What a future that waits is told.
pub(crate) enum Answer {
    Pending,
    /// To keep its own time until this instant, and to [tell](Tree::reach) then.
    Alone(Instant),
    Ended(Ended),
}

enum Timer {
    /// Until a first future waits.
    Unarmed,
    /// Fires at this instant.
    Armed { sleep: Sleep, fires: Instant, calls: Calls },
    /// A thread polls it. `again` asks that thread to look at the state once more.
    Taken { again: bool },
}

/// Whom the timer calls.
enum Calls {
    /// Wakes those that are due.
    Bell,
    /// The first task, which looks for itself. No other task has asked for the timer.
    First,
    /// A task that was the first.
    Nobody,
}

/// A child's place in its tree, for as long as the child, one of its own or a future refers to it.
pub(crate) struct Child {
    tree: Arc<Tree>,
    pub(crate) index: usize,
    /// Keeps the chain up to the root.
    parent: Option<Arc<Self>>,
}

impl Child {
    pub(crate) fn new(tree: &Arc<Tree>, parent: Option<&Arc<Self>>, at: Instant) -> Arc<Self> {
        let index = tree.lock().children.insert(Node::new(parent.map(|parent| parent.index), at));
        Arc::new(Self { tree: tree.clone(), index, parent: parent.cloned() })
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let mut state = self.tree.lock();
        state.children.remove(self.index);
        let left = if state.first.node == Some(self.index) { state.first.take() } else { None };
        drop(state);
        drop(left);
        // Not by recursion, which a long chain would take too deep.
        let mut parent = self.parent.take();
        while let Some(mut child) = parent.and_then(Arc::into_inner) {
            parent = child.parent.take();
        }
    }
}

impl Tree {
    pub(crate) fn new(wheel: &TimingWheel, at: Instant, used: Option<Used>) -> Arc<Self> {
        let state = State {
            root: Node::new(None, at),
            children: Slab::new(),
            first: Waiter::default(),
            others: Slab::new(),
            timer: Timer::Unarmed,
            reached: None,
        };
        Arc::new(Self { wheel: wheel.clone(), used, state: Mutex::new(state) })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many children it has, and futures that wait apart from the first task's.
    #[cfg(all(test, loom))]
    pub(crate) fn counts(&self) -> (usize, usize) {
        let state = self.lock();
        (state.children.len(), state.others.len())
    }

    /// Ends a deadline and all below, unless it has ended.
    pub(crate) fn cancel(&self, place: Place) {
        let mut state = self.lock();
        let now = self.wheel.current_time();
        if state.end(place, now).is_some() {
            return;
        }
        state.node_mut(place).cancelled = Some(now);
        if let Some(used) = &self.used {
            used.counts.ended(Ended::Cancelled, chain(&state.children, place).count());
        }
        let (children, waiters) = state.waiters();
        let below = waiters.filter(|waiter| is_below(children, waiter.node, place));
        let wakers = below.filter_map(Waiter::take).collect();
        drop(state);
        wake_all(wakers);
    }

    /// Moves a deadline, unless it has ended. Returns whether it moved.
    pub(crate) fn reset(self: &Arc<Self>, place: Place, at: Instant) -> bool {
        let mut state = self.lock();
        let now = self.wheel.current_time();
        if state.end(place, now).is_some() {
            return false;
        }
        state.node_mut(place).at = at;
        let (children, waiters) = state.waiters();
        let mut wakers = Vec::new();
        for waiter in waiters.filter(|waiter| is_below(children, waiter.node, place)) {
            match &mut waiter.at {
                Some(before) => *before = at.min(*before),
                None => wakers.extend(waiter.take()),
            }
        }
        if let Some(at) = state.earliest()
            && !state.timer.covers(at, true, &self.wheel)
        {
            state = self.arm(state, None, None).0;
        }
        drop(state);
        wake_all(wakers);
        true
    }

    /// The time has come to `now`: wakes all that wait until then.
    pub(crate) fn reach(&self, now: Instant) {
        let wakers = self.lock().reach(now);
        wake_all(wakers);
    }

    /// How a future ended that waits for a deadline or its own `limit`. While it has not, its task is registered. `slot`
    /// is where, unless it is the first.
    pub(crate) fn poll(
        self: &Arc<Self>,
        place: Place,
        slot: &mut Option<usize>,
        limit: Option<Instant>,
        cx: &Context<'_>,
    ) -> Answer {
        // No waker is cloned or dropped while the lock is held.
        let mut clone = None;
        let mut is_new = true;
        let mut state = self.lock();
        loop {
            let (passes, end) = state.ends(place, limit, state.reached);
            if let Some(end) = end {
                if let (Ended::Passed, Some(used)) = (end, &self.used) {
                    state.count_passed(used, place, limit);
                }
                return Answer::Ended(end);
            }
            let (waiter, timer) = state.waiter(*slot);
            // A waker need not be known by its clone, so a future registers once and no more before it asks the wheel.
            if is_new && !waiter.is_of(place, cx.waker()) {
                let Some(waker) = clone.take() else {
                    drop(state);
                    clone = Some(cx.waker().clone());
                    state = self.lock();
                    continue;
                };
                is_new = false;
                if let Some(before) = state.register(place, slot, waker) {
                    drop(state);
                    drop(before);
                    state = self.lock();
                }
            } else if timer.covers(passes, slot.is_none(), &self.wheel) {
                waiter.at = Some(waiter.at.map_or(passes, |at| at.min(passes)));
                return Answer::Pending;
            } else {
                is_new = true;
                let is_armed;
                let first = slot.is_none().then_some(cx.waker());
                (state, is_armed) = self.arm(state, Some(passes), first);
                if !is_armed {
                    return Answer::Alone(passes);
                }
            }
        }
    }

    /// Takes a future out of the list.
    pub(crate) fn forget(&self, slot: usize) {
        let waiter = self.lock().others.remove(slot);
        drop(waiter);
    }

    /// Arms the timer for the earliest limit, which may be the caller's `own`, and wakes the tasks whose limits it has
    /// reached. Lets go of the lock meanwhile. `first` is the waker of a caller that is the first task. Returns false if
    /// the wheel refused the timer. Then the others are woken, to ask for themselves.
    fn arm<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, State>,
        mut own: Option<Instant>,
        first: Option<&Waker>,
    ) -> (MutexGuard<'a, State>, bool) {
        let (mut found, mut fires) = match mem::replace(&mut state.timer, Timer::Taken { again: true }) {
            Timer::Taken { .. } => return (state, true),
            Timer::Armed { sleep, fires, .. } => (Some(sleep), Some(fires)),
            Timer::Unarmed => (None, None),
        };
        let mut is_armed = true;
        loop {
            let earliest = state.earliest().into_iter().chain(own).chain(fires).min();
            let Some(at) = earliest else {
                state.timer = Timer::Unarmed;
                return (state, is_armed);
            };
            // The first task needs no bell while it is the only one that waits for the timer.
            let first = first.filter(|first| state.first.is_of(state.first.node, first));
            let first = first.filter(|_| state.others.iter().all(|(_, waiter)| waiter.at.is_none()));
            state.timer = Timer::Taken { again: false };
            drop(state);
            let mut sleep = found.take().unwrap_or_else(|| self.wheel.sleep_until(at));
            if fires.take().is_some_and(|fires| fires > at) {
                Pin::new(&mut sleep).reset(at);
            }
            let polled = match first {
                Some(waker) => sleep.poll_wait(&mut Context::from_waker(waker)),
                None => {
                    let bell = Waker::from(Arc::new(Bell(Arc::downgrade(self))));
                    sleep.poll_wait(&mut Context::from_waker(&bell))
                }
            };

            state = self.lock();
            let wakers = match polled {
                Poll::Pending if matches!(state.timer, Timer::Taken { again: true }) => {
                    (found, fires) = (Some(sleep), Some(at));
                    continue;
                }
                Poll::Pending => {
                    let calls = if first.is_some() { Calls::First } else { Calls::Bell };
                    state.timer = Timer::Armed { sleep, fires: at, calls };
                    return (state, is_armed);
                }
                Poll::Ready(Ok(())) => {
                    own = own.filter(|own| *own > at);
                    state.reach(at)
                }
                Poll::Ready(Err(_)) => {
                    is_armed &= own.take().is_none();
                    state.take(|waiter| waiter.at.is_some())
                }
            };
            drop(state);
            wake_all(wakers);
            drop(sleep);
            state = self.lock();
        }
    }
}

/// `after` from `now` by the wheel's clock; the last instant that the wheel knows, if that is further away.
pub(crate) fn instant_after(wheel: &TimingWheel, now: Instant, after: Duration) -> Instant {
    now.checked_add(after).unwrap_or_else(|| wheel.sleep(after).deadline())
}

/// `after` from now, as [`instant_after`].
pub(crate) fn instant_in(wheel: &TimingWheel, after: Duration) -> Instant {
    instant_after(wheel, wheel.current_time(), after)
}

/// Counts how much of its time a root took. One whose end was seen is counted already.
impl Drop for Tree {
    fn drop(&mut self) {
        let root = &self.state.get_mut().unwrap_or_else(PoisonError::into_inner).root;
        if let Some(used) = &self.used
            && root.cancelled.is_none()
            && !root.is_counted
        {
            used.count(root.at, self.wheel.current_time());
        }
    }
}

/// A waker that panics, which the panic hook has told, keeps nothing from the others.
fn wake_all(wakers: Vec<Waker>) {
    for waker in wakers {
        let _panic = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    }
}

/// The waker of the timer. Weak, as the tree owns the timer, and so this.
struct Bell(Weak<Tree>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        if let Some(tree) = self.0.upgrade() {
            drop(tree.arm(tree.lock(), None, None));
        }
    }
}

impl Timer {
    /// Whether it is seen to that a task is woken by `at`, which may be the first.
    #[inline]
    fn covers(&mut self, at: Instant, is_first: bool, wheel: &TimingWheel) -> bool {
        match self {
            Self::Armed { fires, sleep, calls } => {
                let is_called = match calls {
                    Calls::Bell => true,
                    Calls::First => is_first && !sleep.is_elapsed() && !wheel.is_ended(),
                    Calls::Nobody => false,
                };
                is_called && *fires <= at
            }
            Self::Taken { again } => {
                *again = true;
                true
            }
            Self::Unarmed => false,
        }
    }
}

impl Node {
    const fn new(parent: Place, at: Instant) -> Self {
        Self { parent, at, cancelled: None, is_counted: false }
    }
}

/// A deadline and its ancestors, but for the root.
fn chain(children: &Slab<Node>, place: Place) -> impl Iterator<Item = usize> {
    successors(place, |&index| children[index].parent)
}

/// Whether what waits for `node` ends with `place`.
fn is_below(children: &Slab<Node>, node: Place, place: Place) -> bool {
    place.is_none_or(|place| chain(children, node).any(|index| index == place))
}

impl State {
    fn node_mut(&mut self, place: Place) -> &mut Node {
        match place {
            Some(index) => &mut self.children[index],
            None => &mut self.root,
        }
    }

    /// When a deadline or a `limit` under it passes, and how it has ended by `now`.
    #[inline]
    fn ends(&self, place: Place, limit: Option<Instant>, now: Option<Instant>) -> (Instant, Option<Ended>) {
        let (mut passes, mut end, mut next) = (limit, None, place);
        loop {
            let node = next.map_or(&self.root, |index| &self.children[index]);
            // One that had ended before was not cancelled, so neither had what is above. Below, a deadline may have passed.
            if let (None, Some(at)) = (end, node.cancelled) {
                let has_passed = passes.is_some_and(|passes| passes <= at);
                end = Some(if has_passed { Ended::Passed } else { Ended::Cancelled });
            }
            let earliest = passes.map_or(node.at, |passes| passes.min(node.at));
            if next.is_none() {
                let has_passed = now.is_some_and(|now| now >= earliest);
                return (earliest, end.or(has_passed.then_some(Ended::Passed)));
            }
            (passes, next) = (Some(earliest), node.parent);
        }
    }

    /// How a deadline has ended by `now`, and by what the timer has seen of the time.
    pub(crate) fn end(&self, place: Place, now: Instant) -> Option<Ended> {
        self.ends(place, None, self.reached.max(Some(now))).1
    }

    /// The instant at which a deadline passes.
    pub(crate) fn passes(&self, place: Place) -> Instant {
        self.ends(place, None, None).0
    }

    /// Gives a future's waker a place: its own, or that of the first task if it is free, or a new one. Returns the waker that
    /// was there.
    fn register(&mut self, node: Place, slot: &mut Option<usize>, waker: Waker) -> Option<Waker> {
        if slot.is_none() && self.first.waker.is_none() {
            (self.first.node, self.first.waker) = (node, Some(waker));
            if let Timer::Armed { calls: calls @ Calls::First, .. } = &mut self.timer {
                *calls = Calls::Nobody;
            }
            return None;
        }
        let slot = slot.get_or_insert_with(|| self.others.insert(Waiter { node, ..Waiter::default() }));
        self.others[*slot].waker.replace(waker)
    }

    /// A future's place, which is the first's if it has none of its own; and the timer.
    fn waiter(&mut self, slot: Option<usize>) -> (&mut Waiter, &mut Timer) {
        let waiter = match slot {
            Some(slot) => &mut self.others[slot],
            None => &mut self.first,
        };
        (waiter, &mut self.timer)
    }

    /// The children, and all that wait.
    fn waiters(&mut self) -> (&Slab<Node>, impl Iterator<Item = &mut Waiter>) {
        let others = self.others.iter_mut().map(|(_, waiter)| waiter);
        let waiters = [&mut self.first].into_iter().chain(others);
        (&self.children, waiters.filter(|waiter| waiter.waker.is_some()))
    }

    fn earliest(&self) -> Option<Instant> {
        self.others.iter().filter_map(|(_, waiter)| waiter.at).chain(self.first.at).min()
    }

    /// Takes the wakers of those that wait and are `due`.
    fn take(&mut self, due: impl Fn(&Waiter) -> bool) -> Vec<Waker> {
        self.waiters().1.filter(|waiter| due(waiter)).filter_map(Waiter::take).collect()
    }

    /// The time has come to `now`.
    fn reach(&mut self, now: Instant) -> Vec<Waker> {
        self.reached = self.reached.max(Some(now));
        self.take(|waiter| waiter.at.is_some_and(|at| at <= now))
    }

    /// Counts a deadline that a future has seen passing: the earliest above it, and of two the upper one. A limit counts as
    /// a child's deadline.
    #[cold]
    fn count_passed(&mut self, used: &Used, place: Place, limit: Option<Instant>) {
        let passes = self.passes(place);
        let mut places: Vec<Place> = chain(&self.children, place).map(Some).chain([None]).collect();
        if limit.is_some_and(|limit| limit < passes) {
            return used.counts.ended(Ended::Passed, places.len());
        }
        places.reverse();
        let depth = places.iter().position(|place| self.node_mut(*place).at == passes);
        let depth = depth.expect("one of them passes then");
        if !mem::replace(&mut self.node_mut(places[depth]).is_counted, true) {
            used.counts.ended(Ended::Passed, depth);
        }
    }
}

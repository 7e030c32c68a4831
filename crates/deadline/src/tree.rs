//! The tree of a deadline and its children: one lock, one timer, and the tasks that wait.
//!
//! Ground rules:
//! - [`State`] is under the tree's lock. No code of a user's runs under it: wakers are cloned, woken and dropped outside.
//! - A child is in the tree for as long as a [`Deadline`](crate::Deadline) refers to it, so an index of one that is referred
//!   to is valid. A future that was forgotten leaves a [`Waiter`] whose child may be gone, or another by now, which is woken
//!   once too often.
//! - A deadline's end is reckoned, not kept: it follows from the instants and cancels of its ancestors and itself. A
//!   deadline that has ended, by the clock that is read under the lock, is neither moved nor cancelled, and what happens
//!   above it later changes nothing. So what one thread has seen ended stays so for all.
//! - The first task that waits stands apart from the list. It stays registered when its future is gone, so that its next
//!   future finds it there.
//! - A registered task is woken when its deadline is cancelled, and by [`Waiter::at`] at the latest. A cancel, a move to an
//!   earlier time, and the timer at that time take it away as they wake the task. So a task whose time is there need not
//!   look at its deadline.
//! - The timer fires no later than the earliest of these times. It may fire earlier, for a deadline that was moved or a
//!   future that is gone. Then another one takes its place. Where no such time is left after a wake, an end or a drop of
//!   the first task's deadline or of the last one, it is dropped. The drop of a future leaves it.
//! - The timer's waker is the tree, so each keeps the other. The last [`Deadline`](crate::Deadline) that is dropped takes
//!   the timer out.
//! - The timer is made, polled and dropped outside of the lock, because any of these may drop other timers' wakers. One
//!   thread [tends](Tree::tend) it at a time, and looks at the state again after that. So another thread that finds it taken
//!   has nothing to do.
//! - If the wheel refuses the timer, each future keeps its own time, in the runtime that polls it. It asks the wheel again
//!   at each poll, and is woken when its deadline moves.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use std::{iter, mem};

use slab::Slab;
use tokio::time::Instant;

use crate::ended::Ended;
use crate::stats::{DeadlineCounters, Used};
use crate::sync::{Mutex, MutexGuard, Sleep, TimingWheel};

pub(crate) struct Tree {
    pub(crate) wheel: TimingWheel,
    pub(crate) used: Option<Used>,
    /// How many deadlines there are, with those that children keep. Hidden from loom, as an `Arc`'s counts are.
    pub(crate) deadlines: AtomicUsize,
    state: Mutex<State>,
}

pub(crate) struct State {
    pub(crate) root: Node,
    pub(crate) children: Slab<Node>,
    /// Stays when its future is gone, for the next one of the same task.
    pub(crate) first: Waiter,
    pub(crate) others: Slab<Waiter>,
    timer: Timer,
    /// The timer has to be polled: it has fired, or the wheel has ended.
    has_rung: bool,
    /// The latest time that the timer has reached.
    reached: Option<Instant>,
}

/// A deadline of the tree.
pub(crate) struct Node {
    pub(crate) parent: Place,
    pub(crate) at: Instant,
    /// When it was cancelled, or seen and counted as passed.
    pub(crate) end: Option<(Ended, Instant)>,
}

/// Where a deadline stands among the children; `None` is the root.
pub(crate) type Place = Option<usize>;

/// A task that waits for the end of a deadline.
#[derive(Default)]
pub(crate) struct Waiter {
    pub(crate) node: Place,
    /// By when the timer has to fire. `None` while the task keeps its own time.
    pub(crate) at: Option<Instant>,
    /// `None` once it was taken to be woken.
    waker: Option<Waker>,
}

/// A future's own limit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    None,
    /// It begins when the future is first polled.
    After(Duration),
    At(Instant),
}

enum Timer {
    /// While nobody waits.
    Unarmed,
    /// Rings at this instant, or when the wheel ends.
    Armed { at: Instant, _sleep: Sleep },
    /// A thread tends it, and then looks at the state once more.
    Taken,
}

impl Tree {
    pub(crate) fn new(wheel: &TimingWheel, at: Instant, counters: Option<&DeadlineCounters>) -> Arc<Self> {
        let used = counters.and_then(|counters| Used::new(counters, wheel, at));
        let state = State {
            root: Node { parent: None, at, end: None },
            children: Slab::new(),
            first: Waiter::default(),
            others: Slab::new(),
            timer: Timer::Unarmed,
            has_rung: false,
            reached: None,
        };
        let deadlines = AtomicUsize::new(1);
        Arc::new(Self { wheel: wheel.clone(), used, deadlines, state: Mutex::new(state) })
    }

    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last deadline is gone. Takes the timer out, and counts how much of its time the root took, unless its end was
    /// counted.
    pub(crate) fn close(self: &Arc<Self>) {
        let mut state = self.lock();
        if let (Some(used), None) = (&self.used, state.root.end) {
            used.unused(state.root.at, self.wheel.current_time());
        }
        state.first.at = None;
        let _waiting = (state.first.waker.take(), mem::take(&mut state.others));
        drop(self.tend(state, None));
    }

    /// The time has come to `now`: wakes all that wait until then.
    pub(crate) fn reach(self: &Arc<Self>, now: Instant) {
        let mut state = self.lock();
        state.reached = state.reached.max(Some(now));
        self.wake_below(None, state, |at| at.is_some_and(|at| at <= now));
    }

    /// Wakes the tasks whose times are `due` and whose deadlines end with `place`. Lets go of the lock.
    pub(crate) fn wake_below(
        self: &Arc<Self>,
        place: Place,
        mut state: MutexGuard<'_, State>,
        due: impl Fn(Option<Instant>) -> bool,
    ) {
        let State { children, first, others, .. } = &mut *state;
        let mut wakers = Vec::new();
        for waiter in iter::once(first).chain(others.iter_mut().map(|(_, waiter)| waiter)) {
            if due(waiter.at) && (place.is_none() || chain(children, waiter.node).any(|above| above == place))
            {
                // Also of one whose waker was taken: its future registers anew, or is gone.
                waiter.at = None;
                wakers.extend(waiter.waker.take());
            }
        }
        drop(self.tend(state, None));
        for waker in wakers {
            // One that panics, which the panic hook has told, keeps nothing from the others. The payload may panic again.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
                mem::forget(panic);
            }
        }
    }

    /// Sees to it that the timer fires by the earliest time, which may be the caller's `own`, and wakes the tasks whose times
    /// have come. Drops it if nobody waits. Lets go of the lock meanwhile, and returns it if it has it then.
    ///
    /// If the wheel refuses the timer, it does not cover the caller's time after this, and the others are woken, to ask for
    /// themselves.
    pub(crate) fn tend<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, State>,
        mut own: Option<Instant>,
    ) -> Option<MutexGuard<'a, State>> {
        loop {
            let Some(at) = state.earliest().into_iter().chain(own).min() else {
                let is_armed = matches!(state.timer, Timer::Armed { .. });
                let _idle = is_armed.then(|| mem::replace(&mut state.timer, Timer::Unarmed));
                drop(state);
                return None;
            };
            if state.covers(at) {
                return Some(state);
            }
            state.has_rung = false;
            let before = mem::replace(&mut state.timer, Timer::Taken);
            drop(state);
            drop(before);
            let (mut sleep, waker) = (self.wheel.sleep_until(at), Waker::from(self.clone()));
            match sleep.poll_unconstrained(&mut Context::from_waker(&waker)) {
                Poll::Pending => {
                    state = self.lock();
                    state.timer = Timer::Armed { at, _sleep: sleep };
                    continue;
                }
                Poll::Ready(Ok(())) => {
                    own = own.filter(|own| *own > at);
                    self.reach(at);
                    state = self.lock();
                    state.timer = Timer::Unarmed;
                }
                Poll::Ready(Err(_)) => {
                    own = None;
                    state = self.lock();
                    // Under the same lock: a task that is woken must not find the timer taken, and count on it.
                    state.timer = Timer::Unarmed;
                    self.wake_below(None, state, |at| at.is_some());
                    state = self.lock();
                }
            }
        }
    }

    /// Counts a deadline that a future has seen passing: the earliest above it, and of two the upper one. A limit counts as
    /// a child's deadline.
    pub(crate) fn count_passed(&self, place: Place, limit: Limit) {
        let Some(used) = &self.used else { return };
        let mut state = self.lock();
        let passes = state.ends(place, Limit::None, None).0;
        if matches!(limit, Limit::At(at) if at < passes) {
            return used.ended(Ended::Passed, chain(&state.children, place).count());
        }
        let passed = chain(&state.children, place).filter(|place| state.node(*place).at == passes).last();
        let passed = passed.expect("one of them passes then");
        if state.node_mut(passed).end.replace((Ended::Passed, passes)).is_none() {
            used.ended(Ended::Passed, chain(&state.children, passed).count() - 1);
        }
    }
}

/// `after` from now by the wheel's clock; the last instant that the wheel knows, if that is further away.
#[inline]
pub(crate) fn instant_in(wheel: &TimingWheel, after: Duration) -> Instant {
    wheel.current_time().checked_add(after).unwrap_or_else(|| wheel.sleep(after).deadline())
}

/// The timer's bell.
impl Wake for Tree {
    fn wake(self: Arc<Self>) {
        let mut state = self.lock();
        state.has_rung = true;
        drop(self.tend(state, None));
    }
}

impl Waiter {
    #[inline]
    pub(crate) fn is_of(&self, node: Place, waker: &Waker) -> bool {
        self.node == node && self.waker.as_ref().is_some_and(|kept| kept.will_wake(waker))
    }
}

/// A deadline and its ancestors. It ends before the root if the deadline is gone.
pub(crate) fn chain(children: &Slab<Node>, place: Place) -> impl Iterator<Item = Place> {
    iter::successors(Some(place), |place| Some(children.get((*place)?)?.parent))
}

impl State {
    #[inline]
    fn node(&self, place: Place) -> &Node {
        place.map_or(&self.root, |index| &self.children[index])
    }

    pub(crate) fn node_mut(&mut self, place: Place) -> &mut Node {
        match place {
            Some(index) => &mut self.children[index],
            None => &mut self.root,
        }
    }

    /// When a deadline or a `limit` under it passes, and how it has ended by `now` and by what the timer has seen.
    #[inline]
    pub(crate) fn ends(&self, place: Place, limit: Limit, now: Option<Instant>) -> (Instant, Option<Ended>) {
        let mut passes = if let Limit::At(at) = limit { at } else { self.node(place).at };
        let (mut end, mut next) = (None, place);
        loop {
            let node = self.node(next);
            // One that had ended before was not cancelled, so neither had what is above. Below, a deadline may have passed.
            if let (None, Some((seen, at))) = (end, node.end) {
                end = Some(if passes <= at { Ended::Passed } else { seen });
            }
            passes = passes.min(node.at);
            if next.is_none() {
                let has_passed = now.max(self.reached) >= Some(passes);
                return (passes, end.or(has_passed.then_some(Ended::Passed)));
            }
            next = node.parent;
        }
    }

    /// A future's place, which is the first's if it has none of its own.
    #[inline]
    pub(crate) fn waiter(&mut self, slot: Option<usize>) -> &mut Waiter {
        match slot {
            Some(slot) => &mut self.others[slot],
            None => &mut self.first,
        }
    }

    /// Gives a future's waker a place: its own, or that of the first task if it is free, or a new one. Returns the waker that
    /// was there.
    pub(crate) fn register(&mut self, node: Place, slot: &mut Option<usize>, waker: Waker) -> Option<Waker> {
        if slot.is_none() && self.first.waker.is_some() {
            *slot = Some(self.others.insert(Waiter::default()));
        }
        mem::replace(self.waiter(*slot), Waiter { node, at: None, waker: Some(waker) }).waker
    }

    /// Whether a future's task is registered, and woken in time.
    #[inline]
    pub(crate) fn waits(&mut self, node: Place, limit: Limit, slot: Option<usize>, waker: &Waker) -> bool {
        let waiter = self.waiter(slot);
        waiter.at.is_some_and(|at| !matches!(limit, Limit::At(limit) if limit < at))
            && waiter.is_of(node, waker)
    }

    fn earliest(&self) -> Option<Instant> {
        self.others.iter().filter_map(|(_, waiter)| waiter.at).chain(self.first.at).min()
    }

    /// Whether it is seen to that the timer fires by `at`.
    pub(crate) fn covers(&self, at: Instant) -> bool {
        match &self.timer {
            Timer::Armed { at: fires, .. } => *fires <= at && !self.has_rung,
            Timer::Taken => true,
            Timer::Unarmed => false,
        }
    }
}

//! The tree of a deadline and its children: one lock, one timer, and the tasks that wait.
//!
//! Ground rules:
//! - [`State`] is under the tree's lock. No code of a user's runs under it: wakers are cloned, woken and dropped outside.
//! - A child is in the tree for as long as its [`Child`] is referred to, so an index of one that is referred to is valid. A
//!   future that was forgotten leaves a [`Waiter`] whose child may be gone, or another by now, which is woken once too often.
//! - A deadline's end is reckoned, not kept: it follows from the instants and cancels of its ancestors and itself. A
//!   deadline that has ended, by the clock that is read under the lock, is neither moved nor cancelled, and what happens
//!   above it later changes nothing. So what one thread has seen ended stays so for all.
//! - The first task that waits stands apart from the list. It stays registered when its future is gone, so that its next
//!   future finds it there.
//! - A registered task is woken when its deadline is cancelled, and by [`Waiter::at`] at the latest. A cancel, a move to an
//!   earlier time and the timer take that time away as they wake the task. So a task that has a time has nothing to do.
//! - The timer fires no later than the earliest of these times. It may fire earlier, for a deadline that was moved or a
//!   future that is gone. Then it is armed anew. It is dropped by a wake, an end, a child's drop or the last handle's drop
//!   that leaves nobody registered. A future that is dropped leaves it.
//! - The timer's waker is the tree, so the timer keeps the tree. The last [`Handle`] breaks that circle.
//! - The timer is polled, moved and dropped outside of the lock, because any of these may drop other timers' wakers. A
//!   thread that does so takes the timer out of the state. Another thread that finds it taken leaves a note, and the first
//!   looks again.
//! - If the wheel refuses the timer, each future keeps its own time, in the runtime that polls it. It asks the wheel again
//!   at each poll, and is woken when its deadline moves.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use std::{iter, mem, ops::Deref, pin::Pin};

use slab::Slab;
use tokio::time::Instant;

use crate::ended::Ended;
use crate::stats::{DeadlineCounters, Used};
use crate::sync::{Mutex, MutexGuard, Sleep, TimingWheel};

pub(crate) struct Tree {
    pub(crate) wheel: TimingWheel,
    used: Option<Used>,
    /// How many [`Handle`]s there are. Hidden from loom, as the counts of an `Arc` are.
    handles: AtomicUsize,
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

/// A future that waits.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) limit: Limit,
    /// Its place in the list, unless its task is the first.
    slot: Option<usize>,
}

/// A future's own limit.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    None,
    /// It begins when the future is first polled.
    After(Duration),
    At(Instant),
}

/// What a future that waits is told.
pub(crate) enum Answer {
    /// Its task is registered.
    Pending,
    /// To keep its own time until this instant, and to [tell](Tree::reach) then.
    Alone(Instant),
    Ended(Ended),
}

enum Timer {
    /// While nobody waits.
    Unarmed,
    /// Wakes the tree at this instant, or when the wheel ends.
    Armed(Sleep, Instant),
    /// A thread polls it. `again` asks that thread to look at the state once more.
    Taken { again: bool },
}

/// Refers to a tree, as all do but the timer, whose waker the tree itself is. The last one takes the timer out.
pub(crate) struct Handle(Arc<Tree>);

impl Handle {
    pub(crate) fn new(wheel: &TimingWheel, at: Instant, counters: Option<&DeadlineCounters>) -> Self {
        let used = counters.and_then(|counters| Used::new(counters, wheel, at));
        let state = State {
            root: Node::new(None, at),
            children: Slab::new(),
            first: Waiter::default(),
            others: Slab::new(),
            timer: Timer::Unarmed,
            reached: None,
        };
        let handles = AtomicUsize::new(1);
        Self(Arc::new(Tree { wheel: wheel.clone(), used, handles, state: Mutex::new(state) }))
    }
}

impl Clone for Handle {
    fn clone(&self) -> Self {
        self.handles.fetch_add(1, Ordering::Relaxed);
        Self(self.0.clone())
    }
}

impl Deref for Handle {
    type Target = Arc<Tree>;

    fn deref(&self) -> &Arc<Tree> {
        &self.0
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // The lock orders all the rest.
        if self.handles.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.close();
        }
    }
}

/// A child's place in its tree, for as long as the child, one of its own or a future refers to it.
pub(crate) struct Child {
    tree: Handle,
    pub(crate) index: usize,
    /// Keeps the chain up to the root.
    parent: Option<Arc<Self>>,
}

impl Child {
    pub(crate) fn new(tree: &Handle, parent: Option<&Arc<Self>>, at: Instant) -> Arc<Self> {
        let index = tree.lock().children.insert(Node::new(parent.map(|parent| parent.index), at));
        Arc::new(Self { tree: tree.clone(), index, parent: parent.cloned() })
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let mut state = self.tree.lock();
        state.children.remove(self.index);
        let is_waited_for = state.first.node == Some(self.index);
        let left = is_waited_for.then(|| (mem::take(&mut state.first), state.idle_timer()));
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
    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many children it has, and futures that wait apart from the first task's.
    #[cfg(all(test, loom))]
    pub(crate) fn counts(&self) -> (usize, usize) {
        let state = self.lock();
        (state.children.len(), state.others.len())
    }

    /// Nobody refers to it any more. Counts how much of its time the root took, unless its end was counted.
    fn close(&self) {
        let mut state = self.lock();
        if let Some(used) = &self.used
            && state.root.cancelled.is_none()
            && !state.root.is_counted
        {
            used.unused(state.root.at, self.wheel.current_time());
        }
        state.first.at = None;
        let (waker, others) = (state.first.waker.take(), mem::take(&mut state.others));
        let timer = state.idle_timer();
        drop(state);
        drop((waker, others, timer));
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
            used.ended(Ended::Cancelled, chain(&state.children, place).count() - 1);
        }
        self.wake_due(state, |children, waiter| is_below(children, waiter.node, place));
    }

    /// Moves a deadline, unless it has ended. Returns whether it moved.
    pub(crate) fn reset(&self, place: Place, at: Instant) -> bool {
        let mut state = self.lock();
        let now = self.wheel.current_time();
        if state.end(place, now).is_some() {
            return false;
        }
        state.node_mut(place).at = at;
        // Those that would wait for too long, or that keep their own time.
        self.wake_due(state, |children, waiter| {
            waiter.at.is_none_or(|before| at < before) && is_below(children, waiter.node, place)
        });
        true
    }

    /// The time has come to `now`: wakes all that wait until then.
    pub(crate) fn reach(&self, now: Instant) {
        let mut state = self.lock();
        state.reached = state.reached.max(Some(now));
        self.wake_due(state, |_, waiter| waiter.at.is_some_and(|at| at <= now));
    }

    /// Lets go of the lock and wakes the tasks that are `due`. When nobody waits any more, the timer goes.
    fn wake_due(&self, mut state: MutexGuard<'_, State>, due: impl Fn(&Slab<Node>, &Waiter) -> bool) {
        let State { children, first, others, .. } = &mut *state;
        let mut wakers = Vec::new();
        for waiter in iter::once(first).chain(others.iter_mut().map(|(_, waiter)| waiter)) {
            if due(children, waiter) {
                // Also of one whose waker was taken: its future registers anew, or is gone.
                waiter.at = None;
                wakers.extend(waiter.waker.take());
            }
        }
        let timer = state.idle_timer();
        drop(state);
        drop(timer);
        for waker in wakers {
            // One that panics, which the panic hook has told, keeps nothing from the others. The payload may panic again.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
                mem::forget(panic);
            }
        }
    }

    /// How a future ended that waits for a deadline or its own limit, which begins now if it has not yet. While it has not
    /// ended, its task is registered.
    #[inline(always)]
    pub(crate) fn poll(self: &Arc<Self>, place: Place, waiting: &mut Waiting, cx: &Context<'_>) -> Answer {
        if let Limit::After(after) = waiting.limit {
            waiting.limit = Limit::At(instant_in(&self.wheel, after));
        }
        if self.lock().waits(place, waiting, cx.waker()) {
            return Answer::Pending;
        }
        self.poll_anew(place, waiting, cx)
    }

    /// As [`poll`](Self::poll), where the task may have to be registered or the timer to be armed.
    #[inline(never)]
    fn poll_anew(self: &Arc<Self>, place: Place, waiting: &mut Waiting, cx: &Context<'_>) -> Answer {
        // No waker is cloned or dropped while the lock is held. It need not be known by its clone, so it is registered once.
        let mut clone = Some(cx.waker().clone());
        let mut state = self.lock();
        loop {
            let (passes, end) = state.ends(place, waiting.limit, state.reached);
            if let Some(end) = end {
                let timer = state.idle_timer();
                drop(state);
                drop(timer);
                return Answer::Ended(end);
            }
            if !state.waiter(waiting.slot).is_of(place, cx.waker())
                && let Some(waker) = clone.take()
                && let Some(before) = state.register(place, &mut waiting.slot, waker)
            {
                drop(state);
                drop(before);
                state = self.lock();
            } else if state.timer.covers(passes) {
                let waiter = state.waiter(waiting.slot);
                waiter.at = Some(waiter.at.map_or(passes, |at| at.min(passes)));
                return Answer::Pending;
            } else {
                let is_armed;
                (state, is_armed) = self.arm(state, Some(passes));
                if !is_armed {
                    return Answer::Alone(passes);
                }
            }
        }
    }

    /// Counts an end that a future tells.
    pub(crate) fn count(&self, place: Place, waiting: &Waiting, end: Ended) {
        if let (Some(used), Ended::Passed) = (&self.used, end) {
            self.lock().count_passed(used, place, waiting.limit);
        }
    }

    /// A future is gone.
    #[inline]
    pub(crate) fn forget(&self, waiting: &Waiting) {
        if let Some(slot) = waiting.slot {
            let waiter = self.lock().others.remove(slot);
            drop(waiter);
        }
    }

    /// Arms the timer for the earliest limit, which may be the caller's `own`, and wakes the tasks whose limits it has
    /// reached. Lets go of the lock meanwhile. Returns false if the wheel refused the timer. Then the others are woken, to
    /// ask for themselves.
    fn arm<'a>(
        self: &'a Arc<Self>,
        mut state: MutexGuard<'a, State>,
        mut own: Option<Instant>,
    ) -> (MutexGuard<'a, State>, bool) {
        let mut found = match mem::replace(&mut state.timer, Timer::Taken { again: true }) {
            Timer::Taken { .. } => return (state, true),
            Timer::Armed(sleep, fires) => Some((sleep, fires)),
            Timer::Unarmed => None,
        };
        let mut is_armed = true;
        while let Some(at) = state.earliest().into_iter().chain(own).min() {
            state.timer = Timer::Taken { again: false };
            drop(state);
            let (mut sleep, mut fires) = found.take().unwrap_or_else(|| (self.wheel.sleep_until(at), at));
            if fires > at {
                Pin::new(&mut sleep).reset(at);
                fires = at;
            }
            let waker = Waker::from(self.clone());
            match sleep.poll_wait(&mut Context::from_waker(&waker)) {
                Poll::Pending => {
                    state = self.lock();
                    if !matches!(state.timer, Timer::Taken { again: true }) {
                        state.timer = Timer::Armed(sleep, fires);
                        return (state, is_armed);
                    }
                    found = Some((sleep, fires));
                    continue;
                }
                Poll::Ready(Ok(())) => {
                    own = own.filter(|own| *own > fires);
                    self.reach(fires);
                }
                Poll::Ready(Err(_)) => {
                    is_armed &= own.take().is_none();
                    self.wake_due(self.lock(), |_, waiter| waiter.at.is_some());
                }
            }
            drop(sleep);
            state = self.lock();
        }
        state.timer = Timer::Unarmed;
        if found.is_some() {
            drop(state);
            drop(found);
            state = self.lock();
        }
        (state, is_armed)
    }
}

/// `after` from now by the wheel's clock; the last instant that the wheel knows, if that is further away.
#[inline]
pub(crate) fn instant_in(wheel: &TimingWheel, after: Duration) -> Instant {
    wheel.current_time().checked_add(after).unwrap_or_else(|| wheel.sleep(after).deadline())
}

/// The timer rings.
impl Wake for Tree {
    fn wake(self: Arc<Self>) {
        drop(self.arm(self.lock(), None));
    }
}

impl Timer {
    /// Whether it is seen to that it fires by `at`.
    fn covers(&mut self, at: Instant) -> bool {
        match self {
            Self::Armed(_, fires) => *fires <= at,
            Self::Taken { again } => {
                *again = true;
                true
            }
            Self::Unarmed => false,
        }
    }
}

impl Waiting {
    pub(crate) const fn new(limit: Limit) -> Self {
        Self { limit, slot: None }
    }
}

impl Waiter {
    #[inline]
    fn is_of(&self, node: Place, waker: &Waker) -> bool {
        self.node == node && self.waker.as_ref().is_some_and(|kept| kept.will_wake(waker))
    }
}

impl Node {
    const fn new(parent: Place, at: Instant) -> Self {
        Self { parent, at, cancelled: None, is_counted: false }
    }
}

/// A deadline and its ancestors. It ends before the root if the deadline is gone.
fn chain(children: &Slab<Node>, place: Place) -> impl Iterator<Item = Place> {
    iter::successors(Some(place), |place| Some(children.get((*place)?)?.parent))
}

/// Whether what waits for `node` ends with `place`.
fn is_below(children: &Slab<Node>, node: Place, place: Place) -> bool {
    chain(children, node).any(|above| above == place)
}

impl State {
    #[inline]
    fn node(&self, place: Place) -> &Node {
        place.map_or(&self.root, |index| &self.children[index])
    }

    fn node_mut(&mut self, place: Place) -> &mut Node {
        match place {
            Some(index) => &mut self.children[index],
            None => &mut self.root,
        }
    }

    /// When a deadline or a `limit` under it passes, and how it has ended by `now`.
    #[inline]
    fn ends(&self, place: Place, limit: Limit, now: Option<Instant>) -> (Instant, Option<Ended>) {
        let mut passes = if let Limit::At(at) = limit { at } else { self.node(place).at };
        let (mut end, mut next) = (None, place);
        loop {
            let node = self.node(next);
            // One that had ended before was not cancelled, so neither had what is above. Below, a deadline may have passed.
            if let (None, Some(at)) = (end, node.cancelled) {
                end = Some(if passes <= at { Ended::Passed } else { Ended::Cancelled });
            }
            passes = passes.min(node.at);
            if next.is_none() {
                let has_passed = now.is_some_and(|now| passes <= now);
                return (passes, end.or(has_passed.then_some(Ended::Passed)));
            }
            next = node.parent;
        }
    }

    /// How a deadline has ended by `now`, and by what the timer has seen of the time.
    pub(crate) fn end(&self, place: Place, now: Instant) -> Option<Ended> {
        self.ends(place, Limit::None, self.reached.max(Some(now))).1
    }

    /// The instant at which a deadline passes.
    pub(crate) fn passes(&self, place: Place) -> Instant {
        self.ends(place, Limit::None, None).0
    }

    /// Gives a future's waker a place: its own, or that of the first task if it is free, or a new one. Returns the waker that
    /// was there.
    fn register(&mut self, node: Place, slot: &mut Option<usize>, waker: Waker) -> Option<Waker> {
        if slot.is_none() && self.first.waker.is_none() {
            self.first = Waiter { node, at: None, waker: Some(waker) };
            return None;
        }
        let slot = slot.get_or_insert_with(|| self.others.insert(Waiter { node, ..Waiter::default() }));
        self.others[*slot].waker.replace(waker)
    }

    /// A future's place, which is the first's if it has none of its own.
    #[inline]
    fn waiter(&mut self, slot: Option<usize>) -> &mut Waiter {
        match slot {
            Some(slot) => &mut self.others[slot],
            None => &mut self.first,
        }
    }

    /// Whether a future's task is registered, and woken in time.
    #[inline]
    fn waits(&mut self, node: Place, waiting: &Waiting, waker: &Waker) -> bool {
        let waiter = self.waiter(waiting.slot);
        waiter.at.is_some_and(|at| !matches!(waiting.limit, Limit::At(limit) if limit < at))
            && waiter.is_of(node, waker)
    }

    fn earliest(&self) -> Option<Instant> {
        self.others.iter().filter_map(|(_, waiter)| waiter.at).chain(self.first.at).min()
    }

    /// The timer, if nobody waits for it. Drop it outside of the lock.
    fn idle_timer(&mut self) -> Option<Timer> {
        if self.earliest().is_some() {
            return None;
        }
        match &mut self.timer {
            Timer::Taken { again } => {
                *again = true;
                None
            }
            armed => Some(mem::replace(armed, Timer::Unarmed)),
        }
    }

    /// Counts a deadline that a future has seen passing: the earliest above it, and of two the upper one. A limit counts as
    /// a child's deadline.
    #[cold]
    fn count_passed(&mut self, used: &Used, place: Place, limit: Limit) {
        let passes = self.passes(place);
        let places: Vec<Place> = chain(&self.children, place).collect();
        if matches!(limit, Limit::At(at) if at < passes) {
            return used.ended(Ended::Passed, places.len());
        }
        let mut from_root = places.into_iter().rev().enumerate();
        let found = from_root.find(|(_, place)| self.node(*place).at == passes);
        let (depth, place) = found.expect("one of them passes then");
        if !mem::replace(&mut self.node_mut(place).is_counted, true) {
            used.ended(Ended::Passed, depth);
        }
    }
}

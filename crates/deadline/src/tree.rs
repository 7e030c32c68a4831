//! The tree of a deadline and its children: one lock, one timer, and a list of the futures that wait.
//!
//! Ground rules:
//! - [`State`] is under the tree's lock. No code of a user's runs under it: wakers are cloned, woken and dropped outside.
//! - A child is in the tree for as long as its `Child` is referred to, so an index of one that is referred to is valid.
//! - The timer is polled, moved and dropped outside of the lock too, because any of these may drop other timers' wakers. A
//!   thread that does so takes the timer out of the state. Another thread that finds it taken leaves a note, and the first
//!   looks again.
//! - The clock is read under the lock where an end depends on it. So a deadline that one thread has seen ended is not moved by
//!   another that looked at the clock before.
//! - The timer fires no later than the earliest limit of a waiting future. It may fire earlier, for a limit that was moved
//!   or whose future is gone. It is then armed anew.
//! - If the wheel refuses the timer, each waiting future is told to keep its own time, in the runtime that polls it first.
//!   The next future that begins to wait, and the next move, ask the wheel again.

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
    state: Mutex<State>,
}

struct State {
    root: Node,
    children: Slab<Node>,
    waiters: Slab<Waiter>,
    timer: Timer,
    used: Option<Used>,
}

/// A deadline of the tree.
struct Node {
    parent: Place,
    at: Instant,
    end: Option<Ended>,
}

/// Where a deadline stands among the children; `None` is the root.
type Place = Option<usize>;

/// A future that waits for the end of a deadline.
struct Waiter {
    node: Place,
    limit: Option<Instant>,
    /// `None` once it was taken to be woken.
    waker: Option<Waker>,
    end: Option<Ended>,
    /// The wheel refused the timer, so the future keeps its own time.
    is_alone: bool,
}

/// What a future that waits is told.
pub(crate) enum Answer {
    Pending,
    /// To keep its own time until this instant, and to [tell](Handle::pass) then.
    Alone(Instant),
    Ended(Ended),
}

enum Timer {
    /// Until a first future waits.
    Unarmed,
    /// Fires at this instant at the latest, unless it already has and its waker is being called.
    Armed(Sleep, Instant),
    /// A thread polls it. `again` asks that thread to look at the state once more.
    Taken { again: bool },
}

/// A child's place in its tree, for as long as the child, one of its own or a future refers to it.
pub(crate) struct Child {
    tree: Arc<Tree>,
    index: usize,
    /// Keeps the chain up to the root.
    parent: Option<Arc<Child>>,
}

impl Drop for Child {
    fn drop(&mut self) {
        self.tree.lock().children.remove(self.index);
        // Not by recursion, which a long chain would take too deep.
        let mut parent = self.parent.take();
        while let Some(mut child) = parent.and_then(Arc::into_inner) {
            parent = child.parent.take();
        }
    }
}

/// A deadline of a tree: what [`Deadline`](crate::Deadline) is, without the words.
#[derive(Clone)]
pub(crate) struct Handle {
    pub(crate) tree: Arc<Tree>,
    child: Option<Arc<Child>>,
}

impl Handle {
    pub(crate) fn root(wheel: &TimingWheel, at: Instant, used: Option<Used>) -> Self {
        let root = Node { parent: None, at, end: None };
        let state = State { root, children: Slab::new(), waiters: Slab::new(), timer: Timer::Unarmed, used };
        Self { tree: Arc::new(Tree { wheel: wheel.clone(), state: Mutex::new(state) }), child: None }
    }

    pub(crate) fn child(&self, at: Instant) -> Self {
        let (tree, parent) = (self.tree.clone(), self.place());
        let mut state = tree.lock();
        let end = state.node(parent).end;
        let index = state.children.insert(Node { parent, at, end });
        drop(state);
        Self { child: Some(Arc::new(Child { tree: tree.clone(), index, parent: self.child.clone() })), tree }
    }

    fn place(&self) -> Place {
        self.child.as_ref().map(|child| child.index)
    }

    /// The earliest of its own instant and those of its ancestors.
    pub(crate) fn instant(&self) -> Instant {
        self.tree.lock().instant_of(self.place())
    }

    /// The time that is left until then.
    pub(crate) fn remaining(&self) -> Duration {
        let state = self.tree.lock();
        state.instant_of(self.place()).saturating_duration_since(self.tree.wheel.current_time())
    }

    /// How it ended, if it has.
    pub(crate) fn end(&self) -> Option<Ended> {
        let state = self.tree.lock();
        let has_passed = || state.instant_of(self.place()) <= self.tree.wheel.current_time();
        state.node(self.place()).end.or_else(|| has_passed().then_some(Ended::Passed))
    }

    /// Ends it and all below, unless it has ended.
    pub(crate) fn cancel(&self) {
        let mut state = self.tree.lock();
        // First what has passed unseen, so that each is told the reason that came first.
        let mut wakers = state.pass(self.tree.wheel.current_time());
        state.mark(self.place(), Ended::Cancelled);
        wakers.extend(state.spread());
        drop(state);
        wake_all(wakers);
    }

    /// Ends all that is due by `now`.
    pub(crate) fn pass(&self, now: Instant) {
        let wakers = self.tree.lock().pass(now);
        wake_all(wakers);
    }

    /// Moves it to `at`, unless it has ended. Returns whether it moved.
    pub(crate) fn reset(&self, at: Instant) -> bool {
        let mut state = self.tree.lock();
        // One that nobody waits for passes without a mark.
        let now = self.tree.wheel.current_time();
        if state.node(self.place()).end.is_some() || state.instant_of(self.place()) <= now {
            return false;
        }
        state.node_mut(self.place()).at = at;
        // The wheel is asked again for those that keep their own time.
        let mut was_alone = false;
        for (_, waiter) in &mut state.waiters {
            was_alone |= mem::take(&mut waiter.is_alone);
        }
        if was_alone || (!state.waiters.is_empty() && !state.fires_by(at)) {
            drop(self.tree.arm(state));
        }
        true
    }

    /// Registers a future that waits, or replaces its waker. `waiter` is its place in the list, once it has one. Its `limit`
    /// begins then.
    pub(crate) fn poll(
        &self,
        waiter: &mut Option<usize>,
        limit: Option<Duration>,
        cx: &Context<'_>,
    ) -> Answer {
        match *waiter {
            Some(waiter) => self.poll_again(waiter, cx),
            None => self.poll_first(waiter, limit, cx),
        }
    }

    fn poll_first(&self, waiter: &mut Option<usize>, limit: Option<Duration>, cx: &Context<'_>) -> Answer {
        let node = self.place();
        let limit = limit.map(|limit| self.tree.instant_in(limit));
        let waker = Some(cx.waker().clone());
        let mut state = self.tree.lock();
        if let Some(end) = state.node(node).end {
            drop(state);
            return Answer::Ended(end);
        }
        let new = state.waiters.insert(Waiter { node, limit, waker, end: None, is_alone: false });
        *waiter = Some(new);
        if !state.fires_by(state.limit_of(new)) {
            state = self.tree.arm(state);
        }
        state.answer(new)
    }

    fn poll_again(&self, waiter: usize, cx: &Context<'_>) -> Answer {
        let state = self.tree.lock();
        let before = &state.waiters[waiter];
        if before.end.is_some() || before.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            return state.answer(waiter);
        }
        drop(state);
        let waker = cx.waker().clone();
        let mut state = self.tree.lock();
        let before = state.waiters[waiter].waker.replace(waker);
        let answer = state.answer(waiter);
        drop(state);
        drop(before);
        answer
    }

    /// Takes a future out of the list.
    pub(crate) fn forget(&self, waiter: usize) {
        let mut state = self.tree.lock();
        let waiter = state.waiters.remove(waiter);
        drop(state);
        drop(waiter);
    }
}

impl Tree {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `after` from now by the wheel's clock; the last instant that the wheel knows, if that is further away.
    pub(crate) fn instant_in(&self, after: Duration) -> Instant {
        instant_in(&self.wheel, after)
    }

    /// How many children it has, and futures that wait.
    #[cfg(all(test, loom))]
    pub(crate) fn counts(&self) -> (usize, usize) {
        let state = self.lock();
        (state.children.len(), state.waiters.len())
    }

    /// Arms the timer for the earliest limit, and ends the futures whose limits the timer has reached. Lets go of the lock
    /// meanwhile.
    fn arm<'a>(self: &'a Arc<Self>, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let (mut sleep, mut earliest) = match mem::replace(&mut state.timer, Timer::Taken { again: true }) {
            Timer::Taken { .. } => return state,
            Timer::Armed(sleep, _) => (Some(sleep), state.earliest()),
            Timer::Unarmed => (None, state.earliest()),
        };
        loop {
            state.timer = Timer::Taken { again: false };
            drop(state);
            if let Some(at) = earliest {
                let sleep = sleep.get_or_insert_with(|| self.wheel.sleep_until(at));
                if sleep.deadline() > at {
                    Pin::new(sleep).reset(at);
                }
            }
            let polled = sleep.as_mut().map(|sleep| {
                let waker = Waker::from(Arc::new(Bell(Arc::downgrade(self))));
                (sleep.deadline(), sleep.poll_wait(&mut Context::from_waker(&waker)))
            });

            state = self.lock();
            let wakers = match polled {
                Some((fires, Poll::Ready(Ok(())))) => state.pass(fires),
                Some((_, Poll::Ready(Err(_)))) => state.refuse(),
                _ if matches!(state.timer, Timer::Taken { again: true }) => {
                    earliest = state.earliest();
                    continue;
                }
                Some((fires, Poll::Pending)) => {
                    state.timer = Timer::Armed(sleep.take().expect("it was polled"), fires);
                    return state;
                }
                None => {
                    state.timer = Timer::Unarmed;
                    return state;
                }
            };
            drop(state);
            sleep = None;
            wake_all(wakers);
            state = self.lock();
            earliest = state.earliest();
        }
    }
}

pub(crate) fn instant_in(wheel: &TimingWheel, after: Duration) -> Instant {
    instant_after(wheel, wheel.current_time(), after)
}

/// `after` from `now`, as [`instant_in`].
pub(crate) fn instant_after(wheel: &TimingWheel, now: Instant, after: Duration) -> Instant {
    now.checked_add(after).unwrap_or_else(|| wheel.sleep(after).deadline())
}

/// Counts how much of its time a root took. What has ended while it was seen is counted already.
impl Drop for Tree {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(used) = &state.used
            && state.root.end.is_none()
        {
            used.count(state.root.at, self.wheel.current_time());
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
            drop(tree.arm(tree.lock()));
        }
    }
}

impl State {
    fn node(&self, place: Place) -> &Node {
        place.map_or(&self.root, |index| &self.children[index])
    }

    fn node_mut(&mut self, place: Place) -> &mut Node {
        match place {
            Some(index) => &mut self.children[index],
            None => &mut self.root,
        }
    }

    /// A deadline and its ancestors. The root is last, and once.
    fn chain(&self, place: Place) -> impl Iterator<Item = &Node> {
        let children = successors(place, |&index| self.children[index].parent);
        children.map(|index| &self.children[index]).chain([&self.root])
    }

    fn instant_of(&self, place: Place) -> Instant {
        self.chain(place).map(|node| node.at).min().expect("the root at least")
    }

    /// Whether the timer needs no look for a limit at this instant.
    fn fires_by(&self, at: Instant) -> bool {
        matches!(self.timer, Timer::Armed(_, fires) if fires <= at)
    }

    /// The instant at which a future that waits has to end.
    fn limit_of(&self, waiter: usize) -> Instant {
        let Waiter { node, limit, .. } = &self.waiters[waiter];
        let (node, limit) = (*node, *limit);
        let at = self.instant_of(node);
        limit.map_or(at, |limit| limit.min(at))
    }

    /// The earliest limit of the futures that wait for the timer.
    fn earliest(&self) -> Option<Instant> {
        let waiting = self.waiters.iter().filter(|(_, waiter)| waiter.end.is_none() && !waiter.is_alone);
        waiting.map(|(index, _)| self.limit_of(index)).min()
    }

    fn answer(&self, waiter: usize) -> Answer {
        match self.waiters[waiter] {
            Waiter { end: Some(end), .. } => Answer::Ended(end),
            Waiter { is_alone: true, .. } => Answer::Alone(self.limit_of(waiter)),
            _ => Answer::Pending,
        }
    }

    /// Ends a deadline, which its children are told by [`spread`](Self::spread). Does nothing if it has ended.
    fn mark(&mut self, place: Place, end: Ended) {
        if self.node(place).end.is_none() {
            self.node_mut(place).end = Some(end);
            self.count(end, self.chain(place).count() - 1);
        }
    }

    fn count(&self, end: Ended, depth: usize) {
        if let Some(used) = &self.used {
            used.counts.ended(end, depth);
        }
    }

    /// The time has come to `now`: ends all that is due by then.
    fn pass(&mut self, now: Instant) -> Vec<Waker> {
        let places = self.children.iter().map(|(index, _)| Some(index)).chain([None]);
        // Those whose ancestors are due too end with these.
        let is_first = |place: &Place| {
            let mut chain = self.chain(*place);
            chain.next().is_some_and(|node| node.at <= now) && chain.all(|node| node.at > now)
        };
        let due: Vec<Place> = places.filter(is_first).collect();
        for place in due {
            self.mark(place, Ended::Passed);
        }
        let mut wakers = self.spread();
        let has_reached = |waiter: &Waiter| waiter.end.is_none() && waiter.limit.is_some_and(|it| it <= now);
        let due = self.waiters.iter().filter(|(_, waiter)| has_reached(waiter));
        let due: Vec<usize> = due.map(|(index, _)| index).collect();
        for index in due {
            let waiter = &mut self.waiters[index];
            waiter.end = Some(Ended::Passed);
            wakers.extend(waiter.waker.take());
            let node = waiter.node;
            // As of a child of the deadline.
            self.count(Ended::Passed, self.chain(node).count());
        }
        wakers
    }

    /// Lets all that wait keep their own time.
    fn refuse(&mut self) -> Vec<Waker> {
        let waiting = self.waiters.iter_mut().filter(|(_, waiter)| waiter.end.is_none() && !waiter.is_alone);
        let alone = waiting.filter_map(|(_, waiter)| {
            waiter.is_alone = true;
            waiter.waker.take()
        });
        alone.collect()
    }

    /// Ends all that is below an ended deadline. Returns the wakers of all futures that have ended.
    fn spread(&mut self) -> Vec<Waker> {
        let end_of = |(index, _)| (index, self.chain(Some(index)).find_map(|node| node.end));
        let ends: Vec<_> = self.children.iter().map(end_of).collect();
        for (index, end) in ends {
            self.children[index].end = end;
        }
        let mut wakers = Vec::new();
        for (_, waiter) in &mut self.waiters {
            let node = waiter.node.map_or(&self.root, |index| &self.children[index]);
            waiter.end = waiter.end.or(node.end);
            if waiter.end.is_some() {
                wakers.extend(waiter.waker.take());
            }
        }
        wakers
    }
}

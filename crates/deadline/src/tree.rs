//! The tree of a deadline and its children: one lock, one timer, and a list of the futures that wait.
//!
//! Ground rules:
//! - [`State`] is under the tree's lock. No code of a user's runs under it: wakers are cloned, woken and dropped outside.
//! - The timer is polled, moved and dropped outside of the lock too, because any of these may drop other timers' wakers. A
//!   thread that does so takes the timer out of the state. Another thread that finds it taken leaves a note, and the first
//!   looks again.
//! - The timer fires no later than the earliest limit of a waiting future. It may fire earlier, for a limit that was moved
//!   or whose future is gone. It is then armed anew.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::{error, fmt, io, mem, pin::Pin};

use slab::Slab;
use timingwheel::{Error, Sleep, TimingWheel};
use tokio::time::Instant;

/// Why a future that ran under a [`Deadline`](crate::Deadline) was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ended {
    /// The deadline has passed, or that of an ancestor, or the future's own limit.
    Passed,
    /// The deadline was cancelled, or an ancestor was.
    Cancelled,
    /// The wheel refused the timer, because it was full or had ended. The deadline itself goes on.
    Refused(Error),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("the deadline has passed"),
            Self::Cancelled => f.write_str("the deadline was cancelled"),
            Self::Refused(error) => write!(f, "the deadline could not be watched: {error}"),
        }
    }
}

impl error::Error for Ended {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Refused(error) => Some(error),
            Self::Passed | Self::Cancelled => None,
        }
    }
}

/// `TimedOut` for a deadline that has passed, `ConnectionAborted` for one that was cancelled, `Other` otherwise.
impl From<Ended> for io::Error {
    fn from(ended: Ended) -> Self {
        let kind = match ended {
            Ended::Passed => io::ErrorKind::TimedOut,
            Ended::Cancelled => io::ErrorKind::ConnectionAborted,
            Ended::Refused(_) => io::ErrorKind::Other,
        };
        Self::new(kind, ended)
    }
}

pub(crate) struct Tree {
    pub(crate) wheel: TimingWheel,
    state: Mutex<State>,
}

struct State {
    nodes: Slab<NodeState>,
    waiters: Slab<Waiter>,
    timer: Timer,
}

/// A deadline of the tree.
struct NodeState {
    parent: Option<usize>,
    at: Instant,
    end: Option<Ended>,
}

/// A future that waits for the end of a node.
struct Waiter {
    node: usize,
    limit: Option<Instant>,
    /// `None` once it was taken to be woken.
    waker: Option<Waker>,
    end: Option<Ended>,
}

enum Timer {
    /// Until a first future waits.
    Unarmed,
    /// Fires at this instant at the latest, unless it already has and its waker is being called.
    Armed(Sleep, Instant),
    /// A thread polls it. `again` asks that thread to look at the state once more.
    Taken { again: bool },
}

/// A node of a tree, for as long as a deadline, a child of it or a future refers to it.
pub(crate) struct Node {
    pub(crate) tree: Arc<Tree>,
    index: usize,
    /// Keeps the chain up to the root alive.
    _parent: Option<Arc<Node>>,
}

impl Node {
    pub(crate) fn root(wheel: &TimingWheel, at: Instant) -> Arc<Self> {
        let mut nodes = Slab::with_capacity(1);
        let index = nodes.insert(NodeState { parent: None, at, end: None });
        let state = State { nodes, waiters: Slab::new(), timer: Timer::Unarmed };
        let tree = Arc::new(Tree { wheel: wheel.clone(), state: Mutex::new(state) });
        Arc::new(Self { tree, index, _parent: None })
    }

    pub(crate) fn child(self: &Arc<Self>, at: Instant) -> Arc<Self> {
        let mut state = self.tree.lock();
        let end = state.nodes[self.index].end;
        let index = state.nodes.insert(NodeState { parent: Some(self.index), at, end });
        drop(state);
        Arc::new(Self { tree: self.tree.clone(), index, _parent: Some(self.clone()) })
    }

    /// The earliest of its own instant and those of its ancestors.
    pub(crate) fn instant(&self) -> Instant {
        self.tree.lock().instant_of(self.index)
    }

    /// How it ended by `now`.
    pub(crate) fn end(&self, now: Instant) -> Option<Ended> {
        let state = self.tree.lock();
        let has_passed = state.instant_of(self.index) <= now;
        state.nodes[self.index].end.or(has_passed.then_some(Ended::Passed))
    }

    /// Ends it and all below, unless it has ended by `now`.
    pub(crate) fn cancel(&self, now: Instant) {
        let mut state = self.tree.lock();
        // First what has passed unseen, so that each is told the reason that came first.
        let mut wakers = state.pass(now);
        state.nodes[self.index].end.get_or_insert(Ended::Cancelled);
        wakers.extend(state.spread());
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Moves it to `at`, unless it has ended by `now`. Returns whether it moved.
    pub(crate) fn reset(&self, now: Instant, at: Instant) -> bool {
        let mut state = self.tree.lock();
        if state.has_ended(self.index, now) {
            return false;
        }
        state.nodes[self.index].at = at;
        // Nothing is armed for those that nobody waits for.
        let is_late = !state.waiters.is_empty() && !state.fires_by(at);
        drop(state);
        if is_late {
            self.tree.arm();
        }
        true
    }

    /// Registers a future that waits, or replaces its waker. `place` is where the future stands in the list.
    pub(crate) fn poll(
        &self,
        place: &mut Option<usize>,
        limit: Option<Instant>,
        cx: &Context<'_>,
    ) -> Poll<Ended> {
        let state = self.tree.lock();
        if let Some(place) = *place {
            let waiter = &state.waiters[place];
            if let Some(end) = waiter.end {
                return Poll::Ready(end);
            }
            if waiter.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                return Poll::Pending;
            }
            drop(state);
            let waker = cx.waker().clone();
            let mut state = self.tree.lock();
            let waiter = &mut state.waiters[place];
            if let Some(end) = waiter.end {
                drop(state);
                return Poll::Ready(end);
            }
            let _before = waiter.waker.replace(waker);
            drop(state);
            return Poll::Pending;
        }
        if let Some(end) = state.nodes[self.index].end {
            return Poll::Ready(end);
        }
        drop(state);
        let waker = Some(cx.waker().clone());
        let mut state = self.tree.lock();
        let end = state.nodes[self.index].end;
        let new = state.waiters.insert(Waiter { node: self.index, limit, waker, end });
        *place = Some(new);
        let at = state.limit_of(&state.waiters[new]);
        if end.is_none() && !state.fires_by(at) {
            drop(state);
            self.tree.arm();
            state = self.tree.lock();
        }
        state.waiters[new].end.map_or(Poll::Pending, Poll::Ready)
    }

    /// Takes a future out of the list.
    pub(crate) fn forget(&self, place: usize) {
        let mut state = self.tree.lock();
        let waiter = state.waiters.remove(place);
        drop(state);
        drop(waiter);
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let mut state = self.tree.lock();
        state.nodes.remove(self.index);
        // The timer's waker refers to the tree, so the tree would not end by itself.
        let timer = match (&state.timer, state.nodes.is_empty()) {
            (Timer::Armed(..), true) => mem::replace(&mut state.timer, Timer::Unarmed),
            _ => Timer::Unarmed,
        };
        drop(state);
        drop(timer);
    }
}

impl Tree {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Arms the timer for the earliest limit, and ends the futures whose limits the timer has reached.
    fn arm(self: &Arc<Self>) {
        let mut state = self.lock();
        let mut sleep = match mem::replace(&mut state.timer, Timer::Taken { again: true }) {
            Timer::Taken { .. } => return,
            Timer::Armed(sleep, _) => Some(sleep),
            Timer::Unarmed => None,
        };
        let waker = Waker::from(self.clone());
        loop {
            state.timer = Timer::Taken { again: false };
            let earliest = state.earliest();
            drop(state);
            if let Some(at) = earliest {
                let sleep = sleep.get_or_insert_with(|| self.wheel.sleep_until(at));
                if sleep.deadline() > at {
                    Pin::new(sleep).reset(at);
                }
            }
            let polled = sleep.as_mut().map(|sleep| {
                let fires = sleep.deadline();
                (fires, sleep.poll_try_wait(&mut Context::from_waker(&waker)))
            });

            state = self.lock();
            let wakers = match polled {
                Some((fires, Poll::Ready(Ok(())))) => state.pass(fires),
                Some((_, Poll::Ready(Err(error)))) => state.refuse(error),
                _ if matches!(state.timer, Timer::Taken { again: true }) => continue,
                Some((fires, Poll::Pending)) if !state.nodes.is_empty() => {
                    state.timer = Timer::Armed(sleep.take().expect("it was polled"), fires);
                    break;
                }
                _ => {
                    state.timer = Timer::Unarmed;
                    break;
                }
            };
            drop(state);
            sleep = None;
            wakers.into_iter().for_each(Waker::wake);
            state = self.lock();
        }
        drop(state);
        drop(sleep);
    }
}

/// The timer has fired.
impl Wake for Tree {
    fn wake(self: Arc<Self>) {
        self.arm();
    }
}

impl State {
    fn chain(&self, node: usize) -> impl Iterator<Item = &NodeState> {
        std::iter::successors(Some(&self.nodes[node]), |node| node.parent.map(|parent| &self.nodes[parent]))
    }

    fn instant_of(&self, node: usize) -> Instant {
        self.chain(node).map(|node| node.at).min().expect("the node itself")
    }

    /// A deadline that nobody waits for passes without a mark.
    fn has_ended(&self, node: usize, now: Instant) -> bool {
        self.nodes[node].end.is_some() || self.instant_of(node) <= now
    }

    fn limit_of(&self, waiter: &Waiter) -> Instant {
        let at = self.instant_of(waiter.node);
        waiter.limit.map_or(at, |limit| limit.min(at))
    }

    /// Whether the timer needs no look for a limit at this instant.
    fn fires_by(&self, at: Instant) -> bool {
        matches!(self.timer, Timer::Armed(_, fires) if fires <= at)
    }

    /// The earliest limit of the futures that wait.
    fn earliest(&self) -> Option<Instant> {
        let waiting = self.waiters.iter().filter(|(_, waiter)| waiter.end.is_none());
        waiting.map(|(_, waiter)| self.limit_of(waiter)).min()
    }

    /// The timer has reached `fires`: ends all that is due by then.
    fn pass(&mut self, fires: Instant) -> Vec<Waker> {
        for (_, node) in &mut self.nodes {
            if node.at <= fires {
                node.end.get_or_insert(Ended::Passed);
            }
        }
        for (_, waiter) in &mut self.waiters {
            if waiter.limit.is_some_and(|limit| limit <= fires) {
                waiter.end.get_or_insert(Ended::Passed);
            }
        }
        self.spread()
    }

    /// Tells all that wait that nobody watches their deadlines.
    fn refuse(&mut self, error: Error) -> Vec<Waker> {
        for (_, waiter) in &mut self.waiters {
            waiter.end.get_or_insert(Ended::Refused(error));
        }
        self.spread()
    }

    /// Ends all that is below an ended node. Returns the wakers of all futures that have ended.
    fn spread(&mut self) -> Vec<Waker> {
        let ends: Vec<_> =
            self.nodes.iter().map(|(i, _)| (i, self.chain(i).find_map(|node| node.end))).collect();
        for (i, end) in ends {
            self.nodes[i].end = end;
        }
        let mut wakers = Vec::new();
        for (_, waiter) in &mut self.waiters {
            waiter.end = waiter.end.or(self.nodes[waiter.node].end);
            if waiter.end.is_some() {
                wakers.extend(waiter.waker.take());
            }
        }
        wakers
    }
}

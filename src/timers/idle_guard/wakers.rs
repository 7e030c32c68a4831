//! Whom one timer wakes for two directions.

use std::sync::Arc;
use std::task::Waker;

use futures::task::{ArcWake, waker_ref};

use super::direction::Direction;
use crate::platform::catch_panic::contained;

/// The wakers of those who wait in each direction. One, as long as the same task waits in both; with the halves of a
/// split stream two, behind a waker that wakes both, which is made when one of them changes.
#[derive(Debug)]
pub(super) enum Wakers {
    One(Waker),
    Two(Arc<Pair>),
}

#[derive(Debug)]
pub(super) struct Pair {
    read: Waker,
    write: Waker,
}

impl Wakers {
    pub(super) const fn one(waker: Waker) -> Self {
        Self::One(waker)
    }

    pub(super) fn none() -> Self {
        Self::One(Waker::noop().clone())
    }

    /// Of who waits in `direction`, and of who waits in the other.
    pub(super) fn of(direction: Direction, waker: Waker, other: Waker) -> Self {
        if waker.will_wake(&other) {
            return Self::One(waker);
        }
        Self::Two(Arc::new(match direction {
            Direction::Read => Pair { read: waker, write: other },
            Direction::Write => Pair { read: other, write: waker },
        }))
    }

    /// Whoever waits in `direction` is to be woken by `waker`. In the other direction somebody waits, or nobody.
    pub(super) fn register(&mut self, direction: Direction, waker: &Waker, other_waits: bool) {
        let other = match self {
            Self::One(one) if one.will_wake(waker) => return,
            Self::One(one) => one,
            Self::Two(pair) if pair.of(direction).will_wake(waker) => return,
            Self::Two(pair) => pair.of(direction.other()),
        };
        *self = if !other_waits || other.will_wake(waker) {
            Self::One(waker.clone())
        } else {
            Self::of(direction, waker.clone(), other.clone())
        };
    }

    /// Wakes who waits in `direction`.
    pub(super) fn wake(&self, direction: Direction) {
        let waker = match self {
            Self::One(waker) => waker,
            Self::Two(pair) => pair.of(direction),
        };
        // A stranger to the task that is polled now.
        contained(|| waker.wake_by_ref());
    }

    /// Calls `f` with a waker for all who wait.
    pub(super) fn with<T>(&self, f: impl FnOnce(&Waker) -> T) -> T {
        match self {
            Self::One(waker) => f(waker),
            Self::Two(pair) => f(&waker_ref(pair)),
        }
    }
}

impl Pair {
    const fn of(&self, direction: Direction) -> &Waker {
        match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
        }
    }
}

impl ArcWake for Pair {
    fn wake_by_ref(pair: &Arc<Self>) {
        // The one must not keep the other from being woken.
        for waker in [&pair.read, &pair.write] {
            contained(|| waker.wake_by_ref());
        }
    }
}

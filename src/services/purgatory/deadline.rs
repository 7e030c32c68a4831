//! The deadline of an operation, and its entry in the wheel.
//!
//! Without a [`Sleep`](crate::Sleep): the operation itself is the waker, and keeps no more than the entry's key under its
//! lock.

use std::task::Waker;
use std::time::Duration;

use tokio::time::Instant;

use super::error::WatchError;
use crate::engine::shard::ShardRef;
use crate::error::Error;
use crate::handle::timing_wheel::TimingWheel;
use crate::platform::waker_id::WakerId;
use crate::timers::tolerance::{Slack, Tolerance};
use crate::wheel::{Key, Nanos};

pub(super) struct Deadline {
    shard: ShardRef,
    at: Nanos,
}

/// When an operation is armed, and whether its deadline was rounded.
#[derive(Clone, Copy)]
pub(super) struct Arming {
    now: Nanos,
    is_rounded: bool,
}

/// When an operation is made, and when it expires.
#[derive(Clone, Copy)]
pub(super) enum When {
    After(Duration),
    At(Instant),
}

impl Deadline {
    #[inline]
    pub(super) fn new(wheel: &TimingWheel, when: When, tolerance: Option<Tolerance>) -> (Self, Arming) {
        let shard = ShardRef::new(wheel.shard());
        let now = shard.clock().now();
        let at = match when {
            When::After(delay) => now.after(delay),
            When::At(instant) => shard.clock().nanos(instant),
        };
        let rounded = tolerance.and_then(|tolerance| {
            let (resolution, delay) = (shard.resolution(), Nanos(at.0.saturating_sub(now.0)));
            let grid = Slack::new(tolerance, resolution).grid(resolution, delay)?;
            Some(resolution.round_up(at, grid))
        });
        let arming = Arming { now, is_rounded: rounded.is_some() };
        (Self { at: rounded.unwrap_or(at), shard }, arming)
    }

    /// Adds the entry. `None` if the deadline has passed.
    pub(super) fn arm(&self, arming: Arming, waker: Waker) -> Result<Option<Key>, Error> {
        let Arming { mut now, is_rounded } = arming;
        if self.shard.is_pausable() {
            now = self.shard.clock().now();
        }
        if is_rounded {
            self.shard.register_rounded(now, self.at, waker)
        } else {
            self.shard.register_or_take_over(now, self.at, waker)
        }
    }

    /// Takes the entry out, or leaves it to be taken out or taken over later. If the deadline has come it counts as fired.
    #[inline]
    pub(super) fn disarm(&self, key: Key) {
        if self.has_come() {
            let _fired_or_ended = self.shard.finish(key, self.at);
        } else {
            self.shard.discard(key, self.at, Some(WakerId::OF_NO_TASK));
        }
    }

    /// Whether the wheel has come to it. It may be about to wake the operation.
    #[inline]
    pub(super) fn has_come(&self) -> bool {
        self.shard.has_reached(self.at)
    }

    /// Whether the wheel has ended.
    pub(super) fn wheel_has_ended(&self) -> bool {
        self.shard.has_ended()
    }

    /// Why the wheel has woken the operation.
    pub(super) fn why(&self) -> WatchError {
        if self.shard.ended_before(self.at) {
            WatchError::CouldNotRun(Error::shutdown())
        } else {
            WatchError::Expired
        }
    }

    pub(super) fn instant(&self) -> Instant {
        self.shard.clock().instant(self.at)
    }
}

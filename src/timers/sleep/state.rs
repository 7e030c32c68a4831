//! The state of a sleep's timer, as the sleep knows it. How it is armed, and moved.

use std::task::{Poll, Waker};

use crate::engine::shard::Shard;
use crate::error::Error;
use crate::platform::wakers::WakerId;
use crate::wheel::{Grid, Key, Nanos};

/// | state | entry in the shard | next |
/// |---|---|---|
/// | `Armed` | until the turner hands it out | polled: `Elapsed`, once the turner came to the deadline |
/// | `Tolerant` | the same | the same |
/// | `Idle`, `Made` or `Unarmed` | none | polled: armed, or `Elapsed` if the deadline has passed |
/// | `Idle`, `Elapsed` | none | reset, as in any state: `Made` or `Unarmed`, unless an entry could be moved |
#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    /// With the waker that is in the entry: a poll by the same has nothing to do. While the entry is pending its waker is
    /// alive, so no other waker has the same addresses.
    Armed { deadline: Nanos, key: Key, waker: WakerId },
    /// Apart, because the compiler finds room for two variants in [`WakerId`]'s reference, and not for three.
    Other(Other),
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Other {
    /// Armed, with a tolerance for later deadlines, or with one that has been ended. A poll takes the shard's lock, because
    /// there is no room for the waker.
    Tolerant { deadline: Nanos, key: Key, grid: Option<Grid> },
    /// `made` tells when the deadline was set, if the phase is `Made`.
    Idle { deadline: Nanos, made: Nanos, grid: Option<Grid>, phase: Phase },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The clock need not be read again to arm it.
    Made,
    Unarmed,
    Elapsed,
}

impl State {
    /// Of a timer that is not armed. `made` is the time at which the deadline was set, if that need not be read again.
    pub(super) const fn idle(deadline: Nanos, made: Option<Nanos>, grid: Option<Grid>) -> Self {
        let (phase, made) = match made {
            Some(made) => (Phase::Made, made),
            None => (Phase::Unarmed, Nanos::ZERO),
        };
        Self::Other(Other::Idle { deadline, made, grid, phase })
    }

    pub(super) const fn elapsed(deadline: Nanos, grid: Option<Grid>) -> Self {
        Self::Other(Other::Idle { deadline, made: Nanos::ZERO, grid, phase: Phase::Elapsed })
    }

    #[inline]
    pub(super) const fn deadline(&self) -> Nanos {
        match *self {
            Self::Armed { deadline, .. }
            | Self::Other(Other::Tolerant { deadline, .. } | Other::Idle { deadline, .. }) => deadline,
        }
    }

    /// The entry in the shard, if there is one, and its deadline.
    #[inline]
    pub(super) const fn entry(&self) -> Option<(Key, Nanos)> {
        match *self {
            Self::Armed { deadline, key, .. } | Self::Other(Other::Tolerant { deadline, key, .. }) => {
                Some((key, deadline))
            }
            Self::Other(Other::Idle { .. }) => None,
        }
    }

    pub(super) const fn grid(&self) -> Option<Grid> {
        match *self {
            Self::Armed { .. } => None,
            Self::Other(Other::Tolerant { grid, .. } | Other::Idle { grid, .. }) => grid,
        }
    }

    /// Of a timer that has been armed.
    pub(super) const fn armed(deadline: Nanos, key: Key, waker: WakerId, grid: Option<Grid>) -> Self {
        match grid {
            None => Self::Armed { deadline, key, waker },
            Some(_) => Self::Other(Other::Tolerant { deadline, key, grid }),
        }
    }

    pub(super) const fn phase(&self) -> Option<Phase> {
        match *self {
            Self::Other(Other::Idle { phase, .. }) => Some(phase),
            _ => None,
        }
    }

    /// Arms the timer; ready if its deadline has passed.
    #[inline(always)]
    pub(super) fn arm(&mut self, shard: &Shard, waker: &Waker) -> Poll<Result<(), Error>> {
        let Self::Other(Other::Idle { deadline, made, grid, phase }) = *self else {
            unreachable!("only an unarmed one is armed");
        };
        let is_known = phase == Phase::Made && !shard.clock.may_jump();
        let now = if is_known { made } else { shard.clock.now() };
        let Some((key, waker)) = shard.arm(now, deadline, waker)? else { return Poll::Ready(Ok(())) };
        *self = Self::armed(deadline, key, waker, grid);
        Poll::Pending
    }

    /// Moves the deadline to `to`, or with a tolerance to a later time on its grid, unless `to` has passed.
    #[inline(always)]
    pub(super) fn move_to(&mut self, shard: &Shard, mut to: Nanos, mut now: Option<Nanos>) {
        let grid = self.grid();
        if let Some(grid) = grid {
            let now = *now.get_or_insert_with(|| shard.clock.now());
            to = if to > now { shard.resolution.round_up(to, grid) } else { to };
        }
        let mut waits = None;
        if let Some((key, from)) = self.entry() {
            match shard.reschedule(key, from, to) {
                Ok(()) => {
                    let (Self::Armed { deadline, .. }
                    | Self::Other(Other::Tolerant { deadline, .. } | Other::Idle { deadline, .. })) = self;
                    *deadline = to;
                    return;
                }
                Err(waker) => waits = waker,
            }
        }
        *self = Self::idle(to, now, grid);
        // The task that waits arms the timer at its next poll. Last, as it may panic.
        if let Some(waker) = waits {
            waker.wake();
        }
    }

    /// Sets the grid of later deadlines.
    pub(super) fn set_grid(&mut self, new: Option<Grid>) {
        match self {
            // One that is armed keeps its entry, with or without a tolerance.
            Self::Other(Other::Idle { grid, .. } | Other::Tolerant { grid, .. }) => *grid = new,
            Self::Armed { deadline, key, .. } => {
                if new.is_some() {
                    *self = Self::Other(Other::Tolerant { deadline: *deadline, key: *key, grid: new });
                }
            }
        }
    }
}

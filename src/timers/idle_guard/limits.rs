//! The limits of a guard in as few bytes as can be, because a server holds very many guards. [`super::waits`] keeps to them.

use std::sync::Arc;

use super::direction::Direction;
use super::last_use_for_events::LastUse;
use super::wakers::Wakers;
use crate::timers::tolerance::Slack;
use crate::wheel::Nanos;

/// Most guards have one limit, for reads, for writes or for both, and are used by one task. What others need beside that
/// stands apart.
#[derive(Debug)]
pub(super) enum Limits {
    Same { slack: Slack, marks: [Marks; 2], limit: Nanos },
    Apart { slack: Slack, marks: [Marks; 2], rest: Box<Apart> },
}

/// What is remembered of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks(u8);

impl Marks {
    /// The one limit is for this direction too.
    pub(super) const LIMITED: Self = Self(1);
    /// Its task was woken since it last polled, so the timer need not be there for it.
    pub(super) const WOKEN: Self = Self(2);
    /// Somebody waited when half of the limit for this direction had passed.
    pub(super) const PAST_HALF: Self = Self(4);
    /// It was a flush that was last found pending. One that is ready then ends the wait; one that finds nothing to flush
    /// does not end that of a write, which would never be overdue.
    pub(super) const OF_FLUSH: Self = Self(8);
    /// Somebody waited in this direction when half of the limit for both had passed.
    pub(super) const PAST_HALF_OF_IDLE: Self = Self(16);

    /// Of a wait that begins under the one limit.
    pub(super) const fn beginning(of_flush: bool) -> Self {
        if of_flush { Self(Self::LIMITED.0 | Self::OF_FLUSH.0) } else { Self::LIMITED }
    }

    pub(super) const fn has(self, mark: Self) -> bool {
        self.0 & mark.0 != 0
    }

    pub(super) const fn set(&mut self, mark: Self, to: bool) {
        self.0 = if to { self.0 | mark.0 } else { self.0 & !mark.0 };
    }
}

#[derive(Debug)]
pub(super) struct Apart {
    /// For reads and for writes; `MAX` is no limit.
    pub(super) own: [Nanos; 2],
    /// For both together: the longest without traffic in either direction.
    pub(super) idle: Nanos,
    /// The last traffic since somebody has been waiting, or the beginning of that.
    pub(super) idle_since: Nanos,
    pub(super) wakers: Wakers,
    /// For whoever asks when the stream is idle.
    pub(super) last_use: Option<Arc<LastUse>>,
}

impl Limits {
    pub(super) const NONE: Self = Self::Same { slack: Slack::None, marks: [Marks(0); 2], limit: Nanos::MAX };

    /// That for one direction alone.
    #[inline]
    pub(super) const fn own(&self, direction: Direction) -> Nanos {
        match self {
            Self::Same { marks, limit, .. } if marks[direction.index()].has(Marks::LIMITED) => *limit,
            Self::Same { .. } => Nanos::MAX,
            Self::Apart { rest, .. } => rest.own[direction.index()],
        }
    }

    /// That for both together.
    pub(super) const fn idle(&self) -> Nanos {
        match self {
            Self::Same { .. } => Nanos::MAX,
            Self::Apart { rest, .. } => rest.idle,
        }
    }

    /// Whether there is room for that limit as things are.
    pub(super) fn takes(&self, direction: Direction, limit: Nanos) -> bool {
        let others = self.own(direction.other());
        matches!(self, Self::Apart { .. }) || [limit, others].contains(&Nanos::MAX) || others == limit
    }

    pub(super) fn set_own(&mut self, direction: Direction, to: Nanos) {
        let others = self.own(direction.other());
        let takes = self.takes(direction, to);
        match self {
            Self::Same { marks, limit, .. } if takes => {
                marks[direction.index()].set(Marks::LIMITED, to != Nanos::MAX);
                *limit = if to == Nanos::MAX { others } else { to };
            }
            _ => self.apart().own[direction.index()] = to,
        }
    }

    /// What stands apart; from now on it does, without a waker as yet.
    pub(super) fn apart(&mut self) -> &mut Apart {
        if let Self::Same { slack, marks, limit: _ } = *self {
            let own = Direction::BOTH.map(|direction| self.own(direction));
            let rest = Apart {
                own,
                idle: Nanos::MAX,
                idle_since: Nanos::MAX,
                wakers: Wakers::none(),
                last_use: None,
            };
            *self = Self::Apart { slack, marks, rest: Box::new(rest) };
        }
        match self {
            Self::Apart { rest, .. } => rest,
            Self::Same { .. } => unreachable!("it was made just now"),
        }
    }

    pub(super) const fn slack(&self) -> Slack {
        let (Self::Same { slack, .. } | Self::Apart { slack, .. }) = self;
        *slack
    }

    #[inline]
    pub(super) const fn has_slack(&self) -> bool {
        !matches!(self.slack(), Slack::None)
    }

    pub(super) const fn set_slack(&mut self, to: Slack) {
        let (Self::Same { slack, .. } | Self::Apart { slack, .. }) = self;
        *slack = to;
    }

    pub(super) const fn marks(&self, direction: Direction) -> Marks {
        let (Self::Same { marks, .. } | Self::Apart { marks, .. }) = self;
        marks[direction.index()]
    }

    pub(super) const fn mark(&mut self, direction: Direction, mark: Marks, to: bool) {
        let (Self::Same { marks, .. } | Self::Apart { marks, .. }) = self;
        marks[direction.index()].set(mark, to);
    }
}

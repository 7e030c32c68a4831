//! The two directions of a stream, and what is done in each.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
}

impl Direction {
    pub(super) const BOTH: [Self; 2] = [Self::Read, Self::Write];

    pub(super) const fn other(self) -> Self {
        match self {
            Self::Read => Self::Write,
            Self::Write => Self::Read,
        }
    }

    /// Its place in an array with one item for each.
    pub(super) const fn index(self) -> usize {
        match self {
            Self::Read => 0,
            Self::Write => 1,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Read,
    Write,
    Flush,
    Shutdown,
}

impl Operation {
    pub(super) const fn direction(self) -> Direction {
        match self {
            Self::Read => Direction::Read,
            Self::Write | Self::Flush | Self::Shutdown => Direction::Write,
        }
    }
}

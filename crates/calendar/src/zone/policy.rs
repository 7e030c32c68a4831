//! What is done about times that clocks leave out or repeat, where people want it otherwise.

/// What becomes of a time that clocks never show, because they go forward over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Gap {
    /// It runs at the first instant after the gap; all times of one gap are one run. What fixed times do unless told
    /// otherwise, and what Vixie's cron does.
    AfterGap,
    /// It runs later by the length of the gap: 02:30 at 03:30. What RFC 5545 and jiff's own arithmetic do.
    Shift,
    /// It does not run. What intervals do unless told otherwise, and what systemd does with all.
    Skip,
}

/// What becomes of a time that clocks show twice, because they go back over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Overlap {
    /// It runs at the first. What fixed times do unless told otherwise.
    First,
    /// It runs at the second.
    Second,
    /// It runs both times. What intervals do unless told otherwise.
    Both,
}

impl Gap {
    /// As in the text of a plan.
    pub(crate) const NAMES: [(&str, Self); 3] =
        [("after", Self::AfterGap), ("shift", Self::Shift), ("skip", Self::Skip)];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::AfterGap => "after",
            Self::Shift => "shift",
            Self::Skip => "skip",
        }
    }
}

impl Overlap {
    /// As in the text of a plan.
    pub(crate) const NAMES: [(&str, Self); 3] =
        [("first", Self::First), ("second", Self::Second), ("both", Self::Both)];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Second => "second",
            Self::Both => "both",
        }
    }
}

//! Operations on a wheel and on the map, as plain data.

/// 36,525 days, in nanoseconds.
const CENTURY: u64 = 3_155_760_000_000_000_000;

/// The measures of a wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Nanoseconds in a tick.
    pub(crate) tick: u64,
    pub(crate) slots: u64,
}

/// A distance on the time line, in the measures of a wheel.
#[derive(Clone, Debug)]
pub(crate) enum Span {
    Nothing,
    InsideTick(u64),
    /// So many slots of a level, and a nanosecond more or less.
    Slots(u32, u64, i64),
    /// To the beginning of a slot of a level, or a nanosecond before or after it.
    Border(u32, u64, i64),
    Centuries(u64),
    /// To so many nanoseconds before the end of time.
    End(u64),
}

impl Span {
    /// The time at this distance from `base`, as far as there is time.
    pub(super) fn after(&self, base: u64, Shape { tick, slots }: Shape) -> u64 {
        let width = |level| tick.saturating_mul(slots.saturating_pow(level));
        match *self {
            Span::Nothing => base,
            Span::InsideTick(nanos) => base.saturating_add(nanos % tick),
            Span::Slots(level, count, off) => {
                base.saturating_add(width(level).saturating_mul(count)).saturating_add_signed(off)
            }
            Span::Border(level, count, off) => (base / width(level))
                .saturating_add(count)
                .saturating_mul(width(level))
                .saturating_add_signed(off),
            Span::Centuries(count) => base.saturating_add(CENTURY.saturating_mul(count)),
            Span::End(nanos) => u64::MAX - nanos,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Move {
    FromNow(Span),
    Later(Span),
    /// To a part in 256 of the time that is left.
    Earlier(u8),
    Past(Span),
    /// So far from now, with a tolerance.
    Tolerant(Span, Span),
}

/// An entry is named by any number, taken modulo how many there are.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    /// So many entries, so many nanoseconds apart.
    Insert(Span, u64, u64),
    /// The same, with a tolerance.
    InsertTolerant(Span, u64, u64, Span),
    /// An entry in each of so many ticks from now on.
    Spread(u64),
    Cancel(usize),
    CancelAll,
    /// One entry, once or repeatedly.
    Move(usize, Vec<Move>),
    UseStale(usize),
    ClockOn(Span),
    ClockBack(Span),
    LookAtExpiration,
    /// One batch; others come between it and the next.
    Advance(usize),
    AdvanceUntilDone(usize),
    AdvanceToExpiration,
    AdvanceToJustBeforeExpiration,
}

//! How far a sleep has come, and how late it may be, in two words.

use std::num::NonZeroU64;

use crate::platform::waker_id::WakerId;
use crate::wheel::{Grid, Key, Nanos};

/// | state | entry in the shard | next |
/// |---|---|---|
/// | `MadeAt` | none | polled: as `Unregistered` |
/// | `Unregistered` | none | polled: `Registered`, or `Elapsed` if the deadline is known to have passed |
/// | `Registered` | until the driver hands it out | polled: `Elapsed`, once the driver came to the deadline |
/// | `Due` | none | polled: `Elapsed`, once the task has budget to be told |
/// | `Elapsed` | none | reset, as in any state: `Unregistered`, unless the entry could be moved |
/// | `RoundedAt` | none | polled: as `Unregistered` |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// At a time that is as good as now, because the clock does not jump.
    MadeAt(Nanos),
    Unregistered,
    /// With the waker that is in the entry, if it can be told from others: a poll by the same has nothing to do. While
    /// the entry is pending its waker is alive, so no other waker has the same addresses.
    Registered {
        key: Key,
        waker: Option<WakerId>,
    },
    Due,
    Elapsed,
    /// With a deadline that was rounded up, at that time.
    RoundedAt(Nanos),
}

/// A [`State`] as a sleep has it. By hand, because of the enum the compiler writes and reads bytes.
#[derive(Clone, Copy)]
pub(super) struct Packed {
    /// The waker, or in its upper byte what no kind of wakers has. In the bits that no waker uses stands the grid to which
    /// deadlines are rounded, if there is one.
    waker_or_tag: NonZeroU64,
    /// Whichever there is.
    key_or_time: u64,
}

/// Upper bytes, after those of [`WakerId`]. The first is for one that is registered with a waker that cannot be told from
/// others.
const REGISTERED: u8 = WakerId::KINDS + 1;
const MADE_AT: u8 = REGISTERED + 1;
const UNREGISTERED: u8 = MADE_AT + 1;
const DUE: u8 = UNREGISTERED + 1;
const ELAPSED: u8 = DUE + 1;
const ROUNDED_AT: u8 = ELAPSED + 1;

const fn tag(upper_byte: u8) -> NonZeroU64 {
    NonZeroU64::new((upper_byte as u64) << 56).expect("no tag is zero")
}

impl State {
    #[inline(always)]
    pub(super) const fn pack(self) -> Packed {
        let (waker_or_tag, key_or_time) = match self {
            Self::Registered { key, waker: Some(waker) } => (waker.to_bits(), key.to_bits()),
            Self::Registered { key, waker: None } => (tag(REGISTERED), key.to_bits()),
            Self::MadeAt(now) => (tag(MADE_AT), now.0),
            Self::Unregistered => (tag(UNREGISTERED), 0),
            Self::Due => (tag(DUE), 0),
            Self::Elapsed => (tag(ELAPSED), 0),
            Self::RoundedAt(now) => (tag(ROUNDED_AT), now.0),
        };
        Packed { waker_or_tag, key_or_time }
    }
}

/// Where the grid stands.
const GRID_SHIFT: u32 = WakerId::UNUSED.trailing_zeros();
const _: () = assert!(WakerId::UNUSED.count_ones() >= Grid::BITS);

impl Packed {
    /// Sets the state, and leaves the grid as it is.
    #[inline(always)]
    pub(super) fn set(&mut self, state: State) {
        let grid = self.waker_or_tag.get() & WakerId::UNUSED;
        *self = state.pack();
        self.waker_or_tag |= grid;
    }

    #[inline(always)]
    pub(super) const fn has_grid(&self) -> bool {
        self.waker_or_tag.get() & WakerId::UNUSED != 0
    }

    pub(super) fn grid(&self) -> Option<Grid> {
        Grid::from_bits((self.waker_or_tag.get() & WakerId::UNUSED) >> GRID_SHIFT)
    }

    /// Sets the grid, and leaves the state as it is.
    pub(super) fn set_grid(&mut self, grid: Option<Grid>) {
        *self = self.unpack().pack();
        self.waker_or_tag |= grid.map_or(0, Grid::to_bits) << GRID_SHIFT;
    }

    #[inline(always)]
    pub(super) const fn unpack(self) -> State {
        let Self { waker_or_tag, key_or_time } = self;
        #[allow(clippy::cast_possible_truncation, reason = "what is left of a shift has 8 bits")]
        let upper_byte = (waker_or_tag.get() >> 56) as u8;
        match upper_byte {
            MADE_AT => State::MadeAt(Nanos(key_or_time)),
            UNREGISTERED => State::Unregistered,
            DUE => State::Due,
            ELAPSED => State::Elapsed,
            ROUNDED_AT => State::RoundedAt(Nanos(key_or_time)),
            _ => {
                let waker = upper_byte <= WakerId::KINDS;
                let waker = if waker { Some(WakerId::from_bits(waker_or_tag)) } else { None };
                State::Registered { key: Key::from_bits(key_or_time), waker }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_that_was_packed_is_unpacked_as_it_was() {
        let of_kind =
            |kind| NonZeroU64::new(u64::from(kind) << 56 | 0x7f00_dead_beef).map(WakerId::from_bits);
        let wakers = (1..=WakerId::KINDS).map(of_kind).chain([None]);
        let ends = [0, 1, u64::MAX];
        let states = wakers
            .flat_map(|waker| ends.map(|bits| State::Registered { key: Key::from_bits(bits), waker }))
            .chain(ends.map(|nanos| State::MadeAt(Nanos(nanos))))
            .chain(ends.map(|nanos| State::RoundedAt(Nanos(nanos))))
            .chain([State::Unregistered, State::Due, State::Elapsed]);
        for state in states {
            assert_eq!(state.pack().unpack(), state);
        }
    }
}

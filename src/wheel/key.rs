//! The keys by which owners find their entries again.

use std::fmt;

/// Names one entry for as long as it is pending.
///
/// A key whose entry was cancelled or handed out is stale. It finds nothing, even if another entry has got the same index,
/// because a key carries the number of its insertion. That number has 32 bits, so a key becomes ambiguous only after
/// 4,294,967,296 later insertions into the same hierarchy.
// One word with the index below the number, because it is moved in a register then.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(u64);

impl Key {
    /// For places that hold no key as yet.
    pub(crate) const PLACEHOLDER: Self = Self::new(0, 0);

    /// An index that no entry has.
    const NO_INDEX: u32 = u32::MAX;

    #[inline]
    pub(super) const fn new(index: u32, insertion: u32) -> Self {
        Self((insertion as u64) << 32 | index as u64)
    }

    #[inline]
    pub(crate) const fn to_bits(self) -> u64 {
        self.0
    }

    #[inline]
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The number of the insertion that made it, from zero on. After the last comes zero again.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "shifted right by as much as is lost")]
    pub(crate) const fn insertion(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// What stands at a vacant position of a bucket: the next one in its list. No entry has this index.
    #[inline]
    pub(crate) const fn vacancy(next: u32) -> Self {
        Self::new(Self::NO_INDEX, next)
    }

    #[inline]
    pub(crate) const fn is_vacancy(self) -> bool {
        self.index() == Self::NO_INDEX
    }

    /// Of a vacancy, the next.
    #[inline]
    pub(super) const fn next_vacant(self) -> u32 {
        debug_assert!(self.is_vacancy());
        self.insertion()
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "the upper half is the number of the insertion")]
    pub(super) const fn index(self) -> u32 {
        self.0 as u32
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({} of insertion {})", self.index(), self.insertion())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_printed_as_index_and_insertion() {
        assert_eq!(format!("{:?}", Key::new(3, 7)), "Key(3 of insertion 7)");
    }
}

//! Names of buckets, and places in them.

use std::fmt;

/// Names a bucket among those of all levels, which are numbered through as they are made: the coarser the level, the
/// greater. A tolerant level has greater numbers than level 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct BucketId(pub(super) u32);

impl BucketId {
    #[inline]
    pub(super) const fn as_index(self) -> usize {
        self.0 as usize
    }
}

/// Where a key stands: bucket and position in one word, because it is moved in a register then.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(u64);

impl Place {
    #[inline]
    pub(super) const fn new(bucket: BucketId, position: u32) -> Self {
        Self((bucket.0 as u64) << 32 | position as u64)
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "shifted right by as much as is lost")]
    pub(super) const fn bucket(self) -> BucketId {
        BucketId((self.0 >> 32) as u32)
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "the upper half is the bucket")]
    pub(super) const fn position(self) -> u32 {
        self.0 as u32
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}[{}]", self.bucket(), self.position())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_printed_as_bucket_and_position() {
        assert_eq!(format!("{:?}", Place::new(BucketId(3), 7)), "BucketId(3)[7]");
    }
}

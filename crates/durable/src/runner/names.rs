//! Hashing names of timers.

use std::hash::{BuildHasher, Hasher, RandomState};

/// The hasher of maps by [`TimerId`](crate::TimerId) or [`Near`](crate::store::Near): two multiplications, where the usual one
/// takes some hundred instructions. Its seed is random, since due times are the users' to choose.
#[derive(Clone)]
pub(super) struct Names(u64);

impl Default for Names {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0))
    }
}

impl BuildHasher for Names {
    type Hasher = NameHasher;

    fn build_hasher(&self) -> NameHasher {
        NameHasher(self.0)
    }
}

pub(super) struct NameHasher(u64);

/// Of the golden ratio: odd, with bits set all over.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    #[allow(clippy::cast_possible_truncation, reason = "each half is taken")]
    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(SPREAD);
        // The lower half alone would not depend on the upper bits in its lower ones.
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }

    fn write_i64(&mut self, word: i64) {
        self.write_u64(word.cast_unsigned());
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::TimerId;
    use crate::id::timestamp;

    /// A table of hashes takes its slot from the lower bits, and its first comparison from the upper seven.
    #[test]
    fn names_that_follow_one_another_are_spread_over_the_lower_and_the_upper_bits() {
        let names = Names::default();
        for (by_due, by_number) in [(1, 0), (0, 1), (1, 1), (1_000, 0), (0, 1 << 32), (86_400_000, 1)] {
            let hashes: Vec<u64> = (0..4_096_i64)
                .map(|n| TimerId::new(timestamp(n * by_due), (n * by_number).cast_unsigned()))
                .map(|id| names.hash_one(id))
                .collect();
            let slots: BTreeSet<u64> = hashes.iter().map(|hash| hash % 4_096).collect();
            // At random, 63 % of them.
            assert!(slots.len() > 2_000, "{} slots for {by_due} and {by_number}", slots.len());
            let upper: BTreeSet<u64> = hashes.iter().map(|hash| hash >> 57).collect();
            assert!(upper.len() > 100, "{} upper bits for {by_due} and {by_number}", upper.len());
        }
    }
}

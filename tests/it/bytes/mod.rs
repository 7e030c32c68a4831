//! Makes numbers of bytes from a fuzzer. Any bytes are valid.

/// Bytes to read from; zeros once there are none left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// A number below `end`, which is at most 256.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        u64::from(self.byte()) % end
    }

    /// A number of `len` bytes, the lowest first.
    pub(crate) fn number(&mut self, len: u32) -> u64 {
        (0..len).fold(0, |number, n| number | u64::from(self.byte()) << (8 * n))
    }
}

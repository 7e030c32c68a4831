//! No events, without the feature `tracing`.

use std::io;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Events;

impl Events {
    pub(crate) const fn new() -> Self {
        Self
    }

    pub(crate) const fn begins(
        &self,
        _wheel: &str,
        _tick: Duration,
        _wheel_size: usize,
        _shards: usize,
        _max_pending: Option<usize>,
    ) {
    }

    pub(crate) const fn refused(&self) -> bool {
        false
    }

    pub(crate) fn not_given(&self, _what: &'static str, _error: io::Error) {}

    pub(crate) fn tell_noted(&self, _wheel: &str, _refused: impl FnOnce() -> u64) {}

    pub(crate) const fn stalled(&self, _wheel: &str, _stalls: u64) {}

    pub(crate) const fn waker_panicked(&self, _wheel: &str, _panicked: u64) {}

    pub(crate) const fn shard_ends(&self, _pending: usize) {}

    pub(crate) const fn ended(&self, _wheel: &str) {}
}

//! Without the feature `tracing`.

use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Events;

impl Events {
    pub(crate) const fn of(_wheel: &str) -> Self {
        Self
    }

    pub(crate) const fn begins(
        &self,
        _tick: Duration,
        _wheel_size: usize,
        _shards: usize,
        _max_pending: Option<usize>,
    ) {
    }

    pub(crate) const fn refused(&self, _refused: u64) {}

    pub(crate) const fn stalled(&self, _stalls: u64) {}

    pub(crate) const fn waker_panicked(&self, _panicked: u64) {}

    pub(crate) const fn ended(&self, _pending: usize) {}
}

//! The entry that an item has among the timers.

use crate::wheel::{Key, Nanos};

#[derive(Clone, Copy, Debug)]
pub(super) struct Timer {
    pub(super) key: Key,
    /// That of the entry. An item that was moved later has a later one, and is put back when this has come.
    pub(super) deadline: Nanos,
}

//! The engine: what keeps wakers in hierarchies, and has them woken in time.
//!
//! | file | what it has |
//! |---|---|
//! | `shard` | a hierarchy of wakers under a lock: arming, moving, dropping and handing out |
//! | `max_pending` | the bound on pending timers |
//! | `leftovers` | entries of dropped timers that the next timer takes over, or that are taken out together |
//! | `turn` | a turn of all shards, the driver's task, the end of a wheel |
//! | `alarm` | when the next turn is, and the timers in the runtime's park that call for it |
//! | `watchdog` | a thread that notices that nobody turned a wheel |

pub(crate) mod alarm;
mod leftovers;
pub(crate) mod max_pending;
pub(crate) mod shard;
#[cfg(all(test, not(loom)))]
mod tests;
pub(crate) mod turn;
pub(crate) mod watchdog;

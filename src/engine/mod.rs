//! What drives the pure core: who holds it, who turns it, and when.
//!
//! | room | what it does |
//! |---|---|
//! | `shard` | a hierarchy under a lock, with wakers in it: arms, moves, cancels and hands out timers |
//! | `bound` | counts the pending timers of all shards, where there is a limit |
//! | `driver` | turns all shards when something is due; here is the table of who turns when |
//! | `alarm` | has the runtime's park call the driver in time |
//! | `watchdog` | notices that nobody turned, because a worker blocks |

pub(crate) mod alarm;
pub(crate) mod bound;
pub(crate) mod driver;
pub(crate) mod shard;
pub(crate) mod watchdog;

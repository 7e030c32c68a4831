//! What drives the pure core: where its entries are kept, who turns it, and when.
//!
//! | module | what it does |
//! |---|---|
//! | `shard` | holds a hierarchy of wakers under a lock: arms, moves, cancels and hands out timers |
//! | `bound` | counts the pending timers of all shards, where there is a limit |
//! | `driver` | turns all shards when something is due; its module docs say who turns the wheel, and when |
//! | `alarm` | has the runtime's park call the driver in time |
//! | `watchdog` | notices when nobody turns a wheel, because a worker blocks |

pub(crate) mod alarm;
pub(crate) mod bound;
pub(crate) mod driver;
pub(crate) mod shard;
pub(crate) mod watchdog;

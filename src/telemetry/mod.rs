//! What is counted as it happens, and the events that tell of it. `monitor` has limits for it, `integrations` hand it on.
//!
//! | module | what it has |
//! |---|---|
//! | `counters` | what turns count: how many, lateness, holds of locks, stalls, refusals, panics |
//! | `histogram` | the histogram of those times |
//! | `stats` | `Stats`, in which a wheel's counts come together with those of its shards |
//! | `events` | what is sent to `tracing`, and when |

pub(crate) mod counters;
pub(crate) mod events;
pub(crate) mod histogram;
pub(crate) mod stats;

//! Counters and events. `monitor` compares the counters with limits, and `integrations` exports them.
//!
//! | module | has |
//! |---|---|
//! | `counters` | the counters of turns: their number, lateness, stalls, refusals, panics |
//! | `histogram` | the histogram of durations |
//! | `stats` | `Stats`: the counters of a wheel and of its shards together |
//! | `events` | events for `tracing` |

pub(crate) mod counters;
pub(crate) mod events;
pub(crate) mod histogram;
pub(crate) mod stats;

//! Counters and events. `monitor` compares the counters with limits, and `integrations` exports them.
//!
//! | module | has |
//! |---|---|
//! | `counters` | the counters of turns, lateness, stalls, refusals and panics; events for `tracing` |
//! | `histogram` | the histogram of durations |
//! | `stats` | `Stats`: the counters of a wheel and of its shards together |

pub(crate) mod counters;
pub(crate) mod histogram;
pub(crate) mod stats;

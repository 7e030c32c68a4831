//! What do the timers that others use with async Rust cost, how late are they, and is any of them early?
//!
//! Every timer does the same work as ours, in the same process and in turn with it. CPU time stands beside the time of
//! the calls, because some leave the work to a thread of their own. For ours it is asserted that nothing is early or
//! lost; for the others it is counted.

mod against;
mod delay_queue;
pub(crate) mod host;

use crate::support::Case;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "rivals_arming",
            "What do other async timers take to arm and cancel, alone and among many?",
            against::arming,
        ),
        Case::new(
            "rivals_firing",
            "How late are other async timers, is one early, and what CPU does one take that fires?",
            against::firing,
        ),
        Case::new(
            "rivals_delay_queue",
            "What does our delay queue cost beside the one of tokio-util?",
            delay_queue::run,
        ),
    ]
}

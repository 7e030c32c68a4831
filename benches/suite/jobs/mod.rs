//! What do jobs cost, with handles and by keys, beside the timers that they are made of, and beside tasks that sleep?

mod by_hand;
mod keys;

use crate::support::Case;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case::new(
        "jobs_keys",
        "What does it cost to add and remove a job under a key, beside a task that sleeps, and beside a timer?",
        keys::run,
    )]
}

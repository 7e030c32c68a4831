//! What do jobs cost, with handles and by keys, beside the timers that they are made of?

mod keys;

use crate::support::Case;

pub(crate) fn cases() -> Vec<Case> {
    vec![Case {
        name: "jobs_keys",
        question: "What does it cost to add and remove a job, by its key too, beside arming and cancelling a timer?",
        run: keys::run,
    }]
}

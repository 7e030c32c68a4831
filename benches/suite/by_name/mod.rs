//! What users call, who have changed `use tokio::time` to `use timingwheel::time`: its CPU time, divided by tokio's.
//!
//! Beside it stands the same by a wheel's handle. All sides share a runtime, run in turn in each round, and do their work
//! in a task. Each case proves by the wheel's own counts that its timers reached the wheel, or did not where the future
//! was ready.

mod build;
#[cfg(feature = "test-util")]
mod paused;
mod rows;
mod sides;
mod tasks;
mod timeouts;
mod wheels;

use crate::support::Case;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case {
            name: "by_name",
            question: "What does a timeout cost by name, in a server's build?",
            run: timeouts::run,
        },
        Case {
            name: "by_name_tasks",
            question: "What does a timeout cost by name in 64 tasks, on more and more workers?",
            run: tasks::run,
        },
        #[cfg(feature = "test-util")]
        Case {
            name: "by_name_test_util",
            question: "And in a test's build, which can pause the clock?",
            run: paused::run,
        },
        Case {
            name: "by_name_wheels",
            question: "What does a timer cost where the process has very many wheels?",
            run: wheels::run,
        },
    ]
}

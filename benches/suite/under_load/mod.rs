//! What timers cost, and how late they are, in a process that is busy, blocked or idle.
//!
//! Each side has a runtime of its own, and the sides run in turn. No timer was early: `Timers::sleep` and
//! `Timers::timeout` check each. That our timers reached the wheel is proved by the wheel's own counts.

mod blocked;
mod busy;
mod connections;
mod firing;
mod idle;
mod rivals;
mod sides;
mod spent;
mod targets;
mod timers;

use crate::support::Case;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case {
            name: "busy_runtime",
            question: "How late are timers in a runtime whose workers are busy?",
            run: busy::run,
        },
        Case {
            name: "firing_in_a_loop",
            question: "What CPU time and how many context switches does a timer take that fires among others?",
            run: firing::run,
        },
        Case {
            name: "unix_connections",
            question: "What CPU time and how many context switches does a request take, with all its timers?",
            run: connections::run,
        },
        Case {
            name: "blocked_poller",
            question: "How late are timers of other tasks while one task blocks its worker?",
            run: blocked::run,
        },
        Case {
            name: "idle_process",
            question: "Does a process sleep that waits for one far timer, and how many threads do wheels take?",
            run: idle::run,
        },
    ]
}

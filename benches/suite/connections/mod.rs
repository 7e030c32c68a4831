//! What does it cost to notice that one of very many connections is idle?
//!
//! Reads of ten thousand connections that nobody watches, that an `IdleGuard` watches, and that have a timeout round
//! each, ours or tokio's, which is the usual way. Each connection has a task of its own. The cases prove that every
//! byte went through, which reads had to wait, and how many timers the wheel saw.

mod memory;
mod pool;
mod reads;
mod report;
mod sockets;
mod streams;
mod watch;

use crate::support::Case;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case {
            name: "connections_streams",
            question: "What does a read from memory cost more when idle connections are to be noticed?",
            run: streams::run,
        },
        Case {
            name: "connections_sockets",
            question: "What does a read from a socket cost more when idle connections are to be noticed?",
            run: sockets::run,
        },
        Case {
            name: "connections_memory",
            question: "How much memory does it take to notice an idle connection?",
            run: memory::run,
        },
    ]
}

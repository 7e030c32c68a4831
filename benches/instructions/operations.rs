//! All operations, and which of them belong together.

use std::hint::black_box;

use crate::operation::{Operation, Prepared, REPETITIONS};
use crate::{by_name, core, delay_queue, timers};

/// Allocates once. If DHAT does not see that, it sees no other allocation either.
pub(crate) static CONTROL: Operation = Operation::new("control", || {
    let run = |(): &mut ()| (0..REPETITIONS).for_each(|n| drop(black_box(Box::new(n))));
    Prepared::new((), run, |()| {})
});

/// What is checked against the baseline.
pub(crate) fn ours() -> impl Iterator<Item = &'static Operation> {
    by_name::OURS.iter().chain(&timers::OURS).chain(delay_queue::OURS).chain(&core::OURS)
}

/// tokio's operation of the same name.
pub(crate) fn rival(ours: &Operation) -> Option<&'static Operation> {
    rivals().find(|rival| rival.name == ours.name)
}

fn rivals() -> impl Iterator<Item = &'static Operation> {
    by_name::TOKIOS.iter().chain(&timers::TOKIOS)
}

pub(crate) fn all() -> impl Iterator<Item = &'static Operation> {
    ours().chain(rivals()).chain([&CONTROL])
}

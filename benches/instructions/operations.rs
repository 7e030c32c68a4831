//! All operations, and which of them belong together.

use std::hint::black_box;

use crate::operation::{Operation, Prepared, REPETITIONS};
use crate::{core, timers};

/// Allocates once. If DHAT does not see that, it sees no other allocation either.
pub(crate) static CONTROL: Operation = Operation::new("control", || {
    let run = |(): &mut ()| (0..REPETITIONS).for_each(|n| drop(black_box(Box::new(n))));
    Prepared::new((), run, |()| {})
});

/// What is checked against the baseline.
pub(crate) fn ours() -> impl Iterator<Item = &'static Operation> {
    timers::OURS.iter().chain(&core::OURS)
}

/// tokio's operation of the same name.
pub(crate) fn rival(ours: &Operation) -> Option<&'static Operation> {
    timers::TOKIOS.iter().find(|rival| rival.name == ours.name)
}

pub(crate) fn all() -> impl Iterator<Item = &'static Operation> {
    ours().chain(&timers::TOKIOS).chain([&CONTROL])
}

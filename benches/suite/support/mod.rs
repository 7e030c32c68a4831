//! What all cases use: the scale, pairs, tables and bars, and a process for each case.

mod bars;
mod case;
mod machine;
pub(crate) mod page;
mod report;
mod table;

pub(crate) use case::{Case, run_here, run_in_child};
pub(crate) use machine::{
    connections_allowed, context_switches, cpu_time, describe, resident_bytes, sleeps_of_other_threads,
    thread_cpu_time,
};
pub(crate) use report::{Kept, Report};
pub(crate) use table::{
    Comparison, Duel, Findings, Scale, Table, Unit, compare, median, number, quartiles, rounds, target, time,
    warm_rounds,
};

//! What all cases use: the scale, pairs, tables and charts, and a process for each case.

mod bars;
mod case;
mod chart;
mod compare;
mod files;
mod findings;
mod kept;
mod losses;
mod machine;
mod part;
mod process;
mod report;
mod scale;
mod table;
mod text;

pub(crate) use case::{Case, run_here, run_in_child};
pub(crate) use compare::{Comparison, compare, median, quartiles, rounds, time};
pub(crate) use files::connections_allowed;
pub(crate) use findings::{Axis, Better, Chart, Findings};
pub(crate) use kept::Kept;
pub(crate) use machine::describe;
pub(crate) use process::{
    context_switches, cpu_time, resident_bytes, sleeps_of_other_threads, thread_cpu_time, threads,
};
pub(crate) use report::Report;
pub(crate) use scale::Scale;
pub(crate) use table::{Duel, Table, target};
pub(crate) use text::{Unit, number};

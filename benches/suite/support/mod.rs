//! What all cases use: the scale, pairs, tables and charts, and a process for each case.

mod case;
mod chart;
mod compare;
mod findings;
mod machine;
mod report;
mod scale;
mod text;

pub(crate) use case::{Case, Outcome, run_here, run_in_child};
pub(crate) use compare::{Comparison, compare, compare_values, median, time};
pub(crate) use findings::{Axis, Chart, Findings, Series, Table};
pub(crate) use report::Report;
pub(crate) use scale::Scale;
pub(crate) use text::{Unit, number};

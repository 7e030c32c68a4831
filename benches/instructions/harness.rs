//! What gungraun counts: each operation in a process of its own, under valgrind.
//!
//! Both tools see all threads of that process. What turns of the wheel and the watchdog's thread do is left out: Callgrind
//! collects on a thread from when that thread enters what gungraun wraps round [`operation`], and of DHAT's
//! allocations only those count that were made within.

use gungraun::prelude::*;
use gungraun::{Callgrind, Dhat};

use crate::operation::Prepared;
use crate::operations::all;

/// The first argument of the process that gungraun starts for one operation.
const RUN: &str = "--gungraun-run";
/// Has gungraun report on standard output, a line of JSON for each operation.
pub(crate) const REPORT: &str = "--output-format=json";

/// Whether this process is one of gungraun's: the one that starts all operations, or that which does one.
pub(crate) fn is_for_gungraun(args: &[String]) -> bool {
    args.iter().any(|arg| arg == RUN || arg == REPORT)
}

/// Starts all operations, or does one.
pub(crate) fn run() {
    main();
}

fn prepare(number: usize) -> Prepared {
    all().nth(number).expect("gungraun counts up to their number").prepare()
}

fn assert_done(prepared: Prepared) {
    prepared.assert_done();
}

#[library_benchmark]
#[benches::number(iter = 0..all().count(), setup = prepare, teardown = assert_done)]
fn operation(mut prepared: Prepared) -> Prepared {
    prepared.run();
    prepared
}

/// Enough to find an allocation's way back to what gungraun wraps.
const FRAMES: &str = "--num-callers=100";

library_benchmark_group!(name = operations, benchmarks = operation);
main!(
    config = LibraryBenchmarkConfig::default().tool(Callgrind::default()).tool(Dhat::with_args([FRAMES])),
    library_benchmark_groups = operations
);

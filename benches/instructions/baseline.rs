//! The counts that ours are compared with: a table in a file that is committed, one for each build.

use std::fmt;
use std::fs;

use crate::counts::Counts;
use crate::table;

/// The other build is one as servers are: no clock can be paused in it, nor moved past timers that are to fire.
const FILE: &str = if cfg!(feature = "test-util") {
    concat!(env!("CARGO_MANIFEST_DIR"), "/baseline.md")
} else {
    concat!(env!("CARGO_MANIFEST_DIR"), "/baseline_without_test_util.md")
};
const COMMAND: &str = if cfg!(feature = "test-util") {
    "cargo bench --bench instructions"
} else {
    "cargo bench --package timingwheel-instructions --no-default-features --features timerfd"
};

/// How far a count may be from the baseline, upwards or downwards.
///
/// The same binary gives the same counts each time, and so does the same compiler with the same dependencies, as no
/// operation calls what the libc chooses by the CPU (`memcpy` and the like). What is left is the libc's few
/// instructions round a reading of the clock, and newer dependencies.
const TOLERANCE: f64 = 0.01;
/// For small counts, where a hundredth is less than what a single reading of the clock varies by.
const LEAST_TOLERANCE: f64 = 4.0;
/// For misses, which depend on where the allocator puts things.
const TOLERANCE_OF_MISSES: f64 = 0.5;

#[derive(Debug)]
pub(crate) struct Baseline {
    compiler: String,
    rows: Vec<(String, Counts)>,
}

impl Baseline {
    pub(crate) fn new(compiler: String, rows: impl IntoIterator<Item = (String, Counts)>) -> Self {
        Self { compiler, rows: rows.into_iter().collect() }
    }

    pub(crate) fn read() -> Result<Self, String> {
        let text = fs::read_to_string(FILE)
            .map_err(|error| format!("{FILE}: {error}; write it by `{COMMAND} -- --renew`"))?;
        let compiler =
            text.lines().find_map(|line| line.strip_prefix(COMPILER)).unwrap_or("an unknown compiler");
        // The header's second column and the line below it are no numbers.
        Ok(Self::new(compiler.into(), text.lines().filter_map(parse)))
    }

    pub(crate) fn write(&self) -> Result<(), String> {
        fs::write(FILE, self.to_string()).map_err(|error| format!("{FILE}: {error}"))
    }

    /// A sentence for each operation that allocates: a warm wheel is to do without. It is no matter of the baseline.
    pub(crate) fn allocations(&self) -> Vec<String> {
        let allocating = self.rows.iter().filter(|(_, counts)| counts.allocations > 0.0);
        allocating
            .map(|(name, counts)| {
                format!(
                    "`{name}` allocates {:.3} times; on a warm wheel it must not at all.",
                    counts.allocations
                )
            })
            .collect()
    }

    /// A sentence for each count that is not that of the baseline.
    pub(crate) fn differences(&self, baseline: &Self) -> Vec<String> {
        let mut faults = Vec::new();
        for (name, now) in &self.rows {
            match baseline.rows.iter().find(|(known, _)| known == name) {
                Some((_, before)) => faults.extend(differences(name, now, before)),
                None => faults.push(format!("`{name}` has no baseline.")),
            }
        }
        for (name, _) in &baseline.rows {
            if self.rows.iter().all(|(known, _)| known != name) {
                faults.push(format!("`{name}` has a baseline, but is not counted."));
            }
        }
        if !faults.is_empty() {
            let compilers = [&baseline.compiler, &self.compiler];
            if compilers[0] != compilers[1] {
                faults.push(format!("The baseline is of {}, this of {}.", compilers[0], compilers[1]));
            }
            faults
                .push(format!("If all that is as it should be, renew the baseline: `{COMMAND} -- --renew`"));
        }
        faults
    }
}

fn differences(name: &str, now: &Counts, before: &Counts) -> impl Iterator<Item = String> {
    let counts = [
        ("instructions", now.instructions, before.instructions, LEAST_TOLERANCE),
        ("reads", now.reads, before.reads, LEAST_TOLERANCE),
        ("writes", now.writes, before.writes, LEAST_TOLERANCE),
        ("misses", now.misses, before.misses, TOLERANCE_OF_MISSES),
    ];
    counts.into_iter().filter_map(move |(what, now, before, least)| {
        let tolerance = (before * TOLERANCE).max(least);
        if now > before + tolerance {
            let limit = before + tolerance;
            Some(format!("`{name}` takes {now:.1} {what}; the baseline is {before:.1}, the limit {limit:.1}."))
        } else if now < before - tolerance {
            let limit = before - tolerance;
            Some(format!(
                "`{name}` takes only {now:.1} {what}; the baseline is {before:.1}, and below {limit:.1} it has to be \
                 renewed, or a later regression would go unseen."
            ))
        } else {
            None
        }
    })
}

const COMPILER: &str = "Counted in a build by ";

impl fmt::Display for Baseline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = table::new(["operation", "instructions", "reads", "writes", "misses", "allocations"]);
        for (name, Counts { instructions, reads, writes, misses, allocations }) in &self.rows {
            let numbers = [instructions, reads, writes, misses].map(|count| format!("{count:.1}"));
            table.add_row(table::row(name, numbers.into_iter().chain([format!("{allocations:.3}")])));
        }
        writeln!(f, "# The baseline of `{COMMAND}`\n")?;
        writeln!(
            f,
            "What one operation takes. Written by it with `-- --renew`; not to be edited by hand.\n"
        )?;
        writeln!(f, "{COMPILER}{}\n\n{table}", self.compiler)
    }
}

/// A row of the table, if the line is one.
fn parse(line: &str) -> Option<(String, Counts)> {
    let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
    let name = cells.next()?.to_owned();
    let mut number = || cells.next()?.parse().ok();
    let counts = Counts {
        instructions: number()?,
        reads: number()?,
        writes: number()?,
        misses: number()?,
        allocations: number()?,
    };
    Some((name, counts))
}

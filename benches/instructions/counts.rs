//! Has gungraun count all operations, and reads what it reports.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::REPORT;
use crate::operation::{Operation, REPETITIONS};
use crate::operations::{CONTROL, all};

/// For one operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Counts {
    pub(crate) instructions: f64,
    /// Reads from memory.
    pub(crate) reads: f64,
    /// Writes to memory.
    pub(crate) writes: f64,
    /// Reads and writes that miss the cache of the first level. Callgrind plays the same one on all processors: 32 KiB in
    /// lines of 64 bytes.
    pub(crate) misses: f64,
    /// Blocks that were allocated.
    pub(crate) allocations: f64,
}

/// Where gungraun keeps what valgrind writes.
const HOME: &str = concat!("--home=", env!("CARGO_TARGET_TMPDIR"), "/instructions");

/// The counts of all operations.
pub(crate) fn count() -> Result<Vec<(&'static Operation, Counts)>, String> {
    let in_words = |error: std::io::Error| format!("gungraun could not be started: {error}");
    let itself = std::env::current_exe().map_err(in_words)?;
    let mut gungraun = Command::new(itself);
    let report =
        gungraun.args(["--bench", REPORT, HOME]).stderr(Stdio::inherit()).output().map_err(in_words)?;
    if !report.status.success() {
        return Err(format!("gungraun has failed: {}", report.status));
    }
    let report = String::from_utf8_lossy(&report.stdout);
    let reports = report.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>();
    let reports = reports.map_err(|error| format!("gungraun has reported what is not JSON: {error}"))?;
    let counts = all().enumerate().map(|(number, operation)| {
        let id = format!("number_{number}");
        let report = reports.iter().find(|report| report["id"] == *id);
        let counts =
            report.and_then(read).ok_or_else(|| format!("gungraun has not counted `{}`", operation.name))?;
        Ok((operation, counts))
    });
    let counts: Vec<(&Operation, Counts)> = counts.collect::<Result<_, String>>()?;
    assert_sees_everything(&counts);
    Ok(counts)
}

fn read(report: &Value) -> Option<Counts> {
    let total = |tool: &str, metric: &str| {
        let mut profiles = report["profiles"].as_array()?.iter();
        let profile = profiles.find(|profile| profile["tool"] == tool)?;
        let total = profile["data"]["total"]["metrics"][metric]["values"]["new"].as_f64()?;
        Some(total / f64::from(REPETITIONS))
    };
    Some(Counts {
        instructions: total("Callgrind", "Ir")?,
        reads: total("Callgrind", "Dr")?,
        writes: total("Callgrind", "Dw")?,
        misses: total("Callgrind", "D1mr")? + total("Callgrind", "D1mw")?,
        allocations: total("DHAT", "TotalBlocks")?,
    })
}

/// Without the functions' names, for one, gungraun cannot tell what belongs to an operation, and counts nothing.
fn assert_sees_everything(counts: &[(&Operation, Counts)]) {
    for (operation, counts) in counts {
        assert!(counts.instructions > 1.0, "Callgrind has not seen `{}`", operation.name);
        if std::ptr::eq(*operation, &CONTROL) {
            assert_eq!(counts.allocations, 1.0, "DHAT has not seen the allocations that were made for it");
        }
    }
}

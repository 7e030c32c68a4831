//! Whether the machine was too busy for the figures of an example to mean anything.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// A thread of a quiet machine wakes up sooner than this after its time, also beside workers that compute.
const TOO_BUSY: Duration = Duration::from_millis(30);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// For how long this process was held up at the most, in milliseconds.
static LONGEST: AtomicU64 = AtomicU64::new(0);
/// Counts that do not add up, and need not if the machine was too busy.
static IF_QUIET: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Begins to watch the machine: a thread sleeps, and sees for how much longer than it asked.
pub(crate) fn watch() {
    thread::spawn(|| {
        loop {
            let asked = Instant::now();
            thread::sleep(LOOK_EVERY);
            let late = asked.elapsed().saturating_sub(LOOK_EVERY);
            LONGEST.fetch_max(u64::try_from(late.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    });
}

/// Notes a problem that a busy machine causes too.
#[allow(dead_code, reason = "not every example has such a problem")]
pub(crate) fn unless_too_busy(problem: String) {
    IF_QUIET.lock().unwrap_or_else(PoisonError::into_inner).push(problem);
}

/// Tells the problems, and whether they are the machine's.
pub(crate) fn verdict(problems: &[String]) -> ExitCode {
    let noted = std::mem::take(&mut *IF_QUIET.lock().unwrap_or_else(PoisonError::into_inner));
    let longest = Duration::from_millis(LONGEST.load(Ordering::Relaxed));
    let is_excused = longest >= TOO_BUSY;
    problems.iter().for_each(|problem| eprintln!("error: {problem}"));
    let kind = if is_excused { "note" } else { "error" };
    noted.iter().for_each(|problem| eprintln!("{kind}: {problem}"));
    if !problems.is_empty() || (!noted.is_empty() && !is_excused) {
        return ExitCode::FAILURE;
    }
    if !noted.is_empty() {
        println!(
            "This machine was too busy for this example, which it held up for {longest:?};\n\
             nothing is wrong with the timers. Run it again when the machine is quieter."
        );
    }
    ExitCode::SUCCESS
}

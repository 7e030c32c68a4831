//! The thread that waits for the alarm's time. It runs no code of a user's.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use super::Alarm;
use crate::sync::lock;

/// Enough to wake a task.
const STACK_SIZE: usize = 256 * 1024;

pub(super) fn spawn(alarm: Arc<Alarm>) -> io::Result<()> {
    std::thread::Builder::new()
        .name("timingwheel-alarm".into())
        .stack_size(STACK_SIZE)
        .spawn(move || run(&alarm))
        .map(drop)
}

pub(super) fn run(alarm: &Alarm) {
    let mut bell = lock(&alarm.bell);
    while !bell.ended {
        let wait = bell.at.map(|at| at.saturating_duration_since(Instant::now()));
        bell = match wait {
            None => alarm.bell_changed.wait(bell).unwrap_or_else(std::sync::PoisonError::into_inner),
            Some(wait) if wait.is_zero() => {
                alarm.ring(bell);
                lock(&alarm.bell)
            }
            Some(wait) => {
                let waited = alarm.bell_changed.wait_timeout(bell, wait);
                waited.unwrap_or_else(std::sync::PoisonError::into_inner).0
            }
        };
    }
}

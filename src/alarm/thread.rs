//! The thread that waits for the alarm's time. It runs no code of a user's.

use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use super::Alarm;
use super::bell::ThreadState;
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
    // After it has rung: when it will probably be told to ring again.
    let mut guess = None;
    while !bell.ended {
        let now = Instant::now();
        if bell.at.is_some_and(|at| at <= now) {
            guess = bell.then.take();
            alarm.ring(bell);
            bell = lock(&alarm.bell);
            continue;
        }
        let until = bell.at.or(guess.take().filter(|&guess| guess > now));
        bell = match until {
            None => {
                bell.thread = ThreadState::Waits;
                alarm.bell_changed.wait(bell).unwrap_or_else(PoisonError::into_inner)
            }
            Some(until) => {
                bell.thread = ThreadState::WaitsUntil(until);
                let waited = alarm.bell_changed.wait_timeout(bell, until - now);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        bell.thread = ThreadState::Awake;
    }
}

//! `IdleGuard`: reads and writes that wait for too long return errors, at the exact instant. All others pass through.

mod by_hand;
mod dropped;
mod limits;
mod model;
mod scripts;
mod wheels;

use crate::{DAY, HANG_GUARD, ms};
use std::io::{self, ErrorKind};

use timingwheel::Elapsed;

/// The text of an error that says that a limit has passed.
#[track_caller]
fn passed<T: std::fmt::Debug>(result: io::Result<T>) -> String {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
    let elapsed: &Elapsed = error.get_ref().unwrap().downcast_ref().unwrap();
    assert_eq!(elapsed.to_string(), error.to_string());
    error.to_string()
}

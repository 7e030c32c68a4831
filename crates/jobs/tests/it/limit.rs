//! A time limit for each test, on the real clock: a test that waits for ever ends its process, whatever it waits for. The
//! tests of the purgatory have it too, and each test that has a process of its own.

use std::cell::RefCell;
use std::io::{Write, stderr};
use std::process::abort;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);

thread_local! {
    /// Dropped as the thread of a test ends, or has another limit.
    static WATCHED: RefCell<Option<Sender<()>>> = const { RefCell::new(None) };
}

/// Ends the process if this thread is still there at the end of the limit, and has not called this again.
pub(crate) fn limit_this_test() {
    let (watched, gone) = channel();
    WATCHED.set(Some(watched));
    let name = thread::current().name().unwrap_or("a test").to_owned();
    thread::spawn(move || {
        if gone.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
            // The macros print to what an abort takes along.
            _ = writeln!(stderr(), "{name} waits for ever");
            abort();
        }
    });
}

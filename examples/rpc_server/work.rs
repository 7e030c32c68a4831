//! The work behind a request. It can be seen to start, to go on, and to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::books::Books;
use crate::protocol::Request;
use crate::timers::Timers;
use crate::watched::Watched;

/// How often work looks round. A step of slow work is then shorter than what it takes beyond the request timeout.
const STEPS: u32 = 5;

/// The id of the request that a connection is at, so that work can tell whether it is still wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Current(Arc<AtomicU64>);

impl Current {
    /// Ids of requests are not zero.
    const NONE: u64 = 0;

    pub(crate) fn set(&self, request: &Request) {
        self.0.store(request.id, Ordering::Relaxed);
    }

    pub(crate) fn clear(&self) {
        self.0.store(Self::NONE, Ordering::Relaxed);
    }

    fn is(&self, request: &Request) -> bool {
        self.0.load(Ordering::Relaxed) == request.id
    }
}

/// Does what `request` asks for: waits, in steps.
pub(crate) async fn perform<T: Timers>(
    request: Request,
    current: Current,
    timers: &Watched<T>,
    books: &Books,
) {
    let mut running = Running::start(books);
    for _ in 0..STEPS {
        timers.sleep(request.work / STEPS).await;
        if !current.is(&request) {
            books.steps_after_timeout.add();
        }
    }
    running.is_finished = true;
}

/// Notes how work ends: done, or dropped on the way.
struct Running<'a> {
    books: &'a Books,
    is_finished: bool,
}

impl<'a> Running<'a> {
    fn start(books: &'a Books) -> Self {
        books.work_started.add();
        Self { books, is_finished: false }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let end = if self.is_finished { &self.books.work_finished } else { &self.books.work_stopped };
        end.add();
    }
}

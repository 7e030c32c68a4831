//! What has begun, or is about to.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use timingwheel::time::delay_queue;

use super::TakeBack;
use crate::handler::Handler;
use crate::store::{Near, Series, Stored};

/// ```text
///  Beginning -> Waiting -> Running -> Ending
///      |           |                    ^
///      +-----------+------ taken back --+
/// ```
pub(super) enum Live {
    /// The store is asked. Who wants it back meanwhile waits. It may have begun by a call before, that failed.
    Beginning { takes: Vec<TakeBack>, may_have_begun: bool },
    /// It has begun, ahead of its time.
    Waiting { stored: Box<Stored>, key: delay_queue::Key },
    /// Its handler has been called, or is about to be: nobody takes it back any more.
    Running { attempt: Attempt },
    /// Its end is on its way to the store. Who took it back waits for that, and so do others who wanted to. Nobody can
    /// once its handler was called.
    Ending { attempt: Attempt, was_called: bool, took: Option<Box<TakeBack>>, others: Vec<TakeBack> },
}

/// An attempt, without its payload.
#[derive(Clone)]
pub(super) struct Attempt {
    pub(super) timer: Near,
    pub(super) number: u32,
    /// Few have one, and very many attempts are in memory.
    pub(super) series: Option<Box<Series>>,
    pub(super) handler: Arc<Handler>,
    /// Its handler may have ended it in a transaction of its own.
    pub(super) is_finished: Arc<AtomicBool>,
}

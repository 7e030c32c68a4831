//! Waiting for the end of a job that has a key.

use super::{Owner, Record};
use crate::services::job::info::JobState;
use crate::services::job::joining::{Joined, Joining};
use crate::services::job::work::Work;

impl<W: Work, O: Owner<Waiter = Joining>> Record<W, O> {
    /// To wait for the job's end, or the state in which it has ended.
    pub(in crate::services::job) fn join(&self) -> Result<Joined, JobState> {
        let mut inner = self.lock();
        let state = inner.state();
        if state.is_over() { Err(state) } else { Ok(inner.waiter.join()) }
    }
}

//! Awaiting a job by its key.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::Jobs;
use crate::services::job::info::JobState;
use crate::services::job::joining::Joined;

impl<K: Eq + Hash + Send + Sync + 'static, S: BuildHasher> Jobs<K, S> {
    /// To wait for the end of the job that has this key now; `None` if there is none. The key may be given in any
    /// borrowed form, as to a `HashMap`.
    ///
    /// Any number of tasks may wait for the same job. A job that takes the key later is another.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel::job::{JobState, Jobs};
    ///
    /// let jobs = Jobs::new(&TimingWheel::new());
    /// jobs.try_run_after("order 7", Duration::from_secs(60), async {})?;
    /// let end = jobs.join("order 7").unwrap();
    /// assert_eq!(end.await, JobState::Done);
    /// assert!(jobs.join("order 7").is_none());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn join<Q>(&self, key: &Q) -> Option<Join>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        Some(Join { joined: self.find(key)?.join() })
    }
}

/// The end of a job, from [`Jobs::join`]. It is ready with the job's last [state](JobState), also after it was ready
/// before.
///
/// A job that was replaced, removed or stopped while it was pending is [`Cancelled`](JobState::Cancelled). Of a job that
/// was running then, this waits for the end of the run.
///
/// It does not keep the job's future, and may be awaited in any runtime or executor.
///
/// # Cancel safety
/// A dropped wait by `&mut join` loses nothing.
#[derive(Clone)]
#[must_use = "futures do nothing unless they are awaited"]
pub struct Join {
    joined: Result<Joined, JobState>,
}

impl Future for Join {
    type Output = JobState;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<JobState> {
        match &mut self.joined {
            Ok(joined) => joined.poll(cx.waker()),
            Err(state) => Poll::Ready(*state),
        }
    }
}

impl fmt::Debug for Join {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.joined.as_ref().map_or_else(|&state| Some(state), Joined::told);
        f.debug_struct("Join").field("state", &state).finish_non_exhaustive()
    }
}

//! The deadline of the current task.

use tokio::task::JoinHandle;

use crate::Deadline;

tokio::task_local! {
    static CURRENT: Deadline;
}

impl Deadline {
    /// Makes this the [current](Self::current) deadline while `future` runs. It does not end `future`:
    /// `deadline.run(deadline.scope(future))` does both.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    /// use timingwheel_deadline::{Deadline, DeadlineExt};
    ///
    /// // Deep within the handler of a request:
    /// async fn remaining() -> Option<Duration> {
    ///     Deadline::current().map(|deadline| deadline.remaining())
    /// }
    ///
    /// let deadline = TimingWheel::new().deadline_in(Duration::from_secs(2));
    /// assert_eq!(deadline.scope(remaining()).await, Some(Duration::from_secs(2)));
    /// assert_eq!(remaining().await, None);
    /// # }
    /// ```
    pub fn scope<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        CURRENT.scope(self.clone(), future)
    }

    /// The deadline whose [`scope`](Self::scope) this code runs in, if any.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }
}

/// Spawns a task in which the [current](Deadline::current) deadline is current too. The task does not end with the
/// deadline: for that, let it [run](Deadline::run) its work under the deadline. Without a current deadline this is
/// [`tokio::spawn`].
///
/// # Panics
/// If this thread is not within a tokio runtime.
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    match Deadline::current() {
        Some(deadline) => tokio::spawn(deadline.scope(future)),
        None => tokio::spawn(future),
    }
}

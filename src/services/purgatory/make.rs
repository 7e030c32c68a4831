//! `wheel.purgatory()`.

use super::handle::Purgatory;
use crate::handle::timing_wheel::TimingWheel;

impl TimingWheel {
    /// A purgatory whose operations have their deadlines on this wheel.
    ///
    /// It may hold operations of different kinds: each has its own condition and its own type of output.
    ///
    /// # Panics
    /// Never.
    ///
    /// # Examples
    ///
    /// A write that is acknowledged when a follower has it:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// use std::sync::{Arc, atomic::{AtomicU64, Ordering}};
    /// use std::time::Duration;
    /// use timingwheel::TimingWheel;
    ///
    /// let purgatory = TimingWheel::new().purgatory();
    /// let replicated = Arc::new(AtomicU64::new(0));
    ///
    /// let seen = replicated.clone();
    /// let acknowledged = purgatory.watch(["orders-0"], Duration::from_secs(30), move || {
    ///     Some(seen.load(Ordering::Relaxed)).filter(|&offset| offset >= 7)
    /// });
    ///
    /// // The follower fetches.
    /// replicated.store(9, Ordering::Relaxed);
    /// assert_eq!(purgatory.check("orders-0"), 1);
    ///
    /// assert_eq!(acknowledged.await, Ok(9));
    /// # }
    /// ```
    #[must_use]
    pub fn purgatory<K>(&self) -> Purgatory<K> {
        Purgatory::new(self.clone())
    }
}

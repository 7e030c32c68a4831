//! How delay queues are made, and find their wheel.

use std::time::Duration;

use super::DelayQueue;
use super::schedule::Schedule;
use crate::handle::runtime_wheel::with_current;
use crate::handle::timing_wheel::TimingWheel;
use crate::timers::sleep::Sleep;
use crate::wheel::Resolution;

impl TimingWheel {
    /// A queue of items that are handed out when their deadlines come, on this wheel and with its tick.
    ///
    /// However many items it holds, it has one timer in the wheel, in the shard of the thread that calls this: so
    /// make the queue in the task that will poll it.
    ///
    /// # Panics
    /// Never.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), timingwheel::BuildError> {
    /// use std::time::Duration;
    /// use futures::StreamExt;
    /// use timingwheel::TimingWheel;
    ///
    /// let wheel = TimingWheel::builder().tick(Duration::from_micros(100)).build()?;
    /// let mut queue = wheel.delay_queue();
    /// queue.insert("later", Duration::from_millis(2));
    /// queue.insert("sooner", Duration::from_millis(1));
    /// assert_eq!(queue.next().await.map(|expired| expired.into_inner()), Some("sooner"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn delay_queue<T>(&self) -> DelayQueue<T> {
        let mut queue = DelayQueue::new();
        queue.start(self.sleep_unset());
        queue.stays = true;
        queue
    }
}

impl<T> DelayQueue<T> {
    /// An empty queue, on the wheel of the runtime within which the first item is inserted.
    ///
    /// When that wheel has ended, as its runtime has, and the queue is empty, it goes on so on the wheel of another.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn new() -> Self {
        const MILLISECOND: Duration = Duration::from_millis(1);
        // As good as any until the wheel is known.
        let resolution = Resolution::new(MILLISECOND).expect("not zero");
        Self { schedule: Schedule::new(resolution), sleep: None, stays: false, told_empty: None }
    }

    /// An empty queue with room for so many items, otherwise as [`new`](Self::new).
    ///
    /// # Panics
    /// If `capacity` is more than [`MAX_LEN`](Self::MAX_LEN), or if there is no memory for so many items.
    #[must_use]
    #[track_caller]
    pub fn with_capacity(capacity: usize) -> Self {
        let mut queue = Self::new();
        queue.reserve(capacity);
        queue
    }

    /// The queue's sleep, on the current runtime's wheel if it has none yet, or an ended one that nothing holds it on.
    #[inline]
    #[track_caller]
    pub(super) fn started(&mut self) -> &Sleep {
        let has_to_start = match &self.sleep {
            None => true,
            Some(sleep) => self.is_empty() && !self.stays && sleep.has_ended(),
        };
        if has_to_start {
            self.start(with_current(TimingWheel::sleep_unset));
        }
        self.sleep.as_ref().expect("it has been started")
    }

    #[cold]
    fn start(&mut self, sleep: Sleep) {
        self.schedule.restart(Resolution::new(sleep.tick()).expect("it is a wheel's"), sleep.now());
        self.sleep = Some(sleep);
    }
}

/// As [`DelayQueue::new`].
impl<T> Default for DelayQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

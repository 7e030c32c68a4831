//! How delay queues are made, and find their wheel.

use std::time::Duration;

use super::DelayQueue;
use super::deadlines::Deadlines;
use crate::handle::runtime_wheel::with_current;
use crate::handle::timing_wheel::TimingWheel;
use crate::timers::sleep::Sleep;
use crate::timers::tolerance::Tolerance;
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
    /// If that wheel has ended with its runtime, and the queue is empty, the next insertion chooses a wheel again.
    ///
    /// # Panics
    /// Never.
    #[must_use]
    pub fn new() -> Self {
        const MILLISECOND: Duration = Duration::from_millis(1);
        // As good as any until the wheel is known.
        let resolution = Resolution::new(MILLISECOND).expect("not zero");
        Self {
            deadlines: Deadlines::new(resolution),
            sleep: None,
            stays: false,
            told_empty: None,
            tolerance: Duration::ZERO,
        }
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

    /// With a tolerance: items may be handed out late, by less than `tolerance`, and then together with other items
    /// that are due by then. Their order and their [deadlines](Self::deadline) stay as they are. A busy queue is woken
    /// less often. See [`Tolerance::time`].
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// use futures::StreamExt;
    /// use timingwheel::time::{DelayQueue, Duration, Instant};
    ///
    /// let start = Instant::now();
    /// let mut sessions = DelayQueue::new().with_tolerance(Duration::from_secs(5));
    /// sessions.insert("session", Duration::from_secs(60));
    /// sessions.next().await;
    /// assert!((60..65).contains(&start.elapsed().as_secs()));
    /// # }
    /// ```
    #[must_use]
    pub fn with_tolerance(mut self, tolerance: Duration) -> Self {
        self.tolerance = tolerance;
        self.be_tolerant();
        self
    }

    fn be_tolerant(&mut self) {
        if let Some(sleep) = &mut self.sleep {
            sleep.set_tolerance(Tolerance::time(self.tolerance));
        }
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
        self.deadlines.restart(Resolution::new(sleep.tick()).expect("it is a wheel's"), sleep.now());
        self.sleep = Some(sleep);
        self.be_tolerant();
    }
}

/// As [`DelayQueue::new`].
impl<T> Default for DelayQueue<T> {
    fn default() -> Self {
        Self::new()
    }
}

//! Watching a wheel: what is counted, what that costs, and a health check with limits of yours.
//!
//! [`TimingWheel::stats`](crate::TimingWheel::stats) tells how many timers are pending, on which levels they stand and
//! what became of the others, how late they were, how long a turn held a lock, what went wrong, and whether the
//! wheel is turned when it should be. A health check compares that with [`Limits`]:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! use std::time::Duration;
//! use timingwheel::{TimingWheel, monitor::Limits};
//!
//! let wheel = TimingWheel::new();
//! let limits = Limits::new()
//!     .pending(1_000_000)
//!     .lateness(0.99, Duration::from_millis(5))
//!     .lock_hold(Duration::from_millis(1))
//!     .overdue(Duration::from_millis(100));
//! assert_eq!(wheel.health(&limits), Ok(()));
//!
//! wheel.shutdown();
//! let unhealthy = wheel.health(&limits).unwrap_err();
//! assert_eq!(unhealthy.to_string(), "the timing wheel is not healthy: it has ended");
//! # }
//! ```
//!
//! # Over which time
//!
//! Everything is counted since the wheel was made, so one bad hour stays in [`Stats::lateness`](crate::Stats::lateness)
//! for good, and a good year hides one. A check that is made again and again should look at what happened since the
//! last:
//!
//! ```
//! # use timingwheel::{Stats, TimingWheel, monitor::{Limits, Unhealthy}};
//! fn check(wheel: &TimingWheel, last: &mut Stats, limits: &Limits) -> Result<(), Unhealthy> {
//!     let now = wheel.stats();
//!     let since = now.since(last);
//!     *last = now;
//!     since.check(limits)
//! }
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! # let wheel = TimingWheel::builder().max_pending(0).build().unwrap();
//! # let (mut last, limits) = (wheel.stats(), Limits::new().refused(0));
//! # assert!(wheel.try_sleep(std::time::Duration::from_secs(1)).is_err());
//! # assert!(check(&wheel, &mut last, &limits).is_err());
//! # assert!(check(&wheel, &mut last, &limits).is_ok());
//! # }
//! ```
//!
//! # Metrics
//!
//! With the feature `metrics`, `timingwheel::metrics` hands all this to the recorder of the crate `metrics`; the
//! example `monitor` serves it to Prometheus.
//!
//! # Events
//!
//! With the feature `tracing` a wheel tells its subscribers, with the target `timingwheel` and its name as the field
//! `wheel`:
//!
//! | level | when | fields |
//! |---|---|---|
//! | debug | it begins | `tick`, `wheel_size`, `shards`, `max_pending` |
//! | debug | it has ended | `pending` |
//! | warn | it refuses a timer because it is full | `refused`, so far |
//! | info | it was turned more than 10 milliseconds late | `stalls`, so far |
//! | error | a waker panicked as it was woken | `panicked`, so far |
//!
//! Of each of the last three at most one in a second. A refusal is told by the driver, and not by who was refused: so a
//! subscriber may use the wheel and its jobs. Nothing is told of single timers, and there are no spans: a timer has
//! that of its task.
//!
//! # What it costs
//!
//! It is always on. To arm, cancel, move or poll a timer takes at most two instructions more for it: those count under
//! a lock that they hold anyway. A turn adds each timer that it fires to a histogram, without a locked instruction,
//! and takes two looks at the clock and a lock of its own for each shard and batch. The wheel takes 16 kB more.
//!
//! To read, [`stats`](crate::TimingWheel::stats) allocates 16 kB, and copies the histograms into it under a lock that
//! only a turn waits for. Then it takes each shard's lock, one after the other, and adds up how much stands at each
//! slot of its levels, because to keep their counts would cost each timer: who arms or cancels in that shard waits
//! meanwhile, but for no more than 1,024 slots at a time. A health check does that too. `DESIGN.md` has the figures,
//! under Monitor.

mod limits;
mod unhealthy;

pub use crate::telemetry::histogram::Histogram;
pub use limits::Limits;
pub use unhealthy::{Exceeded, Unhealthy};

//! Watching a wheel: statistics, a health check with your limits, metrics, events, and their cost.
//!
//! [`TimingWheel::stats`](crate::TimingWheel::stats) returns [`Stats`](crate::Stats): how many timers are pending and on
//! which levels, how many fired or were cancelled, how late they were, how many errors there were, and whether the wheel is
//! turned in time. A health check compares these values with [`Limits`]:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! use std::time::Duration;
//! use timingwheel::{TimingWheel, monitor::Limits};
//!
//! let wheel = TimingWheel::new();
//! let mut limits = Limits::default();
//! limits.pending = Some(1_000_000);
//! limits.lateness = vec![(0.99, Duration::from_millis(5))];
//! limits.overdue = Some(Duration::from_millis(100));
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
//! Counts begin when the wheel is made. So one bad hour stays in [`Stats::lateness`](crate::Stats::lateness) for ever, and
//! after a good year a new bad hour hardly shows. A repeated check should look at the time since the last check:
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
//! # let (mut last, mut limits) = (wheel.stats(), Limits::default());
//! # limits.refused = Some(0);
//! # assert!(wheel.try_sleep(std::time::Duration::from_secs(1)).is_err());
//! # assert!(check(&wheel, &mut last, &limits).is_err());
//! # assert!(check(&wheel, &mut last, &limits).is_ok());
//! # }
//! ```
//!
//! # Metrics
//!
//! With the feature `metrics`, `timingwheel::metrics` hands these values to the recorder of the crate `metrics`. The
//! example `monitor` serves them to Prometheus.
//!
//! # Events
//!
//! With the feature `tracing` a wheel sends events to the program's subscriber. Their target is `timingwheel`, and their
//! field `wheel` is the wheel's name:
//!
//! | level | when | fields |
//! |---|---|---|
//! | debug | the wheel begins | `tick`, `wheel_size`, `shards`, `max_pending` |
//! | debug | the wheel has ended | `pending` |
//! | warn | the wheel refuses a timer because it is full | `refused`, so far |
//! | warn | the system gives no thread for the watchdog, so a worker that blocks may hold up timers; or no timerfd, so one of tokio's timers turns the wheel | `what`, `error` |
//! | info | the wheel was turned more than 10 milliseconds late | `stalls`, so far |
//! | error | a waker panicked as it was woken | `panicked`, so far |
//!
//! The events of a refused timer, of a late turn and of a panic each come at most once a second. The driver sends both
//! warnings, not the thread whose timer was refused. So a subscriber may use the wheel and its jobs. Single timers have
//! no events and no spans: a timer belongs to the span of its task.
//!
//! # What it costs
//!
//! Counting is always on. It adds at most two instructions to arming, cancelling, moving and polling a timer, mostly under a
//! lock that the operation holds anyway. A turn adds each timer that it fires to a histogram, without a locked instruction,
//! and takes one more lock for each batch of a shard. A wheel takes 8 kB more memory.
//!
//! Reading costs more. [`stats`](crate::TimingWheel::stats) allocates 8 kB, and copies the histogram under a lock that
//! only turns contend for. It then locks one shard after the other, and adds up the timers in each slot in use: keeping a
//! count for each level would cost every timer. Threads that arm or cancel in that shard wait meanwhile. A health check
//! does the same. `src/telemetry/DESIGN.md`, beside the sources, gives reasons and figures.

// Counting is in `telemetry`: this layer only reads it. Stalls are noticed in `engine::turn`.

mod limits;

pub use limits::{Exceeded, Limits, Unhealthy};

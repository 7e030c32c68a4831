//! Async timers for tokio on a hierarchical timing wheel, for servers that hold very many connections.
//!
//! Each worker makes and drops timers in its own part of the wheel. The runtime turns the wheel: a worker that looks at its
//! sockets also fires the due timers. A wheel with nothing due is not turned. The crate is safe Rust.
//!
//! ```
//! use std::time::Duration;
//! use timingwheel::TimingWheel;
//!
//! #[tokio::main]
//! async fn main() {
//!     let wheel = TimingWheel::new();
//!
//!     wheel.sleep(Duration::from_millis(20)).await;
//!
//!     let call = async { "answer" };
//!     match wheel.timeout(Duration::from_secs(3), call).await {
//!         Ok(answer) => println!("{answer}"),
//!         Err(elapsed) => println!("{elapsed}"),
//!     }
//! }
//! ```
//!
//! # Precision
//!
//! A timer never fires before its deadline. It fires within a tick of it, or within two ticks while 32 or more timers fire in
//! each tick; add the scheduling delay that tokio's own timers would have. A tick is 1 ms, unless you [choose](Builder::tick)
//! another.
//!
//! On a multi-thread runtime on Linux a timerfd in the runtime's own poller turns the wheel, with a precision of about
//! 50 µs. A current-thread runtime has a timerfd only if the [tick](Builder::tick) is shorter than a millisecond and tokio
//! lacks its feature `test-util`. The timerfd needs the feature `timerfd`, which is on by default. Everywhere else one of
//! tokio's timers turns the wheel. Timers are then late by a millisecond at the median, as tokio's are.
//!
//! Give a timer that may be later a [tolerance](Sleep::with_tolerance): it then costs less.
//!
//! # When tokio's own timers are the better choice
//!
//! - For a few timers. `tokio::time` is there already. A wheel has a task and, on Linux, a file descriptor. All wheels of
//!   a process share one thread, the watchdog. It sleeps while timers come in time.
//! - For an ordinary HTTP server. Timers are a small part of a request.
//!
//! Without tokio, only [`wheel::Hierarchy`] works.
//!
//! # In tests
//!
//! A wheel on a current-thread runtime follows tokio's clock when that is [paused]. An idle runtime jumps to the wheel's
//! next timer, as it does to tokio's own, and `tokio::time::advance` fires the timers that it passes. You need not set
//! anything.
//!
//! A wheel goes by the clock of the runtime on which it was made, so make one for each runtime. A wheel on a multi-thread
//! runtime always goes by the real clock. Once a clock was paused, [`Instant::now`](time::Instant::now) tells another time
//! on threads outside of its runtime. Ask [`current_time`](TimingWheel::current_time) there.
//!
//! [paused]: https://docs.rs/tokio/1/tokio/time/fn.pause.html
//!
//! # Features
//!
//! Only `timerfd` is on by default.
//!
//! | feature | adds |
//! |---|---|
//! | `timerfd` | on Linux, timers as precise as the system's; needs tokio's `net` and rustix |
//! | `metrics` | a wheel's statistics as metrics, for Prometheus and others |
//! | `tracing` | [events](monitor#events) when a wheel begins, ends, stalls, refuses a timer, or a waker panics |
//! | `hyper` | [`hyper::rt::Timer`](https://docs.rs/hyper/1/hyper/rt/trait.Timer.html) for wheels, for hyper's servers and clients |
//! | `test-util` | `pause`, `resume` and `advance` in [`time`]; wheels follow a paused clock without it |
//!
//! # Map
//!
//! | you want to | use |
//! |---|---|
//! | wait | [`TimingWheel::sleep`], [`sleep_until`](TimingWheel::sleep_until) |
//! | bound a future's time | [`TimingWheel::timeout`], [`timeout_at`](TimingWheel::timeout_at) |
//! | bound a future's time as a method of the future | [`FutureTimeExt`] |
//! | bound a stream's gaps, throttle it, collect its items | [`stream`] |
//! | wait again and again | [`TimingWheel::interval`], [`interval_at`](TimingWheel::interval_at) |
//! | run something later or by a schedule, under keys | the crate `timingwheel-jobs` |
//! | give a whole request one deadline, also over the wire | the crate `timingwheel-deadline` |
//! | run by cron or calendar rules | the crate `timingwheel-calendar` |
//! | keep timers over a restart | the crate `timingwheel-durable` |
//! | bound how long a connection may be silent | [`TimingWheel::idle_guard`] |
//! | move a deadline | [`Sleep::reset`], [`Timeout::reset`] |
//! | let very many timers be a little late, to save CPU | [`Sleep::with_tolerance`], [`IdleGuard::with_tolerance`] |
//! | get an error instead of a panic | [`TimingWheel::try_sleep`], [`Sleep::wait`], [`Interval::try_tick`] |
//! | keep many items in one task, and get each when it is due | [`DelayQueue`], [`TimingWheel::delay_queue`] |
//! | wait for a condition or a deadline, as in Kafka's purgatory | the crate `timingwheel-purgatory` |
//! | poll many timers in one task | [`Sleep::poll_unconstrained`] |
//! | switch from `tokio::time` by changing a `use` | [`time`], [`migration`] |
//! | switch from Netty's, Kafka's, Go's, Linux's, Quartz's or game engines' timers | [`coming_from`] |
//! | choose tick, wheel size, shards, a bound, the runtime | [`TimingWheel::builder`], [`Profile`] |
//! | end the wheel | [`TimingWheel::shutdown`] |
//! | count timers | [`TimingWheel::pending`], [`stats`](TimingWheel::stats) |
//! | watch a wheel in production | [`monitor`], [`TimingWheel::health`] |
//! | a timer queue for an event loop of your own | [`wheel::Hierarchy`] |
//! | give a wheel to a library that takes a timer | [`recipes`] |
//! | know what you may rely on | [`promises`] |
#![cfg_attr(feature = "metrics", doc = "| export metrics | [`metrics`], a feature |")]
#![cfg_attr(feature = "hyper", doc = "| serve or ask by HTTP with hyper | [`hyper`], a feature |")]
//!
//! `DESIGN.md`, at the root of the repository and of the package, explains how the crate is built, and why.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod builder;
mod engine;
mod error;
mod guide;
mod handle;
mod integrations;
pub mod monitor;
mod platform;
mod runtime_wheel;
mod telemetry;
pub mod time;
mod timers;
pub mod wheel;

#[cfg(all(test, loom))]
mod loom_models;

pub use builder::Builder;
pub use builder::Profile;
pub use error::{BuildError, Elapsed, Error};
pub use guide::{coming_from, migration, promises, recipes};
pub use handle::TimingWheel;
#[cfg(feature = "hyper")]
pub use integrations::hyper;
#[cfg(feature = "metrics")]
pub use integrations::metrics;
pub use telemetry::histogram::Histogram;
pub use telemetry::stats::Stats;
pub use timers::delay_queue::DelayQueue;
pub use timers::idle_guard::IdleGuard;
pub use timers::interval::Interval;
pub use timers::sleep::Sleep;
pub use timers::stream;
pub use timers::timeout::{FutureTimeExt, Timeout};

/// Runs the README's code.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

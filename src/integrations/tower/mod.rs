//! tower's timeout layer, on a wheel. Feature `tower`.
//!
//! The names are tower's. The constructor also takes a wheel: `tower::timeout::TimeoutLayer::new(duration)` becomes
//! `timingwheel::tower::TimeoutLayer::new(wheel, duration)`. For the current runtime's wheel pass
//! [`time::wheel()`](crate::time::wheel). A request that runs out of time gets tower's own
//! [`Elapsed`](::tower::timeout::error::Elapsed), so existing error handlers keep working.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! use std::{convert::Infallible, time::Duration};
//! use timingwheel::{TimingWheel, tower::TimeoutLayer};
//! use tower::{Service, ServiceBuilder, ServiceExt, timeout::error::Elapsed};
//!
//! let wheel = TimingWheel::new();
//! let mut service = ServiceBuilder::new()
//!     .layer(TimeoutLayer::new(wheel.clone(), Duration::from_secs(3)))
//!     .service_fn(async |seconds| {
//!         tokio::time::sleep(Duration::from_secs(seconds)).await;
//!         Ok::<_, Infallible>("answer")
//!     });
//!
//! assert_eq!(service.ready().await.unwrap().call(1).await.unwrap(), "answer");
//! let error = service.ready().await.unwrap().call(10).await.unwrap_err();
//! assert!(error.is::<Elapsed>());
//! # }
//! ```
//!
//! # When a timer cannot run
//!
//! On a wheel that has ended, or is full, a request still has its time: see
//! [`TimingWheel::timeout`](crate::TimingWheel::timeout).
//!
//! # Retries
//!
//! A policy's future may be a [`Sleep`](crate::Sleep): return `wheel.sleep(pause)` from `retry`. Take the pauses from a
//! back-off that also adds jitter to its longest pause, such as backon's: then clients that failed together do not retry
//! together. See [the recipe](crate::recipes#backon). A timeout layer below the retry layer bounds each try.

mod timeout;

pub use timeout::{ResponseFuture, Timeout, TimeoutLayer};

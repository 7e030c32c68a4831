//! tower's timeout layer and its back-off between retries, on a wheel. Feature `tower`.
//!
//! The names are tower's, and take a wheel besides: `tower::timeout::TimeoutLayer::new(duration)` becomes
//! `timingwheel::tower::TimeoutLayer::new(wheel, duration)`. A request that runs out of time is answered with tower's
//! own [`Elapsed`](::tower::timeout::error::Elapsed), so a handler that looks for that goes on to find it.
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
//! If the wheel has ended, or has no place for one more timer, a response that is ready at the first poll still
//! comes; any other is answered with [`timingwheel::Error`](crate::Error), which says why. It is not
//! [`Elapsed`](::tower::timeout::error::Elapsed): the request had time left.
//!
//! A retry policy must not try again after that error, `error.is::<timingwheel::Error>()`: there is no wheel to wait on, and
//! the sleep between retries would panic. For the wheel of the current runtime pass [`time::wheel()`](crate::time::wheel).

mod backoff;
mod backoff_error;
mod timeout;

pub use backoff::{ExponentialBackoff, ExponentialBackoffMaker};
pub use backoff_error::BackoffError;
pub use timeout::{ResponseFuture, Timeout, TimeoutLayer};

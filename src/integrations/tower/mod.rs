//! tower's timeout layer and its back-off between retries, on a wheel. Feature `tower`.
//!
//! The names are tower's, and take a wheel besides: `tower::timeout::TimeoutLayer::new(duration)` becomes
//! `timingwheel::tower::TimeoutLayer::new(wheel, duration)`. A request that runs out of time is answered with tower's
//! own [`Elapsed`](::tower::timeout::error::Elapsed), so existing error handlers keep working. A layer takes any wheel.
//! That of the current runtime is [`time::wheel()`](crate::time::wheel).
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
//! If the wheel has ended, or is full, a response that is ready at the first poll still
//! comes; any other is answered with [`timingwheel::Error`](crate::Error), which says why. It is not
//! [`Elapsed`](::tower::timeout::error::Elapsed): the request had time left.
//!
//! A retry policy must not try again after that error, `error.is::<timingwheel::Error>()`: the wheel takes no timer, so
//! the sleep between retries would panic.
//!
//! # Retries
//!
//! A policy holds a back-off. A timeout layer below the retry layer bounds each try. This policy retries requests that
//! ran out of time, up to three times:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), timingwheel::tower::BackoffError> {
//! use std::{cell::Cell, time::Duration};
//! use timingwheel::tower::{ExponentialBackoff, ExponentialBackoffMaker, TimeoutLayer};
//! use timingwheel::{Sleep, TimingWheel};
//! use tower::retry::backoff::{Backoff, MakeBackoff};
//! use tower::util::rng::HasherRng;
//! use tower::{BoxError, Service, ServiceBuilder, ServiceExt, retry::Policy, timeout::error::Elapsed};
//!
//! #[derive(Clone)]
//! struct ThreeMore {
//!     left: u32,
//!     backoff: ExponentialBackoff,
//! }
//!
//! impl Policy<u64, &'static str, BoxError> for ThreeMore {
//!     type Future = Sleep;
//!
//!     fn retry(&mut self, _: &mut u64, result: &mut Result<&'static str, BoxError>) -> Option<Sleep> {
//!         if !result.as_ref().is_err_and(|error| error.is::<Elapsed>()) {
//!             return None;
//!         }
//!         self.left = self.left.checked_sub(1)?;
//!         Some(self.backoff.next_backoff())
//!     }
//!
//!     fn clone_request(&mut self, seconds: &u64) -> Option<u64> {
//!         Some(*seconds)
//!     }
//! }
//!
//! let wheel = TimingWheel::new();
//! let (min, max) = (Duration::from_millis(50), Duration::from_secs(10));
//! let mut backoffs = ExponentialBackoffMaker::new(wheel.clone(), min, max, 0.5, HasherRng::new())?;
//! let tries = Cell::new(0);
//! let mut service = ServiceBuilder::new()
//!     .retry(ThreeMore { left: 3, backoff: backoffs.make_backoff() })
//!     .layer(TimeoutLayer::new(wheel.clone(), Duration::from_secs(1)))
//!     .service_fn(|seconds| {
//!         tries.set(tries.get() + 1);
//!         // The third try is answered at once.
//!         let sleep = wheel.sleep(Duration::from_secs(if tries.get() < 3 { seconds } else { 0 }));
//!         async {
//!             sleep.await;
//!             Ok::<_, BoxError>("answer")
//!         }
//!     });
//! assert_eq!(service.ready().await.unwrap().call(60).await.unwrap(), "answer");
//! # Ok(())
//! # }
//! ```

mod backoff;
mod backoff_error;
mod timeout;

pub use backoff::{ExponentialBackoff, ExponentialBackoffMaker};
pub use backoff_error::BackoffError;
pub use timeout::{ResponseFuture, Timeout, TimeoutLayer};

//! Timers for hyper's servers and clients: a [`TimingWheel`] is a [`hyper::rt::Timer`]. Feature `hyper`.
//!
//! Give a clone of the wheel to each builder that takes a timer: in `hyper::server::conn` and `hyper::client::conn`,
//! hyper-util's `server::conn::auto`, and its pooled client.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! use std::{convert::Infallible, time::Duration};
//! use hyper::{Response, server::conn::http1, service::service_fn};
//! use hyper_util::rt::TokioIo;
//! use timingwheel::TimingWheel;
//! use tokio::time::Instant;
//!
//! let wheel = TimingWheel::new();
//! let (_silent_client, server) = tokio::io::duplex(1024);
//! let hello = service_fn(async |_request| Ok::<_, Infallible>(Response::new("hello".to_owned())));
//!
//! let start = Instant::now();
//! let served = http1::Builder::new()
//!     .timer(wheel.clone())
//!     .header_read_timeout(Duration::from_secs(10))
//!     .serve_connection(TokioIo::new(server), hello)
//!     .await;
//! assert!(served.unwrap_err().is_timeout());
//! assert_eq!(start.elapsed(), Duration::from_secs(10));
//! # }
//! ```
//!
//! # hyper's use of timers
//!
//! | part of hyper 1.12 | timer | default, and setting |
//! |---|---|---|
//! | HTTP/1 server | one for each request, until its head has arrived | 30 s if a timer is set: `header_read_timeout` |
//! | HTTP/2 server and client | one for each connection, moved with each ping and its answer | none: `keep_alive_interval`, `keep_alive_timeout` |
//! | hyper-util's pooled client | one for each client that has idle connections | none; 90 s with `pool_timer`: `pool_idle_timeout` |
//!
//! **An HTTP/1 server with a timer closes idle connections.** hyper waits for the next request from the end of the
//! response before it. If no byte of it arrives within 30 s, hyper closes the connection, as it does for a slow head.
//! `header_read_timeout` takes another duration, or `None` for no such limit. hyper sends no response, and the
//! connection's future returns an error whose `is_timeout` is true.
//!
//! **hyper makes and drops a boxed sleep for every request**, instead of moving one sleep. If the head has arrived when
//! hyper looks, the timer never enters the wheel.
//!
//! **hyper has no limit for** handlers, which a [timeout](TimingWheel::timeout) bounds, nor for bodies. hyper-util's `auto`
//! server also waits for ever for the first bytes, which tell HTTP/1 from HTTP/2.
//!
//! Under hyper, do not set a read limit or an idle limit of an [`IdleGuard`](crate::IdleGuard): hyper also waits for a
//! read while a handler runs, so the limit would count the handler's time. A write limit is useful against a client that
//! no longer reads.
//!
//! # Precision
//!
//! As [`TimingWheel::sleep`]. `now` is the [wheel's clock](TimingWheel::current_time), so hyper follows tokio's clock where a
//! test can pause it.
//!
//! # Where the wheel has ended or is full
//!
//! hyper's sleeps cannot return an error. If the wheel has ended or is full, a sleep waits by one of tokio's timers
//! instead, with tokio's precision, until it is ready or moved. hyper's limits, its pings and the pool's searches go on.
//! A sleep that hyper moves asks the wheel again, so a wheel that was full for a moment gets its timers back.
//!
//! tokio's timers do not count as pending, so [`max_pending`](crate::Builder::max_pending) does not bound hyper's
//! timers. Bound the number of connections. [`Stats::refused`](crate::Stats::refused) counts how often the wheel was full.
//!
//! # Panics
//!
//! Only if tokio's timer cannot run either: outside a runtime, or on a runtime without `enable_time`. Then the task that
//! polls the sleep panics, as with a [timeout](TimingWheel::timeout), and its connection closes. With HTTP/2, tasks that read its bodies panic
//! too. hyper-util's pool never again looks for idle connections to close. So give such a runtime a wheel without a bound,
//! and shut the wheel down only after the connections have closed.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ::hyper::rt::{self, Timer};
use tokio::task::coop;

use crate::handle::TimingWheel;
use crate::timers::sleep::Sleep;
use crate::timers::timeout::SureSleep;

/// See [`timingwheel::hyper`](crate::hyper). Where this trait is in scope, `wheel.sleep(d)` still calls the method of
/// [`TimingWheel`] itself.
impl Timer for TimingWheel {
    /// A sleep in a box, as [`TimingWheel::sleep`] makes it, but [without panics of the wheel's](crate::hyper#panics).
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        // Calls the inherent method, as the next one does: it comes before a trait's.
        Box::pin(SureSleep::new(self.sleep(duration)))
    }

    /// A sleep in a box, as [`TimingWheel::sleep_until`] makes it, but [without panics of the
    /// wheel's](crate::hyper#panics).
    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(SureSleep::new(self.sleep_until(deadline.into())))
    }

    /// The time by the [wheel's clock](TimingWheel::current_time).
    fn now(&self) -> Instant {
        self.current_time().into_std()
    }

    /// Moves a sleep of any wheel, as [`Sleep::reset`] does. A sleep of another timer is replaced by a sleep of this wheel.
    fn reset(&self, sleep: &mut Pin<Box<dyn rt::Sleep>>, new_deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<SureSleep>() {
            Some(mut ours) => ours.move_by(|sleep| Pin::new(sleep).reset(new_deadline.into())),
            None => *sleep = Timer::sleep_until(self, new_deadline),
        }
    }
}

impl Future for SureSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Self::poll(&mut self, coop::has_budget_remaining(), cx)
    }
}

impl rt::Sleep for SureSleep {}

/// For users' own timers, for example those that give sleeps a tolerance.
impl rt::Sleep for Sleep {}

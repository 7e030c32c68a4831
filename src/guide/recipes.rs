//! Recipes: how libraries that take a timer take a wheel.
//!
//! Some libraries take a timer. Copy the recipe for yours. The crate `crates/recipes` beside the sources compiles each of
//! them, and a test of each shows that its timers run on the wheel.
//!
//! # quinn
//!
//! Give this runtime to `quinn::Endpoint::new`. The timers of its connections then run on the wheel, or on tokio's while
//! the wheel is full and after its end.
//!
//! ```text
//! use std::future::Future;
//! use std::net::UdpSocket;
//! use std::pin::Pin;
//! use std::sync::Arc;
//! use std::task::{Context, Poll, ready};
//! use std::{io, time::Instant};
//!
//! use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime};
//! use timingwheel::{Sleep, TimingWheel};
//!
//! /// tokio's runtime, but for its timers.
//! #[derive(Debug)]
//! pub struct OnWheel(pub TimingWheel);
//!
//! impl Runtime for OnWheel {
//!     fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
//!         Box::pin(Timer { sleep: self.0.sleep_until(at.into()), by_tokio: None })
//!     }
//!
//!     fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
//!         TokioRuntime.spawn(task);
//!     }
//!
//!     fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
//!         TokioRuntime.wrap_udp_socket(socket)
//!     }
//!
//!     fn now(&self) -> Instant {
//!         tokio::time::Instant::now().into_std()
//!     }
//! }
//!
//! #[derive(Debug)]
//! struct Timer {
//!     sleep: Sleep,
//!     /// Where the wheel has ended or is full. quinn polls under a lock that its streams take too, so this must not panic.
//!     by_tokio: Option<Pin<Box<tokio::time::Sleep>>>,
//! }
//!
//! impl AsyncTimer for Timer {
//!     fn reset(mut self: Pin<&mut Self>, at: Instant) {
//!         self.by_tokio = None;
//!         Pin::new(&mut self.sleep).reset(at.into());
//!     }
//!
//!     fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
//!         let Self { sleep, by_tokio } = &mut *self;
//!         if by_tokio.is_none()
//!             && let Ok(()) = ready!(sleep.poll_wait(cx))
//!         {
//!             return Poll::Ready(());
//!         }
//!         let deadline = sleep.deadline();
//!         let by_tokio = by_tokio.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
//!         Future::poll(by_tokio.as_mut(), cx)
//!     }
//! }
//! ```
//!
//! # backon
//!
//! Only the last line is new: it gives the wheel's sleep to `.sleep`. The pauses between retries then run on the wheel.
//!
//! ```text
//! use std::time::Duration;
//!
//! use backon::{ExponentialBuilder, Retryable};
//! use timingwheel::TimingWheel;
//!
//! /// Calls `fetch` until it succeeds, at most four times.
//! ///
//! /// # Errors
//! /// The last one of `fetch`.
//! pub async fn retried<T, E>(wheel: TimingWheel, fetch: impl AsyncFn() -> Result<T, E>) -> Result<T, E> {
//!     let pauses = ExponentialBuilder::default().with_min_delay(Duration::from_secs(1)).with_max_times(3);
//!     // Jitter adds up to as much again, at the longest pause too: clients that failed together do not retry together.
//!     let pauses = pauses.with_max_delay(Duration::from_secs(30)).with_jitter();
//!     (|| fetch()).retry(pauses).sleep(move |pause| wheel.sleep(pause)).await
//! }
//! ```
//!
//! # axum
//!
//! `axum::serve` takes no timer, so serve connections with hyper. This needs the feature `hyper`. It serves HTTP/1 and its
//! upgrades, such as those to the WebSocket protocol. hyper-util's `auto` serves HTTP/2 too, but waits without a limit for
//! the first bytes, by which it tells the two apart.
//!
//! `serve_until` ends a server with its jobs, those of the crate `timingwheel-jobs`. It uses `axum::serve` and its own
//! graceful shutdown; connections that `serve` serves end by hyper's `graceful_shutdown`. The example `graceful` shows
//! more.
//!
//! ```text
//! use std::io;
//! use std::time::Duration;
//!
//! use axum::Router;
//! use hyper::server::conn::http1;
//! use hyper_util::rt::TokioIo;
//! use hyper_util::service::TowerToHyperService;
//! use timingwheel::TimingWheel;
//! use timingwheel_jobs::{Ended, Jobs};
//! use tokio::io::{AsyncRead, AsyncWrite};
//! use tokio::net::TcpListener;
//! use tokio::sync::oneshot;
//!
//! /// Serves a connection until it closes, or until its client takes more than 10 s for a head.
//! ///
//! /// # Errors
//! /// If the connection breaks, or a limit is reached.
//! pub async fn serve(
//!     wheel: &TimingWheel,
//!     app: Router,
//!     connection: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
//! ) -> hyper::Result<()> {
//!     http1::Builder::new()
//!         .timer(wheel.clone())
//!         .header_read_timeout(Duration::from_secs(10))
//!         .serve_connection(TokioIo::new(connection), TowerToHyperService::new(app))
//!         .with_upgrades()
//!         .await
//! }
//!
//! /// Serves until `end` is ready. Then it takes no more connections, waits for the responses that are owed, and after that for
//! /// the jobs that run, for `limit` each. Returns how the jobs ended, with those that have not begun.
//! ///
//! /// # Errors
//! /// If the listener fails.
//! pub async fn serve_until(
//!     end: impl Future<Output = ()> + Send + 'static,
//!     limit: Duration,
//!     (wheel, jobs): (&TimingWheel, &Jobs<String>),
//!     (listener, app): (TcpListener, Router),
//! ) -> io::Result<Ended<String>> {
//!     let (ending, ends) = oneshot::channel();
//!     let end = async move {
//!         end.await;
//!         _ = ending.send(());
//!     };
//!     let served = axum::serve(listener, app).with_graceful_shutdown(end);
//!     let over = async {
//!         _ = ends.await;
//!         wheel.sleep(limit).await;
//!     };
//!     tokio::select! {
//!         served = served.into_future() => served?,
//!         () = over => {}
//!     }
//!     Ok(jobs.shutdown(limit).await)
//! }
//! ```
//!
//! # tonic
//!
//! `tonic::transport::Server` takes no timer, so serve connections with hyper. This needs the feature `hyper`. As on tonic's
//! own server, a call ends when the time is up that its client gave in the header `grpc-timeout`, with the same status. `remote_addr`, TLS and other settings of tonic's server are not part of the recipe.
//!
//! In a client, a call's deadline goes around the call: `wheel.timeout(d, client.method(request))`.
//!
//! ```text
//! use std::time::Duration;
//!
//! use hyper::HeaderMap;
//! use hyper::server::conn::http2;
//! use hyper::service::{Service, service_fn};
//! use hyper_util::rt::{TokioExecutor, TokioIo};
//! use hyper_util::service::TowerToHyperService;
//! use timingwheel::TimingWheel;
//! use tokio::io::{AsyncRead, AsyncWrite};
//! use tonic::service::Routes;
//! use tonic::{Status, TimeoutExpired};
//!
//! /// Serves a connection until it closes, or until its client leaves a ping without an answer for 10 s. A call ends at the
//! /// deadline that its client gave.
//! ///
//! /// # Errors
//! /// If the connection breaks, or a ping has no answer.
//! pub async fn serve(
//!     wheel: &TimingWheel,
//!     services: Routes,
//!     connection: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
//! ) -> hyper::Result<()> {
//!     let services = TowerToHyperService::new(services.prepare());
//!     let in_time = service_fn(|request| {
//!         let (limit, wheel) = (limit(request.headers()), wheel.clone());
//!         let answer = services.call(request);
//!         async move {
//!             let Some(limit) = limit else { return answer.await };
//!             wheel.timeout(limit, answer).await.unwrap_or_else(|_| {
//!                 Ok(Status::from_error(Box::new(TimeoutExpired(()))).into_http())
//!             })
//!         }
//!     });
//!     http2::Builder::new(TokioExecutor::new())
//!         .timer(wheel.clone())
//!         .keep_alive_interval(Duration::from_secs(20))
//!         .keep_alive_timeout(Duration::from_secs(10))
//!         .serve_connection(TokioIo::new(connection), in_time)
//!         .await
//! }
//!
//! /// The header `grpc-timeout`: at most 8 digits and a unit. Another text is ignored, as by tonic.
//! fn limit(headers: &HeaderMap) -> Option<Duration> {
//!     let text = headers.get("grpc-timeout")?.to_str().ok()?;
//!     let (digits, unit) = text.split_at(text.len().checked_sub(1)?);
//!     let count = digits.parse::<u32>().ok().filter(|_| digits.len() <= 8)?;
//!     match unit {
//!         "H" => Some(Duration::from_secs(3_600) * count),
//!         "M" => Some(Duration::from_secs(60) * count),
//!         "S" => Some(Duration::from_secs(1) * count),
//!         "m" => Some(Duration::from_millis(1) * count),
//!         "u" => Some(Duration::from_micros(1) * count),
//!         "n" => Some(Duration::from_nanos(1) * count),
//!         _ => None,
//!     }
//! }
//! ```
//!
//! # reqwest
//!
//! reqwest takes no timer. The wheel's timeout goes around the request instead of reqwest's own `timeout`.
//! reqwest's `connect_timeout` and the idle limit of its pool still run on tokio's timers.
//!
//! ```text
//! use std::error::Error;
//! use std::time::Duration;
//!
//! use reqwest::Client;
//! use timingwheel::TimingWheel;
//!
//! /// Gets a page within 30 s, its body included. Build the client without `timeout` and `read_timeout`.
//! ///
//! /// # Errors
//! /// If the request fails, or takes longer.
//! pub async fn get(
//!     wheel: &TimingWheel,
//!     client: &Client,
//!     url: &str,
//! ) -> Result<String, Box<dyn Error + Send + Sync>> {
//!     let page = async { client.get(url).send().await?.error_for_status()?.text().await };
//!     Ok(wheel.timeout(Duration::from_secs(30), page).await??)
//! }
//! ```
//!
//! # AWS SDK
//!
//! Give this to `sleep_impl` of the SDK's configuration. The newest `aws-smithy-async` that builds with this crate's oldest
//! Rust is 1.2.11; 1.3 needs Rust 1.94.
//!
//! ```text
//! use std::time::Duration;
//!
//! use aws_smithy_async::rt::sleep::{AsyncSleep, Sleep};
//! use timingwheel::TimingWheel;
//!
//! /// Sleeps on a wheel.
//! #[derive(Clone, Debug)]
//! pub struct OnWheel(pub TimingWheel);
//!
//! impl AsyncSleep for OnWheel {
//!     fn sleep(&self, duration: Duration) -> Sleep {
//!         Sleep::new(self.0.sleep(duration))
//!     }
//! }
//! ```

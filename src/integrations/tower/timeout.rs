//! The timeout layer, its service, and the future of a response.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use ::tower::timeout::error::Elapsed;
use ::tower::{BoxError, Layer, Service};
use pin_project_lite::pin_project;

use crate::handle::TimingWheel;

/// Bounds the time of each request, as `tower::timeout::TimeoutLayer` does, with a timer on a wheel.
#[must_use = "a layer does nothing until it is put round a service"]
#[derive(Clone, Debug)]
pub struct TimeoutLayer {
    wheel: TimingWheel,
    timeout: Duration,
}

impl TimeoutLayer {
    /// A layer whose services give each request `timeout`, on `wheel`. With more than
    /// [292 years](crate::Sleep::deadline) it never elapses.
    pub const fn new(wheel: TimingWheel, timeout: Duration) -> Self {
        Self { wheel, timeout }
    }
}

impl<S> Layer<S> for TimeoutLayer {
    type Service = Timeout<S>;

    fn layer(&self, inner: S) -> Timeout<S> {
        Timeout::new(inner, self.wheel.clone(), self.timeout)
    }
}

/// A service whose requests have a bounded time, as `tower::timeout::Timeout`. It is not the future that
/// [`TimingWheel::timeout`] returns: that is [`timingwheel::Timeout`](crate::Timeout).
#[derive(Clone, Debug)]
pub struct Timeout<S> {
    inner: S,
    wheel: TimingWheel,
    timeout: Duration,
}

impl<S> Timeout<S> {
    /// Gives each request to `inner` at most `timeout`, by a timer on `wheel`.
    pub const fn new(inner: S, wheel: TimingWheel, timeout: Duration) -> Self {
        Self { inner, wheel, timeout }
    }

    /// The service within.
    #[must_use]
    pub const fn get_ref(&self) -> &S {
        &self.inner
    }

    /// The service within.
    #[must_use]
    pub const fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    /// The service within.
    #[must_use]
    pub fn into_inner(self) -> S {
        self.inner
    }
}

impl<S, Request> Service<Request> for Timeout<S>
where
    S: Service<Request>,
    S::Error: Into<BoxError>,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = ResponseFuture<S::Future>;

    /// The inner service's readiness. Waiting for it has no limit.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    /// The request's time counts from this call.
    fn call(&mut self, request: Request) -> Self::Future {
        let response = self.inner.call(request);
        ResponseFuture { response: self.wheel.timeout(self.timeout, response) }
    }
}

pin_project! {
    /// The response of a [`Timeout`] service.
    ///
    /// The inner response is polled first, then the deadline, as with [`TimingWheel::timeout`]. A response that is ready
    /// at once never touches the wheel.
    ///
    /// # Cancel safety
    /// Dropping it drops the inner response and removes the timer.
    ///
    /// # Errors
    /// The inner service's; [`Elapsed`] if the time is up first, also if the wheel has
    /// [ended or is full](TimingWheel::timeout).
    #[derive(Debug)]
    #[must_use = "a response does nothing unless it is awaited or polled"]
    pub struct ResponseFuture<F> {
        #[pin]
        response: crate::timers::timeout::Timeout<F>,
    }
}

impl<F, T, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<T, E>>,
    E: Into<BoxError>,
{
    type Output = Result<T, BoxError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(self.project().response.poll(cx)) {
            Ok(response) => response.map_err(Into::into),
            Err(_) => Err(Elapsed::new().into()),
        })
    }
}

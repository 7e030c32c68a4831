//! [`ServerLayer`]: gives each request the deadline that its caller sent.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderMap, Method, Request, Response};
use http_body::Body;
use timingwheel::TimingWheel;
use tower_layer::Layer;
use tower_service::Service;

use super::BoxFuture;
use super::body::InTime;
use super::header::Header;
use super::status::Status;
use super::told::{self, Callback, Outcome, Report};
use crate::deadline::{Deadline, DeadlineExt};

/// Gives each request the deadline that its caller sent.
///
/// The deadline is [current](Deadline::current) in the handler and while the response's body is polled, and stands in the
/// request's extensions. It runs from when the request comes in: waiting for the service to be ready counts. If a deadline is
/// current already, such as that of another layer round this one, the request's is a child of it.
///
/// When the deadline ends, the handler is dropped and the caller is answered. A response that has begun [ends](InTime). A
/// request that comes too late is answered without a call of the handler. When the caller hangs up or the handler panics, the
/// deadline is cancelled, and with it all that [runs](Deadline::run_current) under it in other tasks. Unlike in Go, an answer
/// cancels nothing: tasks under the deadline go on until it passes.
///
/// | answer | [`Header::Grpc`] | [`Header::Millis`] |
/// |---|---|---|
/// | the deadline passed | `grpc-status` 4, deadline exceeded | 504, gateway timeout |
/// | the deadline was cancelled | `grpc-status` 1, cancelled | 503, service unavailable |
/// | the header cannot be read | `grpc-status` 13, internal, as grpc-go's servers answer | 400, bad request |
///
/// # When a caller has gone
/// A server learns of it from its connection. hyper drops the handler at once over HTTP/2. Over HTTP/1 it does so only where
/// it has read the request's body to the end. Without that, the work ends at its deadline.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use std::time::Duration;
/// use http::{Request, Response};
/// use timingwheel::TimingWheel;
/// use timingwheel_deadline::wire::{Header, ServerLayer};
/// use tower::{ServiceBuilder, service_fn};
///
/// let handler = service_fn(|_: Request<String>| async { Ok::<_, std::io::Error>(Response::new(String::new())) });
/// let layer = ServerLayer::new(&TimingWheel::new(), Header::Grpc).at_most(Duration::from_secs(30));
/// let service = ServiceBuilder::new().layer(layer).service(handler);
/// # let _ = tower::ServiceExt::oneshot(service, Request::new(String::new())).await;
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing until it is put round a service"]
pub struct ServerLayer {
    wheel: TimingWheel,
    header: Header,
    most: Duration,
    callback: Option<Callback>,
}

impl ServerLayer {
    /// Deadlines on `wheel`, from `header`. Without the header, only a caller that hangs up ends a request, unless
    /// [`at_most`](Self::at_most) gives it a limit.
    pub fn new(wheel: &TimingWheel, header: Header) -> Self {
        Self { wheel: wheel.clone(), header, most: Duration::MAX, callback: None }
    }

    /// Gives no request more than `most`, whatever its caller sent.
    pub const fn at_most(mut self, most: Duration) -> Self {
        self.most = most;
        self
    }

    /// Calls `callback` once for each request that had a readable header, when it is over: after the body of its response.
    ///
    /// It runs in the task that polls the response or drops it. If it panics, the panic hook reports that, and nothing else
    /// happens.
    pub fn on_end(mut self, callback: impl Fn(&Report) + Send + Sync + 'static) -> Self {
        self.callback = Some(Callback(Arc::new(callback)));
        self
    }

    /// A request that comes in now; as the error, how its header is wrong.
    fn begin(&self, headers: &HeaderMap) -> Result<told::Request, String> {
        let left = self.header.read(headers)?.unwrap_or(Duration::MAX).min(self.most);
        let current = Deadline::current();
        let deadline = current.map_or_else(|| self.wheel.deadline_in(left), |it| it.child_in(left));
        Ok(told::Request::new(deadline, self.callback.clone()))
    }
}

impl<S> Layer<S> for ServerLayer {
    type Service = Server<S>;

    fn layer(&self, inner: S) -> Server<S> {
        Server { inner, layer: self.clone() }
    }
}

/// The service of a [`ServerLayer`]. It is always ready: a request waits for the service within under its deadline.
#[derive(Clone, Debug)]
pub struct Server<S> {
    inner: S,
    layer: ServerLayer,
}

impl<S, B, R> Service<Request<B>> for Server<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: Send + 'static,
    R: Body + Send + 'static,
{
    type Response = Response<InTime<R>>;
    type Error = S::Error;
    type Future = BoxFuture<Result<Response<InTime<R>>, S::Error>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let (layer, mut inner) = (self.layer.clone(), self.inner.clone());
        // Here, not at the first poll: the time runs from now on.
        let begun = layer.begin(request.headers());
        Box::pin(async move {
            let header = &layer.header;
            let told = match begun {
                Ok(told) => told,
                Err(message) => return Ok(InTime::answer(header, &Status::unreadable(message))),
            };
            let deadline = told.deadline.clone();
            let is_head = request.method() == Method::HEAD;
            request.extensions_mut().insert(deadline.clone());
            let handle = async {
                poll_fn(|cx| inner.poll_ready(cx)).await?;
                inner.call(request).await
            };
            let mut run = pin!(deadline.run(handle));
            // By the clock too: whoever polls this may do so by a timer for the same header, and then answer in its place.
            let poll = |cx: &mut Context<'_>| match deadline.end() {
                Some(ended) => Poll::Ready(Err(ended)),
                None => run.as_mut().poll(cx),
            };
            match poll_fn(poll).await {
                Ok(Ok(response)) => Ok(response.map(|body| {
                    let mut told = Some(told);
                    // Nobody polls what is empty.
                    if let Some(told) = told.take_if(|_| is_head || body.is_end_stream()) {
                        told.over(Outcome::Answered);
                    }
                    InTime::response(Some(&deadline), header, Some(body), told)
                })),
                Ok(Err(error)) => {
                    told.over(Outcome::Failed);
                    Err(error)
                }
                Err(ended) => {
                    told.over(Outcome::Ended(ended));
                    Ok(InTime::answer(header, &ended.into()))
                }
            }
        })
    }
}

//! [`ClientLayer`]: sends the time that a call has left.

use std::mem;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;

use super::body::InTime;
use super::header::Header;
use super::{BoxError, BoxFuture};
use crate::deadline::Deadline;
use crate::ended::Ended;

/// Sends the time that the [current](Deadline::current) deadline has left, and ends the call and the response's body with it.
///
/// Where no task has a current deadline, as below tower's `Buffer`, the one in the request's extensions counts. Without
/// either, a request goes as it is. If the header is there already and says less, it stays. A limit by
/// [`run_within`](Deadline::run_within) around a call is sent, and bounds the response's body too.
///
/// # Errors
/// The service's own errors, boxed. [`Ended`] if the deadline ends before the response is there. Nothing is sent if the
/// deadline has ended before the call, or has no more time left than the [margin](Self::margin).
#[derive(Clone, Debug)]
#[must_use = "a layer does nothing until it is put round a service"]
pub struct ClientLayer {
    header: Header,
    margin: Duration,
}

impl ClientLayer {
    /// Sends `header`.
    pub const fn new(header: Header) -> Self {
        Self { header, margin: Duration::ZERO }
    }

    /// Sends `margin` less than is left: the time that the answer takes on its way.
    pub const fn margin(mut self, margin: Duration) -> Self {
        self.margin = margin;
        self
    }
}

impl<S> Layer<S> for ClientLayer {
    type Service = Client<S>;

    fn layer(&self, inner: S) -> Client<S> {
        Client { inner, layer: self.clone() }
    }
}

/// The service of a [`ClientLayer`].
#[derive(Clone, Debug)]
pub struct Client<S> {
    inner: S,
    layer: ClientLayer,
}

impl<S, B, R> Service<Request<B>> for Client<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
{
    type Response = Response<InTime<R>>;
    type Error = BoxError;
    type Future = BoxFuture<Result<Response<InTime<R>>, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let ClientLayer { header, margin } = self.layer.clone();
        let deadline = Deadline::current().or_else(|| request.extensions().get().cloned());
        let sent = deadline
            .as_ref()
            .and_then(Deadline::remaining)
            .is_none_or(|left| header.write(request.headers_mut(), left.saturating_sub(margin)));
        let end = deadline.as_ref().and_then(Deadline::end);
        if let Some(end) = end.or((!sent).then_some(Ended::Passed)) {
            // A clone reserves nothing, and the drop of this one gives back what `poll_ready` has reserved.
            let clone = self.inner.clone();
            drop(mem::replace(&mut self.inner, clone));
            return Box::pin(async move { Err(end.into()) });
        }
        let call = self.inner.call(request);
        Box::pin(async move {
            let response = match &deadline {
                Some(deadline) => deadline.run(call).await?,
                None => call.await,
            };
            let response = response.map_err(Into::into)?;
            Ok(response.map(|body| InTime::response(deadline.as_ref(), &header, Some(body))))
        })
    }
}

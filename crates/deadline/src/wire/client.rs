//! [`ClientLayer`]: sends the time that a call has left.

use std::mem;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use tower_layer::Layer;
use tower_service::Service;

use super::body::InTime;
use super::header::Header;
use super::{BoxError, BoxFuture, Error, failed};
use crate::deadline::Deadline;
use crate::ended::Ended;
use crate::run::Run;

/// Sends the time that the [current](Deadline::current) deadline has left, and ends the call and the response's body with it.
///
/// Where no task has a current deadline, as below tower's `Buffer`, the one in the request's extensions counts. Without
/// either, a request goes as it is. If the header is there already and says less, it stays. A limit by
/// [`run_within`](Deadline::run_within) around a call is sent, and bounds the response's body too.
///
/// # Errors
/// [`Error::Failed`] if the service fails. If the deadline ends before the response is there, it is [`Error::Ended`] with
/// [`Header::Millis`]. With [`Header::Grpc`] it is no error, but a response with the `grpc-status` 4 or 1, as a server would
/// send it: so a client that tonic generated returns that status, whoever was first. Nothing is sent if the deadline has ended
/// before the call, or has no more time left than the [margin](Self::margin).
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

/// What a caller is told: a status of gRPC, or an error.
fn answer<R>(header: &Header, ended: Ended) -> Result<Response<InTime<R>>, Error> {
    match header {
        Header::Grpc => Ok(InTime::answer(header, &ended.into())),
        Header::Millis(_) => Err(Error::Ended(ended)),
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
    type Error = Error;
    type Future = BoxFuture<Result<Response<InTime<R>>, Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(cx).map_err(failed)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let ClientLayer { header, margin } = self.layer.clone();
        let deadline = Deadline::current().or_else(|| request.extensions().get().cloned());
        let mut end = deadline.as_ref().and_then(Deadline::end);
        let mut sent_until = None;
        if let Some(deadline) = &deadline
            && let Some(left) = deadline.remaining()
        {
            let sent = header.write(request.headers_mut(), left.saturating_sub(margin));
            // A transport of gRPC has a timer for the header, which fires then or later.
            let is_grpc = header == Header::Grpc;
            sent_until = sent.filter(|_| is_grpc).map(|sent| deadline.wheel().current_time() + sent);
            end = end.or(sent.is_none().then_some(Ended::Passed));
        }
        if let Some(ended) = end {
            // A clone reserves nothing, and the drop of this one gives back what `poll_ready` has reserved.
            let clone = self.inner.clone();
            drop(mem::replace(&mut self.inner, clone));
            return Box::pin(async move { answer(&header, ended) });
        }
        let call = self.inner.call(request);
        Box::pin(async move {
            match Run::new(deadline.as_ref(), None, call).await {
                Ok(Ok(response)) => {
                    Ok(response.map(|body| InTime::response(deadline.as_ref(), &header, Some(body), None)))
                }
                // What fails when time is up does so for that reason, as when the request's body resets the stream.
                Ok(Err(error)) => {
                    let is_over =
                        |it: &Deadline| sent_until.is_some_and(|at| at <= it.wheel().current_time());
                    let end = |it: &Deadline| it.end().or_else(|| is_over(it).then_some(Ended::Passed));
                    deadline.as_ref().and_then(end).map_or(Err(failed(error)), |ended| answer(&header, ended))
                }
                Err(ended) => answer(&header, ended),
            }
        })
    }
}

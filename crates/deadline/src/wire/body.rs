//! [`InTime`]: a body that ends with a deadline.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Response};
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use super::header::Header;
use super::status::Status;
use super::told::{Outcome, Request};
use super::{BoxError, Error, failed};
use crate::deadline::Deadline;
use crate::run::Under;

pin_project! {
    /// A body that ends with a deadline, which is the [current](Deadline::current) one while the body is polled.
    ///
    /// The layers put it round each response. If the deadline ends before the body does, a gRPC body ends by trailers with
    /// a `grpc-status`, and any other by [`Error::Ended`]. The body within is dropped. For a server this
    /// ends the handler's stream, and for a client it resets the stream of HTTP/2, or closes the connection of HTTP/1.
    #[derive(Debug)]
    pub struct InTime<B> {
        // `None` once it has ended.
        #[pin]
        body: Option<B>,
        under: Under,
        is_grpc: bool,
        // What a server's layer is told.
        request: Option<Request>,
    }
}

impl<B> InTime<B> {
    /// For a body that a client sends, which [`ClientLayer`](super::ClientLayer) leaves as it is. It ends by
    /// [`Error::Ended`].
    ///
    /// The connection polls such a body in a task of its own, which has no current deadline.
    pub fn new(deadline: &Deadline, body: B) -> Self {
        Self { body: Some(body), under: Under::new(Some(deadline), None), is_grpc: false, request: None }
    }

    /// For a response. Tells of `request` when the body is over.
    pub(super) fn response(
        deadline: Option<&Deadline>,
        header: &Header,
        body: Option<B>,
        request: Option<Request>,
    ) -> Self {
        Self { body, under: Under::new(deadline, None), is_grpc: *header == Header::Grpc, request }
    }

    /// The answer to a request that has no other.
    pub(super) fn answer(header: &Header, status: &Status) -> Response<Self> {
        let mut response = Response::new(Self::response(None, header, None, None));
        match header {
            Header::Grpc => {
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
                status.write(response.headers_mut());
            }
            Header::Millis(_) => *response.status_mut() = status.http,
        }
        response
    }
}

impl<B> Body for InTime<B>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, Error>>> {
        let mut this = self.project();
        let Some(mut body) = this.body.as_mut().as_pin_mut() else { return Poll::Ready(None) };
        // A body that always has something ends all the same.
        let polled = match this.under.end() {
            Some(ended) => Err(ended),
            None => ready!(this.under.poll(cx, |cx| body.as_mut().poll_frame(cx))),
        };
        // What breaks off when time is up does so for that reason, as when a request's body resets the stream.
        let breaks_off = matches!(polled, Ok(Some(Err(_)))) || *this.is_grpc && matches!(polled, Ok(None));
        let ended = breaks_off.then(|| this.under.end()).flatten();
        let (outcome, frame) = match ended.map_or(polled, Err) {
            Ok(Some(Ok(frame))) if !frame.is_trailers() && !body.is_end_stream() => {
                return Poll::Ready(Some(Ok(frame)));
            }
            Ok(Some(Ok(frame))) => (Outcome::Answered, Some(Ok(frame))),
            Ok(Some(Err(error))) => (Outcome::Failed, Some(Err(failed(error)))),
            Ok(None) => (Outcome::Answered, None),
            Err(ended) if *this.is_grpc => {
                let mut trailers = HeaderMap::new();
                Status::from(ended).write(&mut trailers);
                (Outcome::Ended(ended), Some(Ok(Frame::trailers(trailers))))
            }
            Err(ended) => (Outcome::Ended(ended), Some(Err(Error::Ended(ended)))),
        };
        this.body.set(None);
        if let Some(request) = this.request.take() {
            request.over(outcome);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    /// Of a gRPC body nothing, because it may end sooner.
    fn size_hint(&self) -> SizeHint {
        match &self.body {
            None => SizeHint::with_exact(0),
            Some(_) if self.is_grpc => SizeHint::default(),
            Some(body) => body.size_hint(),
        }
    }
}

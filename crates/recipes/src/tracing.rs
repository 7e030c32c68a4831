//! tracing: a span for each request, which says how it ended and how much of its time it used.

use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Frame, SizeHint};
use hyper::{Request, Response};
use timingwheel_deadline::wire::Report;
use tower::Service;
use tracing::field::{Empty, debug};
use tracing::instrument::{Instrument, Instrumented};
use tracing::{Span, info_span};

/// Tells the span of a request that is over, as in `ServerLayer::new(&wheel, Header::Grpc).on_end(record)`.
pub fn record(report: &Report) {
    let Report { outcome, used, limit, .. } = report;
    Span::current()
        .record("outcome", debug(outcome))
        .record("used", debug(used))
        .record("limit", debug(limit));
}

/// Goes around the layer.
#[derive(Clone, Debug)]
pub struct InSpan<S>(pub S);

impl<S, B, R> Service<Request<B>> for InSpan<S>
where
    S: Service<Request<B>, Response = Response<R>, Future: Send + 'static>,
{
    type Response = Response<SpanBody<R>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let path = request.uri().path();
        let span = info_span!("request", path, outcome = Empty, used = Empty, limit = Empty);
        let call = self.0.call(request).instrument(span.clone());
        Box::pin(async move { Ok(call.await?.map(|body| SpanBody(body.instrument(span)))) })
    }
}

/// A body that is polled and dropped in the span of its request.
#[derive(Debug)]
pub struct SpanBody<B>(Instrumented<B>);

impl<B: Body + Unpin> Body for SpanBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let span = self.0.span().clone();
        let _in_span = span.enter();
        Pin::new(self.0.inner_mut()).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.inner().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.inner().size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::io::{self, Write};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use http_body_util::BodyExt;
    use timingwheel::TimingWheel;
    use timingwheel_deadline::wire::{Header, ServerLayer};
    use tokio::time::sleep;
    use tower::{Layer, ServiceExt, service_fn};
    use tracing_subscriber::fmt::format::FmtSpan;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_span_of_a_request_says_how_it_ended_also_after_its_head() {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_span_events(FmtSpan::CLOSE)
            .with_writer(move || writer.clone())
            .finish();
        let _installed = tracing::subscriber::set_default(subscriber);
        let answers = service_fn(async |request: Request<String>| {
            sleep(Duration::from_millis(if request.uri() == "/slow" { 3_600_000 } else { 10 })).await;
            Ok::<_, Infallible>(Response::new("body".to_owned()))
        });
        let layer = ServerLayer::new(&TimingWheel::new(), Header::Grpc).on_end(record);
        let server = InSpan(layer.layer(answers));
        let ask = |path| {
            let request = Request::get(path).header("grpc-timeout", "500m").body(String::new()).unwrap();
            server.clone().oneshot(request)
        };
        let last = || {
            let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
            text.lines().last().unwrap_or_default().to_owned()
        };
        for (path, is_read, expected) in [
            ("/fast", true, "outcome=Answered used=10ms limit=Some(500ms)"),
            ("/fast", false, "outcome=HungUp used=10ms limit=Some(500ms)"),
            ("/slow", true, "outcome=Ended(Passed) used=500ms limit=Some(500ms)"),
        ] {
            let response = ask(path).await.unwrap();
            if is_read {
                response.into_body().collect().await.unwrap();
            } else {
                drop(response);
            }
            assert!(last().contains(expected), "{}", last());
        }
    }
}

//! Bodies: the deadline is current while one is polled, and ends it.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use http_body_util::channel::{Channel, Sender};
use timingwheel::TimingWheel;
use timingwheel_deadline::wire::{ClientLayer, Error, Header, InTime, ServerLayer};
use timingwheel_deadline::{Deadline, DeadlineExt, Ended};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::{Instant, sleep};
use tower::{Layer, ServiceExt, service_fn};

use super::{ended, millis, request};
use crate::ms;

type Bytes = std::collections::VecDeque<u8>;

/// A body whose frames say how much time the current deadline has left. It waits `pause` before each, and has no end.
struct Left(std::time::Duration, Pin<Box<tokio::time::Sleep>>);

impl Left {
    fn every(pause: std::time::Duration) -> Self {
        Self(pause, Box::pin(sleep(pause)))
    }
}

impl Body for Left {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let pause = self.0;
        if !pause.is_zero() {
            std::task::ready!(self.1.as_mut().poll(cx));
            self.1.as_mut().reset(Instant::now() + pause);
        }
        let left = Deadline::current().and_then(|it| it.remaining()).expect("one is current");
        Poll::Ready(Some(Ok(Frame::data(vec![u8::try_from(left.as_millis()).unwrap()].into()))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(100)
    }
}

/// The frames of a body until its trailers or its error, each as its first byte.
async fn frames<B: Body<Data = Bytes, Error = Error> + Unpin>(
    body: &mut B,
) -> (Vec<u8>, Result<Option<http::HeaderMap>, Error>) {
    let mut found = Vec::new();
    loop {
        match body.frame().await {
            None => return (found, Ok(None)),
            Some(Err(error)) => return (found, Err(error)),
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => found.push(data[0]),
                Err(frame) => return (found, Ok(frame.into_trailers().ok())),
            },
        }
    }
}

fn is_grpc(header: &Header) -> bool {
    *header == Header::Grpc
}

#[tokio::test(start_paused = true)]
async fn a_servers_body_has_the_deadline_and_ends_with_it() {
    for header in [Header::Grpc, millis()] {
        let streams = service_fn(|_: Request<String>| async {
            sleep(ms(10)).await;
            Ok::<_, Infallible>(Response::new(Left::every(ms(30))))
        });
        let layer = ServerLayer::new(&TimingWheel::new(), header.clone()).at_most(ms(100));
        let start = Instant::now();
        let mut body = layer.layer(streams).oneshot(request("x-other", "")).await.unwrap().into_body();
        let (found, end) = frames(&mut body).await;
        assert_eq!((found, start.elapsed()), (vec![60, 30], ms(100)));
        if is_grpc(&header) {
            let trailers = end.unwrap().expect("trailers");
            assert_eq!(
                (&trailers["grpc-status"], &trailers["grpc-message"]),
                (&"4".parse().unwrap(), &"the deadline has passed".parse().unwrap())
            );
        } else {
            assert_eq!(ended(end), Ended::Passed);
        }
        assert!(body.is_end_stream() && body.frame().await.is_none(), "and no more");
    }
}

/// A server that sends its head and stalls.
#[tokio::test(start_paused = true)]
async fn a_clients_body_ends_with_the_deadline_and_the_servers_is_dropped() {
    for header in [Header::Grpc, millis()] {
        let (senders, mut sent) = unbounded_channel();
        let stalls = service_fn(move |_: Request<String>| {
            let (sender, body) = Channel::<Bytes>::new(1);
            senders.send(sender).unwrap();
            async { Ok::<_, Infallible>(Response::new(body)) }
        });
        let client = ClientLayer::new(header.clone()).layer(stalls);
        let start = Instant::now();
        let request_deadline = TimingWheel::new().deadline_in(ms(100));
        // Also without a task that has the deadline: the body keeps it.
        let response = request_deadline.scope(client.oneshot(request("x-other", ""))).await.unwrap();
        let mut sender: Sender<Bytes> = sent.recv().await.unwrap();
        sender.send_data(vec![7].into()).await.unwrap();
        let mut body = response.into_body();
        let (found, end) = frames(&mut body).await;
        assert_eq!((found, start.elapsed()), (vec![7], ms(100)));
        match end {
            Ok(trailers) => assert_eq!(trailers.unwrap()["grpc-status"], "4"),
            error => assert_eq!((is_grpc(&header), ended(error)), (false, Ended::Passed)),
        }
        assert!(sender.send_data(vec![8].into()).await.is_err(), "what comes after that is dropped");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_always_has_something_ends_all_the_same() {
    let deadline = TimingWheel::new().deadline_in(ms(100));
    let mut body = InTime::new(&deadline, Left::every(ms(0)));
    for _ in 0..1000 {
        assert!(body.frame().await.unwrap().is_ok());
    }
    tokio::time::advance(ms(100)).await;
    let error = body.frame().await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the deadline has passed");
    assert!(std::error::Error::source(&error).is_none(), "told once");
}

/// A body that fails or ends while it is polled, as the deadline ends at that moment.
struct BreaksOff(bool);

impl Body for BreaksOff {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        Deadline::current().unwrap().cancel();
        Poll::Ready(self.0.then_some(Err("reset")))
    }
}

/// As when the stream is reset because the request's body has ended with the deadline too.
#[tokio::test(start_paused = true)]
async fn a_body_that_breaks_off_because_of_the_deadline_ends_as_by_the_deadline() {
    for (header, fails) in [(Header::Grpc, true), (Header::Grpc, false), (millis(), true), (millis(), false)]
    {
        let answers = service_fn(move |_: Request<String>| async move {
            Ok::<_, Infallible>(Response::new(BreaksOff(fails)))
        });
        let client = ClientLayer::new(header.clone()).layer(answers);
        let call = TimingWheel::new().deadline_in(ms(100)).scope(client.oneshot(request("x-other", "")));
        match frames(&mut call.await.unwrap().into_body()).await.1 {
            // It has come to its end.
            Ok(None) => assert!(!is_grpc(&header) && !fails),
            Ok(Some(trailers)) => assert_eq!(trailers["grpc-status"], "1"),
            error => assert_eq!((is_grpc(&header), fails, ended(error)), (false, true, Ended::Cancelled)),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_comes_in_time_is_left_as_it_is() {
    let trailers = || http::HeaderMap::from_iter([("grpc-status".parse().unwrap(), "0".parse().unwrap())]);
    let answers = service_fn(move |_: Request<String>| async move {
        let (mut sender, body) = Channel::<Bytes>::new(2);
        sender.send_data(vec![7].into()).await.unwrap();
        sender.send_trailers(trailers()).await.unwrap();
        Ok::<_, Infallible>(Response::new(body))
    });
    let server = ServerLayer::new(&TimingWheel::new(), Header::Grpc).at_most(ms(100)).layer(answers);
    let client = ClientLayer::new(Header::Grpc).layer(server);
    let mut body = client.oneshot(request("x-other", "")).await.unwrap().into_body();
    let (found, end) = frames(&mut body).await;
    assert_eq!((found, end.unwrap()), (vec![7], Some(trailers())));
    assert!(body.frame().await.is_none());
}

/// An exact length would become a `content-length` that a gRPC answer need not keep.
#[tokio::test(start_paused = true)]
async fn only_a_grpc_answer_hides_its_length() {
    let answers =
        service_fn(|_: Request<String>| async { Ok::<_, Infallible>(Response::new("hello".to_owned())) });
    for (header, exact) in [(Header::Grpc, None), (millis(), Some(5))] {
        let server = ServerLayer::new(&TimingWheel::new(), header).layer(answers);
        let response = server.oneshot(request("x-other", "")).await.unwrap();
        assert_eq!(response.body().size_hint().exact(), exact);
    }
}

/// Tells when it is dropped, and has no frame.
struct TellsDrop(UnboundedSender<&'static str>);

impl Drop for TellsDrop {
    fn drop(&mut self) {
        let _ = self.0.send("dropped");
    }
}

impl Body for TellsDrop {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_hangs_up_in_the_middle_of_a_body_cancels_the_deadline() {
    let (dropped, mut drops) = unbounded_channel();
    let streams = service_fn(move |_: Request<String>| {
        let (dropped, deadline) = (dropped.clone(), Deadline::current().unwrap());
        let ended = dropped.clone();
        tokio::spawn(async move {
            assert_eq!(deadline.ended().await, Ended::Cancelled);
            ended.send("cancelled").unwrap();
        });
        async { Ok::<_, Infallible>(Response::new(TellsDrop(dropped))) }
    });
    let server = ServerLayer::new(&TimingWheel::new(), millis()).layer(streams);
    let mut body = server.oneshot(request("x-other", "")).await.unwrap().into_body();
    poll_fn(|cx| {
        assert!(Pin::new(&mut body).poll_frame(cx).is_pending());
        Poll::Ready(())
    })
    .await;
    drop(body);
    assert_eq!((drops.recv().await, drops.recv().await), (Some("dropped"), Some("cancelled")));
}

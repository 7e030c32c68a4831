//! A calls B, and B calls C: each by the recipe's server and hyper's client, and by tonic's own server and channel.

use std::time::Duration;

use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use timingwheel::TimingWheel;
use timingwheel_deadline::DeadlineExt;
use timingwheel_deadline::wire::{Header, ServerLayer};
use timingwheel_recipes::tonic::{in_time, serve};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tokio_stream::StreamExt;
use tonic::body::Body;
use tonic::service::Routes;
use tonic::transport::{Endpoint, Server};
use tonic::{Code, Request, Response, Status, Streaming};
use tower::{ServiceExt, service_fn};

use crate::hop::hop_client::HopClient;
use crate::hop::hop_server::{Hop, HopServer};
use crate::{HOUR, Last, Next, Texts, each_kind};

/// B: asks C.
struct Middle(Next);

#[tonic::async_trait]
impl Hop for Middle {
    async fn call(&self, request: Request<String>) -> Result<Response<String>, Status> {
        self.0.clone().call(request.into_inner() + ", B").await
    }

    type WatchStream = Texts;

    async fn watch(&self, request: Request<String>) -> Result<Response<Texts>, Status> {
        let texts = self.0.clone().watch(request.into_inner() + ", B").await?;
        Ok(texts.map(|texts| Box::pin(texts) as Texts))
    }

    async fn send(&self, request: Request<Streaming<String>>) -> Result<Response<String>, Status> {
        self.0.clone().send(request.into_inner().map_while(Result::ok)).await
    }

    type ChatStream = Texts;

    async fn chat(&self, request: Request<Streaming<String>>) -> Result<Response<Texts>, Status> {
        let texts = self.0.clone().chat(request.into_inner().map_while(Result::ok)).await?;
        Ok(texts.map(|texts| Box::pin(texts) as Texts))
    }
}

#[derive(Clone, Copy, Debug)]
enum By {
    Hyper,
    Tonic,
}

/// A client of a server in memory, which has one connection.
async fn client_of(wheel: &TimingWheel, by: By, hop: impl Hop) -> Next {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let hop = HopServer::new(hop);
    match by {
        By::Hyper => {
            let (wheel, services) = (wheel.clone(), Routes::new(hop));
            tokio::spawn(async move { serve(&wheel, services, theirs).await });
            let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(ours));
            let (requests, connection) = handshake.await.expect("a handshake");
            tokio::spawn(connection);
            let send = service_fn(move |request| requests.clone().send_request(request));
            let send = send.map_response(|response| response.map(Body::new));
            HopClient::with_origin(in_time(send), hyper::Uri::from_static("http://test"))
        }
        By::Tonic => {
            let server = Server::builder().layer(ServerLayer::new(wheel, Header::Grpc)).add_service(hop);
            let connections =
                tokio_stream::once(Ok::<_, std::io::Error>(theirs)).chain(tokio_stream::pending());
            tokio::spawn(server.serve_with_incoming(connections));
            let mut ours = Some(TokioIo::new(ours));
            let connect = service_fn(move |_| {
                let ours = ours.take();
                async { ours.ok_or_else(|| std::io::Error::other("there is one connection")) }
            });
            let channel = Endpoint::from_static("http://test").connect_with_connector_lazy(connect);
            HopClient::new(in_time(channel))
        }
    }
}

async fn chain(wheel: &TimingWheel, by: By) -> (Next, mpsc::UnboundedReceiver<Duration>) {
    let (dropped, drops) = mpsc::unbounded_channel();
    let c = client_of(wheel, by, Last(dropped)).await;
    (client_of(wheel, by, Middle(c)).await, drops)
}

const MOST: Duration = Duration::from_millis(2);

/// The three with names of grpc's interoperability tests do what those do, through B.
#[tokio::test(start_paused = true)]
async fn timeout_on_sleeping_server() {
    for by in [By::Hyper, By::Tonic] {
        let wheel = TimingWheel::new();
        let (b, mut drops) = chain(&wheel, by).await;
        for (kind, texts, ms) in [(0, 0, 100), (0, 0, 2_000), (1, 0, 100), (2, 1, 100), (3, 1, 100)] {
            let (start, limit) = (Instant::now(), Duration::from_millis(ms));
            let deadline = wheel.deadline_in(limit);
            let (count, status) = deadline.scope(each_kind(b.clone(), kind)).await;
            assert_eq!((count, status.code()), (texts, Code::DeadlineExceeded), "{by:?}, {kind}: {status}");
            assert!(start.elapsed() <= limit + MOST, "{by:?}, {kind}: {:?}", start.elapsed());
            let worked = drops.recv().await.expect("the work of C ends");
            assert!(worked <= limit + MOST, "{by:?}, {kind}: {worked:?}");
        }
    }
}

/// A stream of the client's has begun, and nothing is answered.
#[tokio::test(start_paused = true)]
async fn cancel_after_begin() {
    assert_cancelled(1, 0).await;
}

#[tokio::test(start_paused = true)]
async fn cancel_after_first_response() {
    assert_cancelled(3, 1).await;
}

async fn assert_cancelled(kind: usize, texts: usize) {
    for by in [By::Hyper, By::Tonic] {
        let wheel = TimingWheel::new();
        let (b, mut drops) = chain(&wheel, by).await;
        let deadline = wheel.deadline_in(HOUR);
        let asks = tokio::spawn(deadline.scope(each_kind(b, kind)));
        sleep(Duration::from_secs(1)).await;
        assert!(deadline.cancel());
        let (count, status) = asks.await.expect("it does not panic");
        assert_eq!((count, status.code()), (texts, Code::Cancelled), "{by:?}: {status}");
        let worked = drops.recv().await.expect("the work of C ends");
        assert!(worked <= Duration::from_secs(1) + MOST, "{by:?}: {worked:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_in_time_is_answered() {
    for by in [By::Hyper, By::Tonic] {
        let wheel = TimingWheel::new();
        let (mut b, mut drops) = chain(&wheel, by).await;
        let answer = wheel.deadline_in(HOUR * 2).scope(b.call("A".to_owned())).await;
        assert_eq!(answer.expect("an answer").into_inner(), "A, B and C");
        assert_eq!(drops.recv().await, Some(HOUR));
    }
}

//! A deadline that travels by clients and servers that tonic generated: A calls B, and B calls C.

use std::future::pending;
use std::pin::Pin;
use std::time::Duration;

use bytes::{Buf, BufMut};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use timingwheel::TimingWheel;
use timingwheel_deadline::wire::InTime;
use timingwheel_deadline::{Deadline, DeadlineExt};
use timingwheel_recipes::tonic::{in_time, serve};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tokio_stream::{Stream, StreamExt};
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::service::Routes;
use tonic::{Code, Request, Response, Status, Streaming};
use tower::service_fn;
use tower::util::BoxCloneSyncService;

#[allow(clippy::all, clippy::pedantic, unreachable_pub, unused_qualifications, reason = "generated")]
mod hop {
    include!(concat!(env!("OUT_DIR"), "/recipes.Hop.rs"));
}

use hop::hop_client::HopClient;
use hop::hop_server::{Hop, HopServer};

/// Messages are texts.
#[derive(Default)]
struct Text;

impl Codec for Text {
    type Encode = String;
    type Decode = String;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Text {
    type Item = String;
    type Error = Status;

    fn encode(&mut self, text: String, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(text.as_bytes());
        Ok(())
    }
}

impl Decoder for Text {
    type Item = String;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<String>, Status> {
        let bytes = buffer.copy_to_bytes(buffer.remaining());
        String::from_utf8(bytes.into()).map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}

type Next = HopClient<BoxCloneSyncService<hyper::Request<Body>, hyper::Response<InTime<Incoming>>, Status>>;

/// A client of a server in memory, which has one connection.
async fn client_of(wheel: &TimingWheel, hop: impl Hop) -> Next {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let (wheel, services) = (wheel.clone(), Routes::new(HopServer::new(hop)));
    tokio::spawn(async move { serve(&wheel, services, theirs).await });
    let (requests, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(ours)).await.expect("a handshake");
    tokio::spawn(connection);
    let send = service_fn(move |request| requests.clone().send_request(request));
    HopClient::with_origin(in_time(send), hyper::Uri::from_static("http://test"))
}

type Texts = Pin<Box<dyn Stream<Item = Result<String, Status>> + Send>>;

/// C: works for an hour, and tells when its work was dropped.
struct Last(mpsc::UnboundedSender<Duration>);

struct TellsDrop(mpsc::UnboundedSender<Duration>, Instant);

impl Drop for TellsDrop {
    fn drop(&mut self) {
        let _ = self.0.send(self.1.elapsed());
    }
}

const HOUR: Duration = Duration::from_secs(3_600);

#[tonic::async_trait]
impl Hop for Last {
    async fn call(&self, request: Request<String>) -> Result<Response<String>, Status> {
        let _tells = TellsDrop(self.0.clone(), Instant::now());
        sleep(HOUR).await;
        Ok(Response::new(request.into_inner() + " and C"))
    }

    type WatchStream = Texts;

    /// Sends its head and a text, and then nothing.
    async fn watch(&self, request: Request<String>) -> Result<Response<Texts>, Status> {
        let tells = TellsDrop(self.0.clone(), Instant::now());
        let rest = tokio_stream::pending().map(move |text| {
            let _keeps = &tells;
            text
        });
        let first = tokio_stream::once(Ok(request.into_inner() + " and C"));
        Ok(Response::new(Box::pin(first.chain(rest))))
    }

    async fn send(&self, request: Request<Streaming<String>>) -> Result<Response<String>, Status> {
        let _tells = TellsDrop(self.0.clone(), Instant::now());
        let mut texts = request.into_inner();
        while texts.message().await?.is_some() {}
        pending().await
    }

    type ChatStream = Texts;

    async fn chat(&self, request: Request<Streaming<String>>) -> Result<Response<Texts>, Status> {
        let tells = TellsDrop(self.0.clone(), Instant::now());
        let texts = request.into_inner().map(move |text| {
            let _keeps = &tells;
            text.map(|text| text + " and C")
        });
        Ok(Response::new(Box::pin(texts)))
    }
}

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

async fn chain(wheel: &TimingWheel) -> (Next, mpsc::UnboundedReceiver<Duration>) {
    let (dropped, drops) = mpsc::unbounded_channel();
    let c = client_of(wheel, Last(dropped)).await;
    (client_of(wheel, Middle(c)).await, drops)
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_a_ends_the_work_of_c_and_a_is_told_by_its_status() {
    let wheel = TimingWheel::new();
    let (mut b, mut drops) = chain(&wheel).await;
    for ms in [100, 2_000] {
        let limit = Duration::from_millis(ms);
        let start = Instant::now();
        let deadline = wheel.deadline_in(limit);
        let answer = deadline.scope(b.call(Request::new("A".to_owned()))).await;
        let status = answer.expect_err("C does not answer in time");
        assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
        assert!(start.elapsed() <= limit + Duration::from_millis(2), "{:?}", start.elapsed());
        let worked = drops.recv().await.expect("the work of C ends");
        assert!(worked <= limit + Duration::from_millis(2), "{worked:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_comes_in_time_is_answered_and_a_cancel_ends_the_work_of_c() {
    let wheel = TimingWheel::new();
    let (mut b, mut drops) = chain(&wheel).await;
    let answer = wheel.deadline_in(HOUR * 2).scope(b.call(Request::new("A".to_owned()))).await;
    assert_eq!(answer.expect("an answer").into_inner(), "A, B and C");
    assert_eq!(drops.recv().await, Some(HOUR));

    let deadline: Deadline = wheel.deadline_in(HOUR / 2);
    let asks = tokio::spawn(deadline.scope(async move { b.call(Request::new("A".to_owned())).await }));
    sleep(Duration::from_secs(1)).await;
    deadline.cancel();
    assert_eq!(asks.await.unwrap().expect_err("it is cancelled").code(), Code::Cancelled);
    let worked = drops.recv().await.expect("the work of C ends");
    assert!(worked < Duration::from_secs(2), "{worked:?}");
}

/// A call of each kind, until its stream ends. Returns how many texts came, and the status.
async fn each_kind<S>(mut b: HopClient<S>, kind: usize) -> (usize, Status)
where
    S: tonic::client::GrpcService<Body>,
    S::Error: Into<tower::BoxError>,
    S::ResponseBody: tonic::codegen::Body<Data = bytes::Bytes> + Send + 'static,
    <S::ResponseBody as tonic::codegen::Body>::Error: Into<tower::BoxError> + Send,
{
    // The client goes on sending as long as the call lasts.
    let texts = || tokio_stream::once("A".to_owned()).chain(tokio_stream::pending());
    let texts = match kind {
        0 => return (0, b.call("A".to_owned()).await.unwrap_err()),
        1 => b.send(texts()).await.map(|_| unreachable!("C does not answer")),
        2 => b.watch("A".to_owned()).await,
        _ => b.chat(texts()).await,
    };
    let mut texts = match texts {
        Ok(texts) => texts.into_inner(),
        Err(status) => return (0, status),
    };
    let mut count = 0;
    loop {
        match texts.message().await {
            Ok(Some(_)) => count += 1,
            Ok(None) => return (count, Status::ok("it has no end")),
            Err(status) => return (count, status),
        }
    }
}

/// As grpc's interoperability test of that name, through B.
#[tokio::test(start_paused = true)]
async fn timeout_on_sleeping_server() {
    let wheel = TimingWheel::new();
    let (b, mut drops) = chain(&wheel).await;
    for (kind, texts) in [(0, 0), (1, 0), (2, 1), (3, 1)] {
        let start = Instant::now();
        let deadline = wheel.deadline_in(Duration::from_millis(100));
        let (count, status) = deadline.scope(each_kind(b.clone(), kind)).await;
        assert_eq!((count, status.code()), (texts, Code::DeadlineExceeded), "{kind}: {status}");
        assert!(start.elapsed() <= Duration::from_millis(102), "{kind}: {:?}", start.elapsed());
        let worked = drops.recv().await.expect("the work of C ends");
        assert!(worked <= Duration::from_millis(102), "{kind}: {worked:?}");
    }
}

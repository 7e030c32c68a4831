//! A deadline that travels over HTTP/1 and HTTP/2: real servers of hyper's, where A calls B, and B calls C.

use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::channel::Channel;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::header::HeaderName;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use timingwheel::TimingWheel;
use timingwheel_deadline::wire::{ClientLayer, Error, Header, InTime, ServerLayer};
use timingwheel_deadline::{Deadline, DeadlineExt};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, mpsc};
use tokio::time::Instant;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};

type Body = UnsyncBoxBody<Bytes, BoxError>;

#[derive(Clone, Copy, Debug)]
enum Version {
    Http1,
    Http2,
}

/// What C does: it never answers, or it sends its head and a frame and then nothing.
#[derive(Clone, Copy, Debug)]
enum Work {
    Answer,
    Stream,
}

const ALL: [(Version, Work); 4] = [
    (Version::Http1, Work::Answer),
    (Version::Http1, Work::Stream),
    (Version::Http2, Work::Answer),
    (Version::Http2, Work::Stream),
];

fn millis() -> Header {
    Header::Millis(HeaderName::from_static("x-time-left"))
}

/// Serves `service` on loopback, and returns its address.
async fn serve<S>(service: S) -> SocketAddr
where
    S: Service<Request<Incoming>, Response = Response<InTime<Body>>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let service = TowerToHyperService::new(service.clone());
            tokio::spawn(async move {
                let server = auto::Builder::new(TokioExecutor::new());
                _ = server.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    address
}

/// Calls a server, with the current deadline.
async fn call(version: Version, address: SocketAddr) -> Result<Response<InTime<Incoming>>, BoxError> {
    let stream = TokioIo::new(TcpStream::connect(address).await?);
    let request = Request::get(format!("http://{address}/")).header("host", "test");
    let request = request.body(Empty::<Bytes>::new())?;
    let client = ServiceBuilder::new().layer(ClientLayer::new(millis()));
    Ok(match version {
        Version::Http1 => {
            let (sender, connection) = http1::handshake(stream).await?;
            tokio::spawn(connection);
            let sender = Arc::new(Mutex::new(sender));
            let send = service_fn(move |request| {
                let sender = sender.clone();
                async move { sender.lock().await.send_request(request).await }
            });
            client.service(send).oneshot(request).await?
        }
        Version::Http2 => {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
            tokio::spawn(connection);
            let send = service_fn(move |request| sender.clone().send_request(request));
            client.service(send).oneshot(request).await?
        }
    })
}

/// What A gets: how many bytes, and the status, or why it has no more.
async fn ask(
    version: Version,
    address: SocketAddr,
    got: mpsc::UnboundedSender<usize>,
) -> Result<StatusCode, BoxError> {
    let response = call(version, address).await?;
    let status = response.status();
    let mut body = response.into_body();
    while let Some(frame) = body.frame().await {
        let _ = got.send(frame?.into_data().map_or(0, |data| data.len()));
    }
    Ok(status)
}

struct TellsDrop(mpsc::UnboundedSender<&'static str>, &'static str);

impl Drop for TellsDrop {
    fn drop(&mut self) {
        let _ = self.0.send(self.1);
    }
}

/// Two servers: B calls C, and answers what C answers.
async fn chain(
    wheel: &TimingWheel,
    (version, work): (Version, Work),
) -> (SocketAddr, mpsc::UnboundedReceiver<&'static str>) {
    let (dropped, receiver) = mpsc::unbounded_channel();
    let layer = ServerLayer::new(wheel, millis());
    let at_c = dropped.clone();
    let c = ServiceBuilder::new().layer(layer.clone()).service_fn(move |_| {
        let tells = TellsDrop(at_c.clone(), "C");
        let (mut sender, body) = Channel::<Bytes, Infallible>::new(1);
        // In a task of its own, which ends with the deadline too.
        let task = tokio::spawn(Deadline::run_current(async move {
            let _tells = tells;
            if let Work::Stream = work {
                sender.send_data("a frame".into()).await.unwrap();
            }
            let _open = sender;
            pending::<()>().await;
        }));
        async move {
            if let Work::Answer = work {
                let _end = task.await;
            }
            Ok(Response::new(body.map_err(BoxError::from).boxed_unsync()))
        }
    });
    let c = serve(c).await;
    let b = ServiceBuilder::new().layer(layer).service_fn(move |_| {
        let tells = TellsDrop(dropped.clone(), "B");
        async move {
            let Ok(response) = call(version, c).await else {
                let late = Response::builder().status(StatusCode::GATEWAY_TIMEOUT);
                return Ok(late.body(Empty::new().map_err(BoxError::from).boxed_unsync()).unwrap());
            };
            Ok(response.map(|body| {
                body.map_err(BoxError::from)
                    .map_frame(move |frame| {
                        let _kept = &tells;
                        frame
                    })
                    .boxed_unsync()
            }))
        }
    });
    (serve(b).await, receiver)
}

async fn assert_both_dropped(mut dropped: mpsc::UnboundedReceiver<&'static str>) {
    let mut both = [dropped.recv().await.unwrap(), dropped.recv().await.unwrap()];
    both.sort_unstable();
    assert_eq!(both, ["B", "C"]);
}

#[tokio::test]
async fn the_deadline_of_a_ends_the_work_of_c_also_in_the_middle_of_a_stream() {
    for way @ (version, work) in ALL {
        let wheel = TimingWheel::new();
        let (b, dropped) = chain(&wheel, way).await;
        let (sender, mut got) = mpsc::unbounded_channel();
        let deadline = wheel.deadline_in(Duration::from_millis(300));
        let end = deadline.scope(ask(version, b, sender)).await;
        // C has less than B, and B less than A, so the callee mostly ends first.
        match (work, &end) {
            (Work::Answer, Ok(status)) => assert_eq!(*status, StatusCode::GATEWAY_TIMEOUT),
            (_, Ok(_)) => panic!("{way:?}: A takes what came for the whole"),
            (_, Err(error)) => assert!(error.is::<Error>(), "{way:?}: {error:?}"),
        }
        let streamed = if let Work::Stream = work { Some("a frame".len()) } else { None };
        assert_eq!(got.recv().await, streamed, "{way:?}");
        assert_both_dropped(dropped).await;
    }
}

#[tokio::test]
async fn nobody_works_for_a_client_that_has_gone_also_in_the_middle_of_a_stream() {
    for way @ (version, work) in ALL {
        let wheel = TimingWheel::new();
        let (b, dropped) = chain(&wheel, way).await;
        let (sender, mut got) = mpsc::unbounded_channel();
        let deadline = wheel.deadline_in(Duration::from_secs(3600));
        let client = tokio::spawn(deadline.scope(ask(version, b, sender)));
        match work {
            Work::Stream => assert!(got.recv().await.is_some()),
            // Until C has its deadline armed, and A and B theirs.
            Work::Answer => {
                while wheel.pending() < 3 {
                    tokio::task::yield_now().await;
                }
            }
        }
        client.abort();
        assert_both_dropped(dropped).await;
    }
}

/// hyper does not look at a connection whose request it has not read to the end, so it does not see the client go.
#[tokio::test]
async fn over_http1_work_for_a_client_that_has_gone_ends_at_its_deadline_if_the_body_was_not_read() {
    let (dropped, mut drops) = mpsc::unbounded_channel();
    let (begun, mut begins) = mpsc::unbounded_channel();
    let layer = ServerLayer::new(&TimingWheel::new(), millis());
    let server = ServiceBuilder::new().layer(layer).service_fn(move |request: Request<Incoming>| {
        let tells = TellsDrop(dropped.clone(), "the work");
        begun.send(()).unwrap();
        async move {
            let _kept = (request, tells);
            pending::<Result<Response<Body>, Infallible>>().await
        }
    });
    let mut client = TcpStream::connect(serve(server).await).await.unwrap();
    let start = Instant::now();
    // A part of the body alone.
    let head = b"POST / HTTP/1.1\r\nhost: test\r\nx-time-left: 300\r\ncontent-length: 1000\r\n\r\na part";
    client.write_all(head).await.unwrap();
    begins.recv().await.unwrap();
    drop(client);
    assert_eq!(drops.recv().await, Some("the work"));
    assert!(start.elapsed() >= Duration::from_millis(300), "{:?}", start.elapsed());
}

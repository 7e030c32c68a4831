//! hyper-util's client, which keeps idle connections for a while.

use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use http_body_util::{BodyExt, Empty};
use hyper::Uri;
use hyper::body::Bytes;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::{TokioExecutor, TokioIo};
use timingwheel::TimingWheel;
use tokio::io::DuplexStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::{BUFFER, HOUR, SECOND, answer, assert_nothing_pending};

const IDLE: std::time::Duration = SECOND.saturating_mul(10);

/// A connection in memory, as the client wants its connections.
struct Stream(TokioIo<DuplexStream>);

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl Write for Stream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

type Connections = Client<Connector, Empty<Bytes>>;

/// The server's ends of all connections, each with the time at which the client closed it.
#[derive(Clone, Default)]
struct Connector(Arc<Mutex<Vec<JoinHandle<Instant>>>>);

impl Connector {
    /// A client with a pool, whose connections these are.
    fn client(&self, wheel: &TimingWheel) -> Connections {
        Client::builder(TokioExecutor::new())
            .pool_timer(wheel.clone())
            .pool_idle_timeout(IDLE)
            .build(self.clone())
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// When the client closed the newest connection.
    async fn closed(&self) -> Instant {
        let newest = self.0.lock().unwrap().pop().unwrap();
        newest.await.unwrap()
    }

    fn are_all_closed(&self) -> bool {
        self.0.lock().unwrap().iter().all(JoinHandle::is_finished)
    }
}

impl tower::Service<Uri> for Connector {
    type Response = Stream;
    type Error = io::Error;
    type Future = Ready<io::Result<Stream>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let (client, server) = tokio::io::duplex(BUFFER);
        self.0.lock().unwrap().push(tokio::spawn(async move {
            let served = http1::Builder::new().serve_connection(TokioIo::new(server), service_fn(answer));
            served.await.unwrap();
            Instant::now()
        }));
        ready(Ok(Stream(TokioIo::new(client))))
    }
}

async fn ask(client: &Connections, uri: &'static str) -> Instant {
    let response = client.get(Uri::from_static(uri)).await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "answer");
    // The connection goes back to the pool in a task of the client's.
    tokio::task::yield_now().await;
    Instant::now()
}

const HERE: &str = "http://here/";

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed_when_the_pool_looks_after_its_time() {
    let (wheel, connections) = (TimingWheel::new(), Connector::default());
    let client = connections.client(&wheel);
    let first = ask(&client, HERE).await;
    assert_eq!(wheel.pending(), 1);
    sleep(IDLE / 2).await;
    ask(&client, HERE).await;
    assert_eq!(connections.len(), 1, "the connection was used again");

    // The pool looks every so often from the first time on, and closes what has been idle for longer than that.
    assert_eq!(connections.closed().await - first, 2 * IDLE);
    assert_nothing_pending(&wheel);
    sleep(HOUR).await;
    assert_eq!(wheel.stats().armed, 2, "an empty pool does not look");

    ask(&client, HERE).await;
    assert_eq!((connections.len(), wheel.pending()), (1, 1), "a new connection, and its timer");
    drop(client);
    connections.closed().await;
    assert_nothing_pending(&wheel);
}

/// The pool looks in a task of its own, and begins it once: if that panicked, connections would stay for ever.
#[tokio::test(start_paused = true)]
async fn a_pool_on_a_wheel_that_is_full_for_a_moment_goes_on_looking() {
    let (wheel, connections) = (TimingWheel::builder().max_pending(1).build().unwrap(), Connector::default());
    let client = connections.client(&wheel);
    let place = wheel.try_sleep(HOUR).unwrap();
    ask(&client, "http://a/").await;
    tokio::task::yield_now().await;
    assert_eq!((wheel.stats().refused, wheel.pending()), (1, 1), "the pool's timer is not the wheel's");
    drop(place);
    for uri in ["http://b/", "http://c/", "http://d/"] {
        ask(&client, uri).await;
    }
    sleep(IDLE + SECOND).await;
    assert!(!connections.are_all_closed());
    assert_eq!((wheel.stats().refused, wheel.pending()), (1, 1), "its next timer is the wheel's");
    sleep(IDLE).await;
    assert_eq!(connections.len(), 4);
    assert!(connections.are_all_closed());
    assert_nothing_pending(&wheel);
}

#[tokio::test(start_paused = true)]
async fn a_pool_whose_wheel_ends_goes_on_looking() {
    let (wheel, connections) = (TimingWheel::new(), Connector::default());
    let client = connections.client(&wheel);
    let asked = ask(&client, HERE).await;
    assert_eq!(wheel.shutdown(), 1);
    assert_eq!(connections.closed().await - asked, 2 * IDLE);
    let asked = ask(&client, HERE).await;
    assert_eq!(connections.closed().await - asked, 2 * IDLE, "begun anew, on the wheel that has ended");
}

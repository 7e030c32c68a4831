//! hyper-util's client, which keeps idle connections for a while.

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

use crate::{BUFFER, HOUR, SECOND, answer, assert_nothing_pending};

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

/// The server's ends of all connections, each with the time at which the client closed it.
type Closed = Arc<Mutex<Vec<JoinHandle<Instant>>>>;

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_closed_when_the_pool_looks_after_its_time() {
    let (wheel, closed) = (TimingWheel::new(), Closed::default());
    let connector = tower::service_fn({
        let closed = closed.clone();
        move |_: Uri| {
            let (client, server) = tokio::io::duplex(BUFFER);
            closed.lock().unwrap().push(tokio::spawn(async move {
                let served =
                    http1::Builder::new().serve_connection(TokioIo::new(server), service_fn(answer)).await;
                served.unwrap();
                Instant::now()
            }));
            std::future::ready(Ok::<_, io::Error>(Stream(TokioIo::new(client))))
        }
    });
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new())
        .pool_timer(wheel.clone())
        .pool_idle_timeout(IDLE)
        .build(connector);
    let ask = async || {
        let response = client.get(Uri::from_static("http://here/")).await.unwrap();
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "answer");
        // The connection goes back to the pool in a task of the client's.
        tokio::task::yield_now().await;
        Instant::now()
    };

    let first = ask().await;
    assert_eq!(wheel.pending(), 1);
    sleep(IDLE / 2).await;
    ask().await;
    assert_eq!(closed.lock().unwrap().len(), 1, "the connection was used again");

    // The pool looks every so often from the first time on, and closes what has been idle for longer than that.
    let times = closed.lock().unwrap().pop().unwrap();
    assert_eq!(times.await.unwrap() - first, 2 * IDLE);
    assert_nothing_pending(&wheel);
    sleep(HOUR).await;
    assert_eq!(wheel.stats().armed, 2, "an empty pool does not look");

    ask().await;
    assert_eq!((closed.lock().unwrap().len(), wheel.pending()), (1, 1), "a new connection, and its timer");
    drop(client);
    let times = closed.lock().unwrap().pop().unwrap();
    times.await.unwrap();
    assert_nothing_pending(&wheel);
}

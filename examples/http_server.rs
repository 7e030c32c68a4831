//! How do I limit slow request heads, slow answers, idle connections and long connections of an HTTP server?
//!
//! `cargo run --release -p timingwheel-examples --all-features --example http_server`
//!
//! `serve` and `answer` are the code to copy. hyper's header timeout closes connections that are slow or idle; a
//! connection that is too old is closed between two requests; an answer that takes too long becomes a 504.

use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::{Duration, Instant};

use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use timingwheel::TimingWheel;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const HEAD_LIMIT: Duration = Duration::from_millis(600);
const ANSWER_LIMIT: Duration = Duration::from_millis(300);
const MOST_AGE: Duration = Duration::from_secs(2);

/// Serves a connection, until its client leaves, is too slow, or the connection is too old.
async fn serve(stream: TcpStream, wheel: TimingWheel) -> hyper::Result<()> {
    let mut http = http1::Builder::new();
    // A head counts from when the server begins to wait for it, so this limits idle connections too.
    http.timer(wheel.clone()).header_read_timeout(HEAD_LIMIT);
    let service = service_fn(|request| answer(request, &wheel));
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    if let Ok(served) = wheel.timeout(MOST_AGE, connection.as_mut()).await {
        return served;
    }
    connection.as_mut().graceful_shutdown();
    connection.await
}

/// The answer to a request, or 504 if that takes too long. Then the work is dropped.
async fn answer(
    request: Request<Incoming>,
    wheel: &TimingWheel,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    let answered = wheel.timeout(ANSWER_LIMIT, work(&request)).await;
    let mut response = Response::new(Empty::new());
    if answered.is_err() {
        *response.status_mut() = StatusCode::GATEWAY_TIMEOUT;
    }
    Ok(response)
}

/// A path is how many milliseconds the answer takes.
async fn work(request: &Request<Incoming>) {
    let millis = request.uri().path().trim_start_matches('/').parse().unwrap_or(0);
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

// Four clients, each of which meets one limit.

struct Client {
    stream: TcpStream,
    begun: Instant,
}

impl Client {
    async fn connect(server: SocketAddr) -> std::io::Result<Self> {
        Ok(Self { stream: TcpStream::connect(server).await?, begun: Instant::now() })
    }

    /// Asks, and returns the status. Nothing if the server has closed the connection.
    async fn ask(&mut self, millis: u64) -> Option<String> {
        let head = format!("GET /{millis} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        self.stream.write_all(head.as_bytes()).await.ok()?;
        let mut answer = vec![0; 1_024];
        let read = self.stream.read(&mut answer).await.ok().filter(|&read| read > 0)?;
        Some(String::from_utf8_lossy(&answer[9..read.min(12)]).into_owned())
    }

    /// Waits until the server closes the connection, and tells how long that took since it was opened.
    async fn closed(mut self) -> Duration {
        // What comes before is the answer 408, or nothing.
        while self.stream.read(&mut [0; 256]).await.is_ok_and(|read| read > 0) {}
        self.begun.elapsed()
    }
}

fn show(limit: &str, what: impl std::fmt::Display) {
    println!("| {limit:<22} | {what:<47} |");
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let wheel = TimingWheel::new();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let server = listener.local_addr()?;
    let on = wheel.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, on.clone()));
        }
    });

    println!("A head may take {HEAD_LIMIT:?}, an answer {ANSWER_LIMIT:?}, a connection {MOST_AGE:?}.\n");
    show("limit", "what the server did");
    show(&"-".repeat(22), "-".repeat(47));
    let mut client = Client::connect(server).await?;
    let statuses = [client.ask(10).await, client.ask(10_000).await];
    assert_eq!(statuses, [Some("200".into()), Some("504".into())]);
    show("slow answer", "a quick answer was 200, a slow one 504");

    let idle = client.closed().await;
    assert!(idle >= HEAD_LIMIT, "an idle connection was closed too early");
    show("idle connection", format!("closed {idle:.0?} after it was opened"));

    let mut client = Client::connect(server).await?;
    client.stream.write_all(b"GET / HT").await?;
    let slow = client.closed().await;
    assert!(slow >= HEAD_LIMIT, "a slow head was cut off too early");
    show("slow head", format!("cut off after {slow:.0?}"));

    let mut client = Client::connect(server).await?;
    let mut requests = 0;
    while client.ask(50).await.is_some() {
        requests += 1;
    }
    let age = client.begun.elapsed();
    assert!(requests > 0 && age >= MOST_AGE, "a connection in use was closed too early");
    show("connection in use", format!("closed after {requests} requests and {age:.1?}"));
    println!("\nWhat it means: each limit met the client that it is for.");
    Ok(())
}

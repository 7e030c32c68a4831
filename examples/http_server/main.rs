//! How do I limit slow request heads, slow answers, idle connections and long connections of an HTTP server?
//!
//! `cargo run --release -p timingwheel-examples --all-features --example http_server`, or with `-- --help` for the
//! settings and `-- --short` for a quick look.
//!
//! `serve` and `answer` are all that a program needs: hyper's header timeout, which closes connections that are slow or
//! idle; the age of a connection, after which it is closed between two requests; and a tower layer round the work, which
//! answers 504. All of it is on one timing wheel.
//!
//! The rest is a load. A server and its clients run in this process, on loopback sockets. A third of the clients is good,
//! a third sends a head byte by byte, and a third asks once and then says nothing. Both ends keep books. If those do not
//! agree (a request was lost, a connection closed too early, a timer left) the program says so and exits with 1.
//!
//! With `--serve 127.0.0.1:0` it only serves, by `--timers` of your choice, for a load from another program: see
//! `benches/http_load`.

use std::pin::pin;
use std::time::Duration;

use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::HttpService;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use timingwheel::TimingWheel;
use timingwheel::tower::TimeoutLayer;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tower::timeout::error::Elapsed;
use tower::{BoxError, Service, ServiceBuilder, ServiceExt};

/// The server's limits.
#[derive(Clone, Copy, Debug)]
struct Limits {
    header_timeout: Duration,
    request_timeout: Duration,
    keep_alive: Duration,
}

/// Serves a connection. When it is told to close for its age, `closes` learns when that was due.
async fn serve<S>(
    stream: TcpStream,
    service: S,
    wheel: &TimingWheel,
    limits: Limits,
    closes: impl FnOnce(Instant),
) -> hyper::Result<()>
where
    S: HttpService<Incoming, ResBody = Empty<Bytes>, Error: Into<BoxError>>,
{
    let mut http = http1::Builder::new();
    http.timer(wheel.clone()).header_read_timeout(limits.header_timeout);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    let mut age = pin!(wheel.sleep(limits.keep_alive));
    tokio::select! {
        served = connection.as_mut() => return served,
        () = age.as_mut() => closes(age.deadline()),
    }
    connection.as_mut().graceful_shutdown();
    connection.await
}

/// The answer to a request: what `work` says, or 504 if that takes too long. Then the work is dropped.
async fn answer<W>(
    request: Request<Incoming>,
    work: W,
    wheel: &TimingWheel,
    limits: Limits,
) -> Result<Response<Empty<Bytes>>, BoxError>
where
    W: Service<Request<Incoming>, Response = Response<Empty<Bytes>>, Error: Into<BoxError>>,
{
    let limit = TimeoutLayer::new(wheel.clone(), limits.request_timeout);
    match ServiceBuilder::new().layer(limit).service(work).oneshot(request).await {
        Err(error) if error.is::<Elapsed>() => {
            let mut too_slow = Response::new(Empty::new());
            *too_slow.status_mut() = StatusCode::GATEWAY_TIMEOUT;
            Ok(too_slow)
        }
        answered => answered,
    }
}

mod books;
mod client;
#[path = "../shared/files.rs"]
mod files;
#[path = "../shared/ledger.rs"]
mod ledger;
#[path = "../shared/limits.rs"]
mod limits;
#[path = "../shared/machine.rs"]
mod machine;
mod report;
mod run;
mod serve;
mod server;
mod settings;
mod spent;
mod timers;

fn main() -> std::process::ExitCode {
    run::main()
}

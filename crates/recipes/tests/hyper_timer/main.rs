//! Timers of hyper's servers and clients on a wheel, over connections in memory, on a paused clock.

mod auto;
mod http1;
mod http2;
mod pool;

use std::convert::Infallible;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response};
use timingwheel::TimingWheel;
use tokio::io::{AsyncReadExt, DuplexStream};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
/// More than any test here sends without reading.
const BUFFER: usize = 64 * 1024;

/// A handler that takes as many seconds as the request's path says, if it is a number.
async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    if let Ok(seconds) = request.uri().path()[1..].parse() {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }
    Ok(Response::new(Full::new(Bytes::from_static(b"answer"))))
}

/// What a peer sends until it closes the connection.
async fn rest(stream: &mut DuplexStream) -> Vec<u8> {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    rest
}

fn assert_nothing_pending(wheel: &TimingWheel) {
    let stats = wheel.stats();
    assert_eq!((stats.pending, stats.armed), (0, stats.fired + stats.cancelled), "{stats:?}");
}

//! hyper-util's server that finds out which HTTP its client speaks.

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use timingwheel::TimingWheel;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use super::http2::{PREFACE, SETTINGS, assert_ping_timeout, pings};
use super::{BUFFER, HOUR, SECOND, answer, assert_nothing_pending, rest};

type Served = Result<(), Box<dyn std::error::Error + Send + Sync>>;

fn serve(wheel: &TimingWheel) -> (DuplexStream, JoinHandle<Served>) {
    let (client, stream) = tokio::io::duplex(BUFFER);
    let mut settings = Builder::new(TokioExecutor::new());
    settings.http1().timer(wheel.clone()).header_read_timeout(10 * SECOND);
    settings.http2().timer(wheel.clone()).keep_alive_interval(10 * SECOND).keep_alive_timeout(5 * SECOND);
    let served = async move { settings.serve_connection(TokioIo::new(stream), service_fn(answer)).await };
    (client, tokio::spawn(served))
}

#[tokio::test(start_paused = true)]
async fn a_slow_head_closes_the_connection_at_its_deadline() {
    let (wheel, start) = (TimingWheel::new(), Instant::now());
    let (mut client, served) = serve(&wheel);
    client.write_all(b"GET / HT").await.unwrap();
    assert_eq!(rest(&mut client).await, b"");
    assert_eq!(start.elapsed(), 10 * SECOND);
    let error = served.await.unwrap().unwrap_err();
    assert!(error.downcast_ref::<hyper::Error>().unwrap().is_timeout(), "{error:?}");
    assert_nothing_pending(&wheel);
}

#[tokio::test(start_paused = true)]
async fn a_ping_without_an_answer_closes_the_connection_at_its_deadline() {
    let (wheel, start) = (TimingWheel::new(), Instant::now());
    let (mut dead, served) = serve(&wheel);
    dead.write_all(&[PREFACE, SETTINGS].concat()).await.unwrap();
    assert_eq!(pings(&mut dead, start).await, [10 * SECOND, 15 * SECOND]);
    assert_ping_timeout(&*served.await.unwrap().unwrap_err());
    assert_nothing_pending(&wheel);
}

/// Our docs say so, because a user has to do something about it.
#[tokio::test(start_paused = true)]
async fn a_client_that_sends_nothing_is_waited_for_without_a_timer() {
    let wheel = TimingWheel::new();
    let (mut client, _served) = serve(&wheel);
    assert!(timeout(HOUR, client.read(&mut [0])).await.is_err());
    assert_eq!(wheel.stats().armed, 0);
}

//! HTTP/1 servers: the header timeout, which also bounds how long a connection idles.

use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use timingwheel::TimingWheel;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use super::{BUFFER, HOUR, SECOND, answer, assert_nothing_pending, rest};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: here\r\n\r\n";

/// A server with these settings, and its only client.
fn serve(settings: &Builder) -> (DuplexStream, JoinHandle<hyper::Result<()>>) {
    let (client, server) = tokio::io::duplex(BUFFER);
    let connection = settings.serve_connection(TokioIo::new(server), service_fn(answer));
    (client, tokio::spawn(connection))
}

fn on(wheel: &TimingWheel) -> Builder {
    let mut settings = Builder::new();
    settings.timer(wheel.clone());
    settings
}

async fn ask(client: &mut DuplexStream, request: &[u8]) {
    client.write_all(request).await.unwrap();
    let mut response = Vec::new();
    while !response.ends_with(b"answer") {
        let read = client.read_buf(&mut response).await.unwrap();
        assert!(read > 0, "closed after {:?}", String::from_utf8_lossy(&response));
    }
    assert!(response.starts_with(b"HTTP/1.1 200 OK\r\n"));
}

#[tokio::test(start_paused = true)]
async fn a_head_that_comes_too_slowly_closes_the_connection_at_its_deadline() {
    let (wheel, start) = (TimingWheel::new(), Instant::now());
    let (client, served) = serve(on(&wheel).header_read_timeout(10 * SECOND));
    let (mut read, mut write) = tokio::io::split(client);
    let slow = tokio::spawn(async move {
        for byte in REQUEST {
            if write.write_all(&[*byte]).await.is_err() {
                break;
            }
            sleep(SECOND).await;
        }
    });
    let error = served.await.unwrap().unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert_eq!(start.elapsed(), 10 * SECOND);
    assert_eq!(read.read(&mut [0]).await.unwrap(), 0, "no response is sent");
    slow.await.unwrap();
    let stats = wheel.stats();
    assert_eq!((stats.armed, stats.fired, stats.pending), (1, 1, 0), "one timer, however often it is polled");
}

#[tokio::test(start_paused = true)]
async fn a_head_that_is_complete_in_time_is_answered() {
    let (wheel, start) = (TimingWheel::new(), Instant::now());
    let (mut client, _served) = serve(on(&wheel).header_read_timeout(10 * SECOND));
    client.write_all(&REQUEST[..9]).await.unwrap();
    sleep(9 * SECOND).await;
    ask(&mut client, &REQUEST[9..]).await;
    assert_eq!(start.elapsed(), 9 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_idles_after_a_response_is_closed_as_well() {
    let wheel = TimingWheel::new();
    let (mut client, served) = serve(on(&wheel).header_read_timeout(10 * SECOND));
    for _ in 0..20 {
        ask(&mut client, REQUEST).await;
        assert_eq!(wheel.pending(), 1);
        sleep(9 * SECOND).await;
    }
    ask(&mut client, REQUEST).await;
    let response = Instant::now();
    assert_eq!(rest(&mut client).await, b"");
    assert_eq!(response.elapsed(), 10 * SECOND);
    assert!(served.await.unwrap().unwrap_err().is_timeout());
    let stats = wheel.stats();
    // The first request had come before hyper looked for it.
    assert_eq!((stats.armed, stats.cancelled, stats.fired, stats.pending), (21, 20, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn unless_told_otherwise_it_is_30_seconds() {
    let (wheel, start) = (TimingWheel::new(), Instant::now());
    let (mut silent, _served) = serve(&on(&wheel));
    assert_eq!(rest(&mut silent).await, b"");
    assert_eq!(start.elapsed(), 30 * SECOND);

    let (mut idle, _served) = serve(&on(&wheel));
    ask(&mut idle, b"GET /5 HTTP/1.1\r\nhost: here\r\n\r\n").await;
    assert_eq!(start.elapsed(), 35 * SECOND);
    assert_eq!(rest(&mut idle).await, b"");
    assert_eq!(start.elapsed(), 65 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn switched_off_it_leaves_connections_open_and_the_wheel_alone() {
    let wheel = TimingWheel::new();
    let (mut client, served) = serve(on(&wheel).header_read_timeout(None));
    assert!(timeout(HOUR, client.read(&mut [0])).await.is_err());
    ask(&mut client, REQUEST).await;
    assert!(timeout(HOUR, client.read(&mut [0])).await.is_err());
    ask(&mut client, REQUEST).await;
    drop(client);
    served.await.unwrap().unwrap();
    assert_eq!(wheel.stats().armed, 0);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_takes_longer_than_heads_may_is_not_stopped() {
    let (wheel, start) = (TimingWheel::new(), Instant::now());
    let (mut client, served) = serve(on(&wheel).header_read_timeout(10 * SECOND));
    ask(&mut client, b"GET /60 HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n").await;
    assert_eq!(start.elapsed(), 60 * SECOND);
    served.await.unwrap().unwrap();
    assert_nothing_pending(&wheel);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_takes_its_timer_along() {
    let wheel = TimingWheel::new();
    let (mut client, served) = serve(&on(&wheel));
    ask(&mut client, REQUEST).await;
    assert_eq!(wheel.pending(), 1);
    drop(client);
    served.await.unwrap().unwrap();
    assert_nothing_pending(&wheel);
}

#[tokio::test(start_paused = true)]
async fn a_connection_outlives_its_wheel_and_keeps_its_limit() {
    let wheel = TimingWheel::new();
    let (mut client, served) = serve(on(&wheel).header_read_timeout(10 * SECOND));
    ask(&mut client, REQUEST).await;
    let response = Instant::now();
    sleep(9 * SECOND).await;
    assert_eq!(wheel.shutdown(), 1);
    assert_eq!(rest(&mut client).await, b"");
    assert_eq!(response.elapsed(), 10 * SECOND, "the limit that ran as the wheel ended");
    assert!(served.await.unwrap().unwrap_err().is_timeout());

    let (mut client, served) = serve(on(&wheel).header_read_timeout(10 * SECOND));
    ask(&mut client, REQUEST).await;
    let response = Instant::now();
    assert_eq!(rest(&mut client).await, b"");
    assert_eq!(response.elapsed(), 10 * SECOND, "one of a later connection");
    assert!(served.await.unwrap().unwrap_err().is_timeout());
}

#[tokio::test(start_paused = true)]
async fn a_connection_for_which_the_wheel_has_no_place_keeps_its_limit() {
    let wheel = TimingWheel::builder().max_pending(1).build().unwrap();
    let (mut first, _served) = serve(&on(&wheel));
    ask(&mut first, REQUEST).await;
    let (mut second, served) = serve(on(&wheel).header_read_timeout(10 * SECOND));
    ask(&mut second, REQUEST).await;
    let response = Instant::now();
    assert_eq!((wheel.pending(), wheel.stats().armed), (1, 1));
    assert!(wheel.stats().refused > 0);
    assert_eq!(rest(&mut second).await, b"");
    assert_eq!(response.elapsed(), 10 * SECOND);
    assert!(served.await.unwrap().unwrap_err().is_timeout());
    ask(&mut first, REQUEST).await;
}

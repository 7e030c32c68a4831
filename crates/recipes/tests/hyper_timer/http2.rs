//! HTTP/2: pings that tell a dead peer, of servers and of clients.

use std::error::Error;

use http_body_util::{BodyExt, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http2 as client;
use hyper::server::conn::http2 as server;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use timingwheel::TimingWheel;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::{BUFFER, SECOND, answer, assert_nothing_pending};

const INTERVAL: std::time::Duration = SECOND.saturating_mul(10);
const PATIENCE: std::time::Duration = SECOND.saturating_mul(4);

pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// A SETTINGS frame with no setting in it: three bytes of length, type, flags, four bytes of stream.
pub(crate) const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];
const PING: u8 = 6;
const HEAD: usize = 9;

fn server(wheel: &TimingWheel) -> server::Builder<TokioExecutor> {
    let mut settings = server::Builder::new(TokioExecutor::new());
    settings.timer(wheel.clone()).keep_alive_interval(INTERVAL).keep_alive_timeout(PATIENCE);
    settings
}

fn serve(wheel: &TimingWheel) -> (DuplexStream, JoinHandle<hyper::Result<()>>) {
    let (client, stream) = tokio::io::duplex(BUFFER);
    let connection = server(wheel).serve_connection(TokioIo::new(stream), service_fn(answer));
    (client, tokio::spawn(connection))
}

/// When each ping came, and when the connection was closed.
pub(crate) async fn pings(peer: &mut DuplexStream, start: Instant) -> Vec<std::time::Duration> {
    let mut times = Vec::new();
    let mut head = [0; HEAD];
    while peer.read_exact(&mut head).await.is_ok() {
        let [high, middle, low, kind, ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
        peer.read_exact(&mut payload).await.unwrap();
        if kind == PING {
            times.push(start.elapsed());
        }
    }
    times.push(start.elapsed());
    times
}

pub(crate) fn assert_ping_timeout(error: &(dyn Error + 'static)) {
    let error: &hyper::Error = error.downcast_ref().expect("hyper's error");
    assert!(error.is_timeout(), "{error:?}");
    assert_eq!(error.source().unwrap().to_string(), "keep-alive timed out");
}

#[tokio::test(start_paused = true)]
async fn a_server_closes_the_connection_of_a_client_that_does_not_answer_its_ping() {
    let (wheel, start) = (TimingWheel::new(), Instant::now());
    let (mut dead, served) = serve(&wheel);
    dead.write_all(&[PREFACE, SETTINGS].concat()).await.unwrap();
    assert_eq!(pings(&mut dead, start).await, [INTERVAL, INTERVAL + PATIENCE]);
    assert_ping_timeout(&served.await.unwrap().unwrap_err());
    assert_nothing_pending(&wheel);
}

#[tokio::test(start_paused = true)]
async fn a_client_closes_the_connection_to_a_server_that_does_not_answer_its_ping() {
    let (wheel, start) = (TimingWheel::new(), Instant::now());
    let (stream, mut dead) = tokio::io::duplex(BUFFER);
    dead.write_all(SETTINGS).await.unwrap();
    let (_requests, connection) = client::Builder::new(TokioExecutor::new())
        .timer(wheel.clone())
        .keep_alive_interval(INTERVAL)
        .keep_alive_timeout(PATIENCE)
        .keep_alive_while_idle(true)
        .handshake::<_, Empty<Bytes>>(TokioIo::new(stream))
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    dead.read_exact(&mut [0; PREFACE.len()]).await.unwrap();
    assert_eq!(pings(&mut dead, start).await, [INTERVAL, INTERVAL + PATIENCE]);
    assert_ping_timeout(&connection.await.unwrap().unwrap_err());
    assert_nothing_pending(&wheel);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_answers_pings_stays_connected_and_has_one_timer() {
    const PINGS: u32 = 20;
    let wheel = TimingWheel::new();
    let (stream, served) = serve(&wheel);
    let (mut requests, connection) = client::Builder::new(TokioExecutor::new())
        .handshake::<_, Empty<Bytes>>(TokioIo::new(stream))
        .await
        .unwrap();
    let connection = tokio::spawn(connection);
    // Between pings, from here on.
    sleep(SECOND).await;
    let armed = wheel.stats().armed;
    for _ in 0..PINGS {
        sleep(INTERVAL).await;
        assert_eq!(wheel.pending(), 1);
    }
    // Armed for each answer, and from there moved to the next ping: a new sleep would be armed once more.
    assert_eq!(wheel.stats().armed - armed, u64::from(PINGS));

    let response = requests.send_request(Request::new(Empty::new())).await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "answer");
    drop(requests);
    connection.await.unwrap().unwrap();
    served.await.unwrap().unwrap();
    assert_nothing_pending(&wheel);
}

/// hyper polls its sleep under a lock. A panic would poison that, and tasks that read bodies take it too.
#[tokio::test(start_paused = true)]
async fn the_end_of_the_wheel_ends_neither_connections_nor_pings_nor_what_reads_bodies() {
    let wheel = TimingWheel::new();
    let (client_stream, stream) = tokio::io::duplex(BUFFER);
    let handler = service_fn(async |request: Request<Incoming>| {
        request.into_body().collect().await.map(|body| Response::new(Full::new(body.to_bytes())))
    });
    let served = tokio::spawn(server(&wheel).serve_connection(TokioIo::new(stream), handler));
    let (mut requests, connection) =
        client::Builder::new(TokioExecutor::new()).handshake(TokioIo::new(client_stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let (mut upload, body) = http_body_util::channel::Channel::<Bytes>::new(1);
    let response = tokio::spawn(requests.send_request(Request::new(body)));
    let (mut dead, given_up) = serve(&wheel);
    dead.write_all(&[PREFACE, SETTINGS].concat()).await.unwrap();
    sleep(SECOND).await;

    assert_eq!(wheel.shutdown(), 2);
    let start = Instant::now();
    assert_eq!(
        pings(&mut dead, start).await,
        [INTERVAL - SECOND, INTERVAL - SECOND + PATIENCE],
        "the limits that ran as the wheel ended"
    );
    assert_ping_timeout(&given_up.await.unwrap().unwrap_err());
    sleep(10 * INTERVAL).await;
    upload.send_data(Bytes::from_static(b"uploaded")).await.unwrap();
    drop(upload);
    let response = response.await.unwrap().unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "uploaded");
    drop(requests);
    connection.await.unwrap().unwrap();
    served.await.unwrap().unwrap();
}

//! axum: a connection served by hyper, with the wheel's limit for heads, and an end that waits for responses and jobs.

use std::io;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use timingwheel::TimingWheel;
use timingwheel_jobs::{Ended, Jobs};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// Serves a connection until it closes, or until its client takes more than 10 s for a head.
///
/// # Errors
/// If the connection breaks, or a limit is reached.
pub async fn serve(
    wheel: &TimingWheel,
    app: Router,
    connection: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> hyper::Result<()> {
    http1::Builder::new()
        .timer(wheel.clone())
        .header_read_timeout(Duration::from_secs(10))
        .serve_connection(TokioIo::new(connection), TowerToHyperService::new(app))
        .with_upgrades()
        .await
}

/// Serves until `end` is ready. Then it takes no more connections, waits for the responses that are owed, and after that for
/// the jobs that run, for `limit` each. Returns how the jobs ended, with those that have not begun.
///
/// # Errors
/// If the listener fails.
pub async fn serve_until(
    end: impl Future<Output = ()> + Send + 'static,
    limit: Duration,
    (wheel, jobs): (&TimingWheel, &Jobs<String>),
    (listener, app): (TcpListener, Router),
) -> io::Result<Ended<String>> {
    let (ending, ends) = oneshot::channel();
    let end = async move {
        end.await;
        _ = ending.send(());
    };
    let served = axum::serve(listener, app).with_graceful_shutdown(end);
    let over = async {
        _ = ends.await;
        wheel.sleep(limit).await;
    };
    tokio::select! {
        served = served.into_future() => served?,
        () = over => {}
    }
    Ok(jobs.shutdown(limit).await)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::extract::Request;
    use axum::http::StatusCode;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio::sync::Notify;
    use tokio::time::{Instant, timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_sends_no_head_is_closed_by_a_timer_of_the_wheel() {
        let wheel = TimingWheel::new();
        let app = Router::new().route("/", get(|| async { "hello" }));
        let (_silent, connection) = tokio::io::duplex(1024);
        let start = Instant::now();
        assert!(serve(&wheel, app, connection).await.is_err());
        assert_eq!((start.elapsed(), wheel.stats().fired), (Duration::from_secs(10), 1));
    }

    /// As a WebSocket begins.
    #[tokio::test(start_paused = true)]
    async fn a_handler_may_switch_to_another_protocol() {
        let wheel = TimingWheel::new();
        let upgraded = async |request: Request| {
            tokio::spawn(async move {
                let mut stream = TokioIo::new(hyper::upgrade::on(request).await.expect("it is upgraded"));
                stream.write_all(b"the other protocol").await
            });
            (StatusCode::SWITCHING_PROTOCOLS, [("connection", "upgrade"), ("upgrade", "other")])
        };
        let (mut client, connection) = tokio::io::duplex(1024);
        let app = Router::new().route("/", get(upgraded));
        let served = tokio::spawn(async move { serve(&wheel, app, connection).await });
        let request = b"GET / HTTP/1.1\r\nhost: here\r\nconnection: upgrade\r\nupgrade: other\r\n\r\n";
        client.write_all(request).await.unwrap();
        let mut answer = Vec::new();
        let read = timeout(Duration::from_secs(5), client.read_to_end(&mut answer));
        assert!(read.await.is_ok());
        let answer = String::from_utf8(answer).unwrap();
        assert!(
            answer.starts_with("HTTP/1.1 101") && answer.ends_with("\r\n\r\nthe other protocol"),
            "{answer}"
        );
        served.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn an_end_waits_for_the_response_and_the_job_that_have_begun_and_hands_back_the_rest() {
        let (wheel, begun) = (TimingWheel::new(), Arc::new(Notify::new()));
        let jobs = Jobs::new(&wheel);
        let (hours, some) = (Duration::from_secs(3_600), Duration::from_millis(50));
        let (later, has_begun) = (jobs.clone(), begun.clone());
        let handler = async move || {
            later.try_run_after("mail".into(), Duration::ZERO, tokio::time::sleep(some)).unwrap();
            later.try_run_after("invoice".into(), hours, async {}).unwrap();
            has_begun.notify_one();
            tokio::time::sleep(some).await;
            "hello"
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let app = Router::new().route("/", get(handler));
        let end = async move { begun.notified().await };
        let served = serve_until(end, hours, (&wheel, &jobs), (listener, app));
        let asked = async {
            client.write_all(b"GET / HTTP/1.1\r\nhost: here\r\nconnection: close\r\n\r\n").await.unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            answer
        };
        let (ended, answer) = tokio::join!(served, asked);
        assert!(answer.ends_with("hello"), "{answer}");
        let ended = ended.unwrap();
        assert_eq!((ended.aborted, ended.not_begun.len(), jobs.len()), (0, 1, 0));
        assert_eq!(ended.not_begun[0].key, "invoice");
    }
}

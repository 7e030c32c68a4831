//! axum: a connection served by hyper, whose limit for heads is kept by the wheel.

use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use timingwheel::TimingWheel;
use tokio::io::{AsyncRead, AsyncWrite};

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

#[cfg(test)]
mod tests {
    use axum::extract::Request;
    use axum::http::StatusCode;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
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
}

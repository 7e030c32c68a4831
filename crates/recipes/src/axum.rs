//! axum: a connection served by hyper-util, whose limit for heads is kept by the wheel.

use std::error::Error;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
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
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut server = auto::Builder::new(TokioExecutor::new()).http1_only();
    server.http1().timer(wheel.clone()).header_read_timeout(Duration::from_secs(10));
    server.serve_connection(TokioIo::new(connection), TowerToHyperService::new(app)).await
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::time::Instant;

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
}

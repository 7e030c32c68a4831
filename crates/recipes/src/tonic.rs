//! tonic: services served by hyper, whose pings go by the wheel.

use std::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use timingwheel::TimingWheel;
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::service::Routes;

/// Serves a connection until it closes, or until its client leaves a ping without an answer for 10 s.
///
/// # Errors
/// If the connection breaks, or a ping has no answer.
pub async fn serve(
    wheel: &TimingWheel,
    services: Routes,
    connection: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> hyper::Result<()> {
    http2::Builder::new(TokioExecutor::new())
        .timer(wheel.clone())
        .keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(10))
        .serve_connection(TokioIo::new(connection), TowerToHyperService::new(services.prepare()))
        .await
}

#[cfg(test)]
mod tests {
    use http_body_util::Empty;
    use hyper::Request;
    use hyper::body::Bytes;
    use hyper::client::conn::http2 as client;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_server_of_tonics_answers_and_pings_by_timers_of_the_wheel() {
        let wheel = TimingWheel::new();
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let server = {
            let wheel = wheel.clone();
            tokio::spawn(async move { serve(&wheel, Routes::default(), theirs).await })
        };
        let (mut ask, connection) =
            client::handshake(TokioExecutor::new(), TokioIo::new(ours)).await.expect("a handshake");
        tokio::spawn(connection);
        let request =
            Request::post("http://test/a.Service/Method").header("content-type", "application/grpc");
        let response = ask.send_request(request.body(Empty::<Bytes>::new()).expect("a request")).await;
        let response = response.expect("an answer");
        assert_eq!(response.headers()["grpc-status"], "12", "no such service");
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert!(wheel.stats().fired >= 3, "{:?}", wheel.stats());
        assert!(!server.is_finished(), "its pings were answered");
        server.abort();
    }
}

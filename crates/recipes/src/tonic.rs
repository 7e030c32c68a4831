//! tonic: services served by hyper, whose pings and the limits of whose calls go by the wheel.

use std::time::Duration;

use hyper::HeaderMap;
use hyper::server::conn::http2;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use timingwheel::TimingWheel;
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::service::Routes;
use tonic::{Status, TimeoutExpired};

/// Serves a connection until it closes, or until its client leaves a ping without an answer for 10 s. A call ends at the
/// deadline that its client gave.
///
/// # Errors
/// If the connection breaks, or a ping has no answer.
pub async fn serve(
    wheel: &TimingWheel,
    services: Routes,
    connection: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> hyper::Result<()> {
    let services = TowerToHyperService::new(services.prepare());
    let in_time = service_fn(|request| {
        let (limit, wheel) = (limit(request.headers()), wheel.clone());
        let answer = services.call(request);
        async move {
            let Some(limit) = limit else { return answer.await };
            wheel
                .timeout(limit, answer)
                .await
                .unwrap_or_else(|_| Ok(Status::from_error(Box::new(TimeoutExpired(()))).into_http()))
        }
    });
    http2::Builder::new(TokioExecutor::new())
        .timer(wheel.clone())
        .keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(10))
        .serve_connection(TokioIo::new(connection), in_time)
        .await
}

/// The header `grpc-timeout`: at most 8 digits and a unit. Another text is ignored, as by tonic.
fn limit(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at(text.len().checked_sub(1)?);
    let count = digits.parse::<u32>().ok().filter(|_| digits.len() <= 8)?;
    match unit {
        "H" => Some(Duration::from_secs(3_600) * count),
        "M" => Some(Duration::from_secs(60) * count),
        "S" => Some(Duration::from_secs(1) * count),
        "m" => Some(Duration::from_millis(1) * count),
        "u" => Some(Duration::from_micros(1) * count),
        "n" => Some(Duration::from_nanos(1) * count),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::routing::post;
    use http_body_util::Empty;
    use hyper::body::{Bytes, Incoming};
    use hyper::client::conn::http2 as client;
    use hyper::{Request, Response};
    use tokio::task::JoinHandle;
    use tokio::time::Instant;

    use super::*;

    struct Client {
        requests: client::SendRequest<Empty<Bytes>>,
        server: JoinHandle<hyper::Result<()>>,
    }

    impl Client {
        async fn of(services: Routes, wheel: &TimingWheel) -> Self {
            let (ours, theirs) = tokio::io::duplex(1 << 16);
            let wheel = wheel.clone();
            let server = tokio::spawn(async move { serve(&wheel, services, theirs).await });
            let (requests, connection) =
                client::handshake(TokioExecutor::new(), TokioIo::new(ours)).await.expect("a handshake");
            tokio::spawn(connection);
            Self { requests, server }
        }

        async fn ask(&mut self, timeout: Option<&str>) -> Response<Incoming> {
            let mut request =
                Request::post("http://test/a.Service/Method").header("content-type", "application/grpc");
            if let Some(timeout) = timeout {
                request = request.header("grpc-timeout", timeout);
            }
            let request = request.body(Empty::new()).expect("a request");
            self.requests.send_request(request).await.expect("an answer")
        }
    }

    /// A service whose only method takes an hour.
    fn slow() -> Routes {
        let method = async || {
            tokio::time::sleep(HOUR).await;
            "done"
        };
        Routes::from(Router::new().route("/a.Service/Method", post(method)))
    }

    const HOUR: Duration = Duration::from_secs(3_600);

    #[tokio::test(start_paused = true)]
    async fn a_server_of_tonics_answers_and_pings_by_timers_of_the_wheel() {
        let wheel = TimingWheel::new();
        let mut client = Client::of(Routes::default(), &wheel).await;
        let response = client.ask(None).await;
        assert_eq!(response.headers()["grpc-status"], "12", "no such service");
        tokio::time::sleep(Duration::from_secs(61)).await;
        assert!(wheel.stats().fired >= 3, "{:?}", wheel.stats());
        assert!(!client.server.is_finished(), "its pings were answered");
        client.server.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_ends_at_its_clients_deadline_with_the_status_that_tonic_gives() {
        let wheel = TimingWheel::new();
        let mut client = Client::of(slow(), &wheel).await;
        for (timeout, limit) in [("100m", Duration::from_millis(100)), ("2S", Duration::from_secs(2))] {
            let (start, fired) = (Instant::now(), wheel.stats().fired);
            let response = client.ask(Some(timeout)).await;
            assert_eq!(start.elapsed(), limit);
            assert_eq!(wheel.stats().fired - fired, 1);
            let headers = response.headers();
            assert_eq!(
                (&headers["grpc-status"], &headers["grpc-message"]),
                (&"1".parse().unwrap(), &"Timeout%20expired".parse().unwrap())
            );
        }
        for timeout in [None, Some("2H"), Some("soon")] {
            let start = Instant::now();
            assert!(!client.ask(timeout).await.headers().contains_key("grpc-status"));
            assert_eq!(start.elapsed(), HOUR, "{timeout:?}");
        }
    }

    #[test]
    fn a_limit_is_read_as_the_protocol_says() {
        let read = |text: &'static str| {
            limit(&HeaderMap::from_iter([(
                "grpc-timeout".parse().expect("a name"),
                text.parse().expect("a value"),
            )]))
        };
        let times = [("3H", 3 * HOUR), ("1M", Duration::from_secs(60)), ("42S", Duration::from_secs(42))];
        let parts = [
            ("13m", Duration::from_millis(13)),
            ("2u", Duration::from_micros(2)),
            ("82n", Duration::from_nanos(82)),
        ];
        let longest = [("99999999H", 99_999_999 * HOUR), ("0n", Duration::ZERO)];
        for (text, time) in times.into_iter().chain(parts).chain(longest) {
            assert_eq!(read(text), Some(time), "{text}");
        }
        for text in ["", "5", "H", "82f", "oneH", "123456789n", "-1S", "1.5S", "1 S", "1s"] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }
}

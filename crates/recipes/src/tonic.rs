//! tonic: services served by hyper, whose pings and the limits of whose calls go by the wheel.

use std::time::Duration;

use hyper::server::conn::http2;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use timingwheel::TimingWheel;
use timingwheel_deadline::Deadline;
use timingwheel_deadline::wire::{ClientLayer, Error, Header, InTime, ServerLayer};
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::body::Body;
use tonic::service::Routes;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Layer, Service, ServiceExt};

/// Serves a connection until it closes, or until its client leaves a ping without an answer for 10 s. A call and its stream
/// end at the client's deadline, or when the client goes.
///
/// # Errors
/// If the connection breaks, or a ping has no answer.
pub async fn serve(
    wheel: &TimingWheel,
    services: Routes,
    connection: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> hyper::Result<()> {
    let in_time = ServerLayer::new(wheel, Header::Grpc).layer(services.prepare());
    http2::Builder::new(TokioExecutor::new())
        .timer(wheel.clone())
        .keep_alive_interval(Duration::from_secs(20))
        .keep_alive_timeout(Duration::from_secs(10))
        // A client resets a call whose deadline ends. After 20 that no service has taken, h2 would close the connection.
        .max_pending_accept_reset_streams(1_000)
        .serve_connection(TokioIo::new(connection), TowerToHyperService::new(in_time))
        .await
}

/// The channel of a client that tonic generated, as in `GreeterClient::new(in_time(channel))`. Its calls tell their servers
/// how much time the current deadline leaves, and end with it, streams both ways included, by gRPC's status.
pub fn in_time<S, B>(channel: S) -> BoxCloneSyncService<Request<Body>, Response<InTime<B>>, Error>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
    B: 'static,
{
    let in_time = ClientLayer::new(Header::Grpc).layer(channel);
    // The channel polls what the client sends in a task of its own.
    BoxCloneSyncService::new(in_time.map_request(|request: Request<Body>| match Deadline::current() {
        Some(deadline) => request.map(|body| Body::new(InTime::new(&deadline, body))),
        None => request,
    }))
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::routing::post;
    use http_body_util::Empty;
    use hyper::body::{Bytes, Incoming};
    use hyper::client::conn::http2 as client;
    use tokio::sync::mpsc;
    use tokio::task::JoinHandle;
    use tokio::time::Instant;
    use tower::{ServiceBuilder, service_fn};

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
    async fn a_call_ends_at_its_clients_deadline_with_the_status_of_grpc() {
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
                (&"4".parse().unwrap(), &"the deadline has passed".parse().unwrap())
            );
        }
        assert_eq!(client.ask(Some("soon")).await.headers()["grpc-status"], "13");
        for timeout in [None, Some("2H")] {
            let start = Instant::now();
            assert!(!client.ask(timeout).await.headers().contains_key("grpc-status"));
            assert_eq!(start.elapsed(), HOUR, "{timeout:?}");
        }
    }

    struct TellsDrop(mpsc::UnboundedSender<()>);

    impl Drop for TellsDrop {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }

    /// The method of B calls C, which never answers. The client of B has a deadline, and then goes.
    #[tokio::test(start_paused = true)]
    async fn the_calls_that_a_method_makes_end_with_its_deadline_and_with_its_client() {
        let (wheel, (dropped, mut drops)) = (TimingWheel::new(), mpsc::unbounded_channel());
        let at_c = async move || {
            let _tells = TellsDrop(dropped.clone());
            tokio::time::sleep(HOUR).await;
            "done"
        };
        let c = Client::of(Routes::from(Router::new().route("/a.Service/Method", post(at_c))), &wheel).await;
        let requests = c.requests.clone();
        let at_b = async move || {
            let mut requests = requests.clone();
            let send = service_fn(move |request| requests.send_request(request));
            let client = ServiceBuilder::new().layer(ClientLayer::new(Header::Grpc)).service(send);
            let request = Request::post("http://test/a.Service/Method").body(Empty::<Bytes>::new()).unwrap();
            client.oneshot(request).await.map(|_| "done").map_err(|error| error.to_string())
        };
        let mut b =
            Client::of(Routes::from(Router::new().route("/a.Service/Method", post(at_b))), &wheel).await;
        let start = Instant::now();
        let response = b.ask(Some("100m")).await;
        let status = response.headers().get("grpc-status").map(|status| status.to_str().unwrap());
        // C has a moment less, so that its answer may come first.
        assert!(matches!(status, Some("4") | None), "{status:?}");
        drops.recv().await.expect("the work of C ends");
        assert!(start.elapsed() <= Duration::from_millis(101));

        let gone = tokio::spawn(async move { b.ask(Some("1H")).await });
        while wheel.pending() < 4 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        gone.abort();
        drops.recv().await.expect("nobody works for a client that has gone");
        assert!(start.elapsed() < HOUR / 2);
    }
}

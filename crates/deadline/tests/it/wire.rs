//! Deadlines over the wire: the header, the answers, and real servers that call each other.

use std::convert::Infallible;
use std::future::{Ready, pending, ready};
use std::time::Duration;

use http::header::HeaderName;
use http::{Request, Response, StatusCode};
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use proptest::prelude::*;
use timingwheel::TimingWheel;
use timingwheel_deadline::wire::{ClientLayer, Header, ServerLayer, format_grpc_timeout, parse_grpc_timeout};
use timingwheel_deadline::{Deadline, DeadlineExt, Ended, spawn};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

use crate::ms;

type Body = Empty<Bytes>;

const HEADER: HeaderName = HeaderName::from_static("x-time-left");

fn millis() -> Header {
    Header::Millis(HEADER)
}

fn request(name: &'static str, value: &str) -> Request<Body> {
    Request::builder().uri("/").header(name, value).body(Body::new()).unwrap()
}

proptest! {
    #[test]
    fn a_time_is_written_in_eight_digits_and_rounded_down(secs in 0u64..1 << 38, nanos in 0u32..1_000_000_000, shift in 0u32..40) {
        let left = Duration::new(secs >> shift, nanos);
        let text = format_grpc_timeout(left);
        prop_assert!(text.len() <= 9);
        let read = parse_grpc_timeout(&text).unwrap();
        prop_assert!(read <= left);
        // A unit of which the next finer one would take nine digits.
        prop_assert!(left - read <= left / 99_999);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,12}") {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let is_valid = (1..=8).contains(&digits) && ["H", "M", "S", "m", "u", "n"].contains(&&text[digits..]);
        prop_assert_eq!(parse_grpc_timeout(&text).is_some(), is_valid);
    }
}

#[test]
fn the_longest_time_is_capped() {
    assert_eq!(format_grpc_timeout(Duration::MAX), "99999999H");
    assert_eq!(format_grpc_timeout(Duration::ZERO), "0n");
}

/// What the handler found: the time that is left, or `None` without a deadline.
fn left(_request: Request<Body>) -> Ready<Result<Response<Body>, Infallible>> {
    let left = Deadline::current().map(|deadline| deadline.remaining());
    let mut response = Response::new(Body::new());
    response.extensions_mut().insert(left);
    ready(Ok(response))
}

#[tokio::test(start_paused = true)]
async fn a_server_makes_the_callers_time_current_and_bounds_it() {
    let wheel = TimingWheel::new();
    for (header, value, most, found) in [
        ("x-time-left", "250", Duration::MAX, Some(ms(250))),
        ("x-time-left", "250", ms(100), Some(ms(100))),
        ("x-other", "250", ms(100), Some(ms(100))),
    ] {
        let mut server =
            ServiceBuilder::new().layer(ServerLayer::new(&wheel, millis()).at_most(most)).service_fn(left);
        let response = server.ready().await.unwrap().call(request(header, value)).await.unwrap();
        assert_eq!(response.extensions().get::<Option<Duration>>(), Some(&found));
    }
    let server = ServerLayer::new(&wheel, Header::Grpc);
    let mut server = ServiceBuilder::new().layer(server).service_fn(left);
    let response = server.ready().await.unwrap().call(request("grpc-timeout", "2S")).await.unwrap();
    assert_eq!(response.extensions().get(), Some(&Some(ms(2000))));
}

#[tokio::test(start_paused = true)]
async fn a_server_refuses_with_the_right_status() {
    let hangs = |_: Request<Body>| pending::<Result<Response<Body>, Infallible>>();
    let full = TimingWheel::builder().max_pending(1).build().unwrap();
    let _pending = full.try_sleep(ms(100_000)).unwrap();
    for (wheel, value, http, grpc, grpc_value) in [
        (TimingWheel::new(), "0", StatusCode::GATEWAY_TIMEOUT, "4", "0n"),
        (TimingWheel::new(), "20", StatusCode::GATEWAY_TIMEOUT, "4", "20m"),
        (TimingWheel::new(), "+20", StatusCode::BAD_REQUEST, "13", "20 m"),
        (TimingWheel::new(), "", StatusCode::BAD_REQUEST, "13", ""),
        (full, "20", StatusCode::SERVICE_UNAVAILABLE, "14", "20m"),
    ] {
        let server = ServiceBuilder::new().layer(ServerLayer::new(&wheel, millis())).service_fn(hangs);
        let response = server.oneshot(request("x-time-left", value)).await.unwrap();
        assert_eq!(response.status(), http, "{value:?}");
        let server = ServiceBuilder::new().layer(ServerLayer::new(&wheel, Header::Grpc)).service_fn(hangs);
        let response = server.oneshot(request("grpc-timeout", grpc_value)).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        assert_eq!(response.headers()["grpc-status"], grpc, "{grpc_value:?}");
        assert!(response.headers().contains_key("grpc-message"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_sends_what_is_left_less_the_margin() {
    let echo = |request: Request<Body>| ready(Ok::<_, Infallible>(request.headers().get(HEADER).cloned()));
    let client = ServiceBuilder::new().layer(ClientLayer::new(millis()).margin(ms(10))).service_fn(echo);
    let send = |request| client.clone().oneshot(request);
    let deadline = TimingWheel::new().deadline_in(ms(100));

    assert_eq!(send(request("x-other", "")).await.unwrap(), None, "without a deadline");
    for (sent, left) in [
        (request("x-other", ""), "90"),
        (request("x-time-left", "30"), "30"),
        (request("x-time-left", "300"), "90"),
    ] {
        assert_eq!(deadline.scope(send(sent)).await.unwrap().unwrap(), left);
    }
    tokio::time::advance(ms(90)).await;
    let late = deadline.scope(send(request("x-other", ""))).await.unwrap_err();
    assert_eq!(late.downcast_ref(), Some(&Ended::Passed), "no more than the margin is left");
}

/// Serves `service` on loopback, and returns its address.
async fn serve<S>(service: S) -> std::net::SocketAddr
where
    S: Service<Request<hyper::body::Incoming>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service.clone()));
            tokio::spawn(connection);
        }
    });
    address
}

/// Calls a server, with the current deadline.
async fn call(address: std::net::SocketAddr) -> Result<StatusCode, Box<dyn std::error::Error + Send + Sync>> {
    let stream = TcpStream::connect(address).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let send = service_fn(move |request: Request<Body>| sender.send_request(request));
    let client = ServiceBuilder::new().layer(ClientLayer::new(millis())).service(send);
    let request = Request::builder().uri("/").header("host", "test").body(Body::new())?;
    Ok(client.oneshot(request).await?.status())
}

struct TellsDrop(mpsc::UnboundedSender<&'static str>, &'static str);

impl Drop for TellsDrop {
    fn drop(&mut self) {
        let _ = self.0.send(self.1);
    }
}

/// Two servers: B calls C, and C never answers.
async fn chain(wheel: &TimingWheel) -> (std::net::SocketAddr, mpsc::UnboundedReceiver<&'static str>) {
    let (dropped, receiver) = mpsc::unbounded_channel();
    let layer = ServerLayer::new(wheel, millis());
    let at_c = dropped.clone();
    let c = ServiceBuilder::new().layer(layer.clone()).service_fn(move |_| {
        let dropped = at_c.clone();
        // In a task of its own, which ends with the deadline too.
        let work = async move {
            let _tells = TellsDrop(dropped, "C");
            let deadline = Deadline::current().expect("B sent one");
            deadline.run(pending::<()>()).await
        };
        let task = spawn(work);
        async move {
            let _end = task.await;
            Ok(Response::new(Body::new()))
        }
    });
    let c = serve(c).await;
    let b = ServiceBuilder::new().layer(layer).service_fn(move |_| {
        let tells = TellsDrop(dropped.clone(), "B");
        async move {
            let _tells = tells;
            let mut response = Response::new(Body::new());
            *response.status_mut() = call(c).await.unwrap_or(StatusCode::GATEWAY_TIMEOUT);
            Ok(response)
        }
    });
    (serve(b).await, receiver)
}

#[tokio::test]
async fn the_deadline_of_a_ends_the_work_of_c() {
    let wheel = TimingWheel::new();
    let (b, mut dropped) = chain(&wheel).await;
    let deadline = wheel.deadline_in(ms(300));
    // C has less than B, and B less than A, so the callee mostly answers first.
    match deadline.scope(call(b)).await {
        Ok(status) => assert_eq!(status, StatusCode::GATEWAY_TIMEOUT),
        Err(error) => assert_eq!(error.downcast_ref(), Some(&Ended::Passed)),
    }
    let mut both = [dropped.recv().await.unwrap(), dropped.recv().await.unwrap()];
    both.sort_unstable();
    assert_eq!(both, ["B", "C"]);
}

#[tokio::test]
async fn nobody_works_for_a_client_that_has_gone() {
    let wheel = TimingWheel::new();
    let (b, mut dropped) = chain(&wheel).await;
    let deadline = wheel.deadline_in(Duration::from_secs(3600));
    let client = tokio::spawn(deadline.scope(call(b)));
    // Until C has its deadline armed, and A and B theirs.
    while wheel.pending() < 3 {
        tokio::task::yield_now().await;
    }
    client.abort();
    let mut both = [dropped.recv().await.unwrap(), dropped.recv().await.unwrap()];
    both.sort_unstable();
    assert_eq!(both, ["B", "C"]);
}

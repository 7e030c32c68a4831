//! Deadlines over the wire: the header and the answers. Real servers call each other in the recipes' tests.

use std::convert::Infallible;
use std::future::{Ready, pending, ready};
use std::time::Duration;

use http::header::HeaderName;
use http::{Request, Response, StatusCode};
use proptest::prelude::*;
use timingwheel::TimingWheel;
use timingwheel_deadline::wire::{ClientLayer, Header, ServerLayer, format_grpc_timeout, parse_grpc_timeout};
use timingwheel_deadline::{Deadline, DeadlineCounters, DeadlineExt, Ended};
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

use crate::ms;

const HEADER: HeaderName = HeaderName::from_static("x-time-left");

fn millis() -> Header {
    Header::Millis(HEADER)
}

fn request(name: &'static str, value: &str) -> Request<()> {
    Request::builder().uri("/").header(name, value).body(()).unwrap()
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
fn left(_request: Request<()>) -> Ready<Result<Response<()>, Infallible>> {
    let left = Deadline::current().map(|deadline| deadline.remaining());
    let mut response = Response::new(());
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
    let mut without = ServiceBuilder::new().layer(ServerLayer::new(&wheel, millis())).service_fn(left);
    let response = without.ready().await.unwrap().call(request("x-other", "")).await.unwrap();
    assert_eq!(response.extensions().get::<Option<Duration>>(), Some(&None), "nobody set a limit");
    let server = ServerLayer::new(&wheel, Header::Grpc);
    let mut server = ServiceBuilder::new().layer(server).service_fn(left);
    let response = server.ready().await.unwrap().call(request("grpc-timeout", "2S")).await.unwrap();
    assert_eq!(response.extensions().get(), Some(&Some(ms(2000))));
}

#[tokio::test(start_paused = true)]
async fn the_time_runs_from_when_the_request_comes_in() {
    let mut server = ServerLayer::new(&TimingWheel::new(), millis()).layer(service_fn(left));
    let answer = server.ready().await.unwrap().call(request("x-time-left", "250"));
    tokio::time::advance(ms(100)).await;
    assert_eq!(answer.await.unwrap().extensions().get(), Some(&Some(ms(150))));
}

#[tokio::test(start_paused = true)]
async fn a_server_refuses_with_the_right_status() {
    let hangs = |_: Request<()>| pending::<Result<Response<()>, Infallible>>();
    let full = TimingWheel::builder().max_pending(0).build().unwrap();
    for (wheel, value, http, grpc, grpc_value) in [
        (TimingWheel::new(), "0", StatusCode::GATEWAY_TIMEOUT, "4", "0n"),
        (TimingWheel::new(), "20", StatusCode::GATEWAY_TIMEOUT, "4", "20m"),
        (TimingWheel::new(), "+20", StatusCode::BAD_REQUEST, "13", "20 m"),
        (TimingWheel::new(), "", StatusCode::BAD_REQUEST, "13", ""),
        (full, "20", StatusCode::GATEWAY_TIMEOUT, "4", "20m"),
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
async fn a_cancelled_request_is_told_so() {
    let wheel = TimingWheel::new();
    for (header, name, value, http, grpc) in [
        (millis(), "x-time-left", "100", StatusCode::SERVICE_UNAVAILABLE, None),
        (Header::Grpc, "grpc-timeout", "1S", StatusCode::OK, Some("1")),
    ] {
        let cancels = |_: Request<()>| {
            Deadline::current().unwrap().cancel();
            pending::<Result<Response<()>, Infallible>>()
        };
        let server = ServiceBuilder::new().layer(ServerLayer::new(&wheel, header)).service_fn(cancels);
        let response = server.oneshot(request(name, value)).await.unwrap();
        assert_eq!(response.status(), http);
        assert_eq!(response.headers().get("grpc-status").map(|it| it.to_str().unwrap()), grpc);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_within_a_current_deadline_has_no_longer_than_that() {
    let (wheel, counters) = (TimingWheel::new(), DeadlineCounters::new());
    let plain = ServerLayer::new(&wheel, Header::Grpc);
    for inner in [plain.clone(), plain.counted(&counters)] {
        let outer = ServerLayer::new(&wheel, millis()).at_most(ms(1000));
        let server = ServiceBuilder::new().layer(outer).layer(inner).service_fn(left);
        let response = server.oneshot(request("grpc-timeout", "10S")).await.unwrap();
        assert_eq!(response.extensions().get(), Some(&Some(ms(1000))));
    }
    assert_eq!(counters.stats().used[0], 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_is_a_child_of_a_current_deadline() {
    let wheel = TimingWheel::new();
    let current = wheel.deadline_in(ms(1000));
    let cancelled = current.clone();
    let cancels = move |_: Request<()>| {
        cancelled.cancel();
        pending::<Result<Response<()>, Infallible>>()
    };
    let server = ServiceBuilder::new().layer(ServerLayer::new(&wheel, millis())).service_fn(cancels);
    let response = current.scope(server.oneshot(request("x-time-left", "100"))).await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test(start_paused = true)]
async fn a_header_that_cannot_be_read_is_told_as_it_was() {
    let server = ServerLayer::new(&TimingWheel::new(), Header::Grpc);
    let server = ServiceBuilder::new().layer(server).service_fn(left);
    let response = server.oneshot(request("grpc-timeout", "5%30S")).await.unwrap();
    let told = response.headers()["grpc-message"].to_str().unwrap();
    assert!(told.ends_with("got \"5%2530S\""), "{told}");
}

#[tokio::test(start_paused = true)]
async fn the_longest_time_is_sent_so_that_a_server_can_read_it() {
    let wheel = TimingWheel::new();
    let server = ServiceBuilder::new().layer(ServerLayer::new(&wheel, millis())).service_fn(left);
    let client = ServiceBuilder::new().layer(ClientLayer::new(millis())).service(server);
    let response =
        wheel.deadline_in(Duration::from_secs(1 << 62)).scope(client.oneshot(request("x-other", ""))).await;
    assert_eq!(response.unwrap().status(), StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_client_sends_what_is_left_less_the_margin() {
    let echo = |request: Request<()>| ready(Ok::<_, Infallible>(request.headers().get(HEADER).cloned()));
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
    deadline.cancel();
    let cancelled = deadline.scope(send(request("x-other", ""))).await.unwrap_err();
    assert_eq!(cancelled.downcast_ref(), Some(&Ended::Cancelled));
}

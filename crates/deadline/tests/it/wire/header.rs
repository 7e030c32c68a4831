//! The header, as it is read, written and refused.

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use http::{HeaderValue, Request, Response, StatusCode};
use proptest::prelude::*;
use timingwheel::TimingWheel;
use timingwheel_deadline::wire::{Header, ServerLayer, format_grpc_timeout, parse_grpc_timeout};
use tower::{ServiceBuilder, ServiceExt};

use super::{found, left, millis, request};
use crate::ms;

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

/// The answer to a request with these values of `grpc-timeout`.
async fn answer(values: &[&[u8]]) -> Response<()> {
    let mut request = Request::new(String::new());
    for value in values {
        request.headers_mut().append("grpc-timeout", HeaderValue::from_bytes(value).unwrap());
    }
    let layer = ServerLayer::new(&TimingWheel::new(), Header::Grpc);
    ServiceBuilder::new().layer(layer).service_fn(left).oneshot(request).await.unwrap().map(|_| ())
}

#[tokio::test(start_paused = true)]
async fn of_two_headers_the_lesser_counts_and_an_unreadable_one_refuses_the_request() {
    assert_eq!(found(&answer(&[b"2S", b"300m"]).await), Some(ms(300)));
    assert_eq!(found(&answer(&[b"300m", b"2S"]).await), Some(ms(300)));
    assert_eq!(answer(&[b"300m", b"soon"]).await.headers()["grpc-status"], "13");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_printable_and_repeats_no_more_than_the_beginning_of_a_header() {
    for (value, told) in [
        (b"5%30S".as_slice(), "\"5%2530S\""),
        (b"5\t6", "\"5\\t6\""),
        (b"\xff5S", "\"\\xff5S\""),
        (&[b'9'; 4000], "\"99999999999999999999999999999999\"..."),
    ] {
        let response = answer(&[value]).await;
        let message = response.headers()["grpc-message"].as_bytes();
        assert!(message.ends_with(told.as_bytes()), "{:?}", message.escape_ascii().to_string());
        assert!(message.iter().all(|byte| (b' '..=b'~').contains(byte)) && message.len() < 200);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_refuses_with_the_right_status() {
    let hangs = |_: Request<String>| pending::<Result<Response<String>, Infallible>>();
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

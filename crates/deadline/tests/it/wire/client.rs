//! What a client's layer sends, and what it refuses.

use std::convert::Infallible;
use std::future::pending;
use std::time::Duration;

use http::{HeaderValue, Request, Response};
use http_body_util::BodyExt;
use timingwheel::TimingWheel;
use timingwheel_deadline::wire::{ClientLayer, Header, ServerLayer};
use timingwheel_deadline::{DeadlineExt, Ended};
use tokio::time::{advance, timeout};
use tower::{Service, ServiceBuilder, ServiceExt};

use super::{HEADER, echo, found, left, millis, request};
use crate::ms;

#[tokio::test(start_paused = true)]
async fn a_client_sends_what_is_left_less_the_margin() {
    let wheel = TimingWheel::new();
    let client = ServiceBuilder::new().layer(ClientLayer::new(millis()).margin(ms(10))).service_fn(echo);
    let send = async |request| {
        let response = client.clone().oneshot(request).await?;
        Ok::<_, tower::BoxError>(response.into_body().collect().await?.to_bytes())
    };
    let deadline = wheel.deadline_in(ms(100));
    assert_eq!(send(request("x-other", "")).await.unwrap(), "", "without a deadline");
    let without_limit = wheel.deadline_in(Duration::MAX);
    assert_eq!(without_limit.run(send(request("x-other", ""))).await.unwrap().unwrap(), "", "nor a limit");
    let mut two = request("x-time-left", "60");
    two.headers_mut().append(HEADER, HeaderValue::from_static("30"));
    let mut greater = request("x-time-left", "300");
    greater.headers_mut().append(HEADER, HeaderValue::from_static("200"));
    for (sent, left) in [
        (request("x-other", ""), "90"),
        (request("x-time-left", "30"), "30"),
        (request("x-time-left", "soon"), "90"),
        (two, "30"),
        (greater, "90"),
    ] {
        assert_eq!(deadline.run(send(sent)).await.unwrap().unwrap(), left);
    }
    let limited = deadline.run_within(ms(50), send(request("x-other", "")));
    assert_eq!(limited.await.unwrap().unwrap(), "40", "what the call may take");
    let mut carries = request("x-other", "");
    carries.extensions_mut().insert(deadline.clone());
    assert_eq!(send(carries).await.unwrap(), "90", "by the request's extensions");

    // Less than a millisecond more than the margin: a zero would be no limit to many servers.
    advance(Duration::from_micros(89_500)).await;
    for _ in 0..2 {
        let late = deadline.scope(send(request("x-other", ""))).await.unwrap_err();
        assert_eq!(late.downcast_ref(), Some(&Ended::Passed), "no more than the margin is left");
        advance(ms(1)).await;
    }
    deadline.cancel();
    let cancelled = deadline.scope(send(request("x-other", ""))).await.unwrap_err();
    assert_eq!(cancelled.downcast_ref(), Some(&Ended::Cancelled));
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_gives_back_what_poll_ready_reserved() {
    let client = ServiceBuilder::new()
        .layer(ClientLayer::new(Header::Grpc))
        .concurrency_limit(1)
        .service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(())));
    let (mut one, mut other) = (client.clone(), client);
    let wheel = TimingWheel::new();
    let cancelled = wheel.deadline_in(ms(100));
    cancelled.cancel();
    for (ended, why) in [(wheel.deadline_in(ms(0)), Ended::Passed), (cancelled, Ended::Cancelled)] {
        let call = ended.scope(async { one.ready().await.unwrap().call(Request::new(())).await });
        assert_eq!(call.await.unwrap_err().downcast_ref(), Some(&why));
        let ready = timeout(ms(3_600_000), other.ready()).await;
        ready.expect("the refused call holds no permit").unwrap();
        other.call(Request::new(())).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_with_its_deadline() {
    let hangs = |_: Request<String>| pending::<Result<Response<String>, Infallible>>();
    let client = ServiceBuilder::new().layer(ClientLayer::new(millis())).service_fn(hangs);
    let deadline = TimingWheel::new().deadline_in(ms(100));
    let call = deadline.scope(client.oneshot(request("x-other", "")));
    assert_eq!(call.await.unwrap_err().downcast_ref(), Some(&Ended::Passed));
}

#[tokio::test(start_paused = true)]
async fn the_longest_time_is_sent_so_that_a_server_can_read_it() {
    let wheel = TimingWheel::new();
    let server = ServiceBuilder::new().layer(ServerLayer::new(&wheel, millis())).service_fn(left);
    let client = ServiceBuilder::new().layer(ClientLayer::new(millis())).service(server);
    let deadline = wheel.deadline_in(Duration::from_secs(1 << 62));
    let response = deadline.scope(client.oneshot(request("x-other", ""))).await.unwrap();
    assert!(found(&response).unwrap() > Duration::from_secs(1 << 50));
}

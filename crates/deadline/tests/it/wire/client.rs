//! What a client's layer sends, and what it refuses.

use std::convert::Infallible;
use std::error::Error as _;
use std::future::ready;
use std::pin::Pin;
use std::time::Duration;

use http::{HeaderValue, Request, Response};
use http_body_util::BodyExt;
use timingwheel::TimingWheel;
use timingwheel_deadline::wire::{ClientLayer, Error, Header, InTime, ServerLayer, parse_grpc_timeout};
use timingwheel_deadline::{DeadlineExt, Ended};
use tokio::time::{Instant, advance, timeout};
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceBuilder, ServiceExt};

use super::{HEADER, echo, ended, found, left, millis, request};
use crate::ms;

#[tokio::test(start_paused = true)]
async fn a_client_sends_what_is_left_less_the_margin() {
    let wheel = TimingWheel::new();
    let client = ServiceBuilder::new().layer(ClientLayer::new(millis()).margin(ms(10))).service_fn(echo);
    let send = async |request| {
        let response = client.clone().oneshot(request).await?;
        Ok::<_, Error>(response.into_body().collect().await?.to_bytes())
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
        assert!(matches!(late, Error::Ended(Ended::Passed)), "no more than the margin is left");
        advance(ms(1)).await;
    }
    deadline.cancel();
    let cancelled = deadline.scope(send(request("x-other", ""))).await.unwrap_err();
    assert!(matches!(cancelled, Error::Ended(Ended::Cancelled)));
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_gives_back_what_poll_ready_reserved() {
    let answers = |_: Request<()>| ready(Ok::<_, Infallible>(Response::new(())));
    let layer = || ServiceBuilder::new().layer(ClientLayer::new(Header::Grpc));
    refuses_twice(layer().concurrency_limit(1).service_fn(answers)).await;
    refuses_twice(layer().buffer(1).service_fn(answers)).await;
}

/// The permit, or the place in the buffer, is the only one.
async fn refuses_twice<S>(client: S)
where
    S: Service<Request<()>, Response = Response<InTime<()>>, Error = Error> + Clone,
{
    let (mut one, mut other) = (client.clone(), client);
    let wheel = TimingWheel::new();
    let cancelled = wheel.deadline_in(ms(100));
    cancelled.cancel();
    for (ended, why) in [(wheel.deadline_in(ms(0)), "4"), (cancelled, "1")] {
        let call = ended.scope(async { one.ready().await.unwrap().call(Request::new(())).await });
        assert_eq!(call.await.unwrap().headers()["grpc-status"], why);
        let ready = timeout(ms(3_600_000), other.ready()).await;
        ready.expect("the refused call holds nothing").unwrap();
        other.call(Request::new(())).await.unwrap();
    }
}

/// How a call that does not answer ends for its caller: by an error, or by a status of gRPC.
fn told<R>(answer: Result<Response<R>, Error>) -> Result<String, Ended> {
    match answer {
        Ok(response) => Ok(response.headers()["grpc-status"].to_str().unwrap().to_owned()),
        refused => Err(ended(refused)),
    }
}

/// As tonic's trait of what a generated client takes.
trait AnyService {
    type Future: Future;

    fn call_any(&mut self, request: Request<String>) -> Self::Future;
}

impl<S: Service<Request<String>, Error: Into<tower::BoxError>>> AnyService for S {
    type Future = S::Future;

    fn call_any(&mut self, request: Request<String>) -> S::Future {
        self.call(request)
    }
}

async fn call(client: &mut impl AnyService) {
    client.call_any(request("x-other", "")).await;
}

/// With a trait object as the error this does not compile: "implementation of `From` is not general enough".
#[tokio::test(start_paused = true)]
async fn a_client_in_a_box_can_be_called_by_a_future_in_a_box() {
    let client = ServiceBuilder::new().layer(ClientLayer::new(millis())).service_fn(echo);
    let client: BoxCloneSyncService<Request<String>, Response<InTime<String>>, Error> =
        BoxCloneSyncService::new(client);
    let boxed: Pin<Box<dyn Future<Output = ()> + Send>> =
        Box::pin(async move { call(&mut client.clone()).await });
    boxed.await;
}

/// As a request's body does that ends with the deadline and resets the stream, and as tonic's channel does by a timer of its
/// own for the header. Both are first, because the call is polled first.
#[tokio::test(start_paused = true)]
async fn a_call_that_fails_because_time_is_up_is_told_as_one_that_the_deadline_ends() {
    let wheel = TimingWheel::new();
    for (header, margin, expected) in [
        (millis(), 0, Err(Ended::Passed)),
        (Header::Grpc, 0, Ok("4".to_owned())),
        (Header::Grpc, 20, Ok("4".to_owned())),
    ] {
        let client = ServiceBuilder::new().layer(ClientLayer::new(header).margin(ms(margin))).service_fn(
            async |request: Request<String>| {
                let sent = request.headers().get("grpc-timeout").map(|it| it.to_str().unwrap());
                tokio::time::sleep(sent.map_or(ms(110), |sent| parse_grpc_timeout(sent).unwrap())).await;
                Err::<Response<String>, _>("reset")
            },
        );
        let start = Instant::now();
        let call = wheel.deadline_in(ms(110)).scope(client.oneshot(request("x-other", "")));
        assert_eq!((told(call.await), start.elapsed()), (expected, ms(110 - margin)));
    }
    let fails = async |_: Request<String>| Err::<Response<String>, _>("reset");
    let client = ServiceBuilder::new().layer(ClientLayer::new(Header::Grpc)).service_fn(fails);
    let in_time = wheel.deadline_in(ms(110)).scope(client.oneshot(request("x-other", "")));
    let error = in_time.await.unwrap_err();
    assert_eq!(error.source().expect("the service's").to_string(), "reset");
    assert_ne!(error.to_string(), "reset", "told once");
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

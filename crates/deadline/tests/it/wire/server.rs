//! What a server's layer makes of a request, and what it tells.

use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use timingwheel::TimingWheel;
use timingwheel_deadline::wire::{Header, Outcome, Report, ServerLayer};
use timingwheel_deadline::{Deadline, DeadlineExt, Ended};
use tokio::time::{Instant, advance, sleep};
use tower::limit::ConcurrencyLimitLayer;
use tower::{Layer, Service, ServiceBuilder, ServiceExt, service_fn};

use super::{found, left, millis, request};
use crate::{ms, pending_once};

#[tokio::test(start_paused = true)]
async fn a_server_makes_the_callers_time_current_and_bounds_it() {
    let wheel = TimingWheel::new();
    for (header, value, most, expected) in [
        ("x-time-left", "250", Duration::MAX, Some(ms(250))),
        ("x-time-left", "250", ms(100), Some(ms(100))),
        ("x-other", "250", ms(100), Some(ms(100))),
        ("x-other", "", Duration::MAX, None),
    ] {
        let layer = ServerLayer::new(&wheel, millis()).at_most(most);
        let server = ServiceBuilder::new().layer(layer).service_fn(left);
        assert_eq!(found(&server.oneshot(request(header, value)).await.unwrap()), expected);
    }
    let server = ServiceBuilder::new().layer(ServerLayer::new(&wheel, Header::Grpc)).service_fn(left);
    assert_eq!(found(&server.oneshot(request("grpc-timeout", "2S")).await.unwrap()), Some(ms(2000)));
}

#[tokio::test(start_paused = true)]
async fn the_time_runs_from_when_the_request_comes_in() {
    let mut server = ServerLayer::new(&TimingWheel::new(), millis()).layer(service_fn(left));
    let answer = server.ready().await.unwrap().call(request("x-time-left", "250"));
    advance(ms(100)).await;
    assert_eq!(found(&answer.await.unwrap()), Some(ms(150)));
}

/// One request at a time, and the first one stays.
#[tokio::test(start_paused = true)]
async fn the_time_in_a_queue_counts() {
    let server = ServiceBuilder::new()
        .layer(ServerLayer::new(&TimingWheel::new(), millis()))
        .layer(ConcurrencyLimitLayer::new(1))
        .service_fn(|request: Request<String>| async move {
            if request.headers().contains_key("x-stays") {
                sleep(ms(100)).await;
            }
            left(request).await
        });
    let stays = tokio::spawn(server.clone().oneshot(request("x-stays", "")));
    sleep(ms(1)).await;
    let start = Instant::now();
    let short = server.clone().oneshot(request("x-time-left", "30")).await.unwrap();
    assert_eq!((short.status(), start.elapsed()), (StatusCode::GATEWAY_TIMEOUT, ms(30)));
    let long = server.clone().oneshot(request("x-time-left", "1000")).await.unwrap();
    assert_eq!(found(&long), Some(ms(1000 - 69)), "what is left after the queue");
    stays.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_request_is_told_so() {
    let wheel = TimingWheel::new();
    for (header, name, value, http, grpc) in [
        (millis(), "x-time-left", "100", StatusCode::SERVICE_UNAVAILABLE, None),
        (Header::Grpc, "grpc-timeout", "1S", StatusCode::OK, Some("1")),
    ] {
        let cancels = |_: Request<String>| {
            Deadline::current().unwrap().cancel();
            pending::<Result<Response<String>, Infallible>>()
        };
        let server = ServiceBuilder::new().layer(ServerLayer::new(&wheel, header)).service_fn(cancels);
        let response = server.oneshot(request(name, value)).await.unwrap();
        assert_eq!(response.status(), http);
        assert_eq!(response.headers().get("grpc-status").map(|it| it.to_str().unwrap()), grpc);
    }
}

/// Also with a callback.
#[tokio::test(start_paused = true)]
async fn a_request_is_a_child_of_a_current_deadline() {
    let wheel = TimingWheel::new();
    let outer = ServerLayer::new(&wheel, millis()).at_most(ms(1000));
    let inner = ServerLayer::new(&wheel, Header::Grpc).on_end(|_| {});
    let server = ServiceBuilder::new().layer(outer).layer(inner).service_fn(left);
    let response = server.oneshot(request("grpc-timeout", "10S")).await.unwrap();
    assert_eq!(found(&response), Some(ms(1000)), "no longer than that");

    let current = wheel.deadline_in(ms(1000));
    let cancelled = current.clone();
    let cancels = move |_: Request<String>| {
        cancelled.cancel();
        pending::<Result<Response<String>, Infallible>>()
    };
    let layer = ServerLayer::new(&wheel, millis()).on_end(|_| {});
    let server = ServiceBuilder::new().layer(layer).service_fn(cancels);
    let response = current.scope(server.oneshot(request("x-time-left", "100"))).await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_hangs_up_ends_the_tasks_of_the_handler() {
    let (told, mut tasks) = tokio::sync::mpsc::unbounded_channel();
    let spawns = service_fn(move |_: Request<String>| {
        let told = told.clone();
        async move {
            told.send(tokio::spawn(Deadline::run_current(pending::<()>()))).unwrap();
            pending::<Result<Response<String>, Infallible>>().await
        }
    });
    // Also without a limit.
    for header in ["x-time-left", "x-other"] {
        let server = ServerLayer::new(&TimingWheel::new(), millis()).layer(spawns.clone());
        drop(pending_once(server.oneshot(request(header, "1000"))));
        assert_eq!(tasks.recv().await.unwrap().await.unwrap(), Err(Ended::Cancelled));
    }
}

#[tokio::test(start_paused = true)]
async fn the_callback_is_told_once_how_each_request_ended_and_what_it_used() {
    let reports = Arc::new(Mutex::new(Vec::new()));
    let tell = reports.clone();
    let layer = ServerLayer::new(&TimingWheel::new(), millis()).on_end(move |report: &Report| {
        let Report { outcome, used, limit, .. } = report.clone();
        tell.lock().unwrap().push((outcome, used, limit));
    });
    let told = || std::mem::take(&mut *reports.lock().unwrap());
    let server = ServiceBuilder::new().layer(layer).service_fn(|request: Request<String>| async move {
        sleep(ms(10)).await;
        match request.uri().path() {
            "/fails" => Err("it failed"),
            "/empty" => Ok(Response::new(String::new())),
            _ => Ok(Response::new("body".to_owned())),
        }
    });
    let ask = |path: &str, time: &str, method: Method| {
        let mut request = request("x-time-left", time);
        (*request.uri_mut(), *request.method_mut()) = (path.parse().unwrap(), method);
        server.clone().oneshot(request)
    };
    let (used, limit) = (ms(10), Some(ms(50)));

    let response = ask("/", "50", Method::GET).await.unwrap();
    assert_eq!(told(), [], "its body is not over");
    sleep(ms(5)).await;
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "body");
    assert_eq!(told(), [(Outcome::Answered, ms(15), limit)]);
    // Of these nobody polls the body.
    drop(ask("/", "50", Method::HEAD).await.unwrap());
    drop(ask("/empty", "50", Method::GET).await.unwrap());
    assert_eq!(told(), [(Outcome::Answered, used, limit); 2]);
    ask("/fails", "50", Method::GET).await.unwrap_err();
    assert_eq!(told(), [(Outcome::Failed, used, limit)]);
    drop(ask("/", "50", Method::GET).await.unwrap());
    drop(pending_once(ask("/", "50", Method::GET)));
    assert_eq!(told(), [(Outcome::HungUp, used, limit), (Outcome::HungUp, ms(0), limit)]);
    ask("/", "4", Method::GET).await.unwrap();
    ask("/", "0", Method::GET).await.unwrap();
    let passed = Outcome::Ended(Ended::Passed);
    assert_eq!(told(), [(passed, ms(4), Some(ms(4))), (passed, ms(0), Some(ms(0)))]);
}

/// The timer is one of tokio's, as tonic's server has it. Nobody drives the wheel, so that it is late.
#[test]
fn a_timer_around_the_layer_for_the_same_header_does_not_answer_in_its_place() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (idle, runs) = (runtime(), runtime());
    let wheel = idle.block_on(async { TimingWheel::new() });
    let hangs = service_fn(|_: Request<String>| pending::<Result<Response<String>, Infallible>>());
    let server = ServerLayer::new(&wheel, Header::Grpc).layer(hangs);
    let answer = runs.block_on(async {
        tokio::time::timeout(ms(20), server.oneshot(request("grpc-timeout", "20m"))).await
    });
    assert_eq!(answer.expect("its own answer").unwrap().headers()["grpc-status"], "4");
}

/// Though the callback panics too, while the first panic unwinds.
#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_has_failed_and_its_tasks_end() {
    let reports = Arc::new(Mutex::new(Vec::new()));
    let told = reports.clone();
    let layer = ServerLayer::new(&TimingWheel::new(), millis()).on_end(move |report: &Report| {
        told.lock().unwrap().push(report.outcome);
        panic!("in the callback")
    });
    let (sender, mut tasks) = tokio::sync::mpsc::unbounded_channel();
    let server = layer.layer(service_fn(move |_: Request<String>| {
        sender.send(tokio::spawn(Deadline::run_current(pending::<()>()))).unwrap();
        async {
            if true { panic!("in the handler") } else { Ok::<_, Infallible>(Response::new(String::new())) }
        }
    }));
    let answer = tokio::spawn(async move { server.oneshot(request("x-time-left", "250")).await.is_ok() });
    assert!(answer.await.unwrap_err().is_panic());
    assert_eq!(*reports.lock().unwrap(), [Outcome::Failed]);
    assert_eq!(tasks.recv().await.unwrap().await.unwrap(), Err(Ended::Cancelled));
}

//! The layer gives the same answers as tower's own, at the same instants.

use std::future::{Ready, pending, ready};
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel::tower::{Timeout, TimeoutLayer};
use tokio::time::{Instant, sleep};
use tokio_test::{assert_pending, assert_ready, task};
use tower::timeout::error::Elapsed;
use tower::{BoxError, Layer, Service, ServiceBuilder, ServiceExt, service_fn};

use super::{SECOND, assert_nothing_pending, ms};

/// A request: how long its response takes, and whether it is a good one.
type Request = (Duration, bool);

async fn respond((takes, is_good): Request) -> Result<&'static str, io::Error> {
    if !takes.is_zero() {
        sleep(takes).await;
    }
    if is_good { Ok("response") } else { Err(io::Error::other("refused")) }
}

/// The answer of a service, in words, and its time.
async fn answer<S>(mut service: S, request: Request) -> (Result<&'static str, String>, bool, Duration)
where
    S: Service<Request, Response = &'static str, Error = BoxError>,
{
    let start = Instant::now();
    let answer = service.ready().await.unwrap().call(request).await;
    let is_elapsed = answer.as_ref().is_err_and(|error| error.is::<Elapsed>());
    (answer.map_err(|error| error.to_string()), is_elapsed, start.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_request_that_takes_too_long_is_answered_with_towers_own_error_at_its_deadline() {
    let (wheel, start) = (TimingWheel::new(), Instant::now());
    let mut service = ServiceBuilder::new()
        .layer(TimeoutLayer::new(wheel.clone(), 3 * SECOND))
        .service(service_fn(|()| pending::<Result<(), io::Error>>()));
    let error = service.ready().await.unwrap().call(()).await.unwrap_err();
    assert_eq!(start.elapsed(), 3 * SECOND);
    assert!(error.is::<Elapsed>());
    assert_eq!(error.to_string(), Elapsed::new().to_string());
    assert_eq!((wheel.stats().armed, wheel.stats().fired), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn it_answers_what_towers_own_answers_at_the_same_time() {
    const LIMIT: Duration = ms(100);
    let wheel = TimingWheel::new();
    let mut random = fastrand::Rng::with_seed(1);
    let mut outcomes = [0; 3];
    for round in 0..500 {
        // Every tenth is ready at once, and every tenth at the deadline itself.
        let takes = match round % 10 {
            0 => Duration::ZERO,
            1 => LIMIT,
            _ => ms(random.u64(1..2 * 100)),
        };
        let request = (takes, random.bool());
        let theirs = answer(tower::timeout::Timeout::new(service_fn(respond), LIMIT), request).await;
        let ours = answer(Timeout::new(service_fn(respond), wheel.clone(), LIMIT), request).await;
        assert_eq!(ours, theirs, "a request that takes {takes:?}");
        outcomes[if ours.1 { 0 } else { 1 + usize::from(ours.0.is_ok()) }] += 1;
    }
    assert!(outcomes.iter().all(|&count| count > 100), "timed out, refused, answered: {outcomes:?}");
    assert_nothing_pending(&wheel);
}

#[tokio::test(start_paused = true)]
async fn a_response_that_is_ready_at_once_does_not_touch_the_wheel() {
    let wheel = TimingWheel::new();
    for limit in [Duration::ZERO, SECOND, Duration::MAX] {
        let service = TimeoutLayer::new(wheel.clone(), limit).layer(service_fn(respond));
        assert_eq!(answer(service, (Duration::ZERO, true)).await, (Ok("response"), false, Duration::ZERO));
    }
    assert_eq!(wheel.stats().armed, 0);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_removes_its_timer() {
    let wheel = TimingWheel::new();
    let mut service = Timeout::new(service_fn(respond), wheel.clone(), SECOND);
    let mut response = task::spawn(service.ready().await.unwrap().call((ms(500), true)));
    assert_pending!(response.poll());
    assert_eq!(wheel.pending(), 1);
    drop(response);
    assert_nothing_pending(&wheel);
}

#[tokio::test(start_paused = true)]
async fn the_time_counts_from_the_call_not_from_the_first_poll() {
    let (wheel, start) = (TimingWheel::new(), Instant::now());
    let mut service = Timeout::new(service_fn(respond), wheel, SECOND);
    let response = service.ready().await.unwrap().call((10 * SECOND, true));
    sleep(ms(900)).await;
    assert!(response.await.unwrap_err().is::<Elapsed>());
    assert_eq!(start.elapsed(), SECOND);
}

/// Ready after so many polls, or never.
#[derive(Debug)]
struct Warming(Option<usize>);

impl Service<()> for Warming {
    type Response = ();
    type Error = io::Error;
    type Future = Ready<io::Result<()>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            None => Poll::Ready(Err(io::Error::other("broken"))),
            Some(0) => Poll::Ready(Ok(())),
            Some(polls) => {
                *polls -= 1;
                Poll::Pending
            }
        }
    }

    fn call(&mut self, (): ()) -> Self::Future {
        ready(Ok(()))
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_ready_when_the_service_within_is() {
    let wheel = TimingWheel::new();
    let mut service = Timeout::new(Warming(Some(2)), wheel.clone(), Duration::ZERO);
    let mut ready = task::spawn(service.ready());
    assert_pending!(ready.poll());
    sleep(SECOND).await;
    assert_pending!(ready.poll());
    assert!(assert_ready!(ready.poll()).is_ok());
    drop(ready);
    assert_eq!(
        (service.get_ref().0, service.get_mut().0, service.into_inner().0),
        (Some(0), Some(0), Some(0))
    );

    let mut broken = Timeout::new(Warming(None), wheel.clone(), SECOND);
    let error = broken.ready().await.map(|_| ()).unwrap_err();
    assert_eq!(error.downcast_ref::<io::Error>().unwrap().to_string(), "broken");
    assert_eq!(wheel.stats().armed, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_workers_behind_a_buffer_each_request_has_its_own_time() {
    let wheel = TimingWheel::new();
    let service = ServiceBuilder::new()
        .buffer::<Request>(64)
        .layer(TimeoutLayer::new(wheel.clone(), ms(50)))
        .service_fn(respond);
    let requests = (0..200).map(|n| {
        let service = service.clone();
        tokio::spawn(async move {
            let takes = if n % 2 == 0 { ms(1) } else { 60 * SECOND };
            (n, answer(service, (takes, true)).await)
        })
    });
    for request in requests.collect::<Vec<_>>() {
        let (n, (answer, is_elapsed, time)) = request.await.unwrap();
        if n % 2 == 1 {
            assert!(is_elapsed && time >= ms(50), "{answer:?} after {time:?}");
        }
    }
    drop(service);
    assert_nothing_pending(&wheel);
}

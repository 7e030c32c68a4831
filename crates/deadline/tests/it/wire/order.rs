//! Which order of layers means what: a test for each row of the table on the crate's first page of the wire.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use timingwheel::TimingWheel;
use timingwheel_deadline::wire::{ClientLayer, Error, ServerLayer};
use timingwheel_deadline::{Deadline, DeadlineExt, Ended};
use tokio::time::{Instant, sleep};
use tower::buffer::BufferLayer;
use tower::load_shed::LoadShedLayer;
use tower::load_shed::error::Overloaded;
use tower::retry::{Policy, RetryLayer};
use tower::{BoxError, Service, ServiceBuilder, ServiceExt, service_fn};

use super::{HEADER, echo, ended, left, millis, request};
use crate::ms;

type Sent = Arc<Mutex<Vec<String>>>;

/// A server that takes `takes` and answers that it is busy. Notes what each request says.
fn busy(
    sent: &Sent,
    takes: Duration,
) -> impl Service<Request<String>, Response = Response<String>, Error = Infallible, Future: Send>
+ Clone
+ Send
+ use<> {
    let sent = sent.clone();
    service_fn(move |request: Request<String>| {
        let time = request.headers().get(HEADER).map_or("none", |time| time.to_str().unwrap());
        sent.lock().unwrap().push(time.to_owned());
        async move {
            sleep(takes).await;
            let busy = Response::builder().status(StatusCode::SERVICE_UNAVAILABLE);
            Ok(busy.body(String::new()).unwrap())
        }
    })
}

/// Tries again as long as the server is busy, three times in all.
#[derive(Clone)]
struct ThreeTries(usize);

impl<R, E> Policy<Request<String>, Response<R>, E> for ThreeTries {
    type Future = Ready<()>;

    fn retry(
        &mut self,
        _request: &mut Request<String>,
        result: &mut Result<Response<R>, E>,
    ) -> Option<Ready<()>> {
        self.0 = self.0.saturating_sub(1);
        (self.0 > 0 && result.is_ok()).then(|| ready(()))
    }

    fn clone_request(&mut self, request: &Request<String>) -> Option<Request<String>> {
        Some(request.clone())
    }
}

#[tokio::test(start_paused = true)]
async fn retry_around_the_client_layer_sends_what_each_try_has_left_and_below_it_what_the_first_one_had() {
    let (retry, client) = (RetryLayer::new(ThreeTries(3)), ClientLayer::new(millis()));
    let (sent, deadline) = (Sent::default(), TimingWheel::new().deadline_in(ms(100)));
    let around =
        ServiceBuilder::new().layer(retry.clone()).layer(client.clone()).service(busy(&sent, ms(40)));
    let call = deadline.scope(around.oneshot(request("x-other", "")));
    assert_eq!(ended(call.await), Ended::Passed, "the third try");
    assert_eq!(*sent.lock().unwrap(), ["100", "60", "20"]);

    let (sent, deadline) = (Sent::default(), TimingWheel::new().deadline_in(ms(100)));
    let below = ServiceBuilder::new().layer(client).layer(retry).service(busy(&sent, ms(40)));
    let call = deadline.scope(below.oneshot(request("x-other", "")));
    assert_eq!(ended(call.await), Ended::Passed, "it bounds all tries");
    assert_eq!(*sent.lock().unwrap(), ["100", "100", "100"]);
}

/// The buffer's worker has no current deadline: the request carries it.
#[tokio::test(start_paused = true)]
async fn the_client_layer_below_a_buffer_takes_the_deadline_from_the_request() {
    let deadline = TimingWheel::new().deadline_in(ms(100));
    let client = ServiceBuilder::new()
        .map_request(|mut request: Request<String>| {
            if let Some(deadline) = Deadline::current() {
                request.extensions_mut().insert(deadline);
            }
            request
        })
        .layer(BufferLayer::new(8))
        .layer(ClientLayer::new(millis()))
        .concurrency_limit(1)
        .service_fn(async |request: Request<String>| {
            sleep(ms(30)).await;
            echo(request).await
        });
    let send = async || {
        let response = client.clone().oneshot(request("x-other", "")).await?;
        Ok::<_, BoxError>(response.into_body().collect().await?.to_bytes())
    };
    let both = deadline.scope(async { tokio::join!(send(), send()) }).await;
    assert_eq!(
        (both.0.unwrap(), both.1.unwrap()),
        ("100".into(), "70".into()),
        "less the time in the buffer"
    );
}

#[tokio::test(start_paused = true)]
async fn the_client_layer_around_a_buffer_bounds_the_wait_and_sends_the_time_from_before_it() {
    let deadline = TimingWheel::new().deadline_in(ms(100));
    let client = ServiceBuilder::new()
        .layer(ClientLayer::new(millis()))
        .layer(BufferLayer::new(8))
        .concurrency_limit(1)
        .service_fn(async |request: Request<String>| {
            sleep(ms(60)).await;
            echo(request).await
        });
    let send = async || {
        let response = client.clone().oneshot(request("x-other", "")).await?;
        Ok::<_, BoxError>(response.into_body().collect().await?.to_bytes())
    };
    let start = Instant::now();
    let (first, second) = deadline.scope(async { tokio::join!(send(), send()) }).await;
    assert_eq!(first.unwrap(), "100");
    assert!(matches!(second.unwrap_err().downcast_ref(), Some(Error::Ended(Ended::Passed))));
    assert_eq!(start.elapsed(), ms(100));
}

#[tokio::test(start_paused = true)]
async fn a_timeout_layer_is_not_sent_and_a_limit_by_run_within_is() {
    let (sent, deadline) = (Sent::default(), TimingWheel::new().deadline_in(ms(100)));
    let by_layer =
        ServiceBuilder::new().timeout(ms(20)).layer(ClientLayer::new(millis())).service(busy(&sent, ms(50)));
    let call = deadline.scope(by_layer.oneshot(request("x-other", ""))).await;
    assert!(call.unwrap_err().is::<tower::timeout::error::Elapsed>());
    let by_limit = ServiceBuilder::new().layer(ClientLayer::new(millis())).service(busy(&sent, ms(50)));
    let call = deadline.run_within(ms(20), by_limit.oneshot(request("x-other", ""))).await;
    assert_eq!(ended(call.unwrap()), Ended::Limit);
    assert_eq!(*sent.lock().unwrap(), ["100", "20"]);
}

/// Around the server layer it sheds nothing, because that is always ready.
#[tokio::test(start_paused = true)]
async fn load_shed_goes_below_the_server_layer() {
    let slow = || {
        ServiceBuilder::new().concurrency_limit(1).service_fn(async |request: Request<String>| {
            sleep(ms(50)).await;
            left(request).await
        })
    };
    let in_time = || ServerLayer::new(&TimingWheel::new(), millis());
    let below = ServiceBuilder::new().layer(in_time()).layer(LoadShedLayer::new()).service(slow());
    let (first, second) = tokio::join!(
        below.clone().oneshot(request("x-time-left", "1000")),
        below.clone().oneshot(request("x-time-left", "1000"))
    );
    assert!(first.is_ok() && second.unwrap_err().is::<Overloaded>());

    let around = ServiceBuilder::new().layer(LoadShedLayer::new()).layer(in_time()).service(slow());
    let (first, second) = tokio::join!(
        around.clone().oneshot(request("x-time-left", "1000")),
        around.clone().oneshot(request("x-time-left", "1000"))
    );
    assert!(first.is_ok() && second.is_ok());
}

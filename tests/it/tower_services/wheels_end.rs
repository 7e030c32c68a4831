//! A wheel that has ended, or is full, says so: a request whose time was not up has not elapsed.

use std::error::Error;
use std::future::pending;
use std::io;

use timingwheel::TimingWheel;
use timingwheel::tower::Timeout;
use tokio_test::{assert_pending, assert_ready_err, task};
use tower::timeout::error::Elapsed;
use tower::{Service, service_fn};

use super::{SECOND, assert_nothing_pending};

type Response = Result<&'static str, io::Error>;

fn reason(error: &(dyn Error + Send + Sync + 'static)) -> timingwheel::Error {
    assert!(!error.is::<Elapsed>());
    *error.downcast_ref().unwrap_or_else(|| panic!("{error:?}"))
}

#[tokio::test(start_paused = true)]
async fn a_request_under_way_when_the_wheel_ends_is_answered_with_that() {
    let wheel = TimingWheel::new();
    let mut service = Timeout::new(service_fn(|()| pending::<Response>()), wheel.clone(), SECOND);
    let mut response = task::spawn(service.call(()));
    assert_pending!(response.poll());
    assert_eq!(wheel.shutdown(), 1);
    assert!(response.is_woken());
    assert!(reason(&*assert_ready_err!(response.poll())).is_shutdown());
    assert!(reason(&*service.call(()).await.unwrap_err()).is_shutdown());
    assert_nothing_pending(&wheel);
}

#[tokio::test(start_paused = true)]
async fn a_response_that_is_ready_at_once_comes_without_a_wheel() {
    let wheel = TimingWheel::new();
    wheel.shutdown();
    let mut service = Timeout::new(service_fn(async |()| Response::Ok("now")), wheel, SECOND);
    assert_eq!(service.call(()).await.unwrap(), "now");
}

#[tokio::test(start_paused = true)]
async fn a_request_for_whose_timer_there_is_no_place_is_answered_with_that() {
    let wheel = TimingWheel::builder().max_pending(1).build().unwrap();
    let mut service = Timeout::new(service_fn(|()| pending::<Response>()), wheel.clone(), SECOND);
    let mut first = task::spawn(service.call(()));
    assert_pending!(first.poll());
    assert!(reason(&*service.call(()).await.unwrap_err()).is_at_capacity());
    assert!(first.await.unwrap_err().is::<Elapsed>());
    assert!(service.call(()).await.unwrap_err().is::<Elapsed>(), "there is a place again");
    assert_nothing_pending(&wheel);
}

//! On a wheel that has ended or is full, a request still gets its whole time.

use std::future::pending;
use std::io;

use timingwheel::TimingWheel;
use timingwheel::tower::Timeout;
use tokio::time::Instant;
use tower::timeout::error::Elapsed;
use tower::{Service, service_fn};

use super::{SECOND, assert_nothing_pending};

type Response = Result<&'static str, io::Error>;

#[tokio::test(start_paused = true)]
async fn a_response_that_is_ready_at_once_comes_without_a_wheel() {
    let wheel = TimingWheel::new();
    wheel.shutdown();
    let mut service = Timeout::new(service_fn(async |()| Response::Ok("now")), wheel, SECOND);
    assert_eq!(service.call(()).await.unwrap(), "now");
}

#[tokio::test(start_paused = true)]
async fn a_request_elapses_at_its_time_also_without_the_wheel() {
    let (ended, full) = (TimingWheel::new(), TimingWheel::builder().max_pending(0).build().unwrap());
    ended.shutdown();
    for wheel in [ended, full] {
        let mut service = Timeout::new(service_fn(|()| pending::<Response>()), wheel.clone(), SECOND);
        let start = Instant::now();
        assert!(service.call(()).await.unwrap_err().is::<Elapsed>());
        assert_eq!(start.elapsed(), SECOND);
        assert_nothing_pending(&wheel);
    }
}

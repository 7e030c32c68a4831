//! One timer for one operation after the other.

use std::future::pending;

use timingwheel::TimingWheel;
use timingwheel_deadline::{Ended, ReusableTimeout};
use tokio::time::{Instant, sleep};

use crate::ms;

#[tokio::test(start_paused = true)]
async fn operations_do_not_move_the_timer() {
    let wheel = TimingWheel::new();
    let mut timeout = ReusableTimeout::new(&wheel);
    for _ in 0..1000 {
        timeout.run_in(ms(100), sleep(ms(1))).await.unwrap();
    }
    let armed = wheel.stats().armed;
    assert!(armed <= 11, "{armed}");
}

#[tokio::test(start_paused = true)]
async fn each_operation_ends_at_its_own_limit() {
    let mut timeout = ReusableTimeout::new(&TimingWheel::new());
    for limit in [50, 10, 100, 1, 100] {
        let start = Instant::now();
        assert_eq!(timeout.run_in(ms(limit), pending::<()>()).await, Err(Ended::Passed));
        assert_eq!(start.elapsed(), ms(limit));
        sleep(ms(7)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_operation_does_not_shorten_the_next() {
    let mut timeout = ReusableTimeout::new(&TimingWheel::new());
    tokio::select! {
        _ = timeout.run_in(ms(20), pending::<()>()) => unreachable!(),
        () = sleep(ms(10)) => {}
    }
    let start = Instant::now();
    assert_eq!(timeout.run_in(ms(30), pending::<()>()).await, Err(Ended::Passed));
    assert_eq!(start.elapsed(), ms(30));
}

//! Awaiting jobs by their keys.

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use timingwheel::TimingWheel;
use timingwheel_jobs::{JobState, Jobs, Join};
use tokio::time::{sleep, timeout};

use crate::{HANG_GUARD, ms};

fn poll(join: &mut Join, waker: &Waker) -> Poll<JobState> {
    pin!(join).poll(&mut Context::from_waker(waker))
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("as asked");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_keeps_nobody_else_from_being_woken() {
    let jobs = Jobs::new(&TimingWheel::new());
    jobs.try_run_after(7, ms(10), async {}).unwrap();
    let join = jobs.join(&7).unwrap();
    let mut waits = [(); 2].map(|()| jobs.join(&7).unwrap());
    let waiting = tokio::spawn(join);
    tokio::task::yield_now().await;
    for panics in &mut waits {
        assert!(poll(panics, &Arc::new(Panics).into()).is_pending());
    }
    let others = [(); 3].map(|()| tokio::spawn(jobs.join(&7).unwrap()));
    for wait in others.into_iter().chain([waiting]) {
        assert_eq!(timeout(HANG_GUARD, wait).await.expect("it hangs").unwrap(), JobState::Done);
    }
}

/// Looks, as it is woken, how many jobs are listed.
struct Looks(Jobs<u8>, Mutex<Option<usize>>);

impl Wake for Looks {
    fn wake(self: Arc<Self>) {
        *self.1.lock().unwrap() = Some(self.0.len());
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_told_of_the_end_finds_the_job_listed_no_more() {
    let jobs = Jobs::new(&TimingWheel::new());
    jobs.try_run_after(7, ms(10), async {}).unwrap();
    let looks = Arc::new(Looks(jobs, Mutex::default()));
    let mut join = looks.0.join(&7).unwrap();
    assert!(poll(&mut join, &looks.clone().into()).is_pending());
    sleep(ms(20)).await;
    assert_eq!(*looks.1.lock().unwrap(), Some(0));
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "called after complete")]
async fn a_wait_that_was_ready_must_not_be_polled() {
    let jobs = Jobs::new(&TimingWheel::new());
    jobs.try_run_after(7, ms(10), async {}).unwrap();
    let mut join = jobs.join(&7).unwrap();
    assert_eq!((&mut join).await, JobState::Done);
    join.await;
}

//! Awaiting jobs by their keys.

use std::pin::pin;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use futures::future::join_all;
use timingwheel::TimingWheel;
use timingwheel::job::{JobState, Jobs, Join, Schedule};
use tokio::time::{sleep, timeout};

use crate::{DAY, HANG_GUARD, ms, rate, runtime};

fn poll(join: &mut Join, waker: &Waker) -> Poll<JobState> {
    pin!(join).poll(&mut Context::from_waker(waker))
}

/// A waker that asks for the end of the job, and then drops another wait for it, when it is dropped. A wake drops it too.
struct Asks {
    other: Join,
    found: Sender<Poll<JobState>>,
}

impl Asks {
    fn waker(join: &Join, found: &Sender<Poll<JobState>>) -> Waker {
        let mut other = join.clone();
        assert!(poll(&mut other, Waker::noop()).is_pending());
        Arc::new(Self { other, found: found.clone() }).into()
    }
}

impl Wake for Asks {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Asks {
    fn drop(&mut self) {
        self.found.send(poll(&mut self.other, &Waker::from(Arc::new(Panics)))).unwrap();
    }
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("as asked");
    }
}

#[test]
fn wakers_may_ask_for_the_job_that_they_are_woken_for() {
    let runtime = runtime(1);
    let context = runtime.enter();
    let jobs = Jobs::new(&TimingWheel::new());
    jobs.try_run_after(7, DAY, async {}).unwrap();
    let (found, has_found) = channel();
    let join = jobs.join(&7).unwrap();
    // A thread that hangs is left alone.
    thread::spawn(move || {
        let asks = || Asks::waker(&join, &found);
        let mut waits = [(); 3].map(|()| join.clone());
        for wait in &mut waits {
            assert!(poll(wait, &asks()).is_pending());
        }
        let [replaced, dropped, _woken] = &mut waits;
        assert!(poll(replaced, Waker::noop()).is_pending());
        *dropped = join.clone();
        jobs.remove(&7).unwrap();
    });
    let found = [(); 3].map(|()| has_found.recv_timeout(HANG_GUARD));
    drop(context);
    runtime.shutdown_background();
    let [pending, told] = [Poll::Pending, Poll::Ready(JobState::Cancelled)].map(Ok);
    assert_eq!(found, [pending, pending, told], "replaced, dropped, woken");
}

#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_keeps_nobody_else_from_being_woken() {
    let jobs = Jobs::new(&TimingWheel::new());
    jobs.try_run_after(7, ms(10), async {}).unwrap();
    let join = jobs.join(&7).unwrap();
    let mut waits = [(); 2].map(|()| join.clone());
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

#[tokio::test(start_paused = true)]
async fn a_wait_keeps_the_waker_of_its_last_poll_until_it_is_dropped() {
    let jobs = Jobs::new(&TimingWheel::new());
    jobs.try_run_after(7, ms(10), async {}).unwrap();
    let [first, last] = [(); 2].map(|()| Arc::new(Panics));
    let mut join = jobs.join(&7).unwrap();
    for waker in [&first, &first, &last] {
        assert!(poll(&mut join, &waker.clone().into()).is_pending());
    }
    assert_eq!([&first, &last].map(Arc::strong_count), [1, 2]);
    assert!(format!("{join:?}").contains("None"));
    let mut clone = join.clone();
    assert!(poll(&mut clone, &first.clone().into()).is_pending());
    assert_eq!([&first, &last].map(Arc::strong_count), [2, 2], "a clone is another wait");
    drop(join);
    assert_eq!([&first, &last].map(Arc::strong_count), [2, 1]);
    sleep(ms(20)).await;
    assert_eq!(format!("{clone:?}"), "Join { state: Some(Done), .. }");
}

#[tokio::test(start_paused = true)]
async fn each_of_many_tasks_is_told_how_the_job_ended() {
    let jobs = Jobs::new(&TimingWheel::new());
    jobs.try_run_after("done", ms(10), async {}).unwrap();
    jobs.try_run_by("again", rate(ms(10)).times(3), || async {}).unwrap();
    jobs.try_run_after("panics", ms(10), async { panic!("as asked") }).unwrap();
    jobs.try_run_after("removed", DAY, async {}).unwrap();
    let ends = ["done", "again", "panics", "removed"].map(|key| {
        let join = jobs.join(key).unwrap();
        [0, 1, 2].map(|_| tokio::spawn(join.clone()))
    });
    assert!(jobs.join("none").is_none());
    // A wait that is dropped takes no other along.
    assert!(timeout(ms(1), jobs.join("done").unwrap()).await.is_err());
    jobs.remove("removed").unwrap();
    let expected = [JobState::Done, JobState::Done, JobState::Panicked, JobState::Cancelled];
    for (ends, expected) in ends.into_iter().zip(expected) {
        assert!(join_all(ends).await.into_iter().all(|state| state.unwrap() == expected), "{expected:?}");
    }
    assert!(jobs.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_wait_is_for_the_job_that_had_the_key_and_not_for_the_next() {
    let jobs = Jobs::new(&TimingWheel::new());
    jobs.try_run_after(7, ms(10), async { sleep(ms(20)).await }).unwrap();
    let waiting = jobs.join(&7).unwrap();
    jobs.try_run_after(7, DAY, async {}).unwrap();
    assert_eq!(waiting.await, JobState::Cancelled);

    jobs.try_run_after(7, ms(10), async { sleep(ms(20)).await }).unwrap();
    sleep(ms(15)).await;
    let mut running = jobs.join(&7).unwrap();
    jobs.try_run_after(7, DAY, async {}).unwrap();
    assert!(timeout(ms(10), &mut running).await.is_err(), "its run goes on");
    assert_eq!(running.clone().await, JobState::Done);
    assert_eq!(running.await, JobState::Done, "also a second time");
}

#[tokio::test(start_paused = true)]
async fn whoever_awaits_a_job_learns_of_the_wheels_end() {
    let wheel = TimingWheel::new();
    let jobs = Jobs::new(&wheel);
    jobs.try_run_after(7, DAY, async {}).unwrap();
    let join = jobs.join(&7).unwrap();
    wheel.shutdown();
    assert_eq!(join.await, JobState::CouldNotRun);
    assert_eq!(jobs.join(&7).unwrap().await, JobState::CouldNotRun, "it stays in the list");
}

#[test]
fn whoever_awaits_a_job_elsewhere_learns_of_its_runtimes_end() {
    let runtime = runtime(2);
    let jobs = runtime.block_on(async { Jobs::new(&TimingWheel::new()) });
    jobs.try_run_after(7, DAY, async {}).unwrap();
    jobs.try_run_after(8, ms(0), std::future::pending()).unwrap();
    let joins = [7, 8].map(|key| jobs.join(&key).unwrap());
    drop(runtime);
    for join in joins {
        let state = tokio_test::block_on(async { timeout(HANG_GUARD, join).await });
        assert_eq!(state.expect("it hangs"), JobState::CouldNotRun);
    }
}

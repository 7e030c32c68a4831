//! Jobs whose run is ended before it comes to its end.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use timingwheel::TimingWheel;
use timingwheel_jobs::{FixedRate, JobState, JobsExt, Repeating};
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use crate::{Bomb, DAY, HANG_GUARD, ms, runtime};

#[tokio::test(start_paused = true)]
async fn an_aborted_run_ends_where_it_waits_and_its_future_is_dropped_before_the_handle_is_told() {
    let wheel = TimingWheel::new();
    let held = Arc::new(());
    let owned = held.clone();
    let job = wheel.run_after(ms(1), async move {
        sleep(DAY).await;
        drop(owned);
    });
    sleep(ms(5)).await;
    assert_eq!(job.state(), JobState::Running);
    assert!(job.abort());
    assert!(!job.abort(), "it was aborted before");
    assert!(job.await.unwrap_err().is_cancelled());
    assert_eq!(Arc::strong_count(&held), 1);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_aborted_before_its_first_poll_runs_nothing() {
    let wheel = TimingWheel::new();
    let job = wheel.run_after(ms(0), async { unreachable!("it was aborted") });
    assert_eq!(job.state(), JobState::Running);
    assert!(job.abort());
    let error: timingwheel_jobs::JobError = job.await.map(|(): ()| ()).unwrap_err();
    assert!(error.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_job_that_aborts_itself_ends_at_its_next_wait() {
    let (wheel, slot) = (TimingWheel::new(), Arc::new(std::sync::Mutex::new(None::<Repeating>)));
    let own = slot.clone();
    let job = wheel.run_by(FixedRate::new(ms(10)).starting_after(ms(10)), move || {
        let own = own.clone();
        async move {
            assert!(own.lock().unwrap().as_ref().unwrap().abort());
            yield_now().await;
            unreachable!("it was aborted");
        }
    });
    *slot.lock().unwrap() = Some(job);
    sleep(ms(20)).await;
    let job = slot.lock().unwrap().take().unwrap();
    assert!(job.await.unwrap_err().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_future_that_panics_as_it_is_dropped_by_an_abort_is_told_of() {
    let wheel = TimingWheel::new();
    let bomb = Bomb;
    let job = wheel.run_after(ms(1), async move {
        pending::<()>().await;
        drop(bomb);
    });
    sleep(ms(5)).await;
    assert!(job.abort());
    assert!(job.await.unwrap_err().is_panic());
}

/// Each run that is aborted at some moment ends, or had come to its end: none hangs.
#[test]
fn aborts_among_threads_end_each_job_one_way_or_the_other() {
    const JOBS: usize = 3_000;
    let runtime = runtime(2);
    let _within = runtime.enter();
    let wheel = TimingWheel::new();
    let ran = Arc::new(AtomicUsize::new(0));
    let mut cancelled = 0;
    for _ in 0..JOBS {
        let count = ran.clone();
        let job = wheel.run_after(ms(0), async move {
            for _ in 0..fastrand::u8(0..4) {
                yield_now().await;
            }
            count.fetch_add(1, Ordering::Relaxed);
        });
        for _ in 0..fastrand::u8(0..200) {
            std::hint::spin_loop();
        }
        job.abort();
        let result = runtime.block_on(async { timeout(HANG_GUARD, job).await.expect("it hangs") });
        cancelled += usize::from(result.is_err_and(|error| error.is_cancelled()));
    }
    assert_eq!(ran.load(Ordering::Relaxed) + cancelled, JOBS);
}

//! What goes wrong round jobs that run once: panics, the end of the wheel and of its runtime, and cancels that race
//! with the start. And what keeps it from others: tasks of their own.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_jobs::{FixedDelay, JobState, Jobs, JobsExt, Schedule};
use tokio::runtime::{Builder, Handle};
use tokio::task::yield_now;
use tokio::time::{Instant, timeout};
use tokio_test::assert_pending;

use crate::{Bomb, DAY, HANG_GUARD, ms, rate, runtime};

#[tokio::test(start_paused = true)]
async fn an_output_a_panic_and_a_future_that_panic_when_dropped_harm_no_other_job() {
    let wheel = TimingWheel::new();
    drop(wheel.run_after(ms(1), async { Bomb }));
    drop(wheel.run_after(ms(2), async { std::panic::panic_any(Bomb) }));
    let bomb = Bomb;
    let cancelled = wheel.run_after(ms(3), async move { drop(bomb) });
    let dropped = catch_unwind(AssertUnwindSafe(|| cancelled.cancel()));
    assert!(dropped.is_err());
    assert_eq!((cancelled.state(), wheel.pending()), (JobState::Cancelled, 2));
    wheel.run_after(ms(4), async {}).await.unwrap();
}

#[test]
fn a_job_keeps_its_wheel_until_it_has_run_and_the_driver_ends_after_it() {
    for workers in [0, 2] {
        runtime(workers).block_on(async {
            let wheel = TimingWheel::new();
            let runs = Arc::new(AtomicUsize::new(0));
            let run = runs.clone();
            drop(wheel.run_after(ms(5), async move { run.fetch_add(1, Ordering::Relaxed) }));
            drop(wheel);
            let start = std::time::Instant::now();
            while Handle::current().metrics().num_alive_tasks() > 0 {
                assert!(start.elapsed() < HANG_GUARD, "the driver goes on");
                yield_now().await;
            }
            assert_eq!(runs.load(Ordering::Relaxed), 1);
        });
    }
}

/// Cancels each job round the moment at which it comes due: some in time, some not.
#[test]
fn a_cancel_that_races_with_the_start_is_in_time_or_the_job_runs_and_never_both_or_neither() {
    const JOBS: usize = 2_000;
    let runtime = runtime(2);
    let tick = Duration::from_micros(50);
    let wheel = runtime.block_on(async { TimingWheel::builder().tick(tick).build().unwrap() });
    let ran = Arc::new(AtomicUsize::new(0));
    let mut in_time = 0;
    for n in 0..JOBS {
        let run = ran.clone();
        let job = wheel.run_after(2 * tick, async move { run.fetch_add(1, Ordering::Relaxed) });
        let at = job.due().map(|due| due + Duration::from_micros(n as u64 % 150));
        while at.is_some_and(|at| Instant::now() < at) {
            std::hint::spin_loop();
        }
        let is_in_time = job.cancel();
        in_time += usize::from(is_in_time);
        let result = runtime.block_on(async { timeout(HANG_GUARD, job).await.expect("it hangs") });
        assert_eq!(result.is_err_and(|error| error.is_cancelled()), is_in_time);
    }
    assert_eq!(ran.load(Ordering::Relaxed) + in_time, JOBS);
    assert_eq!(wheel.pending(), 0);
}

#[test]
fn on_a_thread_without_the_wheels_paused_clock_jobs_are_made_and_moved() {
    let builder = &mut Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().unwrap();
    let wheel = runtime.block_on(async {
        let wheel = TimingWheel::new();
        wheel.sleep(Duration::from_secs(3_600)).await;
        wheel
    });
    let (tell, told) = channel();
    let moved = wheel.run_by(rate(DAY).times(1), || async {});
    thread::spawn(move || {
        let jobs = Jobs::new(&wheel);
        jobs.try_run_after(7, ms(1), async {}).unwrap();
        assert!(moved.reset_after(ms(1)));
        tell.send((wheel.run_after(ms(1), async { 7 }), moved)).unwrap();
    });
    let (made, moved) = told.recv_timeout(HANG_GUARD).expect("it waits for a clock that stands elsewhere");
    runtime.block_on(async {
        assert_eq!(made.await.unwrap(), 7);
        assert_eq!(moved.await.unwrap(), 1);
    });
}

/// Panics when it is dropped, as a waker may.
struct PanicsWhenDropped;

impl Wake for PanicsWhenDropped {
    fn wake(self: Arc<Self>) {}
}

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("as asked");
    }
}

/// Panics as it is polled, and again as it is dropped.
struct PanicsTwice;

impl Drop for PanicsTwice {
    fn drop(&mut self) {
        panic!("as it is dropped")
    }
}

impl Future for PanicsTwice {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        panic!("as it is polled")
    }
}

#[tokio::test(start_paused = true)]
async fn a_future_that_panics_as_it_is_dropped_after_a_panic_ends_its_job_alone() {
    let job = TimingWheel::new().run_after(ms(1), PanicsTwice);
    let panic = job.await.unwrap_err().into_panic().unwrap();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"as it is polled"));
}

#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_as_the_handle_is_dropped_does_not_keep_its_job() {
    let wheel = TimingWheel::new();
    let mut job = wheel.run_after(DAY, async {}).cancel_on_drop();
    let waker = Waker::from(Arc::new(PanicsWhenDropped));
    assert_pending!(Pin::new(&mut job).poll(&mut Context::from_waker(&waker)));
    // The job has the last.
    drop(waker);
    drop(catch_unwind(AssertUnwindSafe(|| drop(job))));
    assert_eq!(wheel.pending(), 0);
}

/// Not on the driver, which others would wait for.
#[tokio::test(start_paused = true)]
async fn each_run_is_a_task_of_its_own() {
    let (wheel, tasks) = (TimingWheel::new(), Arc::<Mutex<Vec<_>>>::default());
    let note = move |tasks: &Arc<Mutex<Vec<_>>>| {
        let tasks = tasks.clone();
        async move { tasks.lock().unwrap().push(tokio::task::id()) }
    };
    for delay in [0, 5, 5, 10] {
        wheel.run_after(ms(delay), note(&tasks)).await.unwrap();
    }
    for delay in [0, 5] {
        let tasks = tasks.clone();
        wheel.run_by(FixedDelay::new(ms(delay)).times(3), move || note(&tasks)).await.unwrap();
    }
    let tasks = tasks.lock().unwrap();
    assert_eq!((tasks.len(), tasks.iter().collect::<HashSet<_>>().len()), (10, 10));
}

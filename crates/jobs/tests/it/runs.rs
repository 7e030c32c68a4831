//! Where and when runs come: their runtime and its clock, and times that never come.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use timingwheel_jobs::{JobState, Jobs, JobsExt, Schedule};
use tokio::runtime::{Builder, Handle};
use tokio::task::yield_now;
use tokio::time::{Instant, MissedTickBehavior, advance};

use crate::{DAY, HANG_GUARD, ms, rate, rest, runtime};

#[tokio::test(start_paused = true)]
async fn jobs_beyond_the_end_of_time_are_pending_for_ever() {
    let wheel = crate::wheel();
    let delayed = rate(Duration::MAX).with_missed_tick_behavior(MissedTickBehavior::Delay);
    let again = [
        wheel.run_by(rate(Duration::MAX), || async {}),
        wheel.run_by(rest(Duration::MAX), || async {}),
        wheel.run_by(delayed, || async {}),
    ];
    let (job, moved) = (wheel.run_after(Duration::MAX, async {}), wheel.run_after(DAY, async {}));
    assert!(moved.reset_after(Duration::MAX));
    wheel.run_after(DAY * 36_525, async {}).await.unwrap();
    assert_eq!(again.map(|job| job.info().state), [JobState::Pending; 3]);
    assert_eq!([&job, &moved].map(|job| job.info().state), [JobState::Pending; 2]);
    // Until it is moved back.
    assert!(moved.reset_after(ms(1)));
    moved.await.unwrap();
}

#[test]
fn jobs_run_on_the_wheels_runtime_wherever_they_are_made() {
    let (ours, other) = (runtime(1), runtime(1));
    let wheel = ours.block_on(async { crate::wheel() });
    let id = ours.handle().id();
    let runtime_of = |delay| wheel.run_after(delay, async { Handle::current().id() });
    for delay in [Duration::ZERO, ms(2)] {
        // Outside of any runtime, within another, and within its own.
        let job = runtime_of(delay);
        assert_eq!(tokio_test::block_on(job).unwrap(), id);
        assert_eq!(other.block_on(async { runtime_of(delay).await }).unwrap(), id);
        assert_eq!(ours.block_on(async { runtime_of(delay).await }).unwrap(), id);
    }
}

#[test]
fn jobs_of_a_wheel_on_the_real_clock_go_by_that_within_a_runtime_whose_clock_is_paused() {
    let runtime = runtime(1);
    let wheel = runtime.block_on(async { crate::wheel() });
    let jobs = Jobs::new(&wheel);
    let paused = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    paused.block_on(async {
        advance(DAY).await;
        let before = std::time::Instant::now();
        let job = wheel.run_after(DAY / 4, async {});
        assert!(job.reset_after(DAY / 2));
        let again = wheel.run_by(rate(DAY), || async {});
        assert!(again.reset_after(DAY / 2));
        let (tell, told) = channel();
        let past = wheel.run_by(rate(DAY).starting_after(DAY), move || {
            tell.send(()).unwrap();
            ready(())
        });
        assert!(past.reset(Instant::now() - DAY - ms(10)));
        jobs.try_run_after(7, DAY / 4, async {}).unwrap();
        assert!(jobs.reset_after(&7, DAY / 2));
        let expected = before + DAY / 2..=std::time::Instant::now() + DAY / 2;
        for due in [job.info().due, again.info().due, jobs.get(&7).unwrap().due] {
            assert!(expected.contains(&due.unwrap().into_std()), "{due:?}");
        }
        assert!(job.info().time_left().unwrap() <= DAY / 2);
        // It runs at once, and then a day from now.
        told.recv().unwrap();
        while past.info().state != JobState::Pending {
            thread::sleep(ms(1));
        }
        assert!(past.info().due.unwrap().into_std() <= std::time::Instant::now() + DAY);
    });
}

#[test]
fn on_a_thread_without_the_wheels_paused_clock_jobs_are_made_and_moved() {
    let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let wheel = runtime.block_on(async {
        let wheel = crate::wheel();
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
    let (made, moved) = told.recv().expect("it waits for a clock that stands elsewhere");
    assert_eq!(runtime.block_on(made).unwrap(), 7);
    assert_eq!(runtime.block_on(moved).unwrap(), 1);
}

#[test]
fn a_job_keeps_its_wheel_until_it_has_run_and_the_driver_ends_after_it() {
    for workers in [0, 2] {
        runtime(workers).block_on(async {
            let (wheel, runs) = (crate::wheel(), Arc::new(AtomicUsize::new(0)));
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

//! How jobs end: their own end, aborts, shutdowns, and the end of the wheel or of its runtime.

use std::future::pending;
use std::pin::pin;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::Context;
use std::thread;
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_jobs::{FixedRate, Job, JobState, Jobs, JobsExt, Schedule};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};
use tokio_test::assert_pending;

use crate::{DAY, bounded, ms, owning, rate, runtime, state, stop, when_woken};

#[tokio::test(start_paused = true)]
async fn whoever_is_told_of_an_end_finds_the_job_listed_no_more_and_who_has_the_handle_finds_its_code_dropped()
 {
    for (how, listed) in
        [("it returns", 0), ("it panics", 0), ("an abort", 0), ("a shutdown", 0), ("the end of the wheel", 1)]
    {
        let wheel = crate::wheel();
        let jobs = Jobs::new(&wheel);
        let is_pending = how == "a shutdown" || how == "the end of the wheel";
        let delay = if is_pending { DAY } else { ms(1) };
        let (owned, told) = (Arc::new(()), Arc::<Mutex<Vec<_>>>::default());
        let run = move |held| async move {
            sleep(ms(10)).await;
            assert!(how != "it panics", "as asked");
            drop::<Option<Arc<()>>>(held);
        };
        jobs.try_run_after(0, delay, run(None)).unwrap();
        let (held, again) = (owned.clone(), FixedRate::new(DAY).starting_after(delay).times(1));
        let make = owning(owned.clone(), move || run(Some(held.clone())));
        let (mut join, mut job) = (jobs.join(&0).unwrap(), wheel.run_by(again, make));
        let (inner, alive, tell) = (jobs.clone(), Arc::downgrade(&owned), [told.clone(), told.clone()]);
        let [tell_len, tell_owners] = tell;
        let looks = when_woken(move || tell_len.lock().unwrap().push(("listed", inner.len())));
        assert_pending!(pin!(&mut join).poll(&mut Context::from_waker(&looks)));
        let looks = when_woken(move || tell_owners.lock().unwrap().push(("owned by", alive.strong_count())));
        assert_pending!(pin!(&mut job).poll(&mut Context::from_waker(&looks)));
        sleep(ms(5)).await;
        match how {
            "an abort" => {
                assert!(jobs.abort(&0).is_some() && job.abort());
                assert!(!job.abort() && !job.reset_after(DAY) && !job.cancel(), "it is over");
            }
            "a shutdown" => {
                assert_eq!(jobs.shutdown(ms(1)).await.not_begun.len(), 1);
                assert!(job.cancel());
            }
            "the end of the wheel" => assert_eq!(wheel.shutdown(), 2),
            _ => {}
        }
        if !is_pending {
            sleep(ms(20)).await;
        }
        // At once, if nothing runs.
        let mut told = told.lock().unwrap().clone();
        told.sort_unstable();
        assert_eq!(told, [("listed", listed), ("owned by", 1)], "{how}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_aborted_before_its_first_poll_runs_nothing() {
    let job = crate::wheel().run_after(ms(0), async { unreachable!("it was aborted") });
    assert_eq!(job.info().state, JobState::Running);
    assert!(job.abort());
    assert!(job.await.map(|(): ()| ()).unwrap_err().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_aborted_in_the_poll_in_which_it_returns_is_cancelled() {
    let slot = Arc::new(Mutex::new(None::<Job<()>>));
    let own = slot.clone();
    let aborts = async move { assert!(own.lock().unwrap().as_ref().unwrap().abort()) };
    *slot.lock().unwrap() = Some(crate::wheel().run_after(ms(1), aborts));
    sleep(ms(2)).await;
    let job = slot.lock().unwrap().take().unwrap();
    assert!(job.await.unwrap_err().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_that_is_dropped_lets_what_runs_go_on() {
    let jobs = Jobs::new(&crate::wheel());
    jobs.try_run_after("short", ms(0), sleep(ms(30))).unwrap();
    yield_now().await;
    let end = jobs.join("short").unwrap();
    assert!(timeout(ms(10), jobs.shutdown(DAY)).await.is_err());
    assert_eq!(end.await, JobState::Done);
    assert!(jobs.try_run_after("late", DAY, async {}).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_a_run_that_was_aborted_and_counts_it_so() {
    let jobs = Jobs::new(&crate::wheel());
    jobs.try_run_after("slow", ms(0), sleep(DAY)).unwrap();
    yield_now().await;
    let start = Instant::now();
    assert_eq!(state(jobs.abort("slow")), Some(JobState::Running));
    let ended = jobs.shutdown(ms(5_000)).await;
    assert_eq!((ended.finished_keys, ended.aborted_keys, start.elapsed()), (vec![], vec!["slow"], ms(0)));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_without_a_wait_aborts_what_runs_and_hands_back_the_rest() {
    let jobs = Jobs::new(&crate::wheel());
    jobs.try_run_after(1, ms(0), pending()).unwrap();
    jobs.try_run_after(2, DAY, async {}).unwrap();
    let end = jobs.join(&1).unwrap();
    let ended = jobs.shutdown_now();
    assert_eq!((ended.finished_keys, ended.aborted_keys, ended.not_begun.len()), (vec![], vec![1], 1));
    assert_eq!(end.await, JobState::Cancelled);
    assert!(jobs.is_empty() && jobs.try_run_after(1, DAY, async {}).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_has_its_limit_also_where_the_wheel_is_full() {
    let (jobs, start) = (Jobs::new(&bounded(0)), Instant::now());
    jobs.try_run_after("stuck", ms(0), pending()).unwrap();
    yield_now().await;
    assert_eq!(jobs.shutdown(ms(50)).await.aborted, 1);
    assert_eq!(start.elapsed(), ms(50));
}

/// On the real clock, which goes on while a wheel ends.
#[test]
fn on_a_wheel_that_has_ended_no_job_runs_however_soon_it_is_due() {
    let runtime = runtime(2);
    for tick in [Duration::from_micros(1), ms(1)] {
        let wheel = runtime.block_on(async { TimingWheel::builder().tick(tick).build().unwrap() });
        wheel.shutdown();
        let (jobs, (tell, told)) = (Jobs::new(&wheel), channel());
        thread::spawn(move || {
            for delay in [Duration::ZERO, Duration::from_nanos(1), tick, DAY, Duration::MAX] {
                let state = wheel.run_after(delay, async {}).info().state;
                tell.send((delay, state, jobs.try_run_after(delay, delay, async {}).is_err())).unwrap();
            }
        });
        for _ in 0..5 {
            let (delay, state, is_refused) = told.recv().expect("it hangs");
            assert!(state == JobState::CouldNotRun && is_refused, "{delay:?} with a tick of {tick:?}");
        }
    }
}

/// On the real clock.
#[test]
fn at_the_end_of_a_wheel_or_of_its_runtime_each_job_says_that_it_could_not_run() {
    for (workers, by_shutdown) in [(0, true), (0, false), (2, true), (2, false)] {
        let (ours, other) = (runtime(workers), runtime(1));
        let wheel = ours.block_on(async { crate::wheel() });
        let (jobs, owned) = (Jobs::new(&wheel), Arc::new(()));
        let held = || {
            let owned = owned.clone();
            async move { drop(owned) }
        };
        drop(wheel.run_after(DAY, held()));
        let awaited: Vec<_> = (0..100).map(|_| other.spawn(wheel.run_after(DAY, held()))).collect();
        let far = wheel.run_by(rate(DAY), || async {});
        let (stuck, again) =
            (wheel.run_after(ms(1), pending::<u64>()), wheel.run_by(rate(ms(1)), pending::<()>));
        jobs.try_run_after(1, DAY, held()).unwrap();
        jobs.try_run_after(2, ms(0), pending()).unwrap();
        let joins = [1, 2].map(|key| jobs.join(&key).unwrap());
        let running = || [stuck.info().state, again.info().state, jobs.get(&2).unwrap().state];
        ours.block_on(async {
            while running() != [JobState::Running; 3] {
                yield_now().await;
            }
        });
        if by_shutdown {
            assert_eq!((wheel.shutdown(), running()), (103, [JobState::Running; 3]));
        }
        drop(ours);
        assert_eq!(Arc::strong_count(&owned), 1);
        assert!(far.info().due.is_some(), "when it was to run is known");
        assert_eq!((stuck.info().due, again.info().due), (None, None), "they ran");
        for job in [far, stuck, again] {
            assert_eq!((job.info().state, job.info().time_left()), (JobState::CouldNotRun, None));
            assert!(tokio_test::block_on(job).unwrap_err().reason().unwrap().is_shutdown());
        }
        for job in awaited {
            let told = other.block_on(job).unwrap();
            assert!(told.unwrap_err().reason().unwrap().is_shutdown());
        }
        for join in joins.into_iter().chain(jobs.join(&1)) {
            assert_eq!(tokio_test::block_on(join), JobState::CouldNotRun);
        }
        // Jobs by keys stay listed, so that nothing is lost unseen.
        assert!(!jobs.reset_after(&1, ms(40)));
        let stopped = stop(&jobs);
        assert!(stopped.len() == 2 && stopped.iter().all(|job| job.info.state == JobState::CouldNotRun));
        assert!(stopped.iter().all(|job| job.future.is_none() && job.info.due.is_some() == (job.key == 1)));
        assert!(wheel.try_run_after(Duration::ZERO, async {}).unwrap_err().error().is_shutdown());
    }
}

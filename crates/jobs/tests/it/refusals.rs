//! Who refuses jobs, in which words, and that a refusal changes nothing and gives back what was to run.

use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use timingwheel::{Error, TimingWheel};
use timingwheel_jobs::{JobState, Jobs, JobsExt, LastRun, TryRunError};
use tokio::time::Instant;

use crate::{DAY, bounded, ms, rate};

/// What is added, by each method that can refuse it. Gives back what was refused, once it has run.
async fn refused(
    number: usize,
    wheel: &TimingWheel,
    jobs: &Jobs<u8>,
    ran: &Arc<AtomicUsize>,
) -> (String, Error) {
    async fn once<T, F: Future, K>(added: Result<T, TryRunError<F, K>>) -> (String, Error) {
        let refused = added.map(drop).unwrap_err();
        let told = (refused.to_string(), refused.error());
        refused.into_inner().await;
        told
    }
    async fn again<T, F: Future, K>(added: Result<T, TryRunError<impl FnMut() -> F, K>>) -> (String, Error) {
        let refused = added.map(drop).unwrap_err();
        let told = (refused.to_string(), refused.error());
        refused.into_inner()().await;
        told
    }
    let at = Instant::now() + DAY;
    let count = ran.clone();
    let make = move || {
        let count = count.clone();
        async move { _ = count.fetch_add(1, Ordering::Relaxed) }
    };
    let run = make.clone()();
    match number {
        // A schedule without a run, and what is due at once, need no place.
        0 => again(wheel.try_run_by(|_: LastRun| None, make)).await,
        1 => again(wheel.try_run_every(DAY, make)).await,
        2 => once(wheel.try_run_after(Duration::ZERO, run)).await,
        3 => once(wheel.try_run_after(DAY, run)).await,
        4 => once(wheel.try_run_at(at, run)).await,
        5 => again(wheel.try_run_by(rate(DAY), make)).await,
        6 => again(wheel.try_run_every_at(at, DAY, make)).await,
        7 => once(jobs.try_run_after(1, DAY, run)).await,
        8 => once(jobs.try_run_at(1, at, run)).await,
        9 => again(jobs.try_run_by(1, rate(DAY), make)).await,
        10 => again(jobs.try_run_every(1, DAY, make)).await,
        _ => again(jobs.try_run_by(1, |_: LastRun| None, make)).await,
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_is_given_back_and_changes_nothing() {
    for reason in ["full", "ended", "shut down"] {
        crate::limit::limit_this_test();
        let wheel = TimingWheel::builder().name("rpc").max_pending(1).build().unwrap();
        let (jobs, ran) = (Jobs::new(&wheel), Arc::new(AtomicUsize::new(0)));
        jobs.try_run_after(1, DAY, async {}).unwrap();
        let (numbers, text) = match reason {
            "full" => {
                (3..10, r#"the job could not run: the wheel "rpc" is full (max_pending = 1)"#.to_owned())
            }
            "ended" => {
                wheel.shutdown();
                (0..12, format!("the job could not run: {}", Error::shutdown()))
            }
            _ => {
                assert_eq!(jobs.shutdown(ms(0)).await.not_begun.len(), 1);
                (7..12, "the jobs were shut down, and take no more".to_owned())
            }
        };
        let before = (wheel.pending(), jobs.len(), jobs.get(&1).map(|info| info.state));
        for number in numbers.clone() {
            let (said, error) = refused(number, &wheel, &jobs, &ran).await;
            assert_eq!(said, text, "{number}");
            assert_eq!((error.is_at_capacity(), error.is_shutdown()), (reason == "full", reason != "full"));
        }
        assert_eq!(ran.load(Ordering::Relaxed), numbers.len(), "each was given back");
        assert_eq!((wheel.pending(), jobs.len(), jobs.get(&1).map(|info| info.state)), before);
        if reason == "shut down" {
            continue;
        }
        // The others say it by their handles.
        for error in [
            wheel.run_after(DAY, async {}).await.unwrap_err(),
            wheel.run_by(rate(DAY), || async {}).await.unwrap_err(),
        ] {
            assert_eq!(
                (error.to_string(), format!("{error:?}")),
                (text.clone(), format!("JobError({text})"))
            );
            assert!(error.source().unwrap().is::<Error>() && !error.is_panic() && !error.is_cancelled());
            assert!(error.into_panic().unwrap_err().reason().is_some());
        }
        let job = wheel.run_after(DAY, async {});
        assert_eq!((job.info().state, job.info().due), (JobState::CouldNotRun, None), "it has not waited");
        if reason == "full" {
            // A job that is due needs no place, and one that is removed gives its own back.
            wheel.run_after(Duration::ZERO, async {}).await.unwrap();
            assert!(wheel.try_run_every(ms(10), || async {}).is_ok() && jobs.remove(&1).is_some());
            assert!(wheel.try_run_after(DAY, async {}).is_ok());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_becomes_an_error_of_the_wheel_and_a_cancel_one_without_a_source() {
    let adds = || -> Result<(), Error> {
        bounded(0).try_run_after(DAY, async {})?;
        Ok(())
    };
    assert!(adds().unwrap_err().is_at_capacity());
    let cancelled = crate::wheel().run_after(DAY, async {});
    assert!(cancelled.cancel());
    let error = cancelled.await.unwrap_err().into_panic().unwrap_err();
    assert_eq!((error.to_string().as_str(), error.is_panic()), ("the job was cancelled", false));
    assert!(error.is_cancelled() && error.reason().is_none() && error.source().is_none());
}

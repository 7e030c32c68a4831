//! A user's code that panics as it runs, is dropped or is woken: who is told, and that nobody else loses anything.

use std::future::{Ready, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Context;
use std::time::Duration;

use futures::FutureExt;
use timingwheel_jobs::{FixedRate, JobError, JobState, Jobs, JobsExt, LastRun, NextRun, Replanned, Schedule};
use tokio::time::{Instant, sleep, timeout};
use tokio_test::assert_pending;

use crate::acts::{Use, keys_that};
use crate::moves::Changeable;
use crate::{Always, Bomb, DAY, ms, owning, panics, rate, state, when_dropped, when_woken};

/// Also if what panicked panics again as it is dropped, which must not come while the first panic unwinds.
#[tokio::test(start_paused = true)]
async fn a_panic_ends_its_own_job_alone_and_is_told_of() {
    let wheel = crate::wheel();
    let (mut runs, mut asked, always) = (0, 0, Always);
    let schedule = move |last: LastRun| {
        assert!(last.due == last.ended && asked < 1, "asked again");
        asked += 1;
        Some(last.due + ms(10))
    };
    let polled = poll_fn(move |_| {
        let _owned = &always;
        panic!("as it is polled")
    });
    let third = move || {
        runs += 1;
        assert!(runs < 3, "run {runs}");
        async {}
    };
    let once = [
        (wheel.run_after(ms(5), async { panic!("number {}", std::hint::black_box(5)) }), ": number 5"),
        (wheel.run_after(ms(5), async { resume_unwind(Box::new(7_u8)) }), ""),
        (wheel.run_after(ms(5), polled), ": as it is polled"),
    ];
    let again = [
        (wheel.run_by(rate(ms(10)), owning(Always, third)), ": run 3"),
        (wheel.run_by(rate(ms(10)), owning(Always, || panics("in the future"))), ": in the future"),
        (wheel.run_by(rate(ms(10)), owning(Always, || -> Ready<()> { panic!("at once") })), ": at once"),
        (wheel.run_by(schedule, owning(Always, || async {})), ": asked again"),
    ];
    let other = wheel.run_after(ms(5), async { 2 });
    let mut told: Vec<(JobError, &str)> = Vec::new();
    for (job, text) in once {
        told.push((job.await.map(|(): ()| ()).unwrap_err(), text));
    }
    for (job, text) in again {
        told.push((job.await.unwrap_err(), text));
    }
    for (error, text) in told {
        assert!(error.is_panic() && !error.is_cancelled() && error.reason().is_none());
        assert_eq!(error.to_string(), format!("the job panicked{text}"));
        assert_eq!(error.into_panic().unwrap().is::<u8>(), text.is_empty());
    }
    assert_eq!((other.await.unwrap(), wheel.pending()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn what_panics_as_it_is_dropped_panics_in_who_ends_its_job_or_is_told_of_and_the_job_is_over() {
    let wheel = crate::wheel();
    // By nobody.
    drop(wheel.run_after(ms(1), async { Bomb }));
    drop(wheel.run_after(ms(2), async { panic_any(Bomb) }));
    let holds = |bomb: Bomb| async move {
        pending::<()>().await;
        drop(bomb);
    };
    let is_bomb = |call: &dyn Fn() -> bool| {
        let panic = catch_unwind(AssertUnwindSafe(call)).unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"the bomb"));
    };
    // By a cancel, an abort, a schedule, and an abort during the run.
    let (cancelled, aborted) = (wheel.run_after(ms(3), holds(Bomb)), wheel.run_after(ms(3), holds(Bomb)));
    let schedule = Changeable::default();
    let done = wheel.run_by(schedule.clone(), owning(Bomb, || async {}));
    let running = wheel.run_after(ms(3), holds(Bomb));
    is_bomb(&|| cancelled.cancel());
    is_bomb(&|| aborted.abort());
    is_bomb(&|| schedule.run().replan(None) == Replanned::Done);
    assert_eq!([cancelled.info().state, aborted.info().state], [JobState::Cancelled; 2]);
    assert_eq!((done.info().state, done.await.unwrap(), wheel.pending()), (JobState::Done, 0, 3));
    wheel.run_after(ms(4), async {}).await.unwrap();
    assert!(running.abort());
    assert!(running.await.unwrap_err().is_panic());
}

/// Panics when it is dropped, with a payload that does so too.
struct Carrier;

impl Drop for Carrier {
    fn drop(&mut self) {
        panic_any(Bomb);
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_whose_payload_panics_ends_no_more_than_its_own_job_and_hangs_nobody() {
    let wheel = crate::wheel();
    let jobs = Jobs::new(&wheel);
    jobs.try_run_after("run", ms(1), async { panic_any(Bomb) }).unwrap();
    jobs.try_run_by("code", rate(ms(1)).times(2), owning(Carrier, || async {})).unwrap();
    jobs.try_run_after("waker", ms(1), async {}).unwrap();
    jobs.try_run_after("handed back", DAY, async { drop(Carrier) }).unwrap();
    let mut woken = jobs.join("waker").unwrap();
    let waker = when_woken(|| panic_any(Bomb));
    assert_pending!(pin!(&mut woken).poll(&mut Context::from_waker(&waker)));
    let joins = ["run", "code", "waker"].map(|key| jobs.join(key).unwrap());
    // By handles that nobody keeps, and by ones whose errors nobody reads.
    drop(wheel.run_after(ms(1), async { panic_any(Bomb) }));
    drop(wheel.run_after(ms(1), async { Carrier }));
    let read = wheel.run_after(ms(1), async { panic_any(Bomb) }).await;
    drop(read);
    let mut states = Vec::new();
    for join in joins {
        states.push(timeout(DAY / 2, join).await.expect("it hangs"));
    }
    assert_eq!(states, [JobState::Panicked, JobState::Done, JobState::Done]);
    assert_eq!((jobs.len(), jobs.panicked()), (1, 1));
    assert_eq!(wheel.stats().wakers_panicked, 3, "of one with a key and of two without");
    drop(jobs.shutdown(ms(0)).await);
}

/// A schedule that panics when it is asked for the second time whether a run is left out, or whether one may come.
struct Fickle(u8);

impl Schedule for Fickle {
    fn next(&mut self, last: LastRun) -> Option<Instant> {
        Some(last.ended + ms(1))
    }

    fn admits(&mut self, _due: Instant) -> bool {
        panic!("may it come?")
    }

    fn leaves_out(&mut self) -> bool {
        self.0 += 1;
        assert!(self.0 < 2, "left out?");
        false
    }
}

#[tokio::test(start_paused = true)]
async fn a_schedule_that_panics_between_two_runs_ends_its_job() {
    let wheel = crate::wheel();
    for (answer, text) in [(NextRun::BySchedule, "left out?"), (NextRun::After(ms(1)), "may it come?")] {
        let job = wheel.run_by(Fickle(0), move || async move { answer });
        let error = timeout(DAY, job).await.expect("it hangs").unwrap_err();
        assert_eq!(error.to_string(), format!("the job panicked: {text}"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_schedule_that_panics_as_it_is_first_asked_panics_there_and_the_job_with_its_key_stays() {
    let jobs = Jobs::new(&crate::wheel());
    let faulty = |_| -> Option<Instant> { panic!("a schedule") };
    jobs.try_run_after(4, DAY, async {}).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| jobs.try_run_by(4, faulty, || async {}).is_ok())).is_err());
    assert_eq!((state(jobs.get(&4)), jobs.panicked()), (Some(JobState::Pending), 0));
}

/// A schedule that panics as it is dropped.
struct Explosive(FixedRate, #[allow(dead_code, reason = "it is dropped")] Bomb);

impl Schedule for Explosive {
    fn next(&mut self, last: LastRun) -> Option<Instant> {
        self.0.next(last)
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_shutdown_hands_back_runs_or_is_dropped_and_panics_in_nobody() {
    let jobs = Jobs::new(&crate::wheel());
    let (owned, runs) = (Arc::new(()), Arc::new(AtomicUsize::new(0)));
    let (held, count, bomb) = (owned.clone(), runs.clone(), Bomb);
    let make = move || {
        count.fetch_add(1, Ordering::Relaxed);
        async {}
    };
    jobs.try_run_after("held", DAY, async move { drop(held) }).unwrap();
    jobs.try_run_after("bomb", DAY, async move { drop(bomb) }).unwrap();
    jobs.try_run_by("closure", rate(DAY), owning(Bomb, || async {})).unwrap();
    jobs.try_run_by("schedule", Explosive(rate(DAY), Bomb), make).unwrap();
    let mut stopped = jobs.shutdown(ms(0)).await.not_begun;
    assert_eq!(Arc::strong_count(&owned), 2);
    let explosive = stopped.iter().position(|job| job.key == "schedule").unwrap();
    stopped.remove(explosive).future.unwrap().await;
    drop(stopped);
    assert_eq!((runs.load(Ordering::Relaxed), Arc::strong_count(&owned)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_keeps_nobody_else_from_being_woken_and_no_job() {
    let wheel = crate::wheel();
    let jobs = Jobs::new(&wheel);
    jobs.try_run_after(7, ms(10), async {}).unwrap();
    let join = || jobs.join(&7).unwrap();
    let waiting = tokio::spawn(join());
    tokio::task::yield_now().await;
    let mut panic = [join(), join()];
    let waker = when_woken(|| panic!("as asked"));
    for join in &mut panic {
        assert_pending!(pin!(join).poll(&mut Context::from_waker(&waker)));
    }
    let others = [(); 3].map(|()| tokio::spawn(join()));
    for wait in others.into_iter().chain([waiting]) {
        assert_eq!(wait.await.unwrap(), JobState::Done);
    }
    // Nor as it is dropped with its handle, which has the last.
    let mut job = wheel.run_after(DAY, async {}).cancel_on_drop();
    let waker = when_dropped(|| panic!("as asked"));
    assert_pending!(Pin::new(&mut job).poll(&mut Context::from_waker(&waker)));
    drop(waker);
    drop(catch_unwind(AssertUnwindSafe(|| drop(job))));
    assert_eq!(wheel.pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_must_not_be_asked_for_panics_and_says_why() {
    let wheel = crate::wheel();
    let mut job = wheel.run_after(ms(1), async {});
    (&mut job).await.unwrap();
    let text =
        |call: &dyn Fn()| *catch_unwind(AssertUnwindSafe(call)).unwrap_err().downcast::<String>().unwrap();
    let told = text(&|| _ = rate(Duration::ZERO));
    assert_eq!(told, "the period of a fixed rate must be at least 1ns, got 0ns");
    let told = text(&|| _ = Jobs::<u8>::new(&wheel).with_concurrency(0));
    assert_eq!(told, "the concurrency of jobs must be at least 1, got 0");
    let again = AssertUnwindSafe(job).catch_unwind().await.unwrap_err();
    assert_eq!(*again.downcast::<&str>().unwrap(), "a job's handle was polled again after its result");
}

/// The run that ends last has the list, and with it the key of a job that could not run.
#[tokio::test(start_paused = true)]
async fn a_key_that_panics_as_it_is_dropped_changes_no_end_of_another_job() {
    let panics = Arc::new(AtomicBool::new(false));
    let is_asked = panics.clone();
    let key = keys_that(move |number, what| {
        assert!(number != 2 || what != Use::CloneOrDrop || !is_asked.load(Ordering::Relaxed), "as asked");
    });
    let wheel = crate::wheel();
    let jobs = Jobs::new(&wheel);
    jobs.try_run_after(key(1), ms(0), sleep(ms(5))).unwrap();
    jobs.try_run_after(key(2), DAY, async {}).unwrap();
    sleep(ms(2)).await;
    wheel.shutdown();
    let join = jobs.join(&key(1)).unwrap();
    drop(jobs);
    panics.store(true, Ordering::Relaxed);
    assert_eq!(timeout(DAY, join).await.expect("it hangs"), JobState::Done);
}

//! Schedules that change their answer while their job waits, and users who have moved the run before.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use futures::FutureExt;
use timingwheel::TimingWheel;
use timingwheel_jobs::{JobState, Jobs, JobsExt, PendingRun, Previous, Replanned, Schedule};
use tokio::time::{Instant, sleep};

use crate::keys_faults::{Hook, Hooked};
use crate::runs::Runs;
use crate::{Bomb, DAY, ms, runtime};

/// Every 100 ms, and tells what changes that.
#[derive(Clone, Default)]
struct Changeable(Arc<Mutex<Option<PendingRun>>>);

impl Changeable {
    fn run(&self) -> PendingRun {
        self.0.lock().unwrap().clone().expect("it has a job")
    }
}

impl Schedule for Changeable {
    fn next(&mut self, previous: Previous) -> Option<Instant> {
        Some(previous.ended + ms(100))
    }

    fn attach(&mut self, run: PendingRun) {
        *self.0.lock().unwrap() = Some(run);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_its_user_has_moved_stays_there_and_the_next_is_the_schedules_again() {
    let (wheel, runs, schedule) = (TimingWheel::new(), Runs::new(), Changeable::default());
    let at = |millis| Some(runs.start + ms(millis));
    let job = runs.job(&wheel, schedule.clone(), &[]);
    assert_eq!((schedule.run().replan(at(50)), job.due()), (Replanned::Done, at(50)));
    // Later, earlier, and to where it is.
    for (reset, replanned) in [(70, 60), (20, 60), (20, 20)] {
        assert!(job.reset(runs.start + ms(reset)));
        assert_eq!(schedule.run().replan(at(replanned)), Replanned::MovedByUser);
        assert_eq!(job.due(), at(reset));
    }
    sleep(ms(25)).await;
    assert_eq!((runs.began(), job.due()), (vec![20], at(120)));
    assert_eq!((schedule.run().replan(at(30)), job.due()), (Replanned::Done, at(30)));
    sleep(ms(10)).await;
    assert_eq!(runs.began(), [20, 30]);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_moved_by_its_key_stays_there() {
    let (wheel, schedule, start) = (TimingWheel::new(), Changeable::default(), Instant::now());
    let jobs = Jobs::new(&wheel);
    let boxed: Box<dyn Schedule> = Box::new(schedule.clone().times(9));
    jobs.try_run_by("key", boxed, || async {}).unwrap();
    assert_eq!(schedule.run().replan(Some(start + ms(60))), Replanned::Done);
    assert_eq!(jobs.get("key").unwrap().due, Some(start + ms(60)));
    assert!(jobs.reset_after("key", ms(70)));
    assert_eq!(schedule.run().replan(Some(start + ms(50))), Replanned::MovedByUser);
    assert_eq!(jobs.get("key").unwrap().due, Some(start + ms(70)));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_moved_during_the_one_before_stays_there() {
    let (wheel, runs, schedule) = (TimingWheel::new(), Runs::new(), Changeable::default());
    let at = |millis| Some(runs.start + ms(millis));
    let job = runs.job(&wheel, schedule.clone(), &[20]);
    sleep(ms(110)).await;
    assert!(job.reset(runs.start + ms(170)));
    assert_eq!(schedule.run().replan(at(150)), Replanned::NotPending, "it is running");
    sleep(ms(15)).await;
    assert_eq!((schedule.run().replan(at(150)), job.due()), (Replanned::MovedByUser, at(170)));
}

#[tokio::test(start_paused = true)]
async fn a_schedule_without_a_further_run_ends_its_job_but_not_before_the_run_that_its_user_has_moved() {
    let (wheel, runs, schedule) = (TimingWheel::new(), Runs::new(), Changeable::default());
    let job = runs.job(&wheel, schedule.clone(), &[10]);
    assert!(job.reset(runs.start + ms(20)));
    assert_eq!(schedule.run().replan(None), Replanned::MovedByUser);
    sleep(ms(25)).await;
    assert_eq!((runs.began(), job.state()), (vec![20], JobState::Running));
    let run = schedule.run();
    assert_eq!(run.replan(None), Replanned::NotPending);
    sleep(ms(10)).await;
    assert_eq!((job.state(), wheel.pending()), (JobState::Pending, 1));
    assert_eq!(run.replan(None), Replanned::Done);
    assert_eq!((job.state(), wheel.pending()), (JobState::Done, 0));
    for next in [None, Some(Instant::now())] {
        assert_eq!(run.replan(next), Replanned::NotPending, "it is over");
    }
    assert_eq!(job.await.unwrap(), 1);
}

/// Replans the run that it is given, before its job has been added.
struct Hasty;

impl Schedule for Hasty {
    fn next(&mut self, previous: Previous) -> Option<Instant> {
        Some(previous.ended + ms(10))
    }

    fn attach(&mut self, run: PendingRun) {
        for next in [None, Some(Instant::now() + DAY)] {
            assert_eq!(run.replan(next), Replanned::NotPending);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_replanned_before_its_job_is_added_comes_as_the_schedule_said() {
    let runs = Runs::new();
    assert_eq!(runs.job(&TimingWheel::new(), Hasty.times(1), &[]).await.unwrap(), 1);
    assert_eq!(runs.began(), [10]);
}

#[tokio::test(start_paused = true)]
async fn what_a_job_runs_that_panics_when_dropped_panics_in_who_ends_it_and_the_handle_is_told() {
    let (wheel, schedule, bomb) = (TimingWheel::new(), Changeable::default(), Bomb);
    let job = wheel.run_by(schedule.clone(), move || {
        let _owned = &bomb;
        async {}
    });
    let panic = catch_unwind(AssertUnwindSafe(|| schedule.run().replan(None))).unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"the bomb"));
    assert_eq!((job.state(), job.await.unwrap()), (JobState::Done, 0));
}

/// As that, but its runs are far.
#[derive(Clone)]
struct Far(Changeable);

impl Schedule for Far {
    fn next(&mut self, previous: Previous) -> Option<Instant> {
        Some(previous.ended + DAY)
    }

    fn attach(&mut self, run: PendingRun) {
        self.0.attach(run);
    }
}

#[test]
fn a_reset_among_threads_is_not_undone_by_a_replan() {
    let runtime = runtime(2);
    let _within = runtime.enter();
    let (wheel, schedule) = (TimingWheel::new(), Changeable::default());
    let _first = wheel.run_by(Far(schedule.clone()), || async {});
    let is_done = AtomicBool::new(false);
    let (schedules, users) = (Instant::now() + DAY, Instant::now() + 2 * DAY);
    let undone = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                _ = schedule.run().replan(Some(schedules));
            }
        });
        // A new job each time, so that there is a race.
        let undone = (0..20_000).find(|_| {
            let job = wheel.run_by(Far(schedule.clone()), || async {}).cancel_on_drop();
            assert!(job.reset(users));
            (0..4).any(|_| job.due() != Some(users))
        });
        is_done.store(true, Ordering::Relaxed);
        undone
    });
    assert_eq!(undone, None);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_its_schedule_would_end_before_it_is_listed_stays_and_is_given_back_if_it_is_refused() {
    for shuts_down in [false, true] {
        let (wheel, schedule, hook) = (TimingWheel::new(), Changeable::default(), Hook::default());
        let (jobs, owned) = (Jobs::new(&wheel), Arc::new(()));
        jobs.try_run_after(Hooked(1, hook.clone()), DAY, async {}).unwrap();
        let (pending, inner) = (schedule.clone(), jobs.clone());
        *hook.lock().unwrap() = Some(Box::new(move || {
            assert_eq!(pending.run().replan(None), Replanned::NotPending);
            if shuts_down {
                _ = inner.shutdown(DAY).now_or_never();
            }
        }));
        let held = owned.clone();
        let make = move || {
            let _held = &held;
            async {}
        };
        let added = jobs.try_run_by(Hooked(2, hook.clone()), schedule, make);
        assert!(hook.lock().unwrap().is_none(), "the keys were compared");
        assert_eq!((added.is_err(), jobs.len()), (shuts_down, if shuts_down { 0 } else { 2 }));
        assert_eq!(Arc::strong_count(&owned), 2);
        drop(added);
        wheel.shutdown();
        assert_eq!(Arc::strong_count(&owned), 1);
    }
}

//! A bound on how many jobs run at once: who waits, who is next, and what becomes of jobs that wait for a place.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use timingwheel_jobs::{FixedRate, JobState, Jobs, LastRun, Schedule};
use tokio::task::yield_now;
use tokio::time::{Instant, MissedTickBehavior, sleep, timeout};

use crate::{Bomb, DAY, limit_this_test, ms, rate, runtime, state, stop, wheel};

type Order = Arc<Mutex<Vec<&'static str>>>;

/// Notes its name and takes 10 ms.
fn noting(order: &Order, name: &'static str) -> impl Future<Output = ()> + Send + use<> {
    let order = order.clone();
    async move {
        order.lock().unwrap().push(name);
        sleep(ms(10)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_to_come_runs_first_and_a_job_that_repeats_waits_behind_the_others() {
    let (jobs, order) = (Jobs::new(&wheel()).with_concurrency(1), Order::default());
    let again = order.clone();
    jobs.try_run_by("again", FixedRate::new(ms(1)).times(3), move || noting(&again, "again")).unwrap();
    for (key, delay) in [("second", 3), ("first", 2)] {
        jobs.try_run_after(key, ms(delay), noting(&order, key)).unwrap();
    }
    sleep(ms(5)).await;
    assert_eq!(jobs.running_and_queued(), (1, 2));
    let info = jobs.get("first").unwrap();
    assert_eq!((info.state, info.time_left()), (JobState::Queued, Some(ms(0))));
    assert!(!jobs.reset_after("first", ms(1)), "it is due");
    jobs.join("again").unwrap().await;
    assert_eq!(*order.lock().unwrap(), ["again", "first", "second", "again", "again"]);
    assert_eq!((jobs.running_and_queued(), jobs.len()), ((0, 0), 0));
}

#[tokio::test(start_paused = true)]
async fn of_a_thousand_jobs_that_are_due_together_never_more_run_than_may_whatever_ends_them() {
    let jobs = Jobs::new(&wheel()).with_concurrency(7);
    let now = Arc::new(Mutex::new((0, 0, 0)));
    for key in 0..1_000 {
        let now = now.clone();
        let run = async move {
            {
                let (running, most, begun) = &mut *now.lock().unwrap();
                *running += 1;
                *begun += 1;
                *most = running.max(most).to_owned();
            }
            sleep(ms(key % 5)).await;
            now.lock().unwrap().0 -= 1;
            assert!(!key.is_multiple_of(3), "as asked");
        };
        jobs.try_run_after(key, ms(1), run).unwrap();
    }
    sleep(ms(2)).await;
    // The keys of some that wait are removed, or given to others.
    for key in (500..1_000).step_by(2) {
        assert_eq!(state(jobs.remove(&key)), Some(JobState::Queued));
    }
    while !jobs.is_empty() {
        sleep(ms(1)).await;
    }
    assert_eq!((*now.lock().unwrap(), jobs.running_and_queued()), ((0, 7, 750), (0, 0)));
}

/// Leaves out each run that is late, and notes what it learns of them.
struct Punctual(FixedRate, Instant, Arc<Mutex<Vec<(Instant, bool)>>>);

impl Schedule for Punctual {
    fn next(&mut self, last: LastRun) -> Option<Instant> {
        self.2.lock().unwrap().push((last.started, last.missed));
        self.1 = self.0.next(last)?;
        Some(self.1)
    }

    fn leaves_out(&mut self) -> bool {
        self.1.elapsed() > ms(5)
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_place_is_no_missed_run_and_leaves_none_out() {
    let (jobs, start, told) = (Jobs::new(&wheel()).with_concurrency(1), Instant::now(), Arc::default());
    jobs.try_run_after("long", ms(90), async { sleep(ms(60)).await }).unwrap();
    let skip = rate(ms(100)).with_missed_tick_behavior(MissedTickBehavior::Skip);
    jobs.try_run_by("rate", Punctual(skip, start, Arc::clone(&told)).times(3), || async {}).unwrap();
    jobs.join("rate").unwrap().await;
    let at = |millis| start + ms(millis);
    let told = told.lock().unwrap();
    assert_eq!(told[1..], [(at(150), false), (at(200), false)], "the third is not asked for another");
    assert_eq!(Instant::now(), at(300));
}

/// Those that run never end.
#[tokio::test(start_paused = true)]
async fn jobs_that_wait_begin_when_the_bound_was_raised_and_another_comes_due() {
    let (jobs, order) = (Jobs::new(&wheel()).with_concurrency(1), Order::default());
    jobs.try_run_after("stuck", ms(0), pending()).unwrap();
    for (key, delay) in [("first", 1), ("second", 2), ("third", 20)] {
        jobs.try_run_after(key, ms(delay), noting(&order, key)).unwrap();
    }
    sleep(ms(5)).await;
    let jobs = jobs.with_concurrency(3);
    sleep(ms(10)).await;
    assert_eq!(jobs.running_and_queued(), (1, 2), "nothing has come due or ended");
    timeout(DAY, jobs.join("third").unwrap()).await.expect("it waits behind those that never end");
    assert_eq!(*order.lock().unwrap(), ["first", "second", "third"]);
}

#[tokio::test(start_paused = true)]
async fn jobs_that_wait_for_a_place_are_handed_back_by_a_shutdown() {
    let (wheel, owned) = (wheel(), Arc::new(()));
    let jobs = Jobs::new(&wheel).with_concurrency(1);
    for key in 0..3 {
        let owned = owned.clone();
        let run = async move {
            sleep(DAY).await;
            drop(owned);
        };
        jobs.try_run_after(key, ms(key), run).unwrap();
    }
    sleep(ms(5)).await;
    // One that is replaced waits no more.
    jobs.try_run_after(2, DAY, async {}).unwrap();
    assert_eq!(Arc::strong_count(&owned), 3);
    let mut ended = jobs.shutdown(ms(10)).await;
    ended.not_begun.sort_by_key(|job| job.key);
    let told: Vec<_> =
        ended.not_begun.iter().map(|job| (job.key, job.info.state, job.future.is_some())).collect();
    assert_eq!(told, [(1, JobState::Queued, true), (2, JobState::Pending, true)]);
    assert_eq!(ended.aborted_keys, [0]);
    yield_now().await;
    drop(ended);
    assert_eq!((Arc::strong_count(&owned), jobs.running_and_queued(), wheel.pending()), (1, (0, 0), 0));
}

#[tokio::test(start_paused = true)]
async fn jobs_that_wait_for_a_place_run_when_nobody_has_the_list_and_not_when_the_wheel_has_ended() {
    for ends in [false, true] {
        let (wheel, order) = (wheel(), Order::default());
        let jobs = Jobs::new(&wheel).with_concurrency(1);
        for key in ["first", "second", "third"] {
            jobs.try_run_after(key, ms(1), noting(&order, key)).unwrap();
        }
        sleep(ms(5)).await;
        let join = jobs.join("third").unwrap();
        drop(jobs);
        if ends {
            wheel.shutdown();
        }
        assert_eq!(join.await, if ends { JobState::CouldNotRun } else { JobState::Done });
        assert_eq!(order.lock().unwrap().len(), if ends { 1 } else { 3 });
    }
}

#[tokio::test(start_paused = true)]
async fn code_that_panics_as_it_is_dropped_keeps_those_behind_it_from_no_end() {
    let (wheel, bomb) = (wheel(), Bomb);
    let jobs = Jobs::new(&wheel).with_concurrency(1);
    jobs.try_run_after("runs", ms(1), sleep(ms(10))).unwrap();
    jobs.try_run_after("bomb", ms(2), async { drop(bomb) }).unwrap();
    jobs.try_run_after("behind", ms(3), async {}).unwrap();
    let join = jobs.join("behind").unwrap();
    sleep(ms(5)).await;
    wheel.shutdown();
    assert_eq!(timeout(DAY, join).await.expect("it hangs"), JobState::CouldNotRun);
}

/// Each task that is dropped gives its place to the next, whose task is dropped at once.
#[test]
fn the_end_of_a_runtime_ends_any_number_of_jobs_that_wait_for_a_place() {
    for workers in [0, 2] {
        let runtime = runtime(workers);
        let jobs = runtime.block_on(async { Jobs::new(&wheel()).with_concurrency(1) });
        for key in 0..20_000 {
            jobs.try_run_after(key, Duration::ZERO, pending()).unwrap();
        }
        while jobs.running_and_queued() != (1, 19_999) {
            runtime.block_on(async { sleep(ms(1)).await });
        }
        drop(runtime);
        limit_this_test();
        assert_eq!(jobs.running_and_queued(), (0, 0));
        let stopped = stop(&jobs);
        assert!(stopped.iter().all(|job| job.info.state == JobState::CouldNotRun));
        assert_eq!(stopped.len(), 20_000);
    }
}

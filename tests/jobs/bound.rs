//! The places of jobs on a wheel with a bound: a job that repeats keeps its own until it is over, one that replaces
//! another takes the place of that, and every place is free again in the end.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use timingwheel::job::{JobState, Jobs, Previous, Schedule};
use timingwheel::{Sleep, TimingWheel};
use tokio::time::sleep;

use crate::runs::Runs;
use crate::{DAY, ms, rate, runtime, state};

/// So many that threads seldom share one.
const SHARDS: usize = 8;

fn bounded(max_pending: usize) -> TimingWheel {
    TimingWheel::builder().max_pending(max_pending).build().unwrap()
}

/// Takes all places that are free.
fn fill(wheel: &TimingWheel) -> Vec<Sleep> {
    std::iter::from_fn(|| wheel.try_sleep(DAY).ok()).collect()
}

/// How many places are free.
fn free(wheel: &TimingWheel) -> usize {
    fill(wheel).len()
}

#[tokio::test(start_paused = true)]
async fn a_wheel_that_is_full_while_a_repeating_job_runs_does_not_end_it() {
    let wheel = bounded(3);
    let runs = Runs::new();
    drop(runs.job(&wheel, rate(ms(10)), &[5, 5]));
    sleep(ms(12)).await;
    let others = fill(&wheel);
    assert_eq!(others.len(), 2, "the job that runs keeps its place");
    sleep(ms(30)).await;
    assert_eq!(runs.began(), [10, 20, 30, 40]);
}

#[test]
fn a_repeating_job_loses_its_place_to_nobody_who_waits_for_it_to_be_free() {
    const RUNS: u64 = 300;
    let runtime = runtime(2);
    let _within = runtime.enter();
    let wheel = bounded(2);
    let job = wheel.run_by(rate(ms(1)).times(RUNS), || async {});
    let taken = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !job.state().is_over() {
                    if let Ok(_place) = wheel.try_sleep(DAY) {
                        let is_alone = taken.fetch_add(1, Ordering::Relaxed) == 0;
                        // Only when the job is over there are two places.
                        assert!(is_alone || job.state().is_over(), "the job's place was free");
                        taken.fetch_sub(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(runtime.block_on(job).unwrap(), RUNS);
    assert_eq!(free(&wheel), 2);
}

#[tokio::test(start_paused = true)]
async fn a_repeating_job_whose_first_run_is_due_at_once_takes_its_place_before_that() {
    let wheel = bounded(1);
    let at_once = || rate(ms(10)).starting_at(tokio::time::Instant::now());
    let others = fill(&wheel);
    assert!(wheel.try_run_by(at_once(), || async {}).unwrap_err().error().is_at_capacity());
    drop(others);
    let job = wheel.try_run_by(at_once().times(3), || async {}).unwrap();
    assert_eq!((job.state(), free(&wheel)), (JobState::Running, 0));
    assert_eq!((job.await.unwrap(), free(&wheel)), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn a_repeating_job_gives_its_place_back_however_it_ends() {
    let wheel = bounded(1);
    let every = |times| rate(ms(10)).times(times);
    let run = |times| wheel.try_run_by(every(times), || sleep(ms(5))).unwrap();
    // With its schedule, while it waits and while it runs, by a panic, and by a schedule that has no run.
    run(3).await.unwrap();
    assert!(run(3).cancel());
    let runs = run(3);
    sleep(ms(12)).await;
    assert!(runs.cancel());
    assert_eq!(free(&wheel), 0, "it runs");
    assert!(runs.await.unwrap_err().is_cancelled());
    let panics = wheel.try_run_by(every(3), || async { panic!("as asked") }).unwrap();
    assert!(panics.await.unwrap_err().is_panic());
    assert!(run(3).set_schedule(|_: Previous| None));
    assert_eq!((free(&wheel), wheel.pending()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_job_is_replaced_on_a_wheel_that_is_full() {
    let wheel = bounded(1);
    let jobs = Jobs::new(&wheel);
    let runs = Runs::new();
    let once = || {
        let runs = runs.clone();
        jobs.try_run_after("key", ms(10), async move { runs.note() })
    };
    let again = || jobs.try_run_by("key", rate(ms(10)), || async { sleep(ms(5)).await });
    assert_eq!(once().unwrap(), None);
    // Once by once, by one that repeats and back, and that by its kind.
    for replace in [&once as &dyn Fn() -> _, &once] {
        assert_eq!(state(replace().unwrap()), Some(JobState::Pending));
    }
    assert_eq!(state(again().unwrap()), Some(JobState::Pending));
    assert_eq!(state(again().unwrap()), Some(JobState::Pending));
    assert_eq!((wheel.pending(), free(&wheel)), (1, 0));
    // One that runs, and would have waited again.
    sleep(ms(12)).await;
    assert_eq!(state(once().unwrap()), Some(JobState::Running));
    assert_eq!((wheel.pending(), free(&wheel)), (1, 0));
    sleep(ms(11)).await;
    assert_eq!((runs.began(), jobs.len(), free(&wheel)), (vec![22], 0, 1));
    assert_eq!(wheel.stats().refused, 3, "those that filled the wheel, and no job");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_due_at_once_and_replaces_another_leaves_the_place_of_that() {
    let wheel = bounded(1);
    let jobs = Jobs::new(&wheel);
    jobs.try_run_after("key", DAY, async {}).unwrap();
    jobs.try_run_after("key", ms(0), async {}).unwrap();
    assert_eq!((free(&wheel), wheel.pending()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_only_run_has_begun_has_no_place_for_another() {
    let wheel = bounded(1);
    let jobs = Jobs::new(&wheel);
    jobs.try_run_after("key", ms(1), sleep(DAY)).unwrap();
    sleep(ms(2)).await;
    let _others = fill(&wheel);
    assert!(jobs.try_run_after("key", ms(1), async {}).unwrap_err().error().is_at_capacity());
    assert_eq!(state(jobs.get("key")), Some(JobState::Running));
}

/// Threads add, replace, remove, move and change jobs of all kinds, which run meanwhile.
#[test]
fn no_place_is_lost_or_made_up_among_threads() {
    const PLACES: usize = 8;
    let runtime = runtime(2);
    let _within = runtime.enter();
    // What is pending in one shard is counted in one moment.
    let wheel = TimingWheel::builder().shards(1).max_pending(PLACES).build().unwrap();
    let jobs = Jobs::new(&wheel);
    thread::scope(|scope| {
        for seed in 0..2 {
            let (wheel, jobs, runtime) = (&wheel, &jobs, &runtime);
            scope.spawn(move || {
                let _within = runtime.enter();
                let mut random = fastrand::Rng::with_seed(seed);
                for _ in 0..20_000 {
                    let (key, delay) =
                        (random.u8(0..12), std::time::Duration::from_micros(random.u64(0..3_000)));
                    let period = delay.max(ms(1));
                    match random.u8(0..6) {
                        0 | 1 => drop(jobs.try_run_after(key, delay, async {})),
                        2 => drop(jobs.try_run_by(key, rate(period).times(3), || async {})),
                        3 => drop(jobs.remove(&key)),
                        4 => _ = jobs.reset_after(&key, delay),
                        _ => _ = jobs.set_schedule(&key, rate(period).times(2)),
                    }
                    assert!(wheel.pending() <= PLACES);
                }
            });
        }
    });
    runtime.block_on(async {
        let is_at_rest = async {
            while !jobs.is_empty() {
                sleep(ms(1)).await;
            }
        };
        tokio::time::timeout(crate::HANG_GUARD, is_at_rest).await.expect("a job hangs");
    });
    assert_eq!(free(&wheel), PLACES);
}

/// A run that ends in the moment of the replacement finds that the place is another's.
#[test]
fn a_repeating_job_that_is_replaced_as_its_run_ends_on_a_full_wheel_was_running() {
    const REPLACEMENTS: usize = 4_000;
    let runtime = runtime(2);
    let _within = runtime.enter();
    let wheel = bounded(1);
    let jobs = Jobs::new(&wheel);
    // Due a little after each run, so that it waits in the wheel.
    let soon = |previous: Previous| Some(previous.ended + std::time::Duration::from_micros(20));
    jobs.try_run_by("key", soon, || async {}).unwrap();
    let mut was_running = 0;
    for _ in 0..REPLACEMENTS {
        for _ in 0..fastrand::u32(0..3_000) {
            std::hint::spin_loop();
        }
        let replaced = state(jobs.try_run_by("key", soon, || async {}).unwrap());
        was_running += usize::from(replaced == Some(JobState::Running));
        assert!(matches!(replaced, Some(JobState::Pending | JobState::Running)), "{replaced:?}");
    }
    assert!(was_running > 0, "no replacement has met a run");
    assert_eq!(wheel.stats().refused, 0);
    jobs.stop();
}

/// Replaces the jobs with these keys when it is dropped.
struct Replaces(Jobs<usize>, std::ops::Range<usize>);

impl Drop for Replaces {
    fn drop(&mut self) {
        for key in self.1.clone() {
            drop(self.0.try_run_after(key, DAY, async {}));
        }
    }
}

/// The shards of a wheel end one after the other. The end of one drops what replaces jobs of another.
#[test]
fn jobs_whose_replacement_the_end_of_the_wheel_refuses_learn_of_the_end() {
    let runtime = runtime(2);
    let _within = runtime.enter();
    // By each thread in turn, as replacements go to the shard of the thread that ends the wheel.
    for _ in 0..SHARDS {
        let wheel = TimingWheel::builder().max_pending(100).shards(SHARDS).build().unwrap();
        let jobs = Jobs::new(&wheel);
        // Each thread's are in a shard of its own.
        for thread in 0..SHARDS {
            let replaces = Replaces(jobs.clone(), 0..SHARDS);
            let add = || {
                jobs.try_run_after(thread, DAY, async {}).unwrap();
                jobs.try_run_after(SHARDS + thread, DAY, async move { drop(replaces) }).unwrap();
            };
            thread::scope(|scope| _ = scope.spawn(add));
        }
        thread::scope(|scope| _ = scope.spawn(|| wheel.shutdown()));
        for key in 0..SHARDS {
            assert_eq!(jobs.get(&key).map(|info| info.state), Some(JobState::CouldNotRun), "{key}");
        }
    }
}

/// Replaces all jobs when it is dropped, and notes how many places there are then, free or taken.
struct CountsPlaces(TimingWheel, Jobs<usize>, Replace, Arc<Mutex<Vec<usize>>>);

/// Adds a job or replaces it, and returns whether that was refused.
type Replace = fn(&Jobs<usize>, usize) -> bool;

impl Drop for CountsPlaces {
    fn drop(&mut self) {
        let Self(wheel, jobs, replace, places) = self;
        (0..SHARDS).for_each(|key| assert!(replace(jobs, key), "the wheel ends"));
        let taken = wheel.pending();
        // By threads of all shards, of which some have not ended yet.
        for _ in 0..SHARDS {
            let free = thread::scope(|scope| scope.spawn(|| free(wheel)).join().unwrap());
            places.lock().unwrap().extend((free > 0).then_some(taken + free));
        }
    }
}

/// The shards end one after the other, and the bound counts for those that have not ended.
#[test]
fn a_job_whose_replacement_the_end_of_the_wheel_refuses_leaves_its_place_once() {
    const PLACES: usize = 50;
    let runtime = runtime(2);
    let _within = runtime.enter();
    let once: Replace = |jobs, key| jobs.try_run_after(key, DAY, async {}).is_err();
    let again: Replace = |jobs, key| jobs.try_run_by(key, rate(DAY), || async {}).is_err();
    for replace in [once, again] {
        let places = Arc::default();
        for _ in 0..SHARDS {
            let wheel = TimingWheel::builder().max_pending(PLACES).shards(SHARDS).build().unwrap();
            let jobs = Jobs::new(&wheel);
            for key in 0..SHARDS {
                thread::scope(|scope| _ = scope.spawn(|| assert!(!replace(&jobs, key))));
            }
            let counts = CountsPlaces(wheel.clone(), jobs.clone(), replace, Arc::clone(&places));
            // In the shard of the thread that ends the wheel.
            let end = || {
                jobs.try_run_after(SHARDS, DAY, async move { drop(counts) }).unwrap();
                wheel.shutdown();
            };
            thread::scope(|scope| _ = scope.spawn(end));
        }
        let places = places.lock().unwrap();
        assert!(!places.is_empty() && places.iter().all(|&places| places == PLACES), "{places:?}");
    }
}

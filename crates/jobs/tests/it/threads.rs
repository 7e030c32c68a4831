//! Threads that meet at the same jobs. On the real clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_jobs::{JobInfo, JobState, Jobs, JobsExt, Schedule};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

use crate::moves::Changeable;
use crate::{DAY, HANG_GUARD, bounded, free, ms, rate, runtime, state, stop};

const TICK: Duration = Duration::from_micros(50);

/// Cancels and moves jobs round the moment at which they come due, by handles and by keys: some in time, some not.
#[test]
fn a_cancel_or_a_reset_that_races_with_the_start_is_in_time_or_the_job_runs_and_never_both_or_neither() {
    const JOBS: usize = 2_000;
    let runtime = runtime(2);
    let wheel = runtime.block_on(async { TimingWheel::builder().tick(TICK).build().unwrap() });
    let keyed = Jobs::new(&wheel);
    let ran: Arc<[AtomicUsize]> = (0..3 * JOBS).map(|_| AtomicUsize::new(0)).collect();
    let run = |n: usize| {
        let ran = ran.clone();
        async move { _ = ran[n].fetch_add(1, Ordering::Relaxed) }
    };
    let (mut begun, mut handles) = (Vec::new(), Vec::new());
    let (mut moved, mut moved_keys, mut cancelled) = (Vec::new(), Vec::new(), Vec::new());
    for n in (0..3 * JOBS).step_by(3) {
        let (key, third) = (n + 1, n + 2);
        let (job, other) = (wheel.run_after(2 * TICK, run(n)), wheel.run_after(2 * TICK, run(third)));
        keyed.try_run_after(key, 2 * TICK, run(key)).unwrap();
        let at = job.info().due.map(|due| due + Duration::from_micros(n as u64 % 150));
        while at.is_some_and(|at| Instant::now() < at) {
            std::hint::spin_loop();
        }
        for (n, is_in_time, list) in [
            (n, job.reset_after(DAY), &mut moved),
            (key, keyed.reset_after(&key, DAY), &mut moved_keys),
            (third, other.cancel(), &mut cancelled),
        ] {
            if is_in_time { list } else { &mut begun }.push(n);
        }
        let told = runtime.block_on(other);
        assert_eq!(told.is_err_and(|error| error.is_cancelled()), cancelled.last() == Some(&third));
        handles.push(job);
    }
    let has_run = |&n: &usize| ran[n].load(Ordering::Relaxed) > 0;
    let wait_for = |jobs: &[usize]| {
        let start = Instant::now();
        while !jobs.iter().all(has_run) {
            assert!(start.elapsed() < HANG_GUARD, "a job has neither run nor been moved");
            thread::yield_now();
        }
    };
    wait_for(&begun);
    let mut in_time = moved.iter().chain(&moved_keys).chain(&cancelled);
    assert!(!in_time.any(has_run), "it was moved or cancelled, and runs at its old time");
    assert_eq!((wheel.pending(), keyed.len()), (moved.len() + moved_keys.len(), moved_keys.len()));

    assert!(moved.iter().all(|n| handles[n / 3].reset_after(ms(1))));
    assert!(moved_keys.iter().all(|key| keyed.reset_after(key, ms(1))));
    wait_for(&moved);
    wait_for(&moved_keys);
    for job in handles {
        runtime.block_on(async { job.await.expect("it runs") });
    }
    let runs: usize = ran.iter().map(|ran| ran.load(Ordering::Relaxed)).sum();
    assert_eq!((runs + cancelled.len(), wheel.pending()), (3 * JOBS, 0), "once each");
}

/// Others keep the processors busy. To arm the timer wakes the driver, so the thread that makes a job may stand still there until
/// after the job is due.
#[test]
fn a_job_that_comes_due_while_its_maker_stands_still_runs_though_nobody_has_its_handle() {
    let runtime = runtime(2);
    let _within = runtime.enter();
    let (wheel, ran, is_done) = (crate::wheel(), Arc::new(AtomicUsize::new(0)), AtomicBool::new(false));
    let lost = thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let lost = (1..=100).find(|&round| {
            let run = ran.clone();
            drop(wheel.run_after(ms(1), async move { run.fetch_add(1, Ordering::Relaxed) }));
            let start = Instant::now();
            while ran.load(Ordering::Relaxed) < round && start.elapsed() < HANG_GUARD / 2 {
                thread::sleep(ms(1));
            }
            ran.load(Ordering::Relaxed) < round
        });
        is_done.store(true, Ordering::Relaxed);
        lost
    });
    assert_eq!(lost, None, "it was dropped, and has not run");
}

/// Each run that is aborted at some moment is cancelled if the abort was in time, and else had come to its end.
#[test]
fn aborts_among_threads_tell_the_truth() {
    let runtime = runtime(2);
    let _within = runtime.enter();
    let wheel = crate::wheel();
    for _ in 0..3_000 {
        let job = wheel.run_after(ms(0), async move {
            for _ in 0..fastrand::u8(0..4) {
                yield_now().await;
            }
        });
        for _ in 0..fastrand::u16(0..2_000) {
            std::hint::spin_loop();
        }
        let is_aborted = job.abort();
        let result = runtime.block_on(job);
        assert_eq!(result.is_err_and(|error| error.is_cancelled()), is_aborted);
    }
}

/// Another thread takes each place that is free for a moment.
#[test]
fn a_reset_to_now_outside_the_runtime_on_a_full_wheel_loses_no_job() {
    let runtime = runtime(2);
    let wheel = runtime.block_on(async { bounded(1) });
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                drop(wheel.try_sleep(DAY));
            }
        });
        for round in 0..500 {
            let job = loop {
                match wheel.try_run_after(DAY, async {}) {
                    Ok(job) => break job,
                    Err(refused) => assert!(refused.error().is_at_capacity()),
                }
            };
            // To now, or to the past, or to almost now.
            let is_moved = match round % 3 {
                0 => job.reset_after(Duration::ZERO),
                1 => job.reset(Instant::now() - ms(1)),
                _ => job.reset_after(TICK),
            };
            let ran = runtime.block_on(job);
            // The thread may have stood still for a millisecond: then it says so.
            assert_eq!(is_moved, ran.is_ok(), "{ran:?}");
        }
        is_done.store(true, Ordering::Relaxed);
    });
}

/// A timer that comes due in the hand of a thread gives its place back, and is armed anew.
#[test]
fn a_reset_to_the_past_outside_the_runtime_keeps_the_place_of_the_job() {
    let runtime = runtime(2);
    let wheel = runtime.block_on(async { bounded(1) });
    let stays_armed = || {
        let job = wheel.try_run_after(DAY, async {}).unwrap();
        let before = wheel.stats().armed;
        assert!(job.reset(Instant::now() - ms(1)));
        runtime.block_on(job).unwrap();
        wheel.stats().armed == before
    };
    // In some of the rounds the thread may stand still for a millisecond.
    assert!((0..50).any(|_| stays_armed()));
}

#[test]
fn a_reset_among_threads_is_not_undone_by_a_replan() {
    let runtime = runtime(2);
    let _within = runtime.enter();
    let (wheel, schedule) = (crate::wheel(), Changeable::default());
    let _first = wheel.run_by(schedule.clone(), || async {});
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
            let job = wheel.run_by(schedule.clone(), || async {}).cancel_on_drop();
            assert!(job.reset(users));
            (0..4).any(|_| job.info().due != Some(users))
        });
        is_done.store(true, Ordering::Relaxed);
        undone
    });
    assert_eq!(undone, None);
}

/// Threads add, replace, remove and move jobs of all kinds under the same keys, which run meanwhile.
#[test]
fn among_threads_each_job_runs_or_is_told_of_and_never_both_or_neither_and_no_place_is_lost_or_made_up() {
    const OPERATIONS: usize = 10_000;
    for places in [8, usize::MAX] {
        let runtime = runtime(2);
        // In one shard all pending timers are counted at the same moment.
        let builder = TimingWheel::builder().tick(TICK).shards(1).max_pending(places);
        let wheel = runtime.block_on(async { builder.build().unwrap() });
        let jobs = Jobs::new(&wheel);
        let (ran, told, added) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0), AtomicUsize::new(0));
        // Odd keys are of jobs that repeat.
        let tell = |key: u64, info: Option<JobInfo>| {
            // One that came due as the shutdown began is queued.
            let has_not_begun = matches!(state(info), Some(JobState::Pending | JobState::Queued));
            let is_told = key.is_multiple_of(2) && has_not_begun;
            told.fetch_add(usize::from(is_told), Ordering::Relaxed);
        };
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let _within = runtime.enter();
                    for _ in 0..OPERATIONS {
                        let (key, delay) = (fastrand::u64(..50), TICK * fastrand::u32(..60));
                        let run = ran.clone();
                        let run = async move { _ = run.fetch_add(1, Ordering::Relaxed) };
                        match fastrand::u8(..6) {
                            0 => tell(key, jobs.remove(&key)),
                            1 => _ = jobs.reset_after(&key, delay),
                            _ if !key.is_multiple_of(2) => {
                                drop(jobs.try_run_by(key, rate(delay.max(TICK)).times(3), || async {}));
                            }
                            _ => match jobs.try_run_after(key, delay, run) {
                                Ok(replaced) => {
                                    tell(key, replaced);
                                    added.fetch_add(1, Ordering::Relaxed);
                                }
                                Err(refused) => assert!(refused.error().is_at_capacity()),
                            },
                        }
                        assert!(wheel.pending() <= places);
                    }
                });
            }
        });
        stop(&jobs).into_iter().for_each(|job| tell(job.key, Some(job.info)));
        let (told, added) = (told.into_inner(), added.into_inner());
        let all = async {
            while ran.load(Ordering::Relaxed) + told < added || !jobs.is_empty() {
                sleep(ms(1)).await;
            }
        };
        runtime.block_on(all);
        assert_eq!((ran.load(Ordering::Relaxed) + told, wheel.pending()), (added, 0));
        assert!(places > 8 || free(&wheel) == places);
    }
}

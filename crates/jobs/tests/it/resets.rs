//! Jobs that are moved to another time while they wait for theirs.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake};
use std::thread;
use std::time::Duration;

use timingwheel::{Sleep, TimingWheel, Tolerance};
use timingwheel_jobs::{JobState, Jobs, JobsExt, Previous, Repeating, Schedule};
use tokio::time::{Instant, sleep, timeout};

use crate::runs::Runs;
use crate::{DAY, HANG_GUARD, ms, rate, runtime};

#[tokio::test(start_paused = true)]
async fn a_reset_to_the_past_lets_the_job_run_at_once() {
    let wheel = TimingWheel::new();
    let start = Instant::now();
    let job = wheel.run_after(ms(200), async { Instant::now() });
    assert!(job.reset(start));
    assert_eq!((job.state(), wheel.pending()), (JobState::Running, 0));
    assert!(!job.reset(start), "it has begun");
    assert_eq!(job.await.unwrap(), start);
}

#[tokio::test(start_paused = true)]
async fn a_repeating_job_that_is_moved_to_the_past_has_missed_nothing() {
    let wheel = TimingWheel::new();
    let long_ago = Instant::now();
    sleep(ms(1_000)).await;
    let runs = Runs::new();
    let noted = runs.clone();
    let job = wheel.run_by(rate(ms(100)), move || {
        let runs = noted.clone();
        async move { runs.note() }
    });
    sleep(ms(10)).await;
    assert!(job.reset(long_ago));
    sleep(ms(150)).await;
    // At once, and then again after each period.
    assert_eq!(runs.began(), [10, 110]);
}

/// A schedule of one run. As it is asked for another, its user acts, the second time by a cancel.
#[tokio::test(start_paused = true)]
async fn a_reset_or_a_cancel_counts_that_comes_while_the_schedule_finds_no_further_run() {
    let (wheel, runs, slot) = (TimingWheel::new(), Runs::new(), Arc::new(Mutex::new(None::<Repeating>)));
    let (user, mut asked) = (slot.clone(), 0);
    let once = move |previous: Previous| {
        asked += 1;
        match (&*user.lock().unwrap(), asked) {
            (None, _) => return Some(previous.due + ms(10)),
            (Some(job), 2) => assert!(job.reset_after(ms(50))),
            (Some(job), _) => assert!(job.cancel()),
        }
        None
    };
    *slot.lock().unwrap() = Some(runs.job(&wheel, once, &[]));
    sleep(DAY).await;
    assert_eq!(runs.began(), [10, 60]);
    let job = slot.lock().unwrap().take().unwrap();
    assert!(job.await.unwrap_err().is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_reset_or_a_cancel_after_the_last_run_is_too_late_also_while_the_job_is_dropped() {
    struct Asks(Arc<Mutex<Option<Repeating>>>, Arc<Mutex<Vec<bool>>>);
    impl Drop for Asks {
        fn drop(&mut self) {
            if let Some(job) = &*self.0.lock().unwrap() {
                self.1.lock().unwrap().extend([job.reset_after(ms(50)), job.cancel()]);
            }
        }
    }
    let (slot, answers) = (Arc::new(Mutex::new(None)), Arc::new(Mutex::new(Vec::new())));
    let asks = Asks(slot.clone(), answers.clone());
    let once = rate(ms(10)).times(1);
    let job = TimingWheel::new().run_by(once, move || {
        let _in_the_closure = &asks;
        async {}
    });
    *slot.lock().unwrap() = Some(job);
    sleep(DAY).await;
    assert_eq!(*answers.lock().unwrap(), [false, false]);
    let job = slot.lock().unwrap().take().unwrap();
    assert_eq!(job.await.unwrap(), 1);
}

/// Fills the wheel with so many timers when it is woken, and then moves a job.
struct Moves {
    wheel: TimingWheel,
    fill: usize,
    job: Mutex<Option<Repeating>>,
    sleeps: Mutex<Vec<Sleep>>,
    is_moved: AtomicBool,
}

impl Wake for Moves {
    fn wake(self: Arc<Self>) {
        let fill = (0..self.fill).map(|_| self.wheel.try_sleep(2 * DAY).unwrap());
        self.sleeps.lock().unwrap().extend(fill);
        let is_moved = self.job.lock().unwrap().as_ref().unwrap().reset_after(DAY);
        self.is_moved.store(is_moved, Ordering::Relaxed);
    }
}

/// The driver takes a sleep and a job out of the wheel, both due at 10 ms or as late as they may be, wakes the sleep, by which the wheel is filled so
/// far and the job is moved by a day, and then the job. Tells whether that was in time.
async fn is_moved_on_the_way(
    fill: usize,
    late: Tolerance,
    job: impl FnOnce(&TimingWheel) -> Repeating,
) -> bool {
    let wheel = TimingWheel::builder().shards(1).max_pending(2).build().unwrap();
    let moves = Arc::new(Moves {
        wheel: wheel.clone(),
        fill,
        job: Mutex::new(None),
        sleeps: Mutex::new(Vec::new()),
        is_moved: AtomicBool::new(false),
    });
    let mut first = wheel.sleep(ms(10)).with_tolerance(late);
    assert!(first.poll_wait(&mut Context::from_waker(&moves.clone().into())).is_pending());
    *moves.job.lock().unwrap() = Some(job(&wheel));
    sleep(2 * DAY).await;
    let job = moves.job.lock().unwrap().take().unwrap();
    assert_eq!(job.state(), JobState::Done);
    moves.is_moved.load(Ordering::Relaxed)
}

/// One run, in 10 ms or later. Notes when the run before was due, and `None` as it is asked whether a run is left out.
struct Notes(Arc<Mutex<Vec<Option<Instant>>>>);

impl Schedule for Notes {
    fn next(&mut self, previous: Previous) -> Option<Instant> {
        let mut notes = self.0.lock().unwrap();
        notes.push(Some(previous.due));
        (notes.len() == 1).then(|| previous.due + ms(10))
    }

    fn tolerance(&self) -> Option<Tolerance> {
        Some(Tolerance::time(ms(100)))
    }

    fn leaves_out(&mut self) -> bool {
        self.0.lock().unwrap().push(None);
        false
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_moved_as_it_comes_due_is_its_users_or_if_the_full_wheel_refuses_that_its_schedules() {
    for is_moved in [true, false] {
        let (start, schedule) = (Instant::now(), Notes(Arc::default()));
        let (notes, late) = (schedule.0.clone(), schedule.tolerance().unwrap());
        let fill = if is_moved { 1 } else { 2 };
        let told = is_moved_on_the_way(fill, late, |wheel| wheel.run_by(schedule, || async {})).await;
        assert_eq!(told, is_moved);
        match (&notes.lock().unwrap()[..], is_moved) {
            // It was moved by a day from when it came due.
            (&[Some(first), Some(due)], true) => {
                assert_eq!(first, start);
                assert!((DAY..DAY + ms(1_000)).contains(&(due - start)), "{:?}", due - start);
            }
            (noted, _) => assert_eq!(noted, [Some(start), None, Some(start + ms(10))]),
        }
    }
}

#[test]
fn a_job_that_is_moved_keeps_its_place_on_a_wheel_that_is_full() {
    let runtime = runtime(2);
    let _within = runtime.enter();
    let wheel = TimingWheel::builder().max_pending(1).build().unwrap();
    let job = wheel.run_after(DAY, async {});
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                assert!(wheel.try_sleep(DAY).is_err(), "the place was free for a moment");
            }
        });
        // Sooner and later.
        for delay in [DAY / 2, DAY].into_iter().cycle().take(20_000) {
            assert!(job.reset_after(delay));
        }
        is_done.store(true, Ordering::Relaxed);
    });
    assert_eq!((job.state(), wheel.pending()), (JobState::Pending, 1));
}

/// Moves each job round the moment at which it comes due, by its handle and by its key: some in time, some not.
#[test]
fn a_reset_that_races_with_the_start_moves_the_job_or_lets_it_run_and_never_both_or_neither() {
    const JOBS: usize = 2_000;
    let runtime = runtime(2);
    let tick = Duration::from_micros(50);
    let wheel = runtime.block_on(async { TimingWheel::builder().tick(tick).build().unwrap() });
    let keyed = Jobs::new(&wheel);
    let ran: Arc<[AtomicUsize]> = (0..2 * JOBS).map(|_| AtomicUsize::new(0)).collect();
    let run = |n: usize| {
        let ran = ran.clone();
        async move { _ = ran[n].fetch_add(1, Ordering::Relaxed) }
    };
    let (mut by_handle, mut by_key, mut begun) = (Vec::new(), Vec::new(), Vec::new());
    for n in 0..JOBS {
        let job = wheel.run_after(2 * tick, run(n));
        let key = JOBS + n;
        keyed.try_run_after(key, 2 * tick, run(key)).unwrap();
        let at = job.due().map(|due| due + Duration::from_micros(n as u64 % 150));
        while at.is_some_and(|at| Instant::now() < at) {
            std::hint::spin_loop();
        }
        if job.reset_after(DAY) {
            by_handle.push((n, job));
        } else {
            begun.push(n);
        }
        if keyed.reset_after(&key, DAY) { by_key.push(key) } else { begun.push(key) }
    }
    let wait_for = |jobs: &[usize]| {
        let start = Instant::now();
        while jobs.iter().any(|&n| ran[n].load(Ordering::Relaxed) == 0) {
            assert!(start.elapsed() < HANG_GUARD, "a job has neither run nor been moved");
            thread::yield_now();
        }
    };
    wait_for(&begun);
    let moved: Vec<usize> = by_handle.iter().map(|&(n, _)| n).chain(by_key.iter().copied()).collect();
    assert!(
        moved.iter().all(|&n| ran[n].load(Ordering::Relaxed) == 0),
        "it was moved, and runs at its old time"
    );
    assert_eq!((wheel.pending(), keyed.len()), (moved.len(), by_key.len()));

    assert!(by_handle.iter().all(|(_, job)| job.reset_after(ms(1))));
    assert!(by_key.iter().all(|key| keyed.reset_after(key, ms(1))));
    wait_for(&moved);
    for (_, job) in by_handle {
        runtime.block_on(async { timeout(HANG_GUARD, job).await.expect("it hangs").expect("it runs") });
    }
    assert!(ran.iter().all(|ran| ran.load(Ordering::Relaxed) == 1));
    assert_eq!(wheel.pending(), 0);
}

//! Jobs that are moved or cancelled in the very moment in which their timer or their schedule is in somebody's hand.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_jobs::{Job, JobState, JobsExt, LastRun, PendingRun, Repeating, Schedule};
use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep, timeout};

use crate::{DAY, HANG_GUARD, Runs, ms, one_shard, owning, rate, runtime, wait_by, when_dropped, when_woken};

/// A run a day after the one before, and what changes that.
#[derive(Clone, Default)]
pub(crate) struct Changeable(Arc<Mutex<Option<PendingRun>>>);

impl Changeable {
    pub(crate) fn run(&self) -> PendingRun {
        self.0.lock().unwrap().clone().expect("it has a job")
    }
}

impl Schedule for Changeable {
    fn next(&mut self, last: LastRun) -> Option<Instant> {
        Some(last.ended + DAY)
    }

    fn attach(&mut self, run: PendingRun) {
        *self.0.lock().unwrap() = Some(run);
    }
}

type Slot = Arc<Mutex<Option<Repeating>>>;

/// A schedule of one run. As it is asked for another, its user acts, the second time by a cancel.
#[tokio::test(start_paused = true)]
async fn a_reset_or_a_cancel_counts_that_comes_while_the_schedule_finds_no_further_run() {
    let (wheel, runs, slot) = (crate::wheel(), Runs::new(), Slot::default());
    let (user, mut asked) = (slot.clone(), 0);
    let once = move |last: LastRun| {
        asked += 1;
        match (&*user.lock().unwrap(), asked) {
            (None, _) => return Some(last.due + ms(10)),
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
    let (slot, answers) = (Slot::default(), Arc::new(Mutex::new(Vec::new())));
    let (own, told) = (slot.clone(), answers.clone());
    let asks = when_dropped(move || {
        let own = own.lock().unwrap();
        let job = own.as_ref().unwrap();
        told.lock().unwrap().extend([job.reset_after(ms(50)), job.cancel()]);
    });
    let job = crate::wheel().run_by(rate(ms(10)).times(1), owning(asks, || async {}));
    *slot.lock().unwrap() = Some(job);
    sleep(DAY).await;
    assert_eq!(*answers.lock().unwrap(), [false, false]);
    let job = slot.lock().unwrap().take().unwrap();
    assert_eq!(job.await.unwrap(), 1);
}

/// One run, in 10 ms or later. Notes when the run before was due, and `None` as it is asked whether a run is left out.
struct Notes(Arc<Mutex<Vec<Option<Instant>>>>);

impl Schedule for Notes {
    fn next(&mut self, last: LastRun) -> Option<Instant> {
        let mut notes = self.0.lock().unwrap();
        notes.push(Some(last.due));
        (notes.len() == 1).then(|| last.due + ms(10))
    }

    fn tolerance(&self) -> Option<Duration> {
        Some(ms(100))
    }

    fn leaves_out(&mut self) -> bool {
        self.0.lock().unwrap().push(None);
        false
    }
}

/// The driver takes a sleep and a job out of the wheel, both due at 10 ms or as late as they may be, and wakes the sleep first,
/// by which the wheel is filled but for one place or none and the job is moved by a day, and then the job.
#[tokio::test(start_paused = true)]
async fn a_run_that_is_moved_as_it_comes_due_is_its_users_or_if_the_full_wheel_refuses_that_its_schedules() {
    for (fill, is_moved) in [(1, true), (2, false)] {
        crate::limit::limit_this_test();
        let wheel = TimingWheel::builder().shards(1).max_pending(2).build().unwrap();
        let (start, notes, slot) = (Instant::now(), Arc::default(), Slot::default());
        let schedule = Notes(Arc::clone(&notes));
        let told = Arc::new(Mutex::new(None));
        let (full, own, tell, sleeps) = (wheel.clone(), slot.clone(), told.clone(), Mutex::new(Vec::new()));
        let waker = when_woken(move || {
            sleeps.lock().unwrap().extend((0..fill).map(|_| full.try_sleep(2 * DAY).unwrap()));
            *tell.lock().unwrap() = Some(own.lock().unwrap().as_ref().unwrap().reset_after(DAY));
        });
        let late = schedule.tolerance().unwrap();
        let _first = wait_by(&waker, wheel.sleep(ms(10)).with_tolerance(late));
        *slot.lock().unwrap() = Some(wheel.run_by(schedule, || async {}));
        sleep(2 * DAY).await;
        let state = slot.lock().unwrap().take().unwrap().info().state;
        assert_eq!((state, *told.lock().unwrap()), (JobState::Done, Some(is_moved)));
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

/// A job that has run once, of two runs a day apart or less. As the timer of the second is armed, a stranger's waker is dropped
/// that the first has left in the wheel, and that acts.
fn act_while_the_next_run_is_armed(act: fn(&TimingWheel, &Repeating)) -> (Runtime, Repeating) {
    let told = [50, 500, 5_000].into_iter().find_map(|period| {
        let runtime = runtime(2);
        let within = runtime.enter();
        let (wheel, slot, (tell, told)) = (one_shard(), Slot::default(), channel());
        let (inner, own, mut is_first) = (wheel.clone(), slot.clone(), true);
        let make = move || {
            let (inner, own, tell) = (inner.clone(), own.clone(), tell.clone());
            if std::mem::take(&mut is_first) {
                let met = inner.clone();
                let acts = when_dropped(move || {
                    let job = own.lock().unwrap();
                    let job = job.as_ref().unwrap();
                    // On a machine that stalls the second may be due before it is armed.
                    let is_armed = (met.pending(), job.info().state) == (1, JobState::Running);
                    if is_armed {
                        act(&met, job);
                    }
                    _ = tell.send(is_armed);
                });
                drop(wait_by(&acts, inner.sleep(DAY)));
            }
            async {}
        };
        let mut own = slot.lock().unwrap();
        *own = Some(wheel.run_by(rate(ms(period)).times(2), make));
        drop(own);
        let is_armed = told.recv().unwrap();
        drop(within);
        let job = slot.lock().unwrap().take().unwrap();
        is_armed.then_some((runtime, job))
    });
    told.expect("it acts as the timer is armed")
}

#[test]
fn of_two_moves_that_come_while_the_next_run_is_armed_the_last_counts() {
    let (_runtime, job) = act_while_the_next_run_is_armed(|_, job| {
        assert!(job.reset_after(DAY) && job.reset_after(3 * DAY));
    });
    while job.info().state == JobState::Running {
        thread::yield_now();
    }
    assert!(job.info().due.unwrap() > Instant::now() + 2 * DAY, "{job:?}");
}

#[test]
fn a_cancel_or_an_abort_that_comes_while_the_next_run_is_armed_counts() {
    let cancels: fn(&TimingWheel, &Repeating) = |_, job| assert!(job.cancel());
    for act in [cancels, |_, job| assert!(job.abort())] {
        let (runtime, job) = act_while_the_next_run_is_armed(act);
        let told = runtime.block_on(async { timeout(HANG_GUARD, job).await });
        assert!(told.expect("it hangs").unwrap_err().is_cancelled());
    }
}

/// The driver is on another thread.
#[test]
fn a_run_that_comes_due_before_its_timer_is_put_down_begins() {
    let (runtime, job) = act_while_the_next_run_is_armed(|wheel, _| {
        let start = Instant::now();
        while wheel.pending() > 0 && start.elapsed() < HANG_GUARD {
            thread::yield_now();
        }
    });
    let runs = runtime.block_on(async { timeout(HANG_GUARD, job).await });
    assert_eq!(runs.expect("the call of the wheel is lost").unwrap(), 2);
}

/// The driver takes a sleep and a job out of the wheel at once and wakes the sleep first, which moves the job by a day. The job
/// needs a new place for that, by which a stranger's waker is dropped, and that acts.
fn act_while_it_is_moved(act: fn(&Job<()>)) -> (JobState, Option<Instant>) {
    let runtime = runtime(2);
    let _within = runtime.enter();
    let told = [50, 500, 5_000].into_iter().find_map(|delay| {
        let (tell, told) = channel();
        let (wheel, at) = (one_shard(), Instant::now() + ms(delay));
        let slot = Arc::new(Mutex::new(None::<Arc<Job<()>>>));
        let (own, inner) = (slot.clone(), wheel.clone());
        let waker = when_woken(move || {
            let Some(job) = own.lock().unwrap().take() else { return };
            let is_dropped = Arc::new(AtomicBool::new(false));
            let (dropped, met) = (is_dropped.clone(), job.clone());
            let stranger = when_dropped(move || {
                dropped.store(true, Ordering::Relaxed);
                act(&met);
            });
            drop(wait_by(&stranger, inner.sleep(DAY)));
            drop(stranger);
            assert!(!is_dropped.load(Ordering::Relaxed));
            job.reset_after(DAY);
            _ = tell.send(is_dropped.load(Ordering::Relaxed).then(|| (job.info().state, job.info().due)));
        });
        let mut first = wheel.sleep_until(at);
        _ = first.poll_unconstrained(&mut Context::from_waker(&waker));
        *slot.lock().unwrap() = Some(Arc::new(wheel.run_at(at, async {})));
        drop(waker);
        // On a machine that stalls they may have come due one by one.
        told.recv().ok().flatten()
    });
    told.expect("they come due together")
}

#[test]
fn a_cancel_or_a_move_that_comes_while_the_timer_is_moved_counts() {
    assert_eq!(act_while_it_is_moved(|job| assert!(job.cancel())), (JobState::Cancelled, None));
    let (state, due) = act_while_it_is_moved(|job| assert!(job.reset_after(3 * DAY)));
    assert!(state == JobState::Pending && due.unwrap() > Instant::now() + 2 * DAY, "{state:?}, {due:?}");
}

/// So many others are pending that the end wakes the first, which moves the job, before it comes to the job.
#[test]
fn a_reset_as_the_wheel_ends_is_too_late() {
    for after in [Duration::from_nanos(1), DAY] {
        let runtime = runtime(2);
        let _within = runtime.enter();
        let (wheel, slot, (tell, told)) = (one_shard(), Arc::new(Mutex::new(None::<Job<()>>)), channel());
        let (own, inner) = (slot.clone(), wheel.clone());
        let waker = when_woken(move || {
            let is_moved = own.lock().unwrap().as_ref().unwrap().reset_after(after);
            tell.send((is_moved, inner.try_sleep(DAY).is_err())).unwrap();
        });
        let wakers = std::iter::once(&waker).chain(std::iter::repeat(Waker::noop()));
        let _sleeps: Vec<_> =
            wakers.take(5_000).map(|waker| wait_by(waker, wheel.sleep(ms(10_000)))).collect();
        *slot.lock().unwrap() = Some(wheel.run_after(ms(20_000), async {}));
        thread::spawn(move || wheel.shutdown());
        assert_eq!(told.recv(), Ok((false, true)), "moved by {after:?}");
    }
}

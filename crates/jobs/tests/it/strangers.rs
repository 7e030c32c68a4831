//! Wakers of dropped timers, which whoever arms a timer may drop: jobs, which arm under locks, must not.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Wake, Waker};
use std::thread;

use timingwheel::TimingWheel;
use timingwheel_jobs::{Job, JobState, Jobs, JobsExt};
use tokio::time::{Instant, sleep};

use crate::{DAY, HANG_GUARD, ms, rate, runtime};

/// Asks for a job as it is dropped.
struct Asks(Weak<Jobs<u32>>);

impl Wake for Asks {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Asks {
    fn drop(&mut self) {
        _ = self.0.upgrade().map(|jobs| jobs.get(&1));
    }
}

/// Leaves such a waker for the next timer in its shard.
fn abandon(wheel: &TimingWheel, jobs: &Arc<Jobs<u32>>) {
    let waker: Waker = Arc::new(Asks(Arc::downgrade(jobs))).into();
    let mut sleep = wheel.sleep(DAY);
    assert!(sleep.poll_wait(&mut Context::from_waker(&waker)).is_pending());
}

/// With one shard, so that all use the same.
#[test]
fn a_job_that_is_added_or_waits_again_after_a_timer_was_dropped_does_not_wait_for_itself() {
    let runtime = runtime(2);
    let wheel = {
        let _within = runtime.enter();
        TimingWheel::builder().shards(1).build().unwrap()
    };
    let (ran, has_run) = channel();
    // A thread that hangs is left alone.
    thread::spawn(move || {
        let jobs = Arc::new(Jobs::new(&wheel));
        abandon(&wheel, &jobs);
        let again = jobs.clone();
        let run = move || {
            let (wheel, jobs, ran) = (wheel.clone(), again.clone(), ran.clone());
            async move {
                abandon(&wheel, &jobs);
                // Nobody listens after a few.
                _ = ran.send(());
            }
        };
        jobs.try_run_by(1, rate(ms(5)), run).unwrap();
    });
    let runs = (0..5).take_while(|_| has_run.recv_timeout(HANG_GUARD).is_ok()).count();
    runtime.shutdown_background();
    assert_eq!(runs, 5, "it waits for itself");
}

/// Moves a job twice as it is dropped.
struct Moves(Jobs<u8>);

impl Wake for Moves {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Moves {
    fn drop(&mut self) {
        assert!(self.0.reset_after(&1, ms(20)) && self.0.reset_after(&1, ms(30)));
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_moves_that_come_while_the_timer_is_armed_the_last_counts() {
    let wheel = TimingWheel::builder().shards(1).build().unwrap();
    let jobs = Jobs::new(&wheel);
    let (inner, start) = (jobs.clone(), Instant::now());
    let run = move || {
        let waker: Waker = Arc::new(Moves(inner.clone())).into();
        let mut sleep = wheel.sleep(DAY);
        assert!(sleep.poll_wait(&mut Context::from_waker(&waker)).is_pending());
        // It is left for the timer that is armed next, which is the job's.
        async {}
    };
    jobs.try_run_by(1, rate(ms(5)), run).unwrap();
    sleep(ms(6)).await;
    assert_eq!(jobs.get(&1).unwrap().due, Some(start + ms(35)));
    sleep(ms(28)).await;
    assert_eq!(jobs.get(&1).unwrap().due, Some(start + ms(35)));
}

/// Cancels the job as it is dropped.
struct Cancels(Arc<Job<()>>);

impl Wake for Cancels {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Cancels {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Moves the job when it is woken, which drops a stranger's waker that cancels it. Tells where the job stands then.
struct MovesAndCancels(TimingWheel, Mutex<Option<Arc<Job<()>>>>, Sender<(JobState, Option<Instant>)>);

impl Wake for MovesAndCancels {
    fn wake(self: Arc<Self>) {
        let Some(job) = self.1.lock().unwrap().take() else { return };
        let waker: Waker = Arc::new(Cancels(job.clone())).into();
        let mut sleep = self.0.sleep(DAY);
        assert!(sleep.poll_wait(&mut Context::from_waker(&waker)).is_pending());
        // It is left for the timer that is armed next, which is the job's.
        drop((waker, sleep));
        job.reset_after(DAY);
        _ = self.2.send((job.state(), job.due()));
    }
}

/// The driver takes a sleep and a job out of the wheel at once and wakes the sleep first, so that the job, which is moved by
/// that, needs a new place.
#[test]
fn a_job_that_is_cancelled_while_its_timer_is_moved_is_due_no_more() {
    let runtime = runtime(2);
    let _within = runtime.enter();
    let told = [50, 500, 5_000].into_iter().find_map(|delay| {
        let (tell, told) = channel();
        let (wheel, at) = (TimingWheel::builder().shards(1).build().unwrap(), Instant::now() + ms(delay));
        let moves = Arc::new(MovesAndCancels(wheel.clone(), Mutex::new(None), tell));
        let mut first = wheel.sleep_until(at);
        _ = first.poll_wait(&mut Context::from_waker(&moves.clone().into()));
        *moves.1.lock().unwrap() = Some(Arc::new(wheel.run_at(at, async {})));
        drop(moves);
        let told = told.recv_timeout(HANG_GUARD);
        // On a machine that stalls they may have come due one by one.
        told.ok().filter(|&(state, _)| state == JobState::Cancelled)
    });
    assert_eq!(told, Some((JobState::Cancelled, None)));
}

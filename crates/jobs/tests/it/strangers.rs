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
async fn of_two_moves_that_come_during_a_run_the_last_counts() {
    let wheel = TimingWheel::builder().shards(1).build().unwrap();
    let jobs = Jobs::new(&wheel);
    let (inner, start) = (jobs.clone(), Instant::now());
    let run = move || {
        let waker: Waker = Arc::new(Moves(inner.clone())).into();
        let mut sleep = wheel.sleep(DAY);
        assert!(sleep.poll_wait(&mut Context::from_waker(&waker)).is_pending());
        async {}
    };
    jobs.try_run_by(1, rate(ms(5)), run).unwrap();
    sleep(ms(6)).await;
    assert_eq!(jobs.get(&1).unwrap().due, Some(start + ms(35)));
    sleep(ms(28)).await;
    assert_eq!(jobs.get(&1).unwrap().due, Some(start + ms(35)));
}

/// Does something to the job as it is dropped.
struct Acts(Arc<Job<()>>, fn(&Job<()>));

impl Wake for Acts {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Acts {
    fn drop(&mut self) {
        self.1(&self.0);
    }
}

/// Moves the job by a day when it is woken, which drops a stranger's waker that acts. Tells where the job stands then, if the
/// waker was dropped.
struct Meets {
    wheel: TimingWheel,
    job: Mutex<Option<Arc<Job<()>>>>,
    act: fn(&Job<()>),
    tell: Sender<Option<(JobState, Option<Instant>)>>,
}

impl Wake for Meets {
    fn wake(self: Arc<Self>) {
        let Some(job) = self.job.lock().unwrap().take() else { return };
        let acts = Arc::new(Acts(job.clone(), self.act));
        let left = Arc::downgrade(&acts);
        let waker = acts.into();
        let mut sleep = self.wheel.sleep(DAY);
        assert!(sleep.poll_wait(&mut Context::from_waker(&waker)).is_pending());
        // It is left for the timer that is armed next, which is the job's.
        drop((waker, sleep));
        assert_eq!(left.strong_count(), 1);
        job.reset_after(DAY);
        let is_dropped = left.strong_count() == 0;
        _ = self.tell.send(is_dropped.then(|| (job.state(), job.due())));
    }
}

/// The driver takes a sleep and a job out of the wheel at once and wakes the sleep first, so that the job, which is moved by
/// that, needs a new place.
fn act_while_it_is_moved(act: fn(&Job<()>)) -> (JobState, Option<Instant>) {
    let runtime = runtime(2);
    let _within = runtime.enter();
    let told = [50, 500, 5_000].into_iter().find_map(|delay| {
        let (tell, told) = channel();
        let (wheel, at) = (TimingWheel::builder().shards(1).build().unwrap(), Instant::now() + ms(delay));
        let meets = Arc::new(Meets { wheel: wheel.clone(), job: Mutex::new(None), act, tell });
        let mut first = wheel.sleep_until(at);
        _ = first.poll_wait(&mut Context::from_waker(&meets.clone().into()));
        *meets.job.lock().unwrap() = Some(Arc::new(wheel.run_at(at, async {})));
        drop(meets);
        // On a machine that stalls they may have come due one by one.
        told.recv_timeout(HANG_GUARD).ok().flatten()
    });
    told.expect("they come due together")
}

#[test]
fn a_job_that_is_cancelled_while_its_timer_is_moved_is_due_no_more() {
    assert_eq!(act_while_it_is_moved(|job| assert!(job.cancel())), (JobState::Cancelled, None));
}

#[test]
fn a_move_that_comes_while_the_timer_is_moved_counts() {
    let told = act_while_it_is_moved(|job| assert!(job.reset_after(3 * DAY)));
    let (state, due) = (told.0, told.1.unwrap());
    assert_eq!(state, JobState::Pending);
    assert!(due > Instant::now() + 2 * DAY, "it was moved by a day after that");
}

//! Wakers of dropped timers, which whoever arms a timer may drop: jobs, which arm under locks, must not.

use std::sync::mpsc::channel;
use std::sync::{Arc, Weak};
use std::task::{Context, Wake, Waker};
use std::thread;

use timingwheel::TimingWheel;
use timingwheel_jobs::Jobs;
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

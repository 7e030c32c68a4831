//! Jobs of a wheel that has ended, or is about to. On the real clock, which goes on while a wheel ends.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use timingwheel::{Sleep, TimingWheel};
use timingwheel_jobs::{Job, JobState, Jobs, JobsExt};

use crate::{DAY, HANG_GUARD, ms, runtime};

#[test]
fn on_a_wheel_that_has_ended_no_job_runs_however_soon_it_is_due() {
    let runtime = runtime(2);
    for tick in [Duration::from_micros(1), ms(1)] {
        let wheel = {
            let _context = runtime.enter();
            TimingWheel::builder().tick(tick).build().unwrap()
        };
        wheel.shutdown();
        let jobs = Jobs::new(&wheel);
        let (told, answers) = channel();
        thread::spawn(move || {
            for delay in [Duration::ZERO, Duration::from_nanos(1), tick, DAY] {
                let state = wheel.run_after(delay, async {}).state();
                told.send((state, jobs.try_run_after(delay, delay, async {}).is_err())).unwrap();
            }
        });
        for _ in 0..4 {
            assert_eq!(
                answers.recv_timeout(HANG_GUARD),
                Ok((JobState::CouldNotRun, true)),
                "with a tick of {tick:?}"
            );
        }
    }
}

/// Moves a job when it is woken, and tells what came of that and whether timers are refused.
struct Mover {
    wheel: TimingWheel,
    job: Mutex<Option<Job<()>>>,
    after: Duration,
    told: Mutex<Sender<(bool, bool)>>,
}

impl Wake for Mover {
    fn wake(self: Arc<Self>) {
        let is_moved = self.job.lock().unwrap().as_ref().unwrap().reset_after(self.after);
        let is_refused = self.wheel.try_sleep(DAY).is_err();
        self.told.lock().unwrap().send((is_moved, is_refused)).unwrap();
    }
}

/// So many others are pending that the end wakes the mover before it comes to the job.
#[test]
fn a_reset_as_the_wheel_ends_is_too_late() {
    for after in [Duration::from_nanos(1), DAY] {
        let runtime = runtime(2);
        let _context = runtime.enter();
        let wheel = TimingWheel::builder().shards(1).build().unwrap();
        let (told, answers) = channel();
        let mover =
            Arc::new(Mover { wheel: wheel.clone(), job: Mutex::default(), after, told: Mutex::new(told) });
        let waker = mover.clone().into();
        let mut sleeps: Vec<Sleep> = (0..5_000).map(|_| wheel.sleep(ms(10_000))).collect();
        for (number, sleep) in sleeps.iter_mut().enumerate() {
            let waker = if number == 0 { &waker } else { Waker::noop() };
            assert!(sleep.poll_wait(&mut Context::from_waker(waker)).is_pending());
        }
        *mover.job.lock().unwrap() = Some(wheel.run_after(ms(20_000), async {}));
        thread::spawn(move || wheel.shutdown());
        assert_eq!(answers.recv_timeout(HANG_GUARD), Ok((false, true)), "moved by {after:?}");
    }
}

//! Jobs of a wheel that has ended, or is about to. On the real clock, which goes on while a wheel ends.

use std::future::pending;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use timingwheel::{Sleep, TimingWheel};
use timingwheel_jobs::{Job, JobState, Jobs, JobsExt};
use tokio::task::yield_now;
use tokio::time::{Instant, timeout};

use crate::{DAY, HANG_GUARD, ms, rate, runtime, state, stop};

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
            for delay in [Duration::ZERO, Duration::from_nanos(1), tick, DAY, Duration::MAX] {
                let state = wheel.run_after(delay, async {}).state();
                told.send((state, jobs.try_run_after(delay, delay, async {}).is_err())).unwrap();
            }
        });
        for _ in 0..5 {
            assert_eq!(
                answers.recv_timeout(HANG_GUARD),
                Ok((JobState::CouldNotRun, true)),
                "with a tick of {tick:?}"
            );
        }
    }
}

#[test]
fn at_the_end_of_a_wheel_or_of_its_runtime_each_job_says_that_it_could_not_run() {
    for (workers, by_shutdown) in [(0, true), (0, false), (2, true), (2, false)] {
        let (ours, other) = (runtime(workers), runtime(1));
        let wheel = ours.block_on(async { TimingWheel::new() });
        let (jobs, owned) = (Jobs::new(&wheel), Arc::new(()));
        let held = || {
            let owned = owned.clone();
            async move { drop(owned) }
        };
        drop(wheel.run_after(DAY, held()));
        let awaited: Vec<_> = (0..100).map(|_| other.spawn(wheel.run_after(DAY, held()))).collect();
        let far = wheel.run_by(rate(DAY), || async {});
        let (stuck, again) =
            (wheel.run_after(ms(1), pending::<u64>()), wheel.run_by(rate(ms(1)), pending::<()>));
        jobs.try_run_after(1, DAY, held()).unwrap();
        jobs.try_run_after(2, ms(0), pending()).unwrap();
        let joins = [1, 2].map(|key| jobs.join(&key).unwrap());
        let running = || [stuck.state(), again.state(), jobs.get(&2).unwrap().state];
        ours.block_on(async {
            while running() != [JobState::Running; 3] {
                yield_now().await;
            }
        });
        if by_shutdown {
            assert_eq!((wheel.shutdown(), running()), (103, [JobState::Running; 3]));
        }
        drop(ours);
        assert_eq!(Arc::strong_count(&owned), 1);
        assert!(far.due().is_some(), "when it was to run is known");
        assert_eq!((stuck.due(), again.due(), jobs.get(&2).unwrap().due), (None, None, None), "they ran");
        for job in [far, stuck, again] {
            assert_eq!((job.state(), job.time_left()), (JobState::CouldNotRun, None));
            assert!(tokio_test::block_on(job).unwrap_err().reason().unwrap().is_shutdown());
        }
        for job in awaited {
            let told = other.block_on(async { timeout(HANG_GUARD, job).await }).expect("it hangs").unwrap();
            assert!(told.unwrap_err().reason().unwrap().is_shutdown());
        }
        for join in joins {
            assert_eq!(tokio_test::block_on(join), JobState::CouldNotRun);
        }
        // Those by keys stay listed, so that nothing is lost unseen.
        let due = jobs.get(&1).unwrap().due;
        assert!(due.is_some_and(|due| due > Instant::now() + DAY / 2), "when it was to run is known");
        assert!(!jobs.reset_after(&1, ms(40)));
        assert_eq!(tokio_test::block_on(jobs.join(&1).unwrap()), JobState::CouldNotRun);
        assert_eq!((jobs.len(), state(jobs.remove(&2))), (2, Some(JobState::CouldNotRun)));
        let stopped = stop(&jobs);
        assert_eq!((stopped.len(), stopped[0].info.state), (1, JobState::CouldNotRun));
        assert!(stopped[0].future.is_none() && jobs.is_empty());
        assert!(wheel.try_run_after(Duration::ZERO, async {}).unwrap_err().error().is_shutdown());
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

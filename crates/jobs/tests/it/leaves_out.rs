//! Runs that their schedule leaves out as they are about to begin.

use std::sync::{Arc, Mutex};

use timingwheel::TimingWheel;
use timingwheel_jobs::{JobState, JobsExt, NextRun, Previous, Repeating, Schedule};
use tokio::time::{Instant, sleep};

use crate::ms;
use crate::runs::Runs;

/// Every 10 ms, and leaves out each second run that it is asked for, and looks at its job then if it knows it.
#[derive(Clone, Default)]
struct EachSecond(Arc<Mutex<u32>>, Arc<Mutex<Option<Repeating>>>);

impl EachSecond {
    fn asked(&self) -> u32 {
        *self.0.lock().unwrap()
    }
}

impl Schedule for EachSecond {
    fn next(&mut self, previous: Previous) -> Option<Instant> {
        Some(previous.due + ms(10))
    }

    fn leaves_out(&mut self) -> bool {
        if let Some(job) = &*self.1.lock().unwrap() {
            assert_eq!(job.state(), JobState::Running, "the lock is free");
        }
        *self.0.lock().unwrap() += 1;
        self.asked().is_multiple_of(2)
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_left_out_is_none_and_the_next_comes_by_the_schedule() {
    let (runs, schedule) = (Runs::new(), EachSecond::default());
    *schedule.1.lock().unwrap() = Some(runs.job(&TimingWheel::new(), schedule.clone().times(6), &[]));
    sleep(ms(100)).await;
    let job = schedule.1.lock().unwrap().take().unwrap();
    assert_eq!(job.await.unwrap(), 3);
    assert_eq!((runs.began(), schedule.asked()), (vec![10, 30, 50], 6));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_its_user_has_moved_or_the_run_before_has_decided_is_never_left_out() {
    let (wheel, runs, schedule) = (TimingWheel::new(), Runs::new(), EachSecond::default());
    let job = runs.job(&wheel, schedule.clone(), &[]);
    sleep(ms(15)).await;
    assert!(job.reset(runs.start + ms(17)));
    sleep(ms(5)).await;
    assert_eq!((runs.began(), schedule.asked()), (vec![10, 17], 1));
    job.cancel();

    let (schedule, mut answers) = (EachSecond::default(), vec![NextRun::Never, NextRun::After(ms(1))]);
    let job = wheel.run_by(schedule.clone(), move || {
        let answer = answers.pop().unwrap();
        async move { answer }
    });
    assert_eq!((job.await.unwrap(), schedule.asked()), (2, 1));
}

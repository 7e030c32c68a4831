//! Whose clock jobs go by.

use timingwheel::TimingWheel;
use timingwheel_jobs::{FixedRate, Jobs, JobsExt};
use tokio::runtime::Builder;
use tokio::time::{Instant, advance};

use crate::{DAY, runtime};

#[test]
fn jobs_of_a_wheel_on_the_real_clock_go_by_that_within_a_runtime_whose_clock_is_paused() {
    let runtime = runtime(1);
    let wheel = runtime.block_on(async { TimingWheel::new() });
    let jobs = Jobs::new(&wheel);
    let paused = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    paused.block_on(async {
        advance(DAY).await;
        let before = std::time::Instant::now();
        let job = wheel.run_after(DAY / 4, async {});
        assert!(job.reset_after(DAY / 2));
        let again = wheel.run_by(FixedRate::new(DAY).starting_after(DAY), || async {});
        assert!(again.reset_after(DAY / 2));
        jobs.try_run_after(7, DAY / 4, async {}).unwrap();
        assert!(jobs.reset_after(&7, DAY / 2));
        let after = std::time::Instant::now();
        let due = [job.due(), again.due(), jobs.get(&7).unwrap().due].map(|due| due.map(Instant::into_std));
        let expected = before + DAY / 2..=after + DAY / 2;
        assert!(due.iter().flatten().filter(|due| expected.contains(due)).count() == 3, "{due:?}");
        assert!(job.time_left().unwrap() <= DAY / 2);
    });
}

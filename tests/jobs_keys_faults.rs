//! Jobs by keys: keys whose code does what it should not, and tables that nobody has any more.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel::job::Jobs;
use tokio::runtime::Builder;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const HANG_GUARD: Duration = Duration::from_secs(30);

#[test]
fn keys_of_what_could_not_run_go_with_the_last_that_has_the_jobs() {
    let key = Arc::new(7);
    let alive = Arc::downgrade(&key);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let jobs = runtime.block_on(async { Jobs::new(&TimingWheel::new()) });
    jobs.run_after(key, DAY, async {}).unwrap();
    drop(runtime);
    assert_eq!((jobs.len(), alive.strong_count()), (1, 1));
    drop(jobs);
    assert_eq!(alive.strong_count(), 0);
}

#[derive(PartialEq, Eq, Hash)]
struct CannotBeCloned(u32);

impl Clone for CannotBeCloned {
    fn clone(&self) -> Self {
        assert!(self.0 != 50, "fifty cannot be cloned");
        Self(self.0)
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_in_which_a_key_cannot_be_cloned_has_stopped_all_jobs() {
    let wheel = TimingWheel::new();
    let jobs = Jobs::new(&wheel);
    for n in 0..100 {
        jobs.run_after(CannotBeCloned(n), DAY, async {}).unwrap();
    }
    assert!(catch_unwind(AssertUnwindSafe(|| jobs.stop().len())).is_err());
    assert_eq!((jobs.len(), wheel.pending()), (0, 0));
    assert!(jobs.run_after(CannotBeCloned(1), DAY, async {}).is_err());
}

static COUNTED: OnceLock<Jobs<CountsWhenCloned>> = OnceLock::new();

#[derive(PartialEq, Eq, Hash)]
struct CountsWhenCloned;

impl Clone for CountsWhenCloned {
    fn clone(&self) -> Self {
        assert_eq!(COUNTED.get().map(Jobs::len), Some(1));
        Self
    }
}

#[tokio::test]
async fn keys_may_look_at_the_jobs_while_they_are_listed() {
    let jobs = COUNTED.get_or_init(|| Jobs::new(&TimingWheel::new()));
    jobs.run_after(CountsWhenCloned, DAY, async {}).unwrap();
    let (listed, lists) = channel();
    thread::spawn(move || listed.send(COUNTED.get().map(|jobs| jobs.list().len())));
    assert_eq!(lists.recv_timeout(HANG_GUARD), Ok(Some(1)), "it waits for itself");
}

//! A user's code never runs under a lock: keys, futures, schedules and closures may ask for the jobs wherever they are
//! hashed, compared, cloned and dropped.

use std::hash::{Hash, Hasher};
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::thread;

use timingwheel::TimingWheel;
use timingwheel_jobs::{Jobs, Previous, Schedule};
use tokio::time::{Instant, sleep};

use crate::{DAY, HANG_GUARD, ms, runtime};

/// Looks at the jobs, at all of them and at its own, whatever is done with it. All have the same hash.
struct Asks(u8, Arc<OnceLock<Jobs<Asks>>>);

impl Asks {
    fn ask(&self) {
        if let Some(jobs) = self.1.get() {
            _ = jobs.len();
        }
    }
}

impl Clone for Asks {
    fn clone(&self) -> Self {
        self.ask();
        Self(self.0, self.1.clone())
    }
}

impl PartialEq for Asks {
    fn eq(&self, other: &Self) -> bool {
        self.ask();
        self.0 == other.0
    }
}

impl Eq for Asks {}

impl Hash for Asks {
    fn hash<H: Hasher>(&self, _: &mut H) {
        self.ask();
    }
}

impl Drop for Asks {
    fn drop(&mut self) {
        self.ask();
    }
}

impl Schedule for Asks {
    fn next(&mut self, previous: Previous) -> Option<Instant> {
        self.ask();
        Some(previous.ended + ms(1))
    }
}

#[test]
fn keys_futures_and_schedules_may_ask_for_the_jobs_wherever_they_are_used() {
    let (done, is_done) = channel();
    // A thread that hangs is left alone.
    thread::spawn(move || {
        runtime(0).block_on(async {
            let cell = Arc::new(OnceLock::new());
            let asks = |number| Asks(number, cell.clone());
            let jobs = cell.get_or_init(|| Jobs::new(&TimingWheel::builder().shards(1).build().unwrap()));
            for round in 0..3 {
                for key in 0..20 {
                    let future = asks(key);
                    let add = jobs.try_run_after(asks(key), DAY, async move { drop(future) });
                    assert_eq!(add.unwrap().is_some(), round > 0, "replaced");
                }
            }
            assert_eq!((jobs.len(), jobs.list().len()), (20, 20), "though they have one hash");
            let make = asks(1);
            let run = move || {
                make.ask();
                async {}
            };
            jobs.try_run_by(asks(1), asks(1), run).unwrap();
            assert!(jobs.get(&asks(2)).is_some() && jobs.join(&asks(2)).is_some());
            assert!(jobs.reset_after(&asks(2), ms(1)));
            let has_run = jobs.join(&asks(2)).unwrap();
            assert!(jobs.remove(&asks(3)).is_some() && jobs.abort(&asks(4)).is_some());
            assert!(jobs.remove(&asks(99)).is_none());
            // One has run, and one again and again.
            has_run.await;
            sleep(ms(5)).await;
            assert_eq!(jobs.len(), 17);
            drop(jobs.shutdown(ms(10)).await);
            assert!(jobs.is_empty());
        });
        done.send(()).unwrap();
    });
    assert_eq!(is_done.recv_timeout(HANG_GUARD), Ok(()), "it waits for its own lock");
}

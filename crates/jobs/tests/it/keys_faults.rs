//! Jobs by keys: keys and jobs whose code does what it should not, threads that meet, and wheels and tables that are
//! gone.

use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_jobs::{JobInfo, JobState, Jobs};
use tokio::time::{sleep, timeout};

use crate::{DAY, HANG_GUARD, ms, runtime, state, stop};

#[test]
fn keys_of_what_could_not_run_go_with_the_last_that_has_the_jobs() {
    let key = Arc::new(7);
    let alive = Arc::downgrade(&key);
    let runtime = runtime(0);
    let jobs = runtime.block_on(async { Jobs::new(&TimingWheel::new()) });
    jobs.try_run_after(key, DAY, async {}).unwrap();
    drop(runtime);
    assert_eq!((jobs.len(), alive.strong_count()), (1, 1));
    drop(jobs);
    assert_eq!(alive.strong_count(), 0);
}

/// Threads add, replace and remove the same keys while the jobs come due: each job that was taken runs, or somebody is
/// told that it was pending.
#[test]
fn among_threads_each_job_runs_or_is_told_of_and_never_both_or_neither() {
    const OPERATIONS: usize = 5_000;
    let runtime = runtime(2);
    let tick = Duration::from_micros(50);
    let wheel = runtime.block_on(async { TimingWheel::builder().tick(tick).build().unwrap() });
    let jobs = Jobs::new(&wheel);
    let (ran, told, added) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0), AtomicUsize::new(0));
    let tell = |info: Option<JobInfo>| {
        let is_pending = state(info) == Some(JobState::Pending);
        told.fetch_add(usize::from(is_pending), Ordering::Relaxed);
    };
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..OPERATIONS {
                    let key = fastrand::u64(..50);
                    if fastrand::bool() {
                        tell(jobs.remove(&key));
                        continue;
                    }
                    let run = ran.clone();
                    let run = async move {
                        run.fetch_add(1, Ordering::Relaxed);
                    };
                    tell(jobs.try_run_after(key, tick * fastrand::u32(..8), run).unwrap());
                    added.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    stop(&jobs).into_iter().for_each(|job| tell(Some(job.info)));
    let (told, added) = (told.into_inner(), added.into_inner());
    runtime.block_on(async {
        let all = async {
            while ran.load(Ordering::Relaxed) + told < added {
                sleep(ms(1)).await;
            }
        };
        timeout(HANG_GUARD, all).await.expect("a job was lost");
    });
    assert_eq!(ran.load(Ordering::Relaxed) + told, added);
    assert_eq!((jobs.len(), wheel.pending()), (0, 0));
}

/// Counts how often keys are hashed.
#[derive(Clone)]
struct CountsHashes(Arc<AtomicUsize>, u32);

impl PartialEq for CountsHashes {
    fn eq(&self, other: &Self) -> bool {
        self.1 == other.1
    }
}

impl Eq for CountsHashes {}

impl Hash for CountsHashes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.fetch_add(1, Ordering::Relaxed);
        self.1.hash(state);
    }
}

#[tokio::test(start_paused = true)]
async fn each_call_hashes_its_key_once_however_many_there_are() {
    const KEYS: u32 = 10_000;
    let hashed = Arc::new(AtomicUsize::new(0));
    let key = |number| CountsHashes(hashed.clone(), number);
    let hashed_since = || hashed.swap(0, Ordering::Relaxed);
    let jobs = Jobs::new(&TimingWheel::new());
    for number in 0..KEYS {
        jobs.try_run_after(key(number), DAY, async {}).unwrap();
    }
    assert_eq!(hashed_since(), KEYS as usize);
    assert!(jobs.try_run_after(key(7), DAY, async {}).unwrap().is_some());
    assert!(jobs.get(&key(7)).is_some());
    assert!(jobs.remove(&key(7)).is_some());
    assert!(jobs.try_run_by(key(8), |_| None, || async {}).unwrap().is_some());
    assert_eq!(hashed_since(), 4);
    assert_eq!((jobs.list().len(), jobs.len(), hashed_since()), (9_998, 9_998, 0));
}

pub(crate) type Hook = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// Calls the hook when it is compared, once. All have the same hash.
#[derive(Clone)]
pub(crate) struct Hooked(pub(crate) u8, pub(crate) Hook);

impl PartialEq for Hooked {
    fn eq(&self, other: &Self) -> bool {
        let hook = self.1.lock().unwrap().take();
        if let Some(hook) = hook {
            hook();
        }
        self.0 == other.0
    }
}

impl Eq for Hooked {}

impl Hash for Hooked {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_key_another_takes_while_that_is_looked_up_replaces_the_other() {
    let (wheel, hook) = (TimingWheel::new(), Hook::default());
    let (jobs, key) = (Jobs::new(&wheel), |number| Hooked(number, hook.clone()));
    jobs.try_run_after(key(1), DAY, async {}).unwrap();
    let (inner, same) = (jobs.clone(), key(2));
    let add = move || assert_eq!(inner.try_run_after(same, DAY, async {}).unwrap(), None);
    *hook.lock().unwrap() = Some(Box::new(add));
    assert_eq!(state(jobs.try_run_after(key(2), DAY, async {}).unwrap()), Some(JobState::Pending));
    assert_eq!((jobs.len(), wheel.pending()), (2, 2));
}

#[test]
fn a_job_that_comes_due_before_it_is_listed_runs() {
    let runtime = runtime(2);
    let _within = runtime.enter();
    let (wheel, hook) = (TimingWheel::new(), Hook::default());
    let (jobs, key) = (Jobs::new(&wheel), |number| Hooked(number, hook.clone()));
    jobs.try_run_after(key(1), ms(0), std::future::pending()).unwrap();
    let watched = wheel.clone();
    let is_due = move || {
        while watched.pending() > 0 {
            thread::yield_now();
        }
    };
    *hook.lock().unwrap() = Some(Box::new(is_due));
    let (ran, has_run) = channel();
    jobs.try_run_after(key(2), ms(1), async move { _ = ran.send(()) }).unwrap();
    assert_eq!(has_run.recv_timeout(HANG_GUARD), Ok(()), "the call of the wheel is lost");
}

/// Asks for the number of jobs when it is dropped.
struct ComesBack(Jobs<Hooked>);

impl Drop for ComesBack {
    fn drop(&mut self) {
        assert_eq!(self.0.len(), 1);
    }
}

#[test]
fn keys_that_cannot_be_compared_keep_no_lock_begin_no_job_and_leave_none_listed() {
    let (tell, told) = channel();
    thread::spawn(move || {
        runtime(0).block_on(async {
            let (wheel, hook) = (TimingWheel::new(), Hook::default());
            let (jobs, key) = (Jobs::new(&wheel), || Hooked(1, hook.clone()));
            let panics = || *hook.lock().unwrap() = Some(Box::new(|| panic!("as asked")));
            jobs.try_run_after(key(), ms(50), async {}).unwrap();
            for delay in [Duration::ZERO, DAY] {
                panics();
                let comes_back = ComesBack(jobs.clone());
                let future = async move { drop(comes_back) };
                let add = || jobs.try_run_after(key(), delay, future).is_ok();
                assert!(catch_unwind(AssertUnwindSafe(add)).is_err());
                assert_eq!((wheel.pending(), jobs.len()), (1, 1), "it has begun, and nobody has it");
            }
            // One that is over leaves the list without comparing keys.
            panics();
            while !jobs.is_empty() {
                sleep(ms(1)).await;
            }
            tell.send(hook.lock().unwrap().is_some()).unwrap();
        });
    });
    assert_eq!(told.recv_timeout(HANG_GUARD), Ok(true), "a job waits for its own lock, or stays listed");
}

//! Jobs by keys whose code looks, acts or panics in the midst of a call. Keys are compared under a lock. No other code of a
//! user's is: it may ask for the jobs wherever keys are hashed, cloned and dropped, and wherever runs, schedules and wakers
//! are used.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use futures::FutureExt;
use timingwheel_jobs::{JobState, Jobs, LastRun, Replanned, Schedule};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use crate::acts::{Key, Use, keys_that};
use crate::moves::Changeable;
use crate::{DAY, HANG_GUARD, ms, one_shard, owning, runtime, state, when_dropped};

impl Schedule for Key {
    fn next(&mut self, last: LastRun) -> Option<Instant> {
        self.act(Use::Call);
        Some(last.ended + ms(1))
    }

    fn leaves_out(&mut self) -> bool {
        self.act(Use::Call);
        false
    }
}

#[tokio::test]
async fn keys_futures_and_schedules_may_ask_for_the_jobs_wherever_they_are_used() {
    let cell = Arc::new(OnceLock::<Jobs<Key>>::new());
    let own = cell.clone();
    let asks = keys_that(move |_, what| match own.get() {
        _ if what == Use::Eq => {}
        // Each job, also the one that this is about, which clones the keys.
        Some(jobs) if what == Use::Call => assert!(!jobs.list().is_empty()),
        Some(jobs) => _ = jobs.len(),
        None => {}
    });
    let jobs = cell.get_or_init(|| Jobs::new(&one_shard()));
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
        make.act(Use::Call);
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
}

#[test]
fn keys_of_what_could_not_run_go_with_the_last_that_has_the_jobs() {
    let key = Arc::new(7);
    let alive = Arc::downgrade(&key);
    let runtime = runtime(0);
    let jobs = runtime.block_on(async { Jobs::new(&crate::wheel()) });
    jobs.try_run_after(key, DAY, async {}).unwrap();
    drop(runtime);
    assert_eq!((jobs.len(), alive.strong_count()), (1, 1));
    drop(jobs);
    assert_eq!(alive.strong_count(), 0);
}

/// What the next comparison of keys does.
#[derive(Clone, Default)]
struct Hook(Arc<Mutex<Option<Once>>>);

type Once = Box<dyn FnOnce() + Send>;

impl Hook {
    fn set(&self, act: impl FnOnce() + Send + 'static) {
        *self.0.lock().unwrap() = Some(Box::new(act));
    }

    fn is_set(&self) -> bool {
        self.0.lock().unwrap().is_some()
    }

    fn key(&self, number: u32) -> Key {
        let hook = self.clone();
        let act = move |_, what| {
            let act = if what == Use::Eq { hook.0.lock().unwrap().take() } else { None };
            if let Some(act) = act {
                act();
            }
        };
        keys_that(act)(number)
    }
}

/// The driver is on another thread, or on the one that adds the job.
#[test]
fn a_job_that_comes_due_before_it_is_listed_runs() {
    for workers in [0, 2] {
        let runtime = Arc::new(runtime(workers));
        let (wheel, hook) = (runtime.block_on(async { crate::wheel() }), Hook::default());
        let jobs = Jobs::new(&wheel);
        jobs.try_run_after(hook.key(1), DAY, async {}).unwrap();
        let drives = runtime.clone();
        hook.set(move || {
            let start = Instant::now();
            while wheel.pending() > 1 {
                assert!(start.elapsed() < HANG_GUARD, "it does not come due");
                drives.block_on(async { sleep(ms(1)).await });
            }
        });
        let (ran, has_run) = oneshot::channel();
        jobs.try_run_after(hook.key(2), ms(1), async move { _ = ran.send(()) }).unwrap();
        assert!(!hook.is_set(), "the keys were compared");
        assert_eq!(runtime.block_on(has_run), Ok(()), "the call of the wheel is lost");
    }
}

#[test]
fn a_job_that_is_listed_as_another_thread_ends_the_wheel_could_not_run() {
    let runtime = runtime(0);
    let (wheel, hook) = (runtime.block_on(async { crate::wheel() }), Hook::default());
    let jobs = Jobs::new(&wheel);
    jobs.try_run_after(hook.key(1), DAY, async {}).unwrap();
    hook.set(move || _ = thread::spawn(move || wheel.shutdown()).join());
    jobs.try_run_after(hook.key(2), DAY, async {}).unwrap();
    assert_eq!(state(jobs.get(&hook.key(2))), Some(JobState::CouldNotRun));
}

/// The driver finds it due while it is listed, and the runtime ends before the driver's call is tried again.
#[test]
fn a_job_that_is_due_as_its_runtime_ends_could_not_run() {
    let runtime = runtime(0);
    let (wheel, hook) = (runtime.block_on(async { crate::wheel() }), Hook::default());
    let jobs = Jobs::new(&wheel);
    jobs.try_run_after(hook.key(1), DAY, async {}).unwrap();
    let ((is_armed, armed), (is_due, due)) = (channel(), channel());
    hook.set(move || {
        is_armed.send(()).unwrap();
        due.recv().unwrap();
    });
    let adds = (jobs.clone(), hook.key(2));
    let adds = thread::spawn(move || adds.0.try_run_after(adds.1, ms(1), async {}).is_ok());
    armed.recv().unwrap();
    runtime.block_on(async {
        while wheel.pending() > 1 {
            sleep(ms(1)).await;
        }
    });
    is_due.send(()).unwrap();
    assert!(adds.join().unwrap());
    assert_eq!(state(jobs.get(&hook.key(2))), Some(JobState::Pending));
    drop(runtime);
    assert_eq!(state(jobs.get(&hook.key(2))), Some(JobState::CouldNotRun));
}

#[tokio::test]
async fn keys_that_cannot_be_compared_keep_no_lock_begin_no_job_and_leave_none_listed() {
    let (wheel, hook) = (crate::wheel(), Hook::default());
    let jobs = Jobs::new(&wheel);
    let panics = || hook.set(|| panic!("as asked"));
    jobs.try_run_after(hook.key(1), ms(50), async {}).unwrap();
    for delay in [Duration::ZERO, DAY] {
        panics();
        let inner = jobs.clone();
        let comes_back = when_dropped(move || assert_eq!(inner.len(), 1));
        let add = || jobs.try_run_after(hook.key(1), delay, async move { drop(comes_back) }).is_ok();
        assert!(catch_unwind(AssertUnwindSafe(add)).is_err());
        assert_eq!((wheel.pending(), jobs.len()), (1, 1), "it has begun, and nobody has it");
    }
    // One that is over leaves the list without comparing keys.
    panics();
    while !jobs.is_empty() {
        sleep(ms(1)).await;
    }
    assert!(hook.is_set());
}

#[tokio::test(start_paused = true)]
async fn a_job_that_its_schedule_would_end_before_it_is_listed_stays() {
    let (wheel, schedule, hook) = (crate::wheel(), Changeable::default(), Hook::default());
    let jobs = Jobs::new(&wheel);
    jobs.try_run_after(hook.key(1), DAY, async {}).unwrap();
    let pending = schedule.clone();
    hook.set(move || assert_eq!(pending.run().replan(None), Replanned::NotPending));
    jobs.try_run_by(hook.key(1), schedule.clone(), || async {}).unwrap();
    assert!(!hook.is_set(), "the keys were compared");
    assert_eq!((jobs.len(), wheel.pending()), (1, 1));
    assert_eq!((schedule.run().replan(None), jobs.len()), (Replanned::Done, 0));
}

#[tokio::test(start_paused = true)]
async fn a_key_and_its_code_come_back_from_jobs_that_were_shut_down_meanwhile() {
    for is_due in [false, true] {
        let (wheel, owned, key) = (crate::wheel(), Arc::new(()), Arc::new(7));
        let jobs = Jobs::new(&wheel);
        let inner = jobs.clone();
        let shuts_down = move |last: LastRun| {
            _ = inner.shutdown(DAY).now_or_never();
            Some(if is_due { last.ended } else { last.ended + DAY })
        };
        let added = jobs.try_run_by(key.clone(), shuts_down, owning(owned.clone(), || async {}));
        let (back, make) = added.unwrap_err().into_parts();
        assert_eq!((Arc::strong_count(&key), Arc::strong_count(&owned)), (2, 2));
        drop((back, make));
        assert_eq!((Arc::strong_count(&key), Arc::strong_count(&owned), wheel.pending()), (1, 1, 0));
    }
}

//! A thread keeps its reference to the wheel from the timer that it dropped last, for the next one. These do not keep a
//! wheel from ending with its last handle and its last timer, and do not let it end before.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use timingwheel::{Sleep, TimingWheel};
use tokio::runtime::{Builder, Runtime};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const HANG_GUARD: Duration = Duration::from_secs(30);

/// After that the driver has looked again whether timers are left, and waits for two seconds until it does once more.
const AFTER_SECOND_LOOK: Duration = Duration::from_millis(1_300);

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// A wheel whose threads all share one shard.
fn wheel_on(runtime: &Runtime) -> TimingWheel {
    let _context = runtime.enter();
    TimingWheel::builder().shards(1).build().unwrap()
}

/// A registered timer. Without a task of its own, as nobody waits for it.
fn registered(wheel: &TimingWheel) -> Sleep {
    let mut sleep = wheel.sleep(DAY);
    assert!(sleep.poll_try_wait(&mut Context::from_waker(Waker::noop())).is_pending());
    sleep
}

/// Wheels that have not ended: each has its driver, and there are no other tasks.
fn wheels(runtime: &Runtime) -> usize {
    runtime.metrics().num_alive_tasks()
}

#[track_caller]
fn assert_all_end(runtime: &Runtime) {
    let start = Instant::now();
    while wheels(runtime) > 0 {
        assert!(start.elapsed() < HANG_GUARD, "{} wheels are left", wheels(runtime));
        thread::sleep(Duration::from_millis(1));
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// A thread that does what it is told, and lives on with what it keeps.
struct Keeper(Sender<(Job, Arc<Barrier>)>);

impl Keeper {
    fn new() -> Self {
        let (sender, jobs) = channel::<(Job, Arc<Barrier>)>();
        thread::spawn(move || {
            for (job, done) in jobs {
                job();
                done.wait();
            }
        });
        Self(sender)
    }

    fn start(&self, job: impl FnOnce() + Send + 'static) -> Arc<Barrier> {
        let done = Arc::new(Barrier::new(2));
        self.0.send((Box::new(job), done.clone())).unwrap();
        done
    }

    fn run(&self, job: impl FnOnce() + Send + 'static) {
        self.start(job).wait();
    }

    /// Lets it keep a reference to `wheel`.
    fn keep(&self, wheel: &TimingWheel) {
        let wheel = wheel.clone();
        self.run(move || drop(registered(&wheel)));
    }
}

#[test]
fn a_wheel_ends_with_its_last_handle() {
    let (runtime, keepers) = (runtime(), [Keeper::new(), Keeper::new()]);
    let wheel = wheel_on(&runtime);
    keepers.iter().for_each(|keeper| keeper.keep(&wheel));
    assert_eq!(wheels(&runtime), 1);
    drop(wheel);
    assert_all_end(&runtime);
}

#[test]
fn a_wheel_ends_with_its_last_timer_wherever_that_is_dropped_and_not_before() {
    let (runtime, keepers) = (runtime(), [Keeper::new(), Keeper::new()]);
    let [by_keeper, by_other, never_polled] = [true, false, true].map(|is_registered| {
        let wheel = wheel_on(&runtime);
        keepers.iter().for_each(|keeper| keeper.keep(&wheel));
        // Made with a reference that this thread has kept.
        drop(registered(&wheel));
        if is_registered { registered(&wheel) } else { wheel.sleep(DAY) }
    });
    thread::sleep(AFTER_SECOND_LOOK);
    assert_eq!(wheels(&runtime), 3);
    keepers[0].run(move || drop(by_keeper));
    drop((by_other, never_polled));
    assert_all_end(&runtime);
}

#[test]
fn timers_without_a_handle_fire() {
    let (runtime, keeper) = (runtime(), Keeper::new());
    let wheel = wheel_on(&runtime);
    keeper.keep(&wheel);
    let (first, second) = (wheel.sleep(Duration::from_millis(1)), wheel.sleep(Duration::from_millis(20)));
    drop(wheel);
    runtime.block_on(first);
    assert_eq!(wheels(&runtime), 1);
    runtime.block_on(second);
    assert_all_end(&runtime);
}

#[test]
fn a_reference_that_is_kept_instead_of_one_to_a_wheel_without_a_handle_lets_that_end() {
    let (runtime, keepers) = (runtime(), [Keeper::new(), Keeper::new()]);
    let (wheel, other) = (wheel_on(&runtime), wheel_on(&runtime));
    keepers.iter().for_each(|keeper| keeper.keep(&wheel));
    let last = registered(&wheel);
    drop(wheel);
    keepers[0].keep(&other);
    thread::sleep(AFTER_SECOND_LOOK);
    assert_eq!(wheels(&runtime), 2);
    drop(last);
    drop(other);
    assert_all_end(&runtime);
}

#[test]
fn a_thread_that_ends_keeps_nothing() {
    let runtime = runtime();
    let wheel = wheel_on(&runtime);
    thread::scope(|scope| {
        scope.spawn(|| drop(registered(&wheel)));
    });
    drop(wheel);
    assert_all_end(&runtime);
}

#[test]
fn wheels_whose_handle_goes_while_timers_are_dropped_all_end() {
    let (runtime, keepers) = (runtime(), [Keeper::new(), Keeper::new(), Keeper::new()]);
    for round in 0..if cfg!(debug_assertions) { 300 } else { 3_000 } {
        let wheel = wheel_on(&runtime);
        let started = keepers.each_ref().map(|keeper| {
            let timers = [registered(&wheel), wheel.sleep(DAY)];
            let wheel = (round % 2 == 0).then(|| wheel.clone());
            keeper.start(move || {
                let made_here = wheel.as_ref().map(registered);
                drop(wheel);
                drop(timers);
                drop(made_here);
            })
        });
        drop(wheel);
        for done in started {
            done.wait();
        }
    }
    assert_all_end(&runtime);
}

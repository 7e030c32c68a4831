//! A process that runs short of file descriptors as its wheel is made, and one that forks. The tests check an order of
//! events: a timer fires while a worker still blocks.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fork::{Fork, fork, waitpid};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use timingwheel::TimingWheel;
use timingwheel::time::{sleep, timeout, wheel};
use tokio::runtime::{Builder, Runtime};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

/// Whether a timer comes while the other worker, which had the poller, blocks.
fn comes_beside_a_blocked_worker(runtime: &Runtime) -> bool {
    let blocks = Arc::new(AtomicBool::new(true));
    runtime.block_on(async {
        let timer = tokio::spawn({
            let blocks = blocks.clone();
            async move {
                sleep(ms(60)).await;
                blocks.load(Ordering::SeqCst)
            }
        });
        let blocker = tokio::spawn(async move {
            sleep(ms(20)).await;
            thread::sleep(ms(500));
            blocks.store(false, Ordering::SeqCst);
        });
        let came_meanwhile = timer.await.expect("no panic");
        blocker.await.expect("no panic");
        came_meanwhile
    })
}

#[test]
fn a_wheel_that_was_made_while_descriptors_were_short_fires_and_is_watched() {
    if super::ran_alone(a_wheel_that_was_made_while_descriptors_were_short_fires_and_is_watched) {
        return;
    }
    let runtime = runtime();
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..before }).expect("a lower limit");
    let held: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    assert!(!held.is_empty());
    runtime.block_on(async { sleep(ms(1)).await });
    drop(held);
    setrlimit(Resource::Nofile, before).expect("the limit of before");
    assert!(runtime.block_on(async { !wheel().stats().unwatched }));
    assert!(
        (0..3).any(|_| comes_beside_a_blocked_worker(&runtime)),
        "the timer waited for the blocked worker"
    );
}

/// Whether it does must not depend on how many descriptors are left.
#[test]
fn a_multi_thread_runtime_without_the_io_driver_is_refused_also_where_descriptors_are_short() {
    if super::ran_alone(
        a_multi_thread_runtime_without_the_io_driver_is_refused_also_where_descriptors_are_short,
    ) {
        return;
    }
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_time().build().expect("a runtime");
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(64), ..before }).expect("a lower limit");
    let _held: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    let build = || runtime.block_on(async { TimingWheel::builder().build().map(drop) });
    let words = super::panic_text(build);
    assert!(words.contains("enable_io"), "{words}");
}

#[test]
fn a_child_of_fork_has_wheels_of_its_own_and_its_parent_notices_nothing() {
    if super::ran_alone(a_child_of_fork_has_wheels_of_its_own_and_its_parent_notices_nothing) {
        return;
    }
    let parent = runtime();
    assert!((0..3).any(|_| comes_beside_a_blocked_worker(&parent)));
    // Far, so that nothing turns the wheel meanwhile.
    let far = parent.block_on(async { wheel() });
    // This leaves a timer of the thread's `block_on`s, which no other runtime's may reuse.
    let ready = parent.block_on(async { timeout(Duration::from_secs(60), tokio::task::yield_now()).await });
    ready.expect("it is ready before");
    // A child has the stacks of the parent's threads, and reuses their memory, although parking_lot's lists of waiting threads
    // still point there. So now and then a worker of the child's runtime is ended by a signal, and says nothing of timers.
    let status = (0..5).map(|_| status_of_a_child(&parent, &far)).find(|status| status.signal().is_none());
    let status = status.expect("a child that no signal ends");
    assert!(status.success(), "the child's own timers, or its watchdog: {status}");
}

/// Forks. The child makes timers, on wheels of its own and on `far`.
fn status_of_a_child(parent: &Runtime, far: &TimingWheel) -> ExitStatus {
    match fork().expect("a child") {
        Fork::Child => {
            let own = runtime();
            own.block_on(async { sleep(ms(1)).await });
            // On the parent's wheel: this must not set the parent's timerfd. A short time may pass before the poll, on a machine
            // with something else to do.
            let armed = |millis| {
                let mut sleep = tokio_test::task::spawn(far.sleep(ms(millis)));
                sleep.poll().is_pending().then_some(sleep)
            };
            let inherited = [5, 10, 20, 50, 100, 200, 500].into_iter().find_map(armed);
            let is_pending = inherited.is_some();
            let is_watched = (0..3).any(|_| comes_beside_a_blocked_worker(&own));
            // Nothing is dropped: the runtime's descriptors are the parent's too.
            std::mem::forget((inherited, own));
            std::process::exit(if is_pending && is_watched { 0 } else { 1 });
        }
        Fork::Parent(child) => {
            assert!((0..3).any(|_| comes_beside_a_blocked_worker(parent)), "the child moved the parent's");
            ExitStatus::from_raw(waitpid(child).expect("it ends"))
        }
    }
}

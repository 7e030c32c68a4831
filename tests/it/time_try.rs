//! `timingwheel::time`: wheels of runtimes that end, and of those without a driver.

use std::sync::mpsc;
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel::time::{self, Instant, Sleep, error::Error};
use tokio::runtime::{Builder, Runtime};
use tokio_test::{assert_ready, task};

const SECOND: Duration = Duration::from_secs(1);

fn paused() -> Runtime {
    Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime")
}

#[test]
fn on_a_runtime_that_has_ended_its_wheel_says_so() {
    let runtime = paused();
    let handle = runtime.handle().clone();
    drop(runtime);
    let _within = handle.enter();
    assert!(time::wheel().try_sleep(SECOND).unwrap_err().is_shutdown());
    assert!(time::wheel().try_sleep_until(Instant::now()).unwrap_err().is_shutdown());
}

struct TriesInDrop(mpsc::Sender<Result<Sleep, Error>>);

impl Drop for TriesInDrop {
    fn drop(&mut self) {
        self.0.send(time::wheel().try_sleep(SECOND)).expect("the test waits");
    }
}

#[test]
fn what_a_runtime_drops_as_it_ends_is_told_of_the_end_and_leaves_no_wheel_behind() {
    for has_a_wheel in [true, false] {
        for _ in 0..20 {
            let runtime = paused();
            let (tell, told) = mpsc::channel();
            let tries = TriesInDrop(tell);
            runtime.block_on(async {
                if has_a_wheel {
                    time::sleep(SECOND).await;
                }
                tokio::spawn(async move {
                    let _tries = tries;
                    std::future::pending::<()>().await;
                });
                tokio::task::yield_now().await;
            });
            drop(runtime);
            // Tasks are dropped in any order, so the driver may still have been there. It has gone by now.
            let tried = told.recv().expect("dropped");
            let refused = match tried {
                Ok(mut sleep) => assert_ready!(task::spawn(()).enter(|cx, _| sleep.poll_unconstrained(cx))),
                Err(error) => Err(error),
            };
            assert!(refused.is_err_and(|error| error.is_shutdown()));
        }
    }
    // Ids of runtimes are used again: a wheel that were left behind would be found here.
    for _ in 0..20 {
        paused().block_on(async { time::sleep(SECOND).await });
    }
}

#[test]
fn runtimes_on_threads_of_their_own_each_have_a_wheel_and_none_waits_for_another() {
    let wheels: Vec<TimingWheel> = std::thread::scope(|scope| {
        let runs: Vec<_> = (1..=8)
            .map(|hours| {
                scope.spawn(move || {
                    let runtime = paused();
                    let wheel = runtime.block_on(async {
                        let start = Instant::now();
                        time::sleep(SECOND * 3_600 * hours).await;
                        assert_eq!(start.elapsed(), SECOND * 3_600 * hours);
                        time::wheel()
                    });
                    assert_eq!(wheel.stats().fired, 1);
                    wheel
                })
            })
            .collect();
        runs.into_iter().map(|run| run.join().expect("no panic")).collect()
    });
    assert!(wheels.iter().all(|wheel| wheel.try_sleep(SECOND).unwrap_err().is_shutdown()));
}

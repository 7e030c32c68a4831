//! `timingwheel::time`: the runtime's wheel ends by a shutdown, after which later calls work, or with its runtime.

use std::sync::mpsc;
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel::time::{self, DelayQueue, Instant, Sleep, error::Error};
use tokio_test::{assert_ready, task};

use crate::{SECOND, paused, runtime};

#[tokio::test(start_paused = true)]
async fn what_is_made_after_a_shutdown_is_on_another_wheel_and_what_was_pending_is_told() {
    for _ in 0..3 {
        let mut sleep = time::sleep(SECOND);
        let (told, pending) = tokio::join!(sleep.wait(), async { time::wheel().shutdown() });
        assert!(told.unwrap_err().is_shutdown());
        assert_eq!(pending, 1);

        let start = Instant::now();
        time::sleep(SECOND).await;
        time::interval_at(start + 2 * SECOND, SECOND).tick().await;
        assert!(time::timeout(SECOND, std::future::pending::<()>()).await.is_err());
        assert_eq!(start.elapsed(), 3 * SECOND);
        let mut queue = DelayQueue::new();
        queue.insert(7, SECOND);
        assert_eq!(futures::StreamExt::next(&mut queue).await.unwrap().into_inner(), 7);
    }
}

#[tokio::test(start_paused = true)]
async fn the_other_wheel_has_the_settings_of_the_first() {
    let tick = Duration::from_micros(100);
    let settings = TimingWheel::builder().tick(tick).wheel_size(17).shards(3).max_pending(1).name("mine");
    time::set_wheel(settings.build().expect("in range")).expect("nothing was used before");
    let first = time::wheel();
    first.shutdown();

    let again = time::wheel();
    assert_eq!((again.tick(), again.max_pending(), again.name()), (tick, Some(1), "mine"));
    assert_eq!(format!("{again:?}"), format!("{first:?}"));
    let place = time::wheel().try_sleep(SECOND).expect("there is one place");
    assert!(time::wheel().try_sleep(SECOND).unwrap_err().is_at_capacity());
    assert_eq!(again.pending(), 1);
    drop(place);
    assert!(first.try_sleep(SECOND).unwrap_err().is_shutdown(), "a handle stays with its wheel");
}

#[tokio::test(start_paused = true)]
async fn a_wheel_that_was_shut_down_can_be_replaced_by_one_with_other_settings() {
    time::wheel().shutdown();
    let other = TimingWheel::builder().max_pending(0).build().expect("in range");
    time::set_wheel(other).expect("the first has ended");
    assert_eq!(time::wheel().max_pending(), Some(0));
    assert!(time::set_wheel(TimingWheel::new()).is_err(), "that one goes on");
}

#[test]
fn threads_that_shut_the_wheel_down_end_no_sleep_that_others_make_after_that() {
    let runtime = runtime(2);
    let waits = runtime.block_on(async {
        let shut_down = tokio::spawn(async {
            for _ in 0..200 {
                time::wheel().shutdown();
                tokio::task::yield_now().await;
            }
        });
        let mut waits = 0;
        while !shut_down.is_finished() {
            // Told of the end, or on time: nothing hangs.
            let _told = time::sleep(Duration::from_micros(10)).wait().await;
            waits += 1;
        }
        time::sleep(Duration::from_millis(1)).await;
        waits
    });
    assert!(waits > 0);
    drop(runtime);
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

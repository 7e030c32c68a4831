//! `timingwheel::time`: the names of `tokio::time`, on a wheel that belongs to the current runtime.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel::time::{self, Instant, MissedTickBehavior, error::Elapsed};
use tokio::runtime::Runtime;

use crate::{DAY, SECOND, paused, runtime};

#[tokio::test(start_paused = true)]
async fn all_functions_work_on_the_runtimes_wheel() {
    let start = Instant::now();
    time::sleep(SECOND).await;
    time::sleep_until(start + SECOND * 2).await;
    assert_eq!(start.elapsed(), SECOND * 2);

    assert_eq!(time::timeout(SECOND, time::sleep(SECOND * 2)).await, Err(Elapsed::default()));
    assert_eq!(time::timeout_at(start + SECOND * 9, time::sleep(SECOND)).await, Ok(()));
    assert_eq!(start.elapsed(), SECOND * 4);

    let mut interval = time::interval(SECOND);
    assert_eq!(interval.missed_tick_behavior(), MissedTickBehavior::Burst);
    assert_eq!(interval.tick().await, start + SECOND * 4);
    assert_eq!(interval.tick().await, start + SECOND * 5);
    assert_eq!(time::interval_at(start + SECOND * 7, SECOND).tick().await, start + SECOND * 7);

    // All of them were registered there, and nowhere else.
    assert_eq!(time::wheel().stats().fired, 6);
    assert_eq!(time::wheel().pending(), 0);
}

/// Arms a timer by name, which has to stand on `wheel`, and drops it, so that a spare is left there.
fn arm_and_drop(wheel: &TimingWheel, cx: &mut Context<'_>) {
    let before = wheel.pending();
    let mut sleep = Box::pin(time::sleep(DAY));
    assert!(sleep.as_mut().poll(cx).is_pending());
    assert_eq!(wheel.pending(), before + 1, "the timer stands on another wheel");
}

#[test]
fn a_timer_stands_on_the_wheel_of_the_runtime_that_is_current_when_it_is_armed() {
    for (home, visited) in [(1, 1), (0, 1), (1, 0), (0, 0)] {
        let (home, visited) = (runtime(home), runtime(visited));
        let wheel_of = |runtime: &Runtime| {
            let _entered = runtime.enter();
            time::wheel()
        };
        let wheels = (wheel_of(&home), wheel_of(&visited));
        let visited = visited.handle();
        // A task or a `block_on` enters another runtime in each poll, as tokio-util's `TokioContext` does.
        let visits = |mut polls: usize| {
            let (wheels, visited) = (wheels.clone(), visited.clone());
            poll_fn(move |cx| {
                arm_and_drop(&wheels.0, cx);
                let entered = visited.enter();
                arm_and_drop(&wheels.1, cx);
                drop(entered);
                arm_and_drop(&wheels.0, cx);
                cx.waker().wake_by_ref();
                polls -= 1;
                if polls > 0 { Poll::Pending } else { Poll::Ready(()) }
            })
        };
        home.block_on(home.spawn(visits(3))).expect("each timer stands on its own wheel");
        home.block_on(visits(3));
    }
}

#[test]
fn a_timer_outlives_the_runtime_that_its_task_has_left() {
    let (home, visited) = (runtime(1), runtime(1));
    let handle = visited.handle().clone();
    let wheel = {
        let _entered = visited.enter();
        time::wheel()
    };
    let (armed, visit_ends) = std::sync::mpsc::channel();
    let task = home.spawn(async move {
        poll_fn(|cx| {
            let _entered = handle.enter();
            arm_and_drop(&wheel, cx);
            Poll::Ready(())
        })
        .await;
        let mut sleep = Box::pin(time::sleep(Duration::from_millis(200)));
        assert!(poll_fn(|cx| Poll::Ready(sleep.as_mut().poll(cx).is_pending())).await);
        armed.send(()).expect("the test waits");
        sleep.await;
    });
    visit_ends.recv().expect("it is armed");
    visited.shutdown_background();
    home.block_on(task).expect("the timer's own runtime goes on");
}

async fn time_passes() {
    let start = Instant::now();
    time::sleep(SECOND).await;
    assert_eq!(start.elapsed(), SECOND);
}

#[test]
fn a_runtimes_wheel_ends_with_it_and_a_later_runtime_gets_a_new_one() {
    for _ in 0..100 {
        let runtime = paused();
        let wheel = runtime.block_on(async {
            time_passes().await;
            time::wheel()
        });
        assert_eq!(wheel.stats().armed, 1, "a wheel of an earlier runtime was used");
        drop(runtime);
        assert!(wheel.try_sleep(SECOND).unwrap_err().is_shutdown());
    }
}

#[tokio::test(start_paused = true)]
async fn the_wheel_can_be_set_before_the_first_use_and_not_after() {
    let wheel = TimingWheel::builder().max_pending(1).build().expect("in range");
    time::set_wheel(wheel).expect("nothing was used before");
    let first = time::wheel().try_sleep(SECOND).expect("the first has a place");
    assert!(time::wheel().try_sleep(SECOND).unwrap_err().is_at_capacity());
    drop(first);

    let other = TimingWheel::new();
    let refused = time::set_wheel(other).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the runtime has a wheel already: set one before `timingwheel::time` is used there"
    );
    assert!(time::wheel().try_sleep(SECOND).is_ok());
}

#[test]
fn without_a_runtime_there_is_no_wheel_to_set_and_the_wheel_is_given_back() {
    let runtime = paused();
    let wheel = runtime.block_on(async { TimingWheel::new() });
    let refused = time::set_wheel(wheel).unwrap_err();
    assert!(refused.to_string().starts_with("there is no runtime whose wheel to set"), "{refused}");
    assert_eq!(refused.into_inner().pending(), 0);
}

#[test]
fn a_wheel_of_another_runtime_or_one_that_has_ended_is_not_set() {
    let (runtime, other) = (paused(), paused());
    let foreign = other.block_on(async { TimingWheel::new() });
    let refused = runtime.block_on(async { time::set_wheel(foreign) }).unwrap_err();
    assert_eq!(refused.to_string(), "the wheel is driven by another runtime: make it on this one");
    runtime.block_on(async {
        let wheel = TimingWheel::new();
        wheel.shutdown();
        assert_eq!(time::set_wheel(wheel).unwrap_err().to_string(), "the wheel has ended");
        time::sleep(SECOND).await;
    });
}

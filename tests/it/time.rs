//! `timingwheel::time`: the names of `tokio::time`, on a wheel that belongs to the current runtime.

use std::future::poll_fn;
use std::task::{Context, Poll};

use timingwheel::TimingWheel;
use timingwheel::time::{self};
use tokio::runtime::Runtime;

use crate::{DAY, SECOND, paused, runtime};

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

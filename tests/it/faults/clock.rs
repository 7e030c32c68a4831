//! Clocks that jump, and clocks that seem to go back. `paused_clock` has clocks that stand still and go on.

use std::pin::Pin;

use tokio::time::advance;
use tokio_test::{assert_ready, assert_ready_ok};

use super::*;
use crate::paused;

/// Each runtime has a clock of its own, if that was paused. So for who polls a wheel's timers here and there, its clock
/// goes back and forth, and a wheel's timers go by the clock of whoever makes and polls them. The wheel goes by its own
/// runtime's, and never back.
#[test]
fn timers_made_and_polled_where_the_clock_is_days_behind_or_ahead_are_neither_lost_nor_early_for_the_wheel() {
    for (ahead, behind) in [(DAY, Duration::ZERO), (Duration::ZERO, DAY), (DAY, 3 * DAY)] {
        let (ours, other) = (paused(), paused());
        other.block_on(advance(behind));
        let wheel = ours.block_on(async {
            let wheel = TimingWheel::new();
            advance(ahead).await;
            wheel.sleep(ms(1)).await;
            wheel
        });
        let mut cx = Context::from_waker(Waker::noop());
        let mut sleeps = Vec::new();
        for round in 0..100 {
            // Made by the one clock, and first polled by the other.
            for (makes, polls) in [(&ours, &other), (&other, &ours), (&other, &other), (&ours, &ours)] {
                let mut sleep = {
                    let _context = makes.enter();
                    wheel.sleep(ms(1 + round * round))
                };
                let is_ready = polls.block_on(async { sleep.poll_unconstrained(&mut cx).is_ready() });
                if is_ready {
                    let clocks = [&ours, polls].map(|runtime| runtime.block_on(async { Instant::now() }));
                    assert!(clocks.into_iter().any(|now| now >= sleep.deadline()));
                } else {
                    sleeps.push(sleep);
                }
            }
            if round % 3 == 0 && !sleeps.is_empty() {
                let mut sleep = sleeps.swap_remove(sleeps.len() / 2);
                other.block_on(async { Pin::new(&mut sleep).reset_after(ms(round)) });
                sleeps.push(sleep);
            }
            ours.block_on(advance(ms(round)));
            assert_adds_up(&wheel);
        }
        // By the wheel's own clock all of them come, each at its deadline and not before.
        ours.block_on(async {
            sleeps.sort_by_key(Sleep::deadline);
            for mut sleep in sleeps {
                let deadline = sleep.deadline();
                tokio::time::timeout(10 * DAY, std::future::poll_fn(|cx| sleep.poll_unconstrained(cx)))
                    .await
                    .expect("it is lost")
                    .unwrap();
                assert!(Instant::now() >= deadline);
                assert_ready_ok!(sleep.poll_unconstrained(&mut cx));
            }
            let stats = assert_adds_up(&wheel);
            assert_eq!(stats.pending, 0);
            // It still works.
            let start = Instant::now();
            wheel.sleep(ms(7)).await;
            assert_eq!(start.elapsed(), ms(7));
        });
    }
}

/// Such a runtime's clock cannot be paused, even if a task within a runtime with a paused clock makes and polls its timers.
#[test]
fn a_wheel_of_a_runtime_with_workers_goes_by_the_real_clock_wherever_its_timers_are_made_and_polled() {
    let runtime = runtime(2);
    let wheel = wheel_on(&runtime);
    let stands = paused();
    // Behind the real clock, and then ahead of it.
    thread::sleep(ms(30));
    for ahead in [Duration::ZERO, DAY] {
        stands.block_on(async {
            advance(ahead).await;
            let before = std::time::Instant::now();
            let mut sleep = wheel.sleep(DAY / 2);
            let mut interval = wheel.interval(DAY / 2);
            let after = std::time::Instant::now();
            let due = sleep.deadline().into_std();
            assert!((before + DAY / 2..=after + DAY / 2).contains(&due), "{due:?}");
            let mut cx = Context::from_waker(Waker::noop());
            let first = assert_ready!(interval.poll_tick(&mut cx)).into_std();
            assert!((before..=after).contains(&first), "{interval:?}");
            assert!(sleep.poll_unconstrained(&mut cx).is_pending(), "it is not due for half a day");
            Pin::new(&mut sleep).reset_after(DAY / 4);
            assert!(sleep.poll_unconstrained(&mut cx).is_pending(), "it is not due for a quarter of a day");
            assert!(sleep.deadline().into_std() <= std::time::Instant::now() + DAY / 4);
        });
    }
}

/// The same by name: such a timer is told its wheel only as it is first polled.
#[test]
fn a_timer_by_name_that_was_made_on_a_paused_clock_makes_no_other_early_on_a_wheel_with_workers() {
    let runtime = runtime(2);
    let stands = paused();
    stands.block_on(advance(DAY));
    let ahead = {
        let _within = stands.enter();
        timingwheel::time::sleep(ms(1))
    };
    runtime.block_on(async {
        let mut cx = Context::from_waker(Waker::noop());
        let mut ahead = Box::pin(ahead);
        assert!(ahead.as_mut().poll(&mut cx).is_pending(), "it is due in a day");
        for _ in 0..8 {
            let sleep = timingwheel::time::sleep(DAY / 2);
            assert!(Box::pin(sleep).as_mut().poll(&mut cx).is_pending(), "it is not due for half a day");
        }
    });
}

/// No delay from there can be told, so a timer would wait for ever in silence.
#[tokio::test(start_paused = true)]
async fn a_wheel_ends_when_its_clock_comes_to_the_end_of_time_and_its_timers_say_so() {
    let wheel = TimingWheel::new();
    let mut cx = Context::from_waker(Waker::noop());
    let mut far = register(wheel.sleep(300 * 365 * DAY), Waker::noop());
    let mut moved = register(wheel.sleep(300 * 365 * DAY), Waker::noop());
    advance(293 * 365 * DAY).await;
    Pin::new(&mut moved).reset_after(ms(1));
    let error = assert_ready!(moved.poll_wait(&mut cx)).unwrap_err();
    assert!(error.is_shutdown());
    // One whose time has come needs no wheel.
    wheel.sleep(Duration::ZERO).await;
    assert!(wheel.sleep(ms(1)).wait().await.unwrap_err().is_shutdown());
    assert!(far.wait().await.unwrap_err().is_shutdown());
    assert!(wheel.timeout(ms(1), std::future::pending::<()>()).await.is_err());
    assert!(wheel.is_ended());
}

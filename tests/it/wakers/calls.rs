//! Wakers that use the wheel which wakes them, down to its end.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use timingwheel::{Sleep, TimingWheel};
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_test::{assert_pending, assert_ready_ok, task};

use super::{DAY, arm, ms, on_each_runtime, on_wake};

#[test]
fn a_waker_may_arm_drop_move_poll_and_count_timers_of_its_wheel() {
    on_each_runtime(|| async {
        let wheel = TimingWheel::builder().shards(3).build().unwrap();
        let done = Arc::new(tokio::sync::Notify::new());
        let moved = Arc::new(Mutex::new(arm(
            &wheel,
            DAY,
            on_wake({
                let done = done.clone();
                move || done.notify_one()
            }),
        )));
        let dropped = Mutex::new(vec![arm(&wheel, DAY, Waker::noop().clone())]);
        let armed = Arc::new(Mutex::new(Vec::new()));
        let waker = on_wake({
            let (wheel, moved, armed, done) = (wheel.clone(), moved.clone(), armed.clone(), done.clone());
            move || {
                dropped.lock().unwrap().clear();
                let mut moved = moved.lock().unwrap();
                assert_pending!(moved.poll_unconstrained(&mut Context::from_waker(Waker::noop())));
                let next = wheel.clone();
                let last = on_wake({
                    let done = done.clone();
                    move || {
                        assert!(next.stats().fired > 1);
                        done.notify_one();
                    }
                });
                assert_pending!(moved.poll_unconstrained(&mut Context::from_waker(&last)));
                // One earlier than what the driver has looked at, from within its turn.
                Pin::new(&mut *moved).reset(Instant::now() + ms(7));
                armed.lock().unwrap().push(arm(&wheel, DAY, Waker::noop().clone()));
                assert_eq!(wheel.pending(), 2);
            }
        });
        let mut first = arm(&wheel, ms(5), waker);
        done.notified().await;
        assert_ready_ok!(first.poll_unconstrained(&mut Context::from_waker(Waker::noop())));
        assert_ready_ok!(moved.lock().unwrap().poll_unconstrained(&mut Context::from_waker(Waker::noop())));
        assert_eq!((wheel.pending(), wheel.stats().fired), (1, 2));
    });
}

#[test]
fn a_waker_may_shut_its_wheel_down() {
    on_each_runtime(|| async {
        let wheel = TimingWheel::builder().shards(2).build().unwrap();
        // Armed before the first one, which fires whenever the machine comes to it.
        let mut other = task::spawn(async { wheel.sleep(DAY).wait().await });
        assert_pending!(other.poll());
        let first = arm(
            &wheel,
            ms(5),
            on_wake({
                let wheel = wheel.clone();
                move || assert_eq!(wheel.shutdown(), 1)
            }),
        );
        assert!(other.await.unwrap_err().is_shutdown());
        assert_eq!((wheel.pending(), wheel.stats().fired, wheel.stats().cancelled), (0, 1, 1));
        drop(first);
    });
}

#[test]
fn a_waker_may_drop_the_last_of_its_wheel() {
    on_each_runtime(|| async {
        let tasks = || Handle::current().metrics().num_alive_tasks();
        let others = tasks();
        let last: Arc<Mutex<Option<(TimingWheel, Sleep)>>> = Arc::default();
        let (tell, told) = tokio::sync::oneshot::channel();
        let tell = Mutex::new(Some(tell));
        let wheel = TimingWheel::new();
        let sleep = arm(
            &wheel,
            ms(20),
            on_wake({
                let last = last.clone();
                move || {
                    drop(last.lock().unwrap().take());
                    tell.lock().unwrap().take().unwrap().send(()).unwrap();
                }
            }),
        );
        *last.lock().unwrap() = Some((wheel, sleep));
        told.await.unwrap();
        while tasks() > others {
            tokio::time::sleep(ms(1)).await;
        }
    });
}

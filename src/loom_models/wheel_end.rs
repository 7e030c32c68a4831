//! Models of a wheel's end, while threads still use the wheel and a turn fires timers.

use std::sync::Arc;
use std::task::{Poll, Waker};

use super::checker::{check, thread};
use super::{CountingWaker, Parts, PolledDriver, at, end, register, shard, turn, wheel};
use crate::engine::max_pending::MaxPending;

/// Fails if the end is noted after the timers have been taken out, with the lock released in between; if a thread that
/// registers does not check for the end under the lock; and if a registration that is refused keeps its place.
#[test]
fn a_timer_registered_as_the_wheel_ends_is_refused_or_woken() {
    check(["refused", "woken"], || {
        let bound = Arc::new(MaxPending::new(1));
        let (shard, waker) = (shard(Some(bound.clone())), CountingWaker::new());
        let end = thread::spawn({
            let shard = shard.clone();
            move || end(&shard)
        });
        let registered = shard.insert(at(0), at(1), waker.clone().into());
        assert_eq!(end.join().unwrap(), waker.count());
        assert_eq!(shard.pending(), 0);
        let refused = shard.insert(at(0), at(1), Waker::noop().clone());
        assert!(refused.expect_err("it has ended").is_shutdown());
        bound.take().expect("the only place has been given back");
        match registered {
            Ok(key) => {
                assert_eq!((key.is_some(), waker.count()), (true, 1));
                "woken"
            }
            Err(error) => {
                assert_eq!((error.is_shutdown(), waker.count()), (true, 0));
                "refused"
            }
        }
    });
}

/// Fails if the end is not published, and if a turn that comes after it publishes its own time instead.
#[test]
fn a_timer_that_fires_as_the_wheel_ends_is_woken_once() {
    check(["all by the end", "all by turns", "some by each"], || {
        let shard = shard(None);
        let wakers = [1, 2, 3].map(|hours| {
            let waker = CountingWaker::new();
            register(&shard, at(hours), &waker);
            waker
        });
        let end = thread::spawn({
            let shard = shard.clone();
            move || end(&shard)
        });
        turn(&shard, at(3), 1);
        let ended = end.join().unwrap();
        assert!(wakers.iter().all(|waker| waker.count() == 1));
        assert_eq!((shard.pending(), shard.has_ended()), (0, true));
        match ended {
            0 => "all by turns",
            3 => "all by the end",
            _ => "some by each",
        }
    });
}

/// Polls the driver while another thread ends its wheel. The driver ends at once, or is woken and ends when it is
/// polled again.
fn assert_driver_ends(mut driver: PolledDriver, end_wheel: impl FnOnce() + Send + 'static) -> &'static str {
    let end = thread::spawn(end_wheel);
    let first = driver.poll();
    end.join().unwrap();
    if first.is_ready() {
        return "at once";
    }
    assert!(driver.is_woken());
    assert_eq!(driver.poll(), Poll::Ready(()));
    "when woken"
}

/// Fails if shutting down does not wake the driver, and if the driver registers its waker after it has checked for the
/// end.
#[test]
fn a_wheel_shut_down_as_the_driver_goes_to_sleep_wakes_it() {
    check(["at once", "when woken"], || {
        let Parts { shards, turner, driver, .. } = Parts::new(2);
        let wheel = wheel(shards, turner);
        let handle = wheel.clone();
        let outcome = assert_driver_ends(driver, move || assert_eq!(handle.shutdown(), 0));
        // The handle is kept until here, because the driver also ends with the last handle.
        drop(wheel);
        outcome
    });
}

/// Fails if the last shard to go does not wake the driver, and if the driver registers its waker after it has checked
/// for the end.
#[test]
fn a_wheel_dropped_as_the_driver_goes_to_sleep_wakes_it() {
    check(["at once", "when woken"], || {
        let Parts { shards, driver, .. } = Parts::new(1);
        assert_driver_ends(driver, move || drop(shards))
    });
}

/// Fails if a shard finds out in two steps whether it is the last, and if the driver registers its waker after it has
/// checked for the end.
#[test]
fn of_two_shards_dropped_as_the_driver_goes_to_sleep_the_last_wakes_it() {
    check(["at once", "when woken"], || {
        let Parts { shards, driver, .. } = Parts::new(2);
        assert_driver_ends(driver, move || {
            let holders = shards.into_vec().into_iter().map(|shard| thread::spawn(move || drop(shard)));
            holders.collect::<Vec<_>>().into_iter().for_each(|holder| holder.join().unwrap());
        })
    });
}

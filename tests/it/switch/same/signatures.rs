//! The signatures of all functions. The test is that this compiles.

use std::future::{Future, Ready};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::time::error::{Elapsed, Error};
use super::time::{self, Duration, Instant, Interval, MissedTickBehavior, Sleep, Timeout};

type Timed = Timeout<Ready<u8>>;

const _: fn(Duration) -> Sleep = time::sleep;
const _: fn(Instant) -> Sleep = time::sleep_until;
const _: fn(&Sleep) -> Instant = Sleep::deadline;
const _: fn(&Sleep) -> bool = Sleep::is_elapsed;
const _: fn(Pin<&mut Sleep>, Instant) = Sleep::reset;

const _: fn(Duration, Ready<u8>) -> Timed = time::timeout;
const _: fn(Instant, Ready<u8>) -> Timed = time::timeout_at;
const _: fn(&Timed) -> &Ready<u8> = Timed::get_ref;
const _: fn(&mut Timed) -> &mut Ready<u8> = Timed::get_mut;
const _: fn(Timed) -> Ready<u8> = Timed::into_inner;

const _: fn(Duration) -> Interval = time::interval;
const _: fn(Instant, Duration) -> Interval = time::interval_at;
const _: fn(&mut Interval, &mut Context<'_>) -> Poll<Instant> = Interval::poll_tick;
const _: fn(&mut Interval) = Interval::reset;
const _: fn(&mut Interval) = Interval::reset_immediately;
const _: fn(&mut Interval, Duration) = Interval::reset_after;
const _: fn(&mut Interval, Instant) = Interval::reset_at;
const _: fn(&Interval) -> MissedTickBehavior = Interval::missed_tick_behavior;
const _: fn(&mut Interval, MissedTickBehavior) = Interval::set_missed_tick_behavior;
const _: fn(&Interval) -> Duration = Interval::period;

const _: fn(Elapsed) -> io::Error = io::Error::from;
const _: fn() -> Error = Error::shutdown;
const _: [fn(&Error) -> bool; 3] = [Error::is_shutdown, Error::is_at_capacity, Error::is_invalid];

const _: fn() = time::pause;
const _: fn() = time::resume;

fn checked<F: Future<Output = T> + Send + Sync + 'static, T>(future: F) -> F {
    future
}

fn borrowed<F: Future<Output = T> + Send + Sync, T>(future: F) -> F {
    future
}

/// The outputs of futures, which can be sent and shared.
pub(crate) async fn awaited() -> (bool, Option<u8>) {
    let mut interval = time::interval(Duration::from_millis(1));
    let tick: Instant = borrowed(interval.tick()).await;
    checked(time::sleep(Duration::ZERO)).await;
    checked(time::sleep_until(tick)).await;
    checked(time::advance(Duration::ZERO)).await;
    let timed: Result<u8, Elapsed> = checked(time::timeout(Duration::ZERO, std::future::ready(7))).await;
    (tick <= Instant::now(), timed.ok())
}

/// A future that is not used draws a warning; one that were missing would make these expectations fail.
#[expect(unused_must_use, reason = "that it is noticed is what is tested")]
pub(crate) fn unused() {
    time::sleep(Duration::ZERO);
    time::sleep_until(Instant::now());
    time::timeout(Duration::ZERO, async {});
    time::timeout_at(Instant::now(), async {});
}

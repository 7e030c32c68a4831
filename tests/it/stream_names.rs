//! Our names do not clash with the extension traits of tokio-util, tokio-stream and futures, all imported by globs. Most
//! of the test is that this file compiles.

#![allow(
    unused_imports,
    unused_qualifications,
    reason = "what is imported and not needed must not clash either"
)]

use std::time::Duration;

use futures::prelude::*;
use futures::{FutureExt as _, StreamExt as _};
use timingwheel::stream::*;
use timingwheel::time::*;
use timingwheel::*;
use tokio_stream::wrappers::*;
use tokio_stream::*;
use tokio_util::future::*;
use tokio_util::time::*;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_future_has_its_timeouts_on_the_wheel_and_on_tokio() {
    let ours = async { 1 }.timeout_on(&wheel(), SECOND);
    let ours_at = async { 2 }.timeout_at_on(&wheel(), tokio::time::Instant::now());
    let tokios = async { 3 }.timeout(SECOND);
    let tokios_at = async { 4 }.timeout_at(tokio::time::Instant::now());
    let futures_own = async { 5 }.boxed();
    assert_eq!((ours.await, ours_at.await), (Ok(1), Ok(2)));
    assert_eq!((tokios.await, tokios_at.await, futures_own.await), (Ok(3), Ok(4), 5));
}

#[tokio::test(start_paused = true)]
async fn a_stream_has_its_adapters_on_the_wheel_and_on_tokio() {
    let items = || futures::stream::iter([1]);
    let wheel = &wheel();
    let _ours = (
        items().timeout_on(wheel, SECOND),
        items().idle_timeout_on(wheel, SECOND),
        items().timeout_repeating_on(wheel.interval(SECOND)),
        items().throttle_on(wheel, SECOND),
        items().chunks_timeout_on(wheel, 1, SECOND),
    );
    let _tokios = (
        items().timeout(SECOND),
        items().timeout_repeating(tokio::time::interval(SECOND)),
        items().throttle(SECOND),
        items().chunks_timeout(1, SECOND),
    );
    let _futures_own = items().boxed();
}

//! The differences that the page `timingwheel::migration` lists.

use std::future::pending;
use std::pin::pin;
use std::time::Duration;

use tokio::time::Instant;
use tokio_test::task;

use super::{on_tokio, on_wheel};
use crate::panic_place::panic_place;
use crate::{SECOND, paused};

#[test]
fn our_types_implement_all_that_tokios_do_and_these_as_well() {
    let (tokios, ours) = (on_tokio::same::traits::traits(), on_wheel::same::traits::traits());
    let mut more = Vec::new();
    for ((name, tokios), (same_name, ours)) in tokios.into_iter().zip(ours) {
        assert_eq!(name, same_name);
        assert!(ours || !tokios, "{name}");
        if ours && !tokios {
            more.push(name);
        }
    }
    let expected = [
        "Sleep: Unpin",
        "Timeout<Ready<u8>>: Unpin",
        "Timeout<Pending<PhantomPinned>>: Unpin",
        "Timeout<Ready<Rc<u8>>>: Unpin",
        "Timeout<Pending<std::cell::Cell<u8>>>: Unpin",
        "Elapsed: Clone",
        "Elapsed: Copy",
        "Elapsed: Default",
        "Elapsed: Hash",
        "Error: PartialEq",
        "Error: Eq",
        "Error: Hash",
        "Error: Into<Io>",
    ];
    assert_eq!(more, expected);
}

#[test]
fn futures_that_are_not_used_and_those_of_methods_are_what_they_are_with_tokio() {
    paused().block_on(async {
        on_tokio::same::signatures::unused();
        on_wheel::same::signatures::unused();
        assert_eq!(on_tokio::same::signatures::awaited().await, on_wheel::same::signatures::awaited().await);
    });
}

#[test]
fn a_sleep_of_no_time_is_ready_at_once_where_tokios_waits_for_the_end_of_a_millisecond() {
    paused().block_on(async {
        tokio::time::advance(Duration::from_micros(500)).await;
        assert!(task::spawn(tokio::time::sleep(Duration::ZERO)).poll().is_pending());
        assert!(task::spawn(timingwheel::time::sleep(Duration::ZERO)).poll().is_ready());
    });
}

#[test]
fn a_sleep_whose_runtime_is_gone_has_not_elapsed_and_one_that_was_ready_stays_so() {
    let runtime = paused();
    let (mut tokios, mut ours) = runtime.block_on(async {
        let mut tokios = [SECOND, Duration::ZERO].map(|time| task::spawn(Box::pin(tokio::time::sleep(time))));
        let mut ours =
            [SECOND, Duration::ZERO].map(|time| task::spawn(Box::pin(timingwheel::time::sleep(time))));
        assert_eq!(tokios.each_mut().map(|sleep| sleep.poll().is_ready()), [false, true]);
        assert_eq!(ours.each_mut().map(|sleep| sleep.poll().is_ready()), [false, true]);
        (tokios, ours)
    });
    drop(runtime);
    assert_eq!(tokios.each_ref().map(|sleep| sleep.is_elapsed()), [true, true]);
    assert_eq!(ours.each_ref().map(|sleep| sleep.is_elapsed()), [false, true]);
    assert_eq!(tokios.each_mut().map(|sleep| panic_place(|| sleep.poll()).is_some()), [true, true]);
    assert_eq!(ours.each_mut().map(|sleep| panic_place(|| sleep.poll()).is_some()), [true, false]);
}

#[test]
fn a_timeout_whose_runtime_is_gone_panics_as_tokios_does_and_goes_on_in_another_runtime() {
    let runtime = paused();
    let (mut tokios, mut ours) = runtime.block_on(async {
        let tokios = task::spawn(tokio::time::timeout(SECOND, pending::<()>()));
        let mut ours = task::spawn(timingwheel::time::timeout(SECOND, pending::<()>()));
        assert!(ours.poll().is_pending());
        (tokios, ours)
    });
    drop(runtime);
    assert!(panic_place(|| tokios.poll()).is_some());
    assert!(panic_place(|| ours.poll()).is_some());
    paused().block_on(async {
        assert!(ours.poll().is_pending());
        tokio::time::sleep(SECOND).await;
        assert!(ours.poll().is_ready());
    });
}

#[test]
fn outside_a_runtime_a_timer_panics_as_it_is_first_found_pending_and_tokios_as_it_is_made() {
    assert!(panic_place(|| tokio::time::sleep(SECOND)).is_some());
    let mut sleep = task::spawn(timingwheel::time::sleep(SECOND));
    assert!(sleep.deadline() > Instant::now());
    assert!(panic_place(|| sleep.poll()).is_some());
    // A ready future needs no wheel, and what was made outside works within.
    let mut ready = task::spawn(timingwheel::time::timeout(SECOND, std::future::ready(1)));
    assert_eq!(ready.poll(), std::task::Poll::Ready(Ok(1)));
    paused().block_on(sleep);
    let awaited = panic_place(|| task::spawn(async { timingwheel::time::sleep(SECOND).await }).poll());
    assert!(awaited.is_some_and(|awaited| awaited.starts_with(file!())));
}

/// tokio's belongs to the runtime in which it was made.
#[test]
fn a_timer_belongs_to_the_runtime_that_first_finds_it_pending() {
    let (first, second) = (paused(), paused());
    let made_on_first = || {
        let _within = first.enter();
        task::spawn(timingwheel::time::sleep(SECOND))
    };
    let mut ours = made_on_first();
    second.block_on(async {
        assert!(ours.poll().is_pending());
        assert_eq!(timingwheel::time::wheel().pending(), 1);
    });
    first.block_on(async { assert_eq!(timingwheel::time::wheel().pending(), 0) });
    let mut unpolled = made_on_first();
    assert!(panic_place(|| unpolled.poll()).is_some(), "it has no runtime outside of all of them");
}

#[test]
fn a_sleep_moved_before_its_first_poll_has_not_elapsed_until_it_is_polled() {
    paused().block_on(async {
        let mut tokios = pin!(tokio::time::sleep(SECOND));
        let mut ours = pin!(timingwheel::time::sleep(SECOND));
        tokios.as_mut().reset(Instant::now() + SECOND * 2);
        ours.as_mut().reset(Instant::now() + SECOND * 2);
        tokio::time::advance(SECOND * 3).await;
        assert!(tokios.is_elapsed() && !ours.is_elapsed());
        ours.as_mut().await;
        assert!(ours.is_elapsed());
    });
}

#[test]
fn an_interval_outside_a_runtime_names_its_caller_where_tokio_names_itself() {
    let place = |panicked: Option<String>| panicked.expect("there is no runtime").starts_with(file!());
    assert!(!place(panic_place(|| tokio::time::interval(SECOND))));
    assert!(place(panic_place(|| timingwheel::time::interval(SECOND))));
}

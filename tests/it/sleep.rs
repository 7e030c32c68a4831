//! `Sleep`: when it is ready, which task it wakes, what it leaves behind. `reset` moves sleeps, and `ticks` has the
//! rounding of deadlines.

use std::fmt::Debug;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures::future::FusedFuture;
use timingwheel::{Sleep, TimingWheel};
use tokio::time::{Instant, advance};
use tokio_test::{assert_pending, assert_ready, assert_ready_ok, task};

use crate::{DAY, ms};

#[tokio::test(start_paused = true)]
async fn zero_and_past_deadlines_are_ready_at_the_first_poll_and_never_in_the_wheel() {
    let wheel = TimingWheel::new();
    advance(ms(100)).await;
    let now = Instant::now();
    for deadline in [now, now - Duration::from_nanos(1), now - ms(50), now - ms(100), now - ms(101)] {
        assert_ready!(task::spawn(wheel.sleep_until(deadline)).poll());
    }
    assert_ready!(task::spawn(wheel.sleep(Duration::ZERO)).poll());
    assert_eq!(wheel.stats().armed, 0);
}

#[tokio::test(start_paused = true)]
async fn a_sleep_whose_deadline_the_clock_jumps_over_before_the_first_poll_is_ready_at_that() {
    let wheel = TimingWheel::new();
    let sleep = wheel.sleep(ms(10));
    advance(ms(10)).await;
    assert_ready!(task::spawn(sleep).poll());
    assert_eq!(wheel.stats().armed, 0);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_is_fixed_when_the_sleep_is_made_and_not_rounded() {
    let wheel = TimingWheel::new();
    let odd = Duration::from_nanos(1_234_567);
    let start = Instant::now();
    let sleep = wheel.sleep(odd);
    assert_eq!(sleep.deadline(), start + odd);
    advance(ms(1)).await;
    assert_eq!(sleep.deadline(), start + odd);
    sleep.await;
    assert_eq!(start.elapsed(), ms(2));
    assert_eq!(wheel.sleep_until(start + DAY).deadline(), start + DAY);
}

#[tokio::test(start_paused = true)]
async fn only_the_waker_of_the_last_poll_is_woken() {
    let wheel = TimingWheel::new();
    let mut sleep = wheel.sleep(ms(10));
    let (mut first, mut second) = (task::spawn(()), task::spawn(()));
    assert_pending!(first.enter(|cx, _| sleep.poll_unconstrained(cx)));
    assert_pending!(second.enter(|cx, _| sleep.poll_unconstrained(cx)));
    assert_eq!(first.waker_ref_count(), 1, "the waker of the first poll is let go");
    advance(ms(10)).await;
    assert!(!first.is_woken());
    assert!(second.is_woken());
    assert_eq!(second.waker_ref_count(), 1, "the waker that was woken is let go");
    assert_ready_ok!(first.enter(|cx, _| sleep.poll_unconstrained(cx)));
}

#[tokio::test(start_paused = true)]
async fn polled_again_with_the_same_waker_it_stays_registered_once() {
    let wheel = TimingWheel::new();
    let mut sleep = task::spawn(wheel.sleep(ms(10)));
    for _ in 0..3 {
        assert_pending!(sleep.poll());
        assert_eq!(sleep.waker_ref_count(), 2);
    }
    assert_eq!((wheel.pending(), wheel.stats().armed), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn it_is_registered_by_the_first_poll_and_gone_as_soon_as_it_is_dropped() {
    let wheel = TimingWheel::new();
    let sleep = wheel.sleep(DAY);
    assert_eq!(wheel.pending(), 0);
    let mut sleep = task::spawn(sleep);
    assert_pending!(sleep.poll());
    assert_eq!(wheel.pending(), 1);
    let mut waker = task::spawn(());
    assert_pending!(waker.enter(|cx, _| sleep.poll_unconstrained(cx)));
    assert_eq!(waker.waker_ref_count(), 2);
    drop(sleep);
    assert_eq!(wheel.pending(), 0);
    assert_eq!(waker.waker_ref_count(), 1, "its waker went with it");
    let stats = wheel.stats();
    assert_eq!((stats.armed, stats.fired, stats.cancelled), (1, 0, 1));
}

/// `futures::select!` does not poll what is terminated, so it would wait for ever.
#[tokio::test(start_paused = true)]
async fn a_sleep_kept_back_by_the_coop_budget_is_not_terminated() {
    let wheel = TimingWheel::new();
    let mut sleep = pin!(wheel.sleep(Duration::ZERO));
    std::future::poll_fn(|cx| {
        while let Poll::Ready(proceed) = tokio::task::coop::poll_proceed(cx) {
            proceed.made_progress();
        }
        assert_pending!(sleep.as_mut().poll(cx));
        assert!(!sleep.is_terminated(), "it has not been ready yet");
        Poll::Ready(())
    })
    .await;
    sleep.await;
}

#[tokio::test(start_paused = true)]
async fn the_forms_that_return_errors_are_ready_at_the_same_time() {
    let wheel = TimingWheel::new();
    let start = Instant::now();
    assert_eq!(wheel.sleep(ms(7)).wait().await, Ok(()));
    assert_eq!(start.elapsed(), ms(7));
    wheel.try_sleep(ms(7)).unwrap().await;
    wheel.try_sleep_until(start + ms(21)).unwrap().await;
    assert_eq!(start.elapsed(), ms(21));
}

#[tokio::test(start_paused = true)]
async fn it_can_be_sent_shared_moved_and_printed() {
    fn check<T: Send + Sync + Unpin + Debug + 'static>(_: &T) {}
    fn check_wheel<T: Clone + Send + Sync + Debug + 'static>(_: &T) {}
    let wheel = TimingWheel::builder().name("timers").build().unwrap();
    let sleep: Sleep = wheel.sleep(ms(1));
    check(&sleep);
    check_wheel(&wheel);
    assert!(format!("{sleep:?}").starts_with("Sleep { deadline: in "), "{sleep:?}");
    assert_eq!(format!("{wheel:?}"), "TimingWheel { name: \"timers\", shards: 1, pending: 0, .. }");
}

#[tokio::test(start_paused = true)]
async fn a_sleep_is_left_when_a_wait_for_it_is_dropped_or_has_ended() {
    let wheel = TimingWheel::new();
    let start = Instant::now();
    let mut sleep = wheel.sleep(ms(20));
    assert_pending!(task::spawn(sleep.wait()).poll());
    assert_eq!((sleep.wait().await, start.elapsed()), (Ok(()), ms(20)));
    sleep.reset_after(ms(10));
    assert_eq!((sleep.wait().await, start.elapsed()), (Ok(()), ms(30)));
    assert_eq!((wheel.stats().fired, wheel.pending()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_only_ever_finds_its_timers_due_lets_others_run_however_it_waits() {
    let wheel = TimingWheel::new();
    for way in ["await", "wait", "poll_wait"] {
        let others = tokio::spawn(async {});
        let mut rounds = 0;
        while !others.is_finished() {
            let mut due = wheel.sleep(Duration::ZERO);
            match way {
                "await" => due.await,
                "wait" => due.wait().await.unwrap(),
                _ => std::future::poll_fn(|cx| due.poll_wait(cx)).await.unwrap(),
            }
            rounds += 1;
            assert!(rounds < 10_000, "nobody else has run: {way}");
        }
    }
}

#[test]
#[cfg(target_pointer_width = "64")]
fn a_sleep_takes_40_bytes() {
    // A server holds very many.
    assert_eq!(size_of::<Sleep>(), 40);
}

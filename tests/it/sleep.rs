//! `Sleep`: when it is ready, which task it wakes, what it leaves behind, moves on the real clock, deadlines
//! within one tick.

use std::fmt::Debug;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use futures::future::FusedFuture;
use timingwheel::{Sleep, TimingWheel};
use tokio::time::{Instant, advance};
use tokio_test::{assert_pending, assert_ready, assert_ready_ok, task};

use crate::{DAY, HANG_GUARD, ms};

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
    poll_fn(|cx| {
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
                _ => poll_fn(|cx| due.poll_wait(cx)).await.unwrap(),
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

#[tokio::test(start_paused = true)]
async fn a_sleep_moved_into_the_past_wakes_its_task_at_once() {
    let wheel = TimingWheel::new();
    advance(ms(10)).await;
    // Where the clock jumps, the wheel has not come so far: there was nothing for it to do.
    for (jump, back) in [(0, 0), (0, 1), (0, 10), (0, 11), (10, 5)] {
        let mut sleep = task::spawn(wheel.sleep(ms(1_000)));
        assert_pending!(sleep.poll());
        advance(ms(jump)).await;
        let past = Instant::now() - ms(back);
        Pin::new(&mut *sleep).reset(past);
        assert!(sleep.is_woken(), "{back} ms back after a jump of {jump}");
        assert_eq!(wheel.pending(), 0);
        assert_ready!(sleep.poll());
    }
    let stats = wheel.stats();
    assert_eq!((stats.armed, stats.fired, stats.cancelled), (5, 0, 5));
}

/// Registers a sleep with the task's waker, moves it, and waits.
async fn armed_and_moved(wheel: &TimingWheel, from: Duration, to: impl Fn() -> Instant) {
    let mut sleep = wheel.sleep(from);
    // The first deadline may have passed: after a stall of this thread.
    if poll_fn(|cx| Poll::Ready(Pin::new(&mut sleep).poll(cx))).await.is_ready() {
        return;
    }
    let deadline = to();
    Pin::new(&mut sleep).reset(deadline);
    tokio::time::timeout(HANG_GUARD, &mut sleep).await.expect("it fires at the second deadline");
    assert!(Instant::now() >= deadline);
    assert!(sleep.is_terminated());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_the_real_clock_no_move_to_earlier_is_lost_whatever_the_driver_is_doing() {
    const TASKS: u64 = 4;
    const ROUNDS: u64 = 400;
    let wheel = TimingWheel::builder().shards(2).build().unwrap();
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let wheel = wheel.clone();
            tokio::spawn(async move {
                for round in 0..ROUNDS {
                    // To before, at and after the turns that the others' timers make the driver take.
                    let from = if round % 2 == 0 { HANG_GUARD * 100 } else { ms(1) };
                    let ahead = Duration::from_micros((round * 7 + task * 31) % 300);
                    let behind = Duration::from_micros(50);
                    armed_and_moved(&wheel, from, || Instant::now() + ahead - behind).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let stats = wheel.stats();
    assert_eq!((stats.pending, stats.fired + stats.cancelled), (0, stats.armed));
    assert!(stats.armed >= TASKS * ROUNDS / 2, "those that were a long way off");
}

#[tokio::test(start_paused = true)]
async fn deadlines_within_one_tick_are_reached_together_at_the_last_of_them() {
    let wheel = TimingWheel::builder().tick(Duration::from_secs(1)).build().unwrap();
    let start = Instant::now();
    let sleep = |millis| {
        let sleep = wheel.sleep_until(start + ms(millis));
        tokio::spawn(async move {
            sleep.await;
            start.elapsed()
        })
    };
    let tasks = [300, 1_800, 1_200, 2_000, 2_001].map(sleep);
    let mut woken = Vec::new();
    for task in tasks {
        woken.push(task.await.unwrap());
    }
    assert_eq!(woken, [300, 2_000, 2_000, 2_000, 2_001].map(ms));
}

/// The clock stands in the middle of a tick that the driver has begun, and that holds deadlines on both sides.
#[tokio::test(start_paused = true)]
async fn a_deadline_that_has_passed_in_a_tick_that_is_not_over_has_elapsed_and_can_be_dropped() {
    let wheel = TimingWheel::builder().tick(Duration::from_secs(1)).build().unwrap();
    let mut sleeps = [500, 1_200, 1_300, 1_800].map(|millis| task::spawn(wheel.sleep(ms(millis))));
    for sleep in &mut sleeps {
        assert_pending!(sleep.poll());
    }
    advance(ms(1_500)).await;
    let [_first, polled, dropped, last] = &mut sleeps;
    assert_eq!(wheel.pending(), 3);
    assert_ready!(polled.poll());
    assert_eq!((wheel.pending(), wheel.stats().fired), (2, 2));
    *dropped = task::spawn(wheel.sleep(DAY));
    assert_eq!((wheel.pending(), wheel.stats().cancelled), (1, 1));
    assert_pending!(last.poll());
    advance(ms(300)).await;
    assert_ready!(last.poll());
}

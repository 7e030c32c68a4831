//! The bound on pending timers: never more, no place lost, and refusals that say so. `deadlines_model` has full wheels too.

use std::future;
use std::pin::Pin;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use timingwheel::{Sleep, TimingWheel};
use tokio::task::coop::{consume_budget, has_budget_remaining};
use tokio::task::yield_now;
use tokio::time::Instant;
use tokio_test::task::{Spawn, spawn};
use tokio_test::{assert_pending, assert_ready, assert_ready_err};

use crate::panic_place::{last_panic, note_panics};
use crate::{DAY, ms};

fn bounded(max_pending: usize) -> TimingWheel {
    TimingWheel::builder().shards(2).max_pending(max_pending).build().unwrap()
}

fn place(wheel: &TimingWheel, duration: Duration) -> Spawn<Sleep> {
    spawn(wheel.try_sleep(duration).expect("there is a place"))
}

#[track_caller]
fn assert_full(wheel: &TimingWheel) {
    assert!(wheel.try_sleep(DAY).unwrap_err().is_at_capacity());
    assert!(assert_ready_err!(spawn(wheel.sleep(DAY).wait()).poll()).is_at_capacity());
}

/// The line of a panic of this file in `future`, which is run on this thread.
async fn line_of_panic(future: impl Future<Output = ()> + Send + 'static) -> Option<u32> {
    note_panics();
    assert!(tokio::spawn(future).await.unwrap_err().is_panic());
    last_panic().filter(|panic| panic.file == file!()).map(|panic| panic.line)
}

#[tokio::test(start_paused = true)]
async fn a_sleep_over_the_bound_panics_where_it_is_awaited() {
    let wheel = bounded(0);
    let line = line!() + 2;
    let awaits = async move {
        wheel.sleep(DAY).await;
    };
    assert_eq!(line_of_panic(awaits).await, Some(line));
    let ended = TimingWheel::new();
    ended.shutdown();
    let line = line!() + 3;
    let awaits = async move {
        let sleep = ended.sleep_until(Instant::now() + DAY);
        sleep.await;
    };
    assert_eq!(line_of_panic(awaits).await, Some(line));
}

/// A refusal that cannot be told for want of budget is made again later.
#[tokio::test(start_paused = true)]
async fn a_timer_that_a_task_without_budget_polls_is_refused_once() {
    let wheel = bounded(0);
    let without_budget = async || {
        yield_now().await;
        while has_budget_remaining() {
            consume_budget().await;
        }
    };
    without_budget().await;
    assert!(wheel.sleep(DAY).wait().await.is_err());
    without_budget().await;
    assert!(wheel.timeout(DAY, future::pending::<()>()).await.is_err());
    assert_eq!(wheel.stats().refused, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_sleep_whose_deadline_passed_before_its_first_poll_needs_and_takes_no_place() {
    let wheel = TimingWheel::builder().shards(1).max_pending(1).build().unwrap();
    let mut late = spawn(wheel.sleep(ms(1)));
    wheel.sleep(ms(5)).await;
    assert_ready!(late.poll());
    let _place = place(&wheel, DAY);
    assert_full(&wheel);
    // A deadline to which no turn has come.
    let mut late = wheel.sleep(ms(1));
    std::thread::sleep(ms(2));
    assert_eq!(late.wait().await, Ok(()));
}

#[test]
fn threads_that_fight_for_places_never_hold_more_than_there_are_and_lose_none() {
    const PLACES: usize = 5;
    const THREADS: usize = 8;
    let runtime = crate::runtime(1);
    let wheel =
        runtime.block_on(async { TimingWheel::builder().shards(4).max_pending(PLACES).build() }).unwrap();
    let (held, got, refused) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let all_have_asked = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (wheel, held, got, refused, all_have_asked) =
                (&wheel, &held, &got, &refused, &all_have_asked);
            scope.spawn(move || {
                let mut mine = Vec::new();
                for round in 0..5_000 {
                    match wheel.try_sleep(DAY) {
                        Ok(mut sleep) => {
                            assert!(held.fetch_add(1, Ordering::SeqCst) < PLACES);
                            if round % 3 == thread % 3 {
                                Pin::new(&mut sleep).reset(Instant::now() + DAY * 2);
                            }
                            mine.push(sleep);
                            got.fetch_add(1, Ordering::SeqCst);
                        }
                        Err(error) => {
                            assert!(error.is_at_capacity());
                            refused.fetch_add(1, Ordering::SeqCst);
                        }
                    }
                    // However the machine shares its time out, they fight at least here.
                    if round % 500 == 0 {
                        all_have_asked.wait();
                    }
                    if round % 2 == 0 {
                        held.fetch_sub(mine.len(), Ordering::SeqCst);
                        mine.clear();
                    }
                }
                held.fetch_sub(mine.len(), Ordering::SeqCst);
            });
        }
    });
    assert!(got.into_inner() > PLACES && refused.into_inner() > 0);
    assert_eq!(wheel.pending(), 0);
    let places: Vec<_> = (0..PLACES).map(|_| wheel.try_sleep(DAY).expect("no place was lost")).collect();
    assert!(wheel.try_sleep(DAY).unwrap_err().is_at_capacity());
    drop(places);
}

/// This thread looks again and again, so it finds that its timer has fired while the turn is still under way.
#[test]
fn who_finds_that_its_timer_has_fired_finds_its_place_too() {
    let runtime = crate::runtime(1);
    let wheel = runtime.block_on(async { TimingWheel::builder().shards(1).max_pending(1).build() }).unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..1_000 {
        let mut sleep = wheel.try_sleep(Duration::from_micros(50)).expect("the last one has fired");
        while sleep.poll_unconstrained(&mut cx).is_pending() {}
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_becomes_an_error_by_a_question_mark() {
    fn arm(wheel: &TimingWheel) -> Result<(), timingwheel::Error> {
        drop(wheel.try_sleep(DAY)?.limiting(future::pending::<()>()));
        Ok(())
    }
    let wheel = TimingWheel::builder().max_pending(1).build().unwrap();
    assert_eq!((wheel.max_pending(), TimingWheel::new().max_pending()), (Some(1), None));
    let _place = wheel.try_sleep(DAY).unwrap();
    assert!(arm(&wheel).unwrap_err().is_at_capacity());
    wheel.shutdown();
    assert!(arm(&wheel).unwrap_err().is_shutdown());
}

#[tokio::test(start_paused = true)]
async fn a_timer_whose_tolerance_is_ended_keeps_its_place_and_its_task_sleeps_on() {
    let wheel = bounded(1);
    let minute = Duration::from_secs(60);
    let (mut task, exact) = (spawn(()), Instant::now() + minute);
    let mut sleep = wheel.sleep(minute).with_tolerance(ms(10_000));
    assert_pending!(task.enter(|cx, _| sleep.poll_wait(cx)));
    let mut sleep = sleep.with_tolerance(Duration::ZERO);
    Pin::new(&mut sleep).reset(exact);
    assert_full(&wheel);
    assert!(!task.is_woken());
    assert_pending!(task.enter(|cx, _| sleep.poll_wait(cx)));
    sleep.await;
    assert_eq!(Instant::now(), exact);
}

#[tokio::test]
async fn a_refusal_is_an_io_error_that_carries_it() {
    let refused = bounded(0).try_sleep(DAY).unwrap_err();
    let error = std::io::Error::from(refused);
    assert_eq!(error.kind(), std::io::ErrorKind::Other);
    assert_eq!(error.downcast::<timingwheel::Error>().unwrap(), refused);
}

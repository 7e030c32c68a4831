//! The settings' limits, what the refusals say, the extremes that work, and the bound on pending timers.

use std::cell::RefCell;
use std::future;
use std::panic::{self, catch_unwind};
use std::pin::Pin;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use timingwheel::{BuildError, Builder, Sleep, TimingWheel};
use tokio::time::{Instant, advance};
use tokio_test::task::{Spawn, spawn};
use tokio_test::{assert_pending, assert_ready, assert_ready_err};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn refusal(builder: Builder) -> String {
    builder.build().unwrap_err().to_string()
}

#[tokio::test]
async fn a_setting_beyond_its_limit_is_refused_and_both_are_named() {
    let builder = TimingWheel::builder;
    let tick = |tick| refusal(builder().tick(tick));
    assert_eq!(tick(Duration::ZERO), "a tick of 0ns is too short: it takes at least 1µs");
    assert_eq!(tick(Duration::from_nanos(999)), "a tick of 999ns is too short: it takes at least 1µs");
    assert_eq!(
        tick(Duration::MAX),
        "a tick of 18446744073709551615.999999999s is too long: it takes at most 18446744073.709551615s"
    );
    for (slots, text) in [(0, "0"), (1, "1"), (65_537, "65537")] {
        let text = format!("a wheel size of {text} slots: it takes from 2 to 65536");
        assert_eq!(refusal(builder().wheel_size(slots)), text);
    }
    assert_eq!(refusal(builder().shards(0)), "0 shards: it takes from 1 to 1024");
    assert_eq!(refusal(builder().shards(1_025)), "1025 shards: it takes from 1 to 1024");
}

#[test]
fn outside_a_runtime_a_wheel_is_refused_and_told_where_to_be_built() {
    let error = TimingWheel::builder().build().unwrap_err();
    assert!(matches!(error, BuildError::NoRuntime));
    assert_eq!(
        error.to_string(),
        "a timing wheel needs a tokio runtime for its driver, and this thread is not within one: \
         build it inside `block_on` or under `Runtime::enter`"
    );
}

/// The file and the text of a panic in `f`.
fn panic_in<T>(f: impl FnOnce() -> T + panic::UnwindSafe) -> (String, String) {
    thread_local!(static FILE: RefCell<String> = const { RefCell::new(String::new()) });
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            FILE.set(info.location().map(|location| location.file().into()).unwrap_or_default());
            before(info);
        }));
    });
    let panic = catch_unwind(f).map(drop).unwrap_err();
    (FILE.take(), *panic.downcast::<String>().expect("a panic with a text"))
}

#[test]
fn outside_a_runtime_new_panics_and_names_its_caller() {
    let (file, text) = panic_in(|| drop(TimingWheel::new()));
    assert!(text.starts_with("`TimingWheel::new` failed: a timing wheel needs a tokio runtime"), "{text}");
    assert_eq!(file, file!());
    assert_eq!(panic_in(|| drop(TimingWheel::default())).0, file!());
}

#[test]
fn on_a_current_thread_runtime_without_time_build_panics_and_names_its_caller() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _guard = runtime.enter();
    assert_eq!(panic_in(|| TimingWheel::builder().build()).0, file!());
    // Where the clock cannot be paused, tokio's timers are not needed.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    runtime.block_on(async { TimingWheel::new().sleep(ms(1)).await });
}

#[tokio::test(start_paused = true)]
async fn wheels_with_settings_at_their_limits_are_on_time() {
    let builder = TimingWheel::builder;
    let wheels = [
        builder().tick(Duration::from_micros(1)),
        builder().tick(DAY),
        builder().tick(Duration::from_nanos(u64::MAX)),
        builder().wheel_size(2),
        builder().wheel_size(3),
        builder().wheel_size(65_536),
        builder().wheel_size(2).tick(Duration::from_micros(1)),
        builder().wheel_size(65_536).tick(DAY),
        builder().shards(1),
        builder().shards(128),
        builder().shards(1_024),
        builder().max_pending(usize::MAX),
    ];
    for builder in wheels {
        let wheel = builder.clone().build().unwrap();
        for duration in [ms(1), ms(3), ms(64), ms(65_537), DAY, DAY * 365 * 100] {
            let start = Instant::now();
            wheel.sleep(duration).await;
            assert_eq!(start.elapsed(), duration, "{builder:?}");
        }
    }
}

#[tokio::test]
async fn a_lone_timer_does_not_wait_for_the_end_of_a_long_tick() {
    let wheel = TimingWheel::builder().tick(DAY).build().unwrap();
    let sleep = wheel.sleep(ms(2));
    let deadline = sleep.deadline();
    tokio::time::timeout(Duration::from_secs(30), sleep).await.expect("it waits for a day");
    assert!(Instant::now() >= deadline);
}

fn bounded(max_pending: usize) -> TimingWheel {
    TimingWheel::builder().shards(2).max_pending(max_pending).build().unwrap()
}

fn place(wheel: &TimingWheel, duration: Duration) -> Spawn<Sleep> {
    spawn(wheel.try_sleep(duration).expect("there is a place"))
}

#[track_caller]
fn assert_full(wheel: &TimingWheel) {
    assert!(wheel.try_sleep(DAY).unwrap_err().is_at_capacity());
    assert!(wheel.try_timeout(DAY, future::ready(())).unwrap_err().error().is_at_capacity());
    assert!(assert_ready_err!(spawn(wheel.sleep(DAY).try_wait()).poll()).is_at_capacity());
    let elapsed = assert_ready_err!(spawn(wheel.timeout(DAY, future::pending::<()>())).poll());
    assert!(elapsed.reason().unwrap().is_at_capacity());
}

#[tokio::test(start_paused = true)]
async fn with_a_bound_of_zero_only_what_needs_no_place_works() {
    let wheel = bounded(0);
    assert_full(&wheel);
    assert!(wheel.try_sleep(Duration::ZERO).is_ok());
    wheel.sleep(Duration::ZERO).await;
    assert_eq!(wheel.timeout(DAY, future::ready(1)).await, Ok(1));
}

#[tokio::test(start_paused = true)]
async fn exactly_as_many_timers_are_pending_as_the_bound_allows() {
    for max_pending in [1, 7] {
        let wheel = bounded(max_pending);
        let mut places: Vec<_> = (0..max_pending).map(|_| place(&wheel, DAY)).collect();
        assert_eq!(wheel.pending(), max_pending);
        assert_full(&wheel);
        for place in &mut places {
            assert_pending!(place.poll());
        }
        assert_full(&wheel);
        drop(places.pop());
        let _last = place(&wheel, DAY);
        assert_full(&wheel);
    }
}

#[tokio::test(start_paused = true)]
async fn a_sleep_over_the_bound_panics_and_names_it() {
    let wheel = bounded(3);
    let _places = [(); 3].map(|()| place(&wheel, DAY));
    let panic = tokio::spawn(wheel.sleep(DAY)).await.unwrap_err().into_panic();
    assert_eq!(
        *panic.downcast::<String>().unwrap(),
        "a `Sleep` was polled that cannot become ready: the timing wheel refused one more timer: \
         3 are pending, and its max_pending is 3"
    );
}

#[tokio::test(start_paused = true)]
async fn a_place_is_given_back_when_a_timer_fires_is_dropped_or_moved_into_the_past() {
    let wheel = bounded(1);
    let mut first = place(&wheel, ms(10));
    assert_pending!(first.poll());
    advance(ms(10)).await;
    assert!(first.is_woken());
    let second = place(&wheel, ms(10));
    assert_full(&wheel);
    assert_ready!(first.poll());
    drop(first);
    assert_full(&wheel);
    drop(second);
    let mut third = place(&wheel, ms(10));
    third.enter(|_, sleep| sleep.reset(Instant::now() + DAY));
    third.enter(|_, sleep| sleep.reset(Instant::now() + ms(10)));
    assert_full(&wheel);
    third.enter(|_, sleep| sleep.reset(Instant::now()));
    let _fourth = place(&wheel, DAY);
    assert_full(&wheel);
    drop(third);
    assert_full(&wheel);
}

#[tokio::test(start_paused = true)]
async fn a_refused_sleep_can_be_awaited_again_when_there_is_a_place() {
    let wheel = bounded(1);
    let holder = place(&wheel, DAY);
    let mut refused = wheel.sleep(ms(10));
    assert!(refused.try_wait().await.unwrap_err().is_at_capacity());
    drop(holder);
    assert_eq!(refused.try_wait().await, Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_sleep_whose_deadline_passed_before_its_first_poll_takes_no_place() {
    let wheel = TimingWheel::builder().shards(1).max_pending(1).build().unwrap();
    let mut late = spawn(wheel.sleep(ms(1)));
    wheel.sleep(ms(5)).await;
    assert_ready!(late.poll());
    let _place = place(&wheel, DAY);
    assert_full(&wheel);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_gives_the_places_back_and_later_timers_are_told_of_the_shutdown() {
    let wheel = bounded(1);
    let _holder = place(&wheel, DAY);
    assert_eq!(wheel.shutdown(), 1);
    assert!(wheel.try_sleep(DAY).unwrap_err().is_shutdown());
    assert!(wheel.sleep(DAY).try_wait().await.unwrap_err().is_shutdown());

    let without_places = TimingWheel::builder().max_pending(0).build().unwrap();
    without_places.shutdown();
    assert!(without_places.sleep(DAY).try_wait().await.unwrap_err().is_shutdown());
}

#[test]
fn threads_that_fight_for_places_never_hold_more_than_there_are_and_lose_none() {
    const PLACES: usize = 5;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let wheel =
        runtime.block_on(async { TimingWheel::builder().shards(4).max_pending(PLACES).build() }).unwrap();
    let (held, got, refused) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (wheel, held, got, refused) = (&wheel, &held, &got, &refused);
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_place_is_lost_to_timers_that_fire_while_others_are_dropped() {
    const PLACES: usize = 64;
    let wheel = TimingWheel::builder().shards(2).max_pending(PLACES).build().unwrap();
    let tasks: Vec<_> = (0..2 * PLACES as u64)
        .map(|n| {
            let wheel = wheel.clone();
            tokio::spawn(async move {
                for round in 0..20 {
                    let waits = async { wheel.sleep(ms(round % 3)).try_wait().await.is_ok() };
                    let _ = wheel.timeout(ms(n % 3), waits).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(wheel.pending(), 0);
    let places: Vec<_> = (0..PLACES).map(|_| wheel.try_sleep(DAY).expect("no place was lost")).collect();
    assert!(wheel.try_sleep(DAY).unwrap_err().is_at_capacity());
    drop(places);
}

#[test]
fn on_a_full_wheel_a_deadline_that_has_passed_meanwhile_is_ready_and_not_refused() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let wheel = TimingWheel::builder().max_pending(1).build().unwrap();
        let _first = wheel.try_sleep(Duration::from_secs(86_400)).unwrap();
        let mut late = wheel.sleep(Duration::from_millis(1));
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(late.try_wait().await, Ok(()));
    });
}

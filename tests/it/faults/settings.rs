//! All settings at their limits, in all combinations but those of the largest wheel: timers are never early, late by a
//! tick at the most, counted right, and the wheel ends. `limits` has values beyond the limits.

use tokio::runtime::Handle;
use tokio_test::{assert_ready, task};

use super::*;

const TICKS: [Duration; 2] = [Duration::from_micros(1), Duration::from_nanos(u64::MAX)];
/// Slots, and with them the most shards.
const SIZES: [(usize, usize); 2] = [(2, 1_024), (65_536, 128)];
/// tokio's paused clock goes on to the next of its own timers, which are due on whole milliseconds.
const PAUSED_CLOCK_STEP: Duration = ms(1);
const MAX_PENDING: [Option<usize>; 3] = [Some(0), Some(1), None];

/// The settings of a wheel.
#[derive(Clone, Copy, Debug)]
struct Settings {
    tick: Duration,
    wheel_size: usize,
    shards: usize,
    max_pending: Option<usize>,
}

impl Settings {
    fn all() -> impl Iterator<Item = Self> {
        TICKS.into_iter().flat_map(|tick| {
            SIZES.into_iter().flat_map(move |(wheel_size, most)| {
                [1, most].into_iter().flat_map(move |shards| {
                    MAX_PENDING.map(|max_pending| Self { tick, wheel_size, shards, max_pending })
                })
            })
        })
    }

    /// Eight million slots take a second to make.
    fn is_small(&self) -> bool {
        self.shards == 1 || self.wheel_size == 2
    }

    fn wheel(self) -> TimingWheel {
        let Self { tick, wheel_size, shards, max_pending } = self;
        let mut builder = TimingWheel::builder().tick(tick).wheel_size(wheel_size).shards(shards);
        if let Some(max_pending) = max_pending {
            builder = builder.max_pending(max_pending);
        }
        builder.build().unwrap()
    }
}

/// One after the other. A lone timer does not wait for the end of its tick.
async fn use_places(wheel: &TimingWheel, delays: &[Duration], is_paused: bool) {
    for &delay in delays {
        let mut sleep = task::spawn(wheel.try_sleep(delay).expect("there is a place"));
        let deadline = sleep.deadline();
        if sleep.poll().is_pending() {
            sleep.await;
        }
        let late = Instant::now().checked_duration_since(deadline).expect("it is early");
        assert!(!is_paused || late < PAUSED_CLOCK_STEP, "late by {late:?}");
    }
}

/// All at the same time, of which every third is dropped.
async fn use_at_once(wheel: &TimingWheel, delays: &[Duration], tick: Duration, is_paused: bool) {
    let waits = delays.iter().cycle().take(3 * delays.len()).enumerate().map(|(n, &delay)| {
        let (sleep, dropped) = (wheel.sleep(delay), n % 3 == 0);
        tokio::spawn(async move {
            let deadline = sleep.deadline();
            if dropped {
                let mut sleep = task::spawn(sleep);
                let _ = sleep.poll();
                return;
            }
            sleep.await;
            let late = Instant::now().checked_duration_since(deadline).expect("it is early");
            assert!(!is_paused || late < tick + PAUSED_CLOCK_STEP, "late by {late:?}");
        })
    });
    for wait in waits.collect::<Vec<_>>() {
        wait.await.unwrap();
    }
}

async fn check(settings: Settings, delays: &[Duration], is_paused: bool) {
    let wheel = settings.wheel();
    match settings.max_pending {
        Some(0) => {
            for &delay in delays {
                assert!(wheel.try_sleep(delay + DAY).unwrap_err().is_at_capacity());
                assert!(wheel.sleep(delay + DAY).wait().await.unwrap_err().is_at_capacity());
            }
            assert_ready!(task::spawn(wheel.sleep(Duration::ZERO)).poll());
            assert_eq!(assert_adds_up(&wheel).armed, 0);
        }
        Some(_) => {
            use_places(&wheel, delays, is_paused).await;
            let stats = assert_adds_up(&wheel);
            assert!(!is_paused || stats.fired == delays.len() as u64, "{stats:?}");
            let _place = wheel.try_sleep(DAY).expect("it was given back");
            assert!(wheel.try_sleep(DAY).unwrap_err().is_at_capacity());
        }
        None => {
            use_places(&wheel, delays, is_paused).await;
            use_at_once(&wheel, delays, settings.tick, is_paused).await;
        }
    }
    assert_eq!(assert_adds_up(&wheel).pending, 0);

    // The end, by a shutdown with something pending where that can be.
    let far = wheel.try_sleep(400 * DAY).ok().map(|far| register(far, Waker::noop()));
    assert_eq!(wheel.shutdown(), usize::from(far.is_some()));
    assert_eq!(assert_adds_up(&wheel).pending, 0);
    let start = std::time::Instant::now();
    while Handle::current().metrics().num_alive_tasks() > 0 {
        assert!(start.elapsed() < HANG_GUARD, "the driver has not ended");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn with_all_settings_at_their_limits_timers_are_on_time_on_the_paused_clock() {
    let delays = [
        Duration::from_nanos(1),
        Duration::from_micros(1),
        ms(1),
        ms(70),
        ms(65_537),
        DAY - ms(1),
        DAY,
        400 * DAY,
    ];
    // Eight million slots once only.
    let is_tried =
        |settings: &Settings| settings.is_small() || settings.max_pending.is_none() && settings.tick > DAY;
    for settings in Settings::all().filter(is_tried) {
        // Shown where it fails.
        println!("{settings:?}");
        check(settings, &delays, true).await;
    }
}

/// With a long tick the timers of several tasks may wait for each other's until its end, so there is only one.
#[test]
fn with_all_settings_at_their_limits_timers_fire_and_none_is_early_on_the_real_clock() {
    let delays =
        [Duration::from_nanos(1), Duration::from_micros(1), Duration::from_micros(300), ms(1), ms(3)];
    let is_alone = |settings: &Settings| settings.tick < DAY || settings.max_pending.is_some();
    for settings in Settings::all().filter(is_alone).filter(Settings::is_small) {
        println!("{settings:?}");
        runtime(2).block_on(check(settings, &delays, false));
    }
}

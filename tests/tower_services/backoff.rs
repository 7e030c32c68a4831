//! The back-off by itself, beside tower's own.

use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel::tower::{BackoffError, ExponentialBackoff, ExponentialBackoffMaker};
use tokio::time::Instant;
use tower::retry::backoff::{Backoff, ExponentialBackoffMaker as TowersMaker, MakeBackoff};
use tower::util::rng::{HasherRng, Rng};

use crate::{SECOND, ms};

/// Draws the same number again and again: so many of 64 parts of what there is.
#[derive(Clone, Copy)]
struct Same(u64);

impl Rng for Same {
    fn next_u64(&mut self) -> u64 {
        self.0 << 58
    }
}

/// Draws one number after the other, from the lowest.
struct Rising(u64);

impl Rng for Rising {
    fn next_u64(&mut self) -> u64 {
        self.0 += 1 << 58;
        self.0 - (1 << 58)
    }
}

fn backoff<R: Rng>(min: Duration, max: Duration, jitter: f64, rng: R) -> ExponentialBackoff<R> {
    ExponentialBackoffMaker::new(TimingWheel::new(), min, max, jitter, rng).unwrap().make_backoff()
}

/// The next back-offs. None is awaited, so the clock stands.
fn next<R: Rng>(backoff: &mut ExponentialBackoff<R>, count: usize) -> Vec<Duration> {
    (0..count).map(|_| backoff.next_backoff().deadline() - Instant::now()).collect()
}

#[tokio::test(start_paused = true)]
async fn each_is_twice_the_one_before_up_to_the_longest() {
    let mut backoff = backoff(ms(50), ms(450), 0.0, HasherRng::new());
    assert_eq!(next(&mut backoff, 6), [50, 100, 200, 400, 450, 450].map(ms));
}

#[tokio::test(start_paused = true)]
async fn it_doubles_however_often_that_takes() {
    let mut backoff = backoff(Duration::from_nanos(1), 86_400 * SECOND, 0.0, HasherRng::new());
    let waits = next(&mut backoff, 45);
    assert!(waits.is_sorted());
    assert_eq!(waits[44], Duration::from_nanos(1 << 44));
}

#[tokio::test(start_paused = true)]
async fn without_jitter_they_are_those_of_towers_own() {
    for (min, max) in [(ms(1), SECOND), (ms(7), ms(7)), (Duration::ZERO, SECOND), (SECOND, 86_400 * SECOND)] {
        let mut theirs = TowersMaker::new(min, max, 0.0, HasherRng::new()).unwrap().make_backoff();
        let theirs: Vec<_> = (0..30).map(|_| theirs.next_backoff().deadline() - Instant::now()).collect();
        assert_eq!(next(&mut backoff(min, max, 0.0, HasherRng::new()), 30), theirs);
    }
}

/// tower's cuts the jitter's seconds and its nanoseconds down one by one, so whole seconds are left out here.
#[tokio::test(start_paused = true)]
async fn below_a_second_the_jitter_is_that_of_towers_own() {
    for (part, jitter) in [(1, 0.5), (32, 0.5), (63, 0.99), (40, 3.0), (63, 100.0)] {
        let (min, max) = (ms(11), ms(700));
        let mut theirs = TowersMaker::new(min, max, jitter, Same(part)).unwrap().make_backoff();
        for ours in next(&mut backoff(min, max, jitter, Same(part)), 20) {
            let theirs = theirs.next_backoff().deadline() - Instant::now();
            // One is rounded, the other cut down.
            assert!(ours.abs_diff(theirs) <= Duration::from_nanos(1), "{ours:?} and not {theirs:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn jitter_makes_it_longer_by_a_share_but_not_longer_than_the_longest() {
    let mut half = backoff(4 * SECOND, 60 * SECOND, 0.5, Same(32));
    assert_eq!(next(&mut half, 5), [5, 10, 20, 40, 60].map(|seconds| seconds * SECOND));
    let mut most = backoff(4 * SECOND, 60 * SECOND, 100.0, Same(63));
    assert_eq!(next(&mut most, 2), [60 * SECOND; 2]);
    let mut none = backoff(4 * SECOND, 60 * SECOND, 0.5, Same(0));
    assert_eq!(next(&mut none, 2), [4 * SECOND, 8 * SECOND]);
}

#[tokio::test(start_paused = true)]
async fn the_longest_durations_there_are_overflow_nothing() {
    const MOST: Duration = Duration::MAX;
    let maker = || ExponentialBackoffMaker::new(TimingWheel::new(), MOST, MOST, 100.0, Same(63)).unwrap();
    let mut backoff = maker().make_backoff();
    let longest = TimingWheel::new().sleep(MOST).deadline();
    assert!((0..100).all(|_| backoff.next_backoff().deadline() >= longest));
}

#[tokio::test(start_paused = true)]
async fn a_clone_begins_anew() {
    let mut used = backoff(ms(50), SECOND, 0.0, HasherRng::new());
    assert_eq!(next(&mut used, 2), [ms(50), ms(100)]);
    let mut clone = used.clone();
    assert_eq!(next(&mut used, 1), [ms(200)]);
    assert_eq!(next(&mut clone, 2), [ms(50), ms(100)]);
}

#[tokio::test(start_paused = true)]
async fn requests_that_fail_together_wait_for_different_times() {
    let wheel = TimingWheel::new();
    let mut maker = ExponentialBackoffMaker::new(wheel, 64 * SECOND, 640 * SECOND, 1.0, Rising(0)).unwrap();
    let (mut first, mut second) = (maker.make_backoff(), maker.clone().make_backoff());
    let mut third = second.clone();
    let waits = [&mut first, &mut second, &mut third].map(|backoff| next(backoff, 1)[0]);
    assert_eq!(waits, [64, 65, 66].map(|seconds| seconds * SECOND));
}

#[tokio::test(start_paused = true)]
async fn settings_beyond_their_limits_are_refused_in_words() {
    let refused = |min, max, jitter| -> BackoffError {
        ExponentialBackoffMaker::new(TimingWheel::new(), min, max, jitter, HasherRng::new()).unwrap_err()
    };
    for (error, words) in [
        (refused(Duration::ZERO, Duration::ZERO, 0.0), "longest back-off must be at least 1ns, got 0ns"),
        (
            refused(SECOND, ms(999), 0.0),
            "longest back-off must be at least the first, which is 1s, got 999ms",
        ),
        (refused(ms(1), SECOND, -0.1), "jitter must be 0 to 100, got -0.1"),
        (refused(ms(1), SECOND, 100.5), "jitter must be 0 to 100, got 100.5"),
        (refused(ms(1), SECOND, f64::NAN), "jitter must be 0 to 100, got NaN"),
        (refused(ms(1), SECOND, f64::INFINITY), "jitter must be 0 to 100, got inf"),
    ] {
        assert_eq!(error.to_string(), words);
    }
}

#[tokio::test(start_paused = true)]
async fn the_limits_themselves_are_taken() {
    for (min, max, jitter) in [
        (Duration::ZERO, Duration::from_nanos(1), 0.0),
        (SECOND, SECOND, 100.0),
        (SECOND, Duration::MAX, 1.0),
    ] {
        assert!(ExponentialBackoffMaker::new(TimingWheel::new(), min, max, jitter, HasherRng::new()).is_ok());
    }
}

//! The settings of each profile.

use std::time::Duration;

use timingwheel::{Builder, Profile, TimingWheel};
use tokio::time::Instant;

fn debug(builder: &Builder) -> String {
    format!("{builder:?}")
}

#[test]
fn a_profile_is_the_settings_that_it_names() {
    let by_hand =
        |micros, slots| TimingWheel::builder().tick(Duration::from_micros(micros)).wheel_size(slots);
    for (profile, by_hand) in [
        (Profile::HighConcurrency, by_hand(1_000, 1_024)),
        (Profile::LowLatency, by_hand(100, 1_024)),
        (Profile::SmallMemory, by_hand(10_000, 16).shards(1)),
    ] {
        assert_eq!(debug(&TimingWheel::builder().profile(profile)), debug(&by_hand));
    }
}

#[test]
fn settings_after_a_profile_override_it_and_a_bound_before_it_stays() {
    let builder = TimingWheel::builder().max_pending(5).shards(7).profile(Profile::LowLatency).wheel_size(32);
    let by_hand = TimingWheel::builder().tick(Duration::from_micros(100)).wheel_size(32).max_pending(5);
    assert_eq!(debug(&builder), debug(&by_hand));
}

#[tokio::test(start_paused = true)]
async fn timers_of_each_profile_fire_exactly_at_their_deadlines() {
    for &profile in Profile::all() {
        let wheel = TimingWheel::builder().profile(profile).build().unwrap();
        for delay in [1, 9, 10, 160, 1_023, 1_024, 30_000, 86_400_000].map(Duration::from_millis) {
            let start = Instant::now();
            wheel.sleep(delay).await;
            assert_eq!(start.elapsed(), delay, "{profile:?}");
        }
    }
}

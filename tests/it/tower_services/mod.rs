//! tower's services round the layer of the feature `tower`, and its retries, on a paused clock.

mod layer;
mod retry;
mod wheels_end;

use std::time::Duration;

use timingwheel::TimingWheel;

use crate::ms;

const SECOND: Duration = Duration::from_secs(1);

fn assert_nothing_pending(wheel: &TimingWheel) {
    let stats = wheel.stats();
    assert_eq!((stats.pending, stats.armed), (0, stats.fired + stats.cancelled), "{stats:?}");
}

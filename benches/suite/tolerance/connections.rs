//! Connections, and when they are active.

use std::time::Duration;

/// How many times one is active in the time of its limit, on average. That it is not at all has a chance of 5 %.
const ACTIVE_IN_LIMIT: f64 = 3.0;

/// Connections by number.
pub(super) struct Connections {
    pub(super) limits: Vec<Duration>,
    /// When each limit ends that has begun before the period does.
    pub(super) first_ends: Vec<Duration>,
    /// When which of them is active, in order.
    pub(super) activities: Vec<(Duration, usize)>,
}

impl Connections {
    /// So many, over so long a period.
    pub(super) fn new(count: usize, period: Duration) -> Self {
        const LIMITS: [u64; 5] = [30, 45, 60, 120, 300];
        let limits: Vec<Duration> =
            (0..count).map(|n| Duration::from_secs(LIMITS[n % LIMITS.len()])).collect();
        let mut activities = Vec::new();
        for (number, &limit) in limits.iter().enumerate() {
            let mut at = pause(limit);
            while at < period {
                activities.push((at, number));
                at += pause(limit);
            }
        }
        activities.sort_unstable();
        let first_ends = limits.iter().map(|limit| limit.mul_f64(fastrand::f64())).collect();
        Self { limits, first_ends, activities }
    }
}

/// The time until a connection is active again: as if each instant were as likely as any other.
fn pause(limit: Duration) -> Duration {
    let mean = limit.as_secs_f64() / ACTIVE_IN_LIMIT;
    Duration::from_secs_f64(-mean * (1.0 - fastrand::f64()).ln())
}

//! The figures of the page for people, as JSON.

use std::time::Duration;

use indicatif::HumanCount;
use serde::Serialize;
use timingwheel::monitor::{Exceeded, Histogram, Unhealthy};
use timingwheel::{Stats, TimingWheel};

use crate::settings::Bounds;

#[derive(Serialize)]
pub(crate) struct Figures<'a> {
    name: &'a str,
    /// Since the server began. The page makes rates by it.
    at_ms: u64,
    tick_ns: u64,
    wheel_size: usize,
    pending: usize,
    levels: Vec<Level>,
    armed: u64,
    fired: u64,
    cancelled: u64,
    /// Since the wheel was made: the page shows what came in the last minute.
    lateness: Vec<Bucket>,
    ended: bool,
    healthy: bool,
    checks: Vec<Check>,
}

/// A level of the wheel: how long a slot of it is, how far it reaches, and how many timers stand on it.
#[derive(Serialize)]
struct Level {
    slot_ns: u64,
    reaches_ns: u64,
    pending: usize,
}

#[derive(Serialize)]
struct Bucket {
    up_to_ns: u64,
    count: u64,
}

#[derive(Serialize)]
struct Check {
    what: &'static str,
    value: String,
    limit: String,
    ok: bool,
}

/// A time that does not fit is centuries.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl<'a> Figures<'a> {
    pub(crate) fn of(
        wheel: &'a TimingWheel,
        up: Duration,
        wheel_size: usize,
        bounds: Bounds,
        earlier: &Stats,
    ) -> Self {
        let stats = wheel.stats();
        let lately = stats.since(earlier);
        let unhealthy = lately.check(&bounds.limits()).err();
        let tick_ns = nanos(wheel.tick());
        // A slot is as wide as so many of the level below: see `timingwheel::wheel`.
        let bits = wheel_size.ilog2();
        let growth = 1 << (bits / 2).min(bits.saturating_sub(3)).max(1);
        let level = |(level, &pending): (usize, &usize)| {
            let slot_ns = (0..level).fold(tick_ns, |nanos, _| nanos.saturating_mul(growth));
            Level { slot_ns, reaches_ns: slot_ns.saturating_mul(wheel_size as u64), pending }
        };
        Self {
            name: wheel.name(),
            at_ms: u64::try_from(up.as_millis()).unwrap_or(u64::MAX),
            tick_ns,
            wheel_size,
            pending: stats.pending,
            levels: stats.pending_by_level.iter().enumerate().map(level).collect(),
            armed: stats.armed,
            fired: stats.fired,
            cancelled: stats.cancelled,
            lateness: buckets(&stats.lateness),
            ended: stats.ended,
            healthy: unhealthy.is_none(),
            checks: checks(&lately, bounds, unhealthy.as_ref()),
        }
    }
}

fn buckets(histogram: &Histogram) -> Vec<Bucket> {
    histogram
        .buckets()
        .map(|(durations, count)| Bucket { up_to_ns: nanos(*durations.end()), count })
        .collect()
}

fn checks(stats: &Stats, bounds: Bounds, unhealthy: Option<&Unhealthy>) -> Vec<Check> {
    let ok = |limit| !unhealthy.is_some_and(|unhealthy| unhealthy.exceeds(limit));
    let count = |what, value: u64, limit: u64, ok| Check {
        what,
        value: HumanCount(value).to_string(),
        limit: HumanCount(limit).to_string(),
        ok,
    };
    let millis = |time: Duration| format!("{:.3}", time.as_secs_f64() * 1e3);
    let time = |what, value: String, limit: Duration, ok| Check {
        what,
        value,
        limit: format!("{} ms", HumanCount(nanos(limit) / 1_000_000)),
        ok,
    };
    // Histograms count in ranges, so the limit is compared with a range.
    let range = |histogram: &Histogram, value: Option<Duration>| {
        let is_in = |value: Duration| histogram.buckets().find(|(range, _)| range.contains(&value));
        value.and_then(is_in).map_or_else(
            || "–".to_owned(),
            |(range, _)| format!("{} to {} ms", millis(*range.start()), millis(*range.end())),
        )
    };
    vec![
        count("timers pending", stats.pending as u64, bounds.pending as u64, ok(Exceeded::Pending)),
        time(
            "lateness of timers: 99 % are within",
            range(&stats.lateness, stats.lateness.quantile(0.99)),
            bounds.lateness,
            ok(Exceeded::Lateness),
        ),
        time(
            "longest hold of a lock by a turn of the wheel",
            range(&stats.lock_holds, stats.lock_holds.max()),
            bounds.lock_hold,
            ok(Exceeded::LockHold),
        ),
        time(
            "how far the wheel is behind",
            format!("{} ms", millis(stats.overdue)),
            bounds.overdue,
            ok(Exceeded::Overdue),
        ),
        count("timers refused, the wheel being full", stats.refused, 0, ok(Exceeded::Refused)),
        count("wakers that panicked", stats.wakers_panicked, 0, ok(Exceeded::WakersPanicked)),
        count(
            "watchdogs missing, so that a blocked worker may hold timers up",
            stats.unwatched.into(),
            0,
            ok(Exceeded::Unwatched),
        ),
    ]
}

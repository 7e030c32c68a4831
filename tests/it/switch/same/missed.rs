//! `MissedTickBehavior`, `Interval::set_missed_tick_behavior`.

use super::time::{Instant, MissedTickBehavior, advance, interval, interval_at};
use crate::ms;
use crate::switch::trace::Trace;

/// Ticks every 100 ms, of which some are taken late.
async fn with_late_ticks(trace: &Trace, behavior: MissedTickBehavior, lateness: &[u64]) {
    let mut interval = interval(ms(100));
    interval.set_missed_tick_behavior(behavior);
    trace.note(format_args!("{:?}", interval.missed_tick_behavior()));
    for &late in lateness {
        let due = interval.tick().await;
        trace.note_instant("due", due);
        if late > 0 {
            advance(ms(100 + late)).await;
        }
    }
}

const LATENESS: [u64; 14] = [0, 4, 5, 6, 0, 100, 0, 0, 250, 0, 0, 0, 1_000, 0];

pub(crate) async fn missed_ticks_come_in_a_burst(trace: Trace) {
    with_late_ticks(&trace, MissedTickBehavior::Burst, &LATENESS).await;
}

pub(crate) async fn missed_ticks_delay_the_schedule(trace: Trace) {
    with_late_ticks(&trace, MissedTickBehavior::Delay, &LATENESS).await;
}

pub(crate) async fn missed_ticks_are_skipped(trace: Trace) {
    with_late_ticks(&trace, MissedTickBehavior::Skip, &LATENESS).await;
}

pub(crate) async fn missed_ticks_come_in_a_burst_unless_set_otherwise(trace: Trace) {
    trace.note(format_args!("{:?}", MissedTickBehavior::default()));
    trace.note(format_args!("{:?}", interval(ms(1)).missed_tick_behavior()));
    trace.note(MissedTickBehavior::Burst == interval_at(Instant::now(), ms(1)).missed_tick_behavior());
}

pub(crate) async fn the_behavior_can_be_changed_while_the_interval_runs(trace: Trace) {
    let mut interval = interval(ms(100));
    for behavior in [MissedTickBehavior::Skip, MissedTickBehavior::Burst, MissedTickBehavior::Delay] {
        interval.set_missed_tick_behavior(behavior);
        for late in [0, 330, 0, 0, 0] {
            let due = interval.tick().await;
            trace.note_instant("due", due);
            advance(ms(late)).await;
        }
    }
}

pub(crate) async fn ticks_shorter_than_what_counts_as_missed_still_add_up(trace: Trace) {
    for behavior in [MissedTickBehavior::Burst, MissedTickBehavior::Delay, MissedTickBehavior::Skip] {
        let mut interval = interval(ms(1));
        interval.set_missed_tick_behavior(behavior);
        for late in [0, 4, 5, 6, 7, 0, 20, 0, 0, 0] {
            let due = interval.tick().await;
            trace.note_instant("due", due);
            advance(ms(late)).await;
        }
    }
}

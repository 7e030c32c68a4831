//! Going through a schedule by the wall clock.

use std::time::{Duration, Instant};

use timingwheel::wheel::Nanos;

use super::TIMEOUT;
use super::schedule::{Event, Schedule};

/// What watches over the timeouts. Times are from the beginning of the run.
pub(super) trait Watch: Send + 'static {
    /// Called within the runtime, for a run with so many requests, of which so many at most are pending at a time.
    fn new(requests: usize, pending: usize) -> Self;

    /// The next request has arrived.
    fn arrive(&mut self, now: Nanos);

    /// The request is complete, unless it has timed out.
    fn complete(&mut self, request: u32, now: Nanos);

    /// Lets timers fire.
    fn turn(&mut self, now: Nanos) -> impl Future<Output = ()> + Send;

    /// Since when that timer is overdue that is so for longest; `now` if none is.
    fn overdue_since(&self, now: Nanos) -> Nanos;

    /// How many requests were complete in time, and how many timed out.
    fn outcome(&self) -> Outcome;
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outcome {
    pub(super) completed: usize,
    pub(super) timed_out: usize,
}

/// How a run went.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) rate: f64,
    pub(super) is_sustained: bool,
    /// The part of the time in which the thread had something to do, once timers fire.
    pub(super) busy: f64,
    /// The time, for each request, in which the thread had something to do, once timers fire.
    pub(super) nanos_each: f64,
}

/// How often, by the schedule's time, the thread does what is due, and then turns the structure: ten times in a tick.
const STEP: Duration = Duration::from_micros(100);
/// A run that is further behind than this does not keep up.
pub(super) const BACKLOG: Duration = Duration::from_millis(50);
/// No request is pending for so long: it ends with its timeout, or the run ends for its backlog.
const LIFE: Duration = Duration::from_millis(400);
/// A timer that has not fired so long after a run is lost.
const PATIENCE: Duration = Duration::from_secs(5);

/// Goes through the schedule until the arrivals end at `duration`, or until the run is too far behind. Then lets every
/// timer that is left come to its end, and checks that none was lost.
pub(super) async fn replay<W: Watch>(schedule: &Schedule, rate: f64, duration: Duration) -> Run {
    let pending = schedule.requests as u128 * LIFE.as_nanos() / duration.as_nanos();
    let mut watch = W::new(schedule.requests, usize::try_from(pending).expect("few enough"));
    let mut events = schedule.events().peekable();
    let mut arrived = 0;
    let (mut idle, mut is_sustained) = (Duration::ZERO, true);
    // Before timers fire there is less to do. It does not count, but for a run that is shorter than the timeout.
    let counts_from = TIMEOUT.min(duration / 2);
    let (mut begin, mut arrived_before) = (Duration::ZERO, 0);
    // How far in the schedule the run has come.
    let mut done = Duration::ZERO;
    let start = Instant::now();
    while done < duration {
        let waits_from = start.elapsed();
        if done <= counts_from {
            (idle, begin, arrived_before) = (Duration::ZERO, waits_from, arrived);
        }
        let mut now = waits_from;
        while now < done + STEP {
            std::hint::spin_loop();
            now = start.elapsed();
        }
        idle += now - waits_from;
        let at = Nanos::from_duration(now);
        let overdue = at.to_duration() - watch.overdue_since(at).to_duration();
        if now - done > BACKLOG || overdue > BACKLOG {
            is_sustained = false;
            break;
        }
        done += STEP;
        while let Some((_, event)) = events.next_if(|&(time, _)| time <= done) {
            match event {
                Event::Arrival => {
                    watch.arrive(at);
                    arrived += 1;
                }
                Event::Completion(request) => watch.complete(request, at),
            }
        }
        watch.turn(at).await;
    }
    let counted = start.elapsed() - begin;
    let busy = counted - idle;
    let arrived_meanwhile = arrived - arrived_before;

    loop {
        let Outcome { completed, timed_out } = watch.outcome();
        assert!(completed + timed_out <= arrived, "some requests came to two ends");
        if completed + timed_out == arrived {
            // A run that was broken off at its beginning proves nothing.
            let is_whole = !is_sustained || completed > 0 && timed_out > 0;
            assert!(is_whole, "{completed} were complete, {timed_out} timed out");
            break;
        }
        let now = start.elapsed();
        assert!(
            now < begin + counted + PATIENCE,
            "{completed} were complete, {timed_out} timed out, of {arrived}"
        );
        watch.turn(Nanos::from_duration(now)).await;
    }
    Run {
        rate,
        is_sustained,
        busy: busy.div_duration_f64(counted),
        nanos_each: busy.as_nanos() as f64 / arrived_meanwhile as f64,
    }
}

//! The adapters beside those of tokio-stream: for the same script of items, gaps and pauses both give the same items at
//! the same instants, on a paused clock.
//!
//! All times are whole milliseconds, as tokio's timers have no finer ones.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures::stream::{Stream, StreamExt};
use proptest::prelude::*;
use timingwheel::TimingWheel;
use timingwheel::stream::{IntervalStream, StreamTimeExt};
use tokio::time::{self, Instant, MissedTickBehavior};
use tokio_stream::StreamExt as TokioStreamExt;

use crate::{ms, paused};

/// A script for a stream and its consumer.
#[derive(Clone, Debug)]
struct Script {
    /// How long after the one before each item is there; after the last gap the stream ends.
    gaps: Vec<u64>,
    /// Steps of the consumer before each item; none after the last.
    pauses: Vec<Pause>,
}

#[derive(Clone, Copy, Debug)]
enum Pause {
    None,
    /// Is busy, and lets the runtime go on.
    Sleep(u64),
    /// Is busy, and lets nothing go on.
    Block(u64),
    /// Waits for the next item for so long only, and then again.
    GiveUpAfter(u64),
}

/// Times at which several things coincide, and others.
fn times() -> impl Strategy<Value = u64> {
    prop_oneof![2 => Just(0), 6 => (0..8_u64).prop_map(|n| n * 5), 3 => 0..100_u64, 1 => 0..20_000_u64]
}

fn limits() -> impl Strategy<Value = Duration> {
    prop_oneof![1 => Just(0), 4 => (1..8_u64).prop_map(|n| n * 5), 2 => 1..100_u64].prop_map(ms)
}

fn periods() -> impl Strategy<Value = Duration> {
    limits().prop_map(|limit| limit.max(ms(1)))
}

fn behaviors() -> impl Strategy<Value = MissedTickBehavior> {
    prop::sample::select(vec![MissedTickBehavior::Burst, MissedTickBehavior::Delay, MissedTickBehavior::Skip])
}

fn scripts() -> impl Strategy<Value = Script> {
    let pause = prop_oneof![
        4 => Just(Pause::None),
        1 => times().prop_map(Pause::Sleep),
        1 => times().prop_map(Pause::Block),
        1 => times().prop_map(Pause::GiveUpAfter),
    ];
    (prop::collection::vec(times(), 0..24), prop::collection::vec(pause, 0..24))
        .prop_map(|(gaps, pauses)| Script { gaps, pauses })
}

/// Items that are there at times of their own, taken or not, as those of a connection are.
struct Scripted {
    due: VecDeque<Instant>,
    timer: Pin<Box<time::Sleep>>,
    next: u32,
}

impl Scripted {
    fn new(gaps: &[u64]) -> Self {
        let mut at = Instant::now();
        let due = gaps.iter().map(|&gap| {
            at += ms(gap);
            at
        });
        Self { due: due.collect(), timer: Box::pin(time::sleep(Duration::ZERO)), next: 0 }
    }
}

impl Stream for Scripted {
    type Item = u32;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<u32>> {
        let Some(&due) = self.due.front() else { return Poll::Ready(None) };
        if Instant::now() < due {
            self.timer.as_mut().reset(due);
            ready!(self.timer.as_mut().poll(cx));
        }
        self.due.pop_front();
        self.next += 1;
        // The last gap is the one before the end.
        Poll::Ready(if self.due.is_empty() { None } else { Some(self.next) })
    }
}

/// Items and their milliseconds; `None` is the end, or that there were too many.
type Log<T> = Vec<(u128, Option<T>)>;

/// So much of what comes is looked at: an interval that catches up may give very much.
const LONGEST_LOG: usize = 500;

/// Runs the scripted items through `adapter`, on a runtime of its own.
fn log<S: Stream>(script: &Script, adapter: impl FnOnce(Scripted) -> S) -> Log<S::Item> {
    paused().block_on(async {
        let start = Instant::now();
        let mut stream = pin!(adapter(Scripted::new(&script.gaps)));
        let mut pauses = script.pauses.iter();
        let mut log = Vec::new();
        loop {
            match pauses.next().copied().unwrap_or(Pause::None) {
                Pause::None => {}
                Pause::Sleep(millis) => time::sleep(ms(millis)).await,
                Pause::Block(millis) => time::advance(ms(millis)).await,
                Pause::GiveUpAfter(millis) => {
                    if let Ok(next) = time::timeout(ms(millis), StreamExt::next(&mut stream)).await {
                        log.push((start.elapsed().as_millis(), next));
                    }
                    continue;
                }
            }
            let next = StreamExt::next(&mut stream).await;
            let is_end = next.is_none();
            log.push((start.elapsed().as_millis(), next));
            if is_end || log.len() >= LONGEST_LOG {
                return log;
            }
        }
    })
}

/// Ours has an error of its own, which must not have a reason.
fn ours<T>(item: Result<T, timingwheel::Elapsed>) -> Option<T> {
    item.ok()
}

fn assert_same<T: Debug + PartialEq>(ours: Log<T>, theirs: Log<T>) -> Result<(), TestCaseError> {
    prop_assert_eq!(ours, theirs);
    Ok(())
}

/// Ends after its first error.
fn until_error<T>(items: impl Stream<Item = Option<T>>) -> impl Stream<Item = Option<T>> {
    let mut items = Box::pin(items);
    let mut has_ended = false;
    futures::stream::poll_fn(move |cx| {
        if has_ended {
            return Poll::Ready(None);
        }
        let next = ready!(items.as_mut().poll_next(cx));
        has_ended = matches!(next, Some(None));
        Poll::Ready(next)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn timeouts_are_the_same(script in scripts(), limit in limits()) {
        let theirs = log(&script, |items| {
            StreamExt::map(TokioStreamExt::timeout(items, limit), Result::ok)
        });
        let ours = log(&script, |items| {
            StreamExt::map(items.timeout_on(&TimingWheel::new(), limit), ours)
        });
        assert_same(ours, theirs)?;
    }

    #[test]
    fn an_idle_timeout_is_a_timeout_that_ends_at_its_first_error(script in scripts(), limit in limits()) {
        let theirs = log(&script, |items| {
            until_error(StreamExt::map(TokioStreamExt::timeout(items, limit), Result::ok))
        });
        let ours = log(&script, |items| {
            StreamExt::map(items.idle_timeout_on(&TimingWheel::new(), limit), ours)
        });
        assert_same(ours, theirs)?;
    }

    #[test]
    fn repeating_timeouts_are_the_same(
        script in scripts(),
        first in limits(),
        period in periods(),
        behavior in behaviors(),
    ) {
        let theirs = log(&script, |items| {
            let mut interval = time::interval_at(Instant::now() + first, period);
            interval.set_missed_tick_behavior(behavior);
            StreamExt::map(TokioStreamExt::timeout_repeating(items, interval), Result::ok)
        });
        let ours = log(&script, |items| {
            let mut interval = TimingWheel::new().interval_at(Instant::now() + first, period);
            interval.set_missed_tick_behavior(behavior);
            StreamExt::map(items.timeout_repeating_on(interval), ours)
        });
        assert_same(ours, theirs)?;
    }

    #[test]
    fn throttled_items_are_the_same(script in scripts(), distance in limits()) {
        let theirs = log(&script, |items| TokioStreamExt::throttle(items, distance));
        let ours = log(&script, |items| items.throttle_on(&TimingWheel::new(), distance));
        assert_same(ours, theirs)?;
    }

    #[test]
    fn chunks_are_the_same(script in scripts(), max_size in 1..6_usize, duration in limits()) {
        let theirs = log(&script, |items| TokioStreamExt::chunks_timeout(items, max_size, duration));
        let ours = log(&script, |items| items.chunks_timeout_on(&TimingWheel::new(), max_size, duration));
        assert_same(ours, theirs)?;
    }

    #[test]
    fn an_intervals_ticks_are_the_same(
        script in scripts(),
        first in limits(),
        period in periods(),
        behavior in behaviors(),
    ) {
        // The items' number is that of the ticks to take; an instant counts from the start.
        let ticks = script.gaps.len();
        let theirs = log(&script, |_| {
            let start = Instant::now();
            let mut interval = time::interval_at(start + first, period);
            interval.set_missed_tick_behavior(behavior);
            let ticks_of = tokio_stream::wrappers::IntervalStream::new(interval);
            StreamExt::map(StreamExt::take(ticks_of, ticks), move |tick| tick - start)
        });
        let ours = log(&script, |_| {
            let start = Instant::now();
            let mut interval = TimingWheel::new().interval_at(start + first, period);
            interval.set_missed_tick_behavior(behavior);
            StreamExt::map(StreamExt::take(IntervalStream::new(interval), ticks), move |tick| tick - start)
        });
        assert_same(ours, theirs)?;
    }
}

//! All adapters of streams: their timers, the budget, wheels that refuse, on tokio's paused clock.
//! `stream_like_tokio_stream` has the items and their instants, compared with tokio-stream's.

use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use futures::stream::{self, FusedStream, LocalBoxStream, Stream, StreamExt};
use timingwheel::stream::{IntervalStream, StreamTimeExt};
use timingwheel::{Elapsed, Interval, TimingWheel};
use tokio::time::{Instant, advance};
use tokio_test::{assert_pending, assert_ready_eq, task};

use super::streams::*;

/// An item of an adapter.
#[derive(Clone, Debug, PartialEq)]
enum Given {
    Item(u32),
    Chunk(Vec<u32>),
    Late,
}

use Given::{Chunk, Item, Late};

impl From<Result<u32, Elapsed>> for Given {
    fn from(result: Result<u32, Elapsed>) -> Self {
        result.map_or(Late, Item)
    }
}

type Within = LocalBoxStream<'static, u32>;
type Adapted = Pin<Box<dyn FusedStream<Item = Given>>>;
/// Puts an adapter with that limit, distance or time round a stream.
type Adapter = fn(Within, &TimingWheel, Duration) -> Adapted;

const TIMEOUT: Adapter = |within, wheel, limit| Box::pin(within.timeout_on(wheel, limit).map(Given::from));
const IDLE: Adapter = |within, wheel, limit| Box::pin(within.idle_timeout_on(wheel, limit).map(Given::from));
const REPEATING: Adapter = |within, wheel, limit| {
    let period = limit.max(Duration::from_nanos(1));
    // tokio's `Instant` cannot hold all of a second that is too far.
    let start = Instant::now().checked_add(limit).unwrap_or_else(|| Instant::now() + DAY * 365 * 700);
    let interval = wheel.interval_at(start, period);
    Box::pin(within.timeout_repeating_on(interval).map(Given::from))
};
const THROTTLE: Adapter = |within, wheel, limit| Box::pin(within.throttle_on(wheel, limit).map(Item));
/// Of three items at most.
const CHUNKS: Adapter = |within, wheel, limit| Box::pin(within.chunks_timeout_on(wheel, 3, limit).map(Chunk));

/// The adapters that give errors.
const WITH_ERRORS: [Adapter; 3] = [TIMEOUT, IDLE, REPEATING];
const ALL: [Adapter; 5] = [TIMEOUT, IDLE, REPEATING, THROTTLE, CHUNKS];

#[tokio::test(start_paused = true)]
async fn on_an_ended_wheel_an_item_wakes_its_task_once() {
    let (sender, items) = channel();
    let mut items = task::spawn(items.timeout_on(&ended_wheel(), SECOND));
    for n in 0..3 {
        assert_pending!(items.poll_next());
        sender.unbounded_send(n).unwrap();
        assert!(items.is_woken());
        assert_ready_eq!(items.poll_next(), Some(Ok(n)));
        assert!(!items.is_woken(), "by the timer that the item has replaced");
    }
}

#[tokio::test(start_paused = true)]
async fn on_an_ended_or_full_wheel_limits_and_distances_keep_their_times() {
    for wheel in [ended_wheel(), full_wheel()] {
        // How many items are sent before, and how many of them come without a wait.
        for (adapter, sent, at_once, expected) in [
            (TIMEOUT, 0, 0, vec![Late, Item(7)]),
            (IDLE, 0, 0, vec![Late]),
            (THROTTLE, 2, 1, vec![Item(0), Item(1), Item(7)]),
            (CHUNKS, 1, 0, vec![Chunk(vec![0]), Chunk(vec![7])]),
        ] {
            let (start, (sender, receiver)) = (Instant::now(), channel());
            (0..sent).for_each(|item| sender.unbounded_send(item).unwrap());
            let mut items = adapter(receiver.boxed_local(), &wheel, ms(10));
            let mut given = Vec::new();
            for _ in 0..=at_once {
                given.extend(items.next().await);
            }
            assert_eq!(start.elapsed(), ms(10));
            _ = sender.unbounded_send(7);
            drop(sender);
            while let Some(item) = items.next().await {
                given.push(item);
            }
            assert_eq!(given, expected);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_tick_that_cannot_come_panics() {
    for (wheel, why) in
        [(ended_wheel(), "the timing wheel has ended"), (full_wheel(), "the timing wheel is full")]
    {
        let mut ticks = IntervalStream::new(wheel.interval(SECOND));
        // Due at once, which an ended wheel and a full one leave to the poll.
        ticks.next().await;
        let interval = wheel.interval_at(Instant::now() + SECOND, SECOND);
        let mut repeating = stream::pending::<()>().timeout_repeating_on(interval);
        let mut tick = || assert_pending!(task::spawn(&mut ticks).poll_next());
        let mut repeat = || assert_pending!(task::spawn(&mut repeating).poll_next());
        for poll in [&mut tick as &mut dyn FnMut(), &mut repeat] {
            let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(poll)).unwrap_err();
            let text = caught.downcast::<String>().unwrap();
            assert!(text.contains(why), "{text}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_timer_that_was_refused_is_tried_again_after_the_next_item() {
    let wheel = TimingWheel::builder().max_pending(1).build().unwrap();
    let place = wheel.try_sleep(DAY).unwrap();
    let (sender, receiver) = channel();
    let mut items = TIMEOUT(receiver.boxed_local(), &wheel, ms(10));
    assert_eq!(items.next().await, Some(Late));
    drop(place);
    sender.unbounded_send(1).unwrap();
    assert_eq!(items.next().await, Some(Item(1)));
    assert_pending!(task::spawn(&mut items).poll_next());
    assert_eq!(wheel.pending(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_ready_at_once_never_touches_the_wheel() {
    for adapter in ALL {
        let wheel = TimingWheel::new();
        let given: Vec<_> =
            adapter(stream::iter(0..99).boxed_local(), &wheel, Duration::ZERO).collect().await;
        let items = given.into_iter().flat_map(|given| match given {
            Item(item) => vec![item],
            Chunk(items) => items,
            other => panic!("{other:?}"),
        });
        assert!(items.eq(0..99));
        assert_eq!(wheel.stats().armed, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_throttled_stream_is_not_polled_before_its_time_and_has_a_timer_only_until_then() {
    let wheel = TimingWheel::new();
    let mut polls = 0_u32;
    let counting = stream::poll_fn(|_| {
        polls += 1;
        Poll::Ready(Some(polls))
    });
    let mut items = task::spawn(counting.throttle_on(&wheel, ms(10)));
    for n in 1..10 {
        assert_ready_eq!(items.poll_next(), Some(n));
        assert_pending!(items.poll_next());
        assert_pending!(items.poll_next());
        assert_eq!((wheel.pending(), wheel.stats().armed), (1, u64::from(n)));
        advance(ms(10)).await;
        assert_eq!(wheel.pending(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_is_not_rounded_and_one_beyond_reach_is_never_too_short() {
    let (limit, nanosecond) = (Duration::from_nanos(1_234_567), Duration::from_nanos(1));
    // An item that comes at once, and then for a throttled stream another.
    for (adapter, items) in [(TIMEOUT, 1), (IDLE, 1), (REPEATING, 1), (THROTTLE, 2), (CHUNKS, 1)] {
        let wheel = TimingWheel::new();
        let begin = |limit| {
            let within = stream::iter(0..items).chain(stream::pending()).boxed_local();
            let mut items = task::spawn(adapter(within, &wheel, limit));
            while items.poll_next().is_ready() {}
            items
        };
        let mut items = begin(limit);
        advance(limit - nanosecond).await;
        assert_pending!(items.poll_next());
        // A clock that stands between two milliseconds fires nothing. The next millisecond does.
        advance(ms(1)).await;
        assert!(items.is_woken() && items.poll_next().is_ready());
        for limit in [DAY * 365 * 700, Duration::MAX / 2] {
            let mut items = begin(limit);
            advance(DAY * 365 * 20).await;
            assert_pending!(items.poll_next());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_spends_the_whole_budget_at_each_poll_cannot_escape_its_limit() {
    for adapter in WITH_ERRORS.into_iter().chain([CHUNKS]) {
        let within = stream::iter(0..1).chain(busy_stream()).boxed_local();
        let mut items = task::spawn(adapter(within, &TimingWheel::new(), ms(10)));
        while items.poll_next().is_ready() {}
        tokio::task::yield_now().await;
        advance(ms(10)).await;
        assert!(items.poll_next().is_ready());
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_due_waits_when_the_budget_was_spent_before_it_and_is_not_lost() {
    for adapter in ALL {
        let within = stream::iter(0..1).chain(stream::iter(1..2)).chain(stream::pending()).boxed_local();
        let mut items = adapter(within, &TimingWheel::new(), ms(1));
        // Items that are ready at once.
        while task::spawn(&mut items).poll_next().is_ready() {}
        advance(ms(1)).await;
        assert_waits_without_budget(&mut items).await;
        assert!(task::spawn(&mut items).poll_next().is_ready());
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_only_ever_gets_what_is_late_lets_others_run() {
    for adapter in [TIMEOUT, REPEATING, CHUNKS] {
        let wheel = TimingWheel::new();
        let items = adapter(hesitant_stream().boxed_local(), &wheel, Duration::ZERO);
        assert_lets_others_run(items).await;
    }
    let interval = TimingWheel::new().interval(Duration::from_nanos(1));
    advance(SECOND).await;
    assert_lets_others_run(IntervalStream::new(interval)).await;
}

#[tokio::test(start_paused = true)]
async fn the_stream_within_is_not_polled_after_its_end() {
    for adapter in ALL {
        assert_ends(adapter(ends_once().boxed_local(), &TimingWheel::new(), SECOND));
    }
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_a_gap_is_told_until_its_error_comes_or_the_stream_ends() {
    let start = Instant::now();
    let (sender, receiver) = channel();
    let mut items = receiver.boxed_local().timeout_on(&TimingWheel::new(), ms(10));
    assert_eq!(items.deadline(), Some(start + ms(10)));
    assert_eq!(items.next().await, Some(Err(Elapsed::default())));
    assert_eq!(items.deadline(), None);
    sender.unbounded_send(1).unwrap();
    assert_eq!(items.next().await, Some(Ok(1)));
    assert_eq!(items.deadline(), Some(start + ms(20)));
    drop(sender);
    assert_eq!((items.next().await, items.deadline()), (None, None));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_has_ended_by_its_error_is_terminated() {
    let (sender, receiver) = channel();
    let mut items = receiver.idle_timeout_on(&TimingWheel::new(), ms(10));
    assert!(!items.is_terminated());
    assert!(items.next().await.unwrap().is_err());
    sender.unbounded_send(1).unwrap();
    assert!(items.is_terminated());
    assert_stays_ended(items);
}

#[tokio::test(start_paused = true)]
async fn an_interval_is_a_stream_of_its_ticks() {
    let start = Instant::now();
    let mut ticks = IntervalStream::new(TimingWheel::new().interval(SECOND));
    assert_send_sync_unpin_debug(&ticks);
    assert_eq!((ticks.size_hint(), ticks.is_terminated()), ((usize::MAX, None), false));
    for n in 0..3 {
        assert_eq!(ticks.next().await, Some(start + SECOND * n));
        assert_eq!(start.elapsed(), SECOND * n);
    }
    let interval: &Interval = ticks.as_ref();
    assert_eq!(interval.period(), SECOND);
    ticks.as_mut().reset_after(SECOND * 3);
    assert_eq!(ticks.next().await, Some(start + SECOND * 5));
    assert_eq!(ticks.into_inner().tick().await, start + SECOND * 6);
}

#[tokio::test(start_paused = true)]
#[should_panic = "chunk size must be at least 1, got 0"]
async fn a_size_of_zero_is_refused() {
    let _ = stream::iter(0..3).chunks_timeout_on(&TimingWheel::new(), 0, SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_chunk_takes_the_memory_of_the_one_before_and_what_waits_in_it_can_be_taken_out() {
    let (sender, receiver) = channel();
    let mut chunks = receiver.chunks_timeout_on(&TimingWheel::new(), 1_000, ms(10));
    for (sent, at_most) in [(1, 10), (100, 200), (1, 100), (1, 1)] {
        (0..sent).for_each(|item| sender.unbounded_send(item).unwrap());
        let chunk = chunks.next().await.unwrap();
        assert_eq!(chunk.len(), sent as usize);
        assert!(chunk.capacity() <= at_most, "{} for {sent}", chunk.capacity());
    }
    let start = Instant::now();
    sender.unbounded_send(1).unwrap();
    assert_pending!(task::spawn(&mut chunks).poll_next());
    assert_eq!(Pin::new(&mut chunks).into_remainder(), [1]);
    assert!(Pin::new(&mut chunks).into_remainder().is_empty());
    advance(ms(15)).await;
    assert_pending!(task::spawn(&mut chunks).poll_next());
    sender.unbounded_send(2).unwrap();
    assert_eq!(chunks.next().await, Some(vec![2]));
    assert_eq!(start.elapsed(), ms(25));
}

#[tokio::test(start_paused = true)]
async fn size_hints_count_what_may_come() {
    let wheel = &TimingWheel::new();
    let of = |adapter: Adapter, items: u32| {
        adapter(stream::iter(0..items).boxed_local(), wheel, SECOND).size_hint()
    };
    for (adapter, none, three) in [
        // An error before each item, and one after the last.
        (TIMEOUT, (0, Some(1)), (3, Some(7))),
        // The error may take the place of all items.
        (IDLE, (0, Some(1)), (1, Some(4))),
        (REPEATING, (0, None), (3, None)),
        (THROTTLE, (0, Some(0)), (3, Some(3))),
        (CHUNKS, (0, Some(0)), (1, Some(3))),
    ] {
        assert_eq!((of(adapter, 0), of(adapter, 3)), (none, three));
        assert_eq!(adapter(busy_stream().boxed_local(), wheel, SECOND).size_hint(), (0, None));
    }
    // After its error a gap has no other.
    let (_sender, receiver) = channel();
    let mut items = receiver.take(2).timeout_on(wheel, SECOND);
    assert_eq!(items.size_hint().1, Some(5));
    assert!(items.next().await.unwrap().is_err());
    assert_eq!(items.size_hint().1, Some(4));
    // With one item that waits, and three to come.
    let (sender, receiver) = channel();
    sender.unbounded_send(1).unwrap();
    let within = receiver.take(4);
    let mut chunks = within.chunks_timeout_on(wheel, 3, SECOND);
    assert_pending!(task::spawn(&mut chunks).poll_next());
    assert_eq!(chunks.size_hint(), (1, Some(4)));
}

/// Looks at the stream within, takes items out of it, and takes it out.
macro_rules! assert_has_a_stream_within {
    ($adapter:expr) => {
        let mut adapter = $adapter;
        assert_send_sync_unpin_debug(&adapter);
        assert!(!adapter.is_terminated());
        assert_eq!(adapter.get_ref().size_hint(), (3, Some(3)));
        assert_eq!(adapter.get_mut().next().await, Some(1));
        assert_eq!(Pin::new(&mut adapter).get_pin_mut().next().await, Some(2));
        assert_eq!(adapter.into_inner().collect::<Vec<_>>().await, [3]);
    };
}

#[tokio::test(start_paused = true)]
async fn the_stream_within_can_be_looked_at_changed_and_taken_out() {
    let wheel = TimingWheel::new();
    let items = || stream::iter(vec![1, 2, 3]);
    assert_has_a_stream_within!(items().timeout_on(&wheel, SECOND));
    assert_has_a_stream_within!(items().idle_timeout_on(&wheel, SECOND));
    assert_has_a_stream_within!(items().timeout_repeating_on(wheel.interval(SECOND)));
    assert_has_a_stream_within!(items().throttle_on(&wheel, SECOND));
    assert_has_a_stream_within!(items().chunks_timeout_on(&wheel, 2, SECOND));
}

//! The events of the feature `tracing`, by a subscriber that notes them.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use timingwheel::{Sleep, TimingWheel};
use tokio::task::yield_now;
use tokio::time::advance;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{DefaultGuard, set_default};
use tracing::{Event, Metadata, Subscriber};

use crate::HOUR;

/// The events, as lines.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<String>>>);

impl Notes {
    /// Notes the events of this thread, on which the driver runs too.
    fn begin() -> (Self, DefaultGuard) {
        let notes = Self::default();
        let lines = notes.0.clone();
        let guard = set_default(Hears(move |event: &Event<'_>| lines.lock().unwrap().push(line(event))));
        (notes, guard)
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

#[derive(Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

fn line(event: &Event<'_>) -> String {
    let mut fields = Fields::default();
    event.record(&mut fields);
    let message = fields.0.remove("message").expect("each has one");
    let fields: Vec<_> = fields.0.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{} {message}: {}", event.metadata().level(), fields.join(" "))
}

/// A subscriber that calls this with the wheel's events.
struct Hears<F>(F);

impl<F: Fn(&Event<'_>) + Send + Sync + 'static> Subscriber for Hears<F> {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "timingwheel"
    }

    fn event(&self, event: &Event<'_>) {
        self.0(event);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        panic!("there are no spans");
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

fn armed(wheel: &TimingWheel, delay: Duration, waker: &Waker) -> Sleep {
    let mut sleep = wheel.sleep(delay);
    assert!(Pin::new(&mut sleep).poll(&mut Context::from_waker(waker)).is_pending());
    sleep
}

#[tokio::test(start_paused = true)]
async fn the_beginning_and_the_end_of_a_wheel_are_told_and_timers_are_not() {
    let (notes, _guard) = Notes::begin();
    let wheel = TimingWheel::builder().name("rpc").shards(2).max_pending(9).build().expect("a wheel");
    assert_eq!(
        notes.take(),
        ["DEBUG a timing wheel begins: max_pending=9 shards=2 tick=1ms wheel=\"rpc\" wheel_size=64"]
    );
    for millis in 1..=3 {
        wheel.sleep(Duration::from_millis(millis)).await;
    }
    drop(armed(&wheel, HOUR, Waker::noop()));
    let _pending = armed(&wheel, HOUR, Waker::noop());
    assert_eq!(notes.take(), [""; 0]);
    wheel.shutdown();
    wheel.shutdown();
    // The driver ends too.
    advance(HOUR).await;
    assert_eq!(notes.take(), ["DEBUG a timing wheel has ended: pending=1 wheel=\"rpc\""]);
}

struct EndsItToo(TimingWheel);

impl Wake for EndsItToo {
    fn wake(self: Arc<Self>) {
        self.0.shutdown();
    }
}

/// As when it is shut down just as its runtime is.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_wheel_by_two_at_once_tells_of_all_that_was_pending() {
    let wheel = TimingWheel::builder().name("rpc").shards(1).build().expect("a wheel");
    let (notes, _guard) = Notes::begin();
    let _woken = armed(&wheel, HOUR, &Arc::new(EndsItToo(wheel.clone())).into());
    let _pending = [armed(&wheel, HOUR, Waker::noop()), armed(&wheel, HOUR, Waker::noop())];
    assert_eq!(wheel.shutdown(), 3);
    assert_eq!(notes.take(), ["DEBUG a timing wheel has ended: pending=3 wheel=\"rpc\""]);
}

#[tokio::test(start_paused = true)]
async fn a_wheel_that_ends_with_its_last_handle_tells_that() {
    let (notes, _guard) = Notes::begin();
    let wheel = TimingWheel::builder().name("rpc").build().expect("a wheel");
    drop(wheel);
    advance(HOUR).await;
    assert_eq!(notes.take()[1..], ["DEBUG a timing wheel has ended: pending=0 wheel=\"rpc\""]);
}

#[tokio::test(start_paused = true)]
async fn refusals_are_told_but_not_each_of_a_flood() {
    let wheel = TimingWheel::builder().name("rpc").max_pending(0).build().expect("a wheel");
    // Until the driver sleeps.
    yield_now().await;
    let (notes, _guard) = Notes::begin();
    assert!(wheel.try_sleep(HOUR).is_err());
    assert_eq!(notes.take(), [""; 0], "the driver tells it");
    yield_now().await;
    assert_eq!(notes.take(), ["WARN a timing wheel is full and refuses a timer: refused=1 wheel=\"rpc\""]);
    for _ in 0..1_000 {
        assert!(wheel.try_sleep(HOUR).is_err());
        // The driver hears of each by itself.
        yield_now().await;
    }
    // One more for each second that the machine takes for these.
    let told = notes.take().len();
    assert!(told < 100, "{told} of 1,000 are told");
    assert_eq!(wheel.stats().refused, 1_001);
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a waker that panics, as it should");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_is_told_once() {
    let wheel = TimingWheel::builder().name("rpc").build().expect("a wheel");
    let (notes, _guard) = Notes::begin();
    let _timers = [1, 2].map(|millis| armed(&wheel, Duration::from_millis(millis), &Arc::new(Panics).into()));
    advance(Duration::from_millis(2)).await;
    assert_eq!(wheel.stats().wakers_panicked, 2);
    assert_eq!(notes.take(), ["ERROR a waker panicked as a timing wheel woke it: panicked=1 wheel=\"rpc\""]);
}

#[test]
fn a_driver_that_is_woken_late_is_told() {
    let runtime = crate::runtime(0);
    let wheel = runtime.block_on(async { TimingWheel::builder().name("rpc").build().expect("a wheel") });
    let _timer = armed(&wheel, Duration::from_millis(1), Waker::noop());
    thread::sleep(Duration::from_millis(20));
    let (notes, _guard) = Notes::begin();
    runtime.block_on(async {
        while wheel.stats().fired == 0 {
            yield_now().await;
        }
    });
    assert_eq!(notes.take(), ["INFO a timing wheel was turned late: stalls=1 wheel=\"rpc\""]);
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_that_panics_takes_nothing_from_the_wheel() {
    let _guard = set_default(Hears(|_: &Event<'_>| panic!("a subscriber that panics, as it should")));
    let wheel = TimingWheel::builder().max_pending(2).build().expect("a wheel");
    let _timers = [
        armed(&wheel, Duration::from_millis(1), &Arc::new(Panics).into()),
        armed(&wheel, HOUR, Waker::noop()),
    ];
    assert!(wheel.try_sleep(HOUR).is_err_and(|error| error.is_at_capacity()));
    advance(Duration::from_millis(1)).await;
    let stats = wheel.stats();
    assert_eq!((stats.fired, stats.refused, stats.wakers_panicked, stats.ended), (1, 1, 1, false));
    wheel.sleep(Duration::from_millis(1)).await;
    assert_eq!(wheel.shutdown(), 1);
}

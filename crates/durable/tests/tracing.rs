//! Events. In a process of its own: a test without a subscriber beside it would silence them.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use timingwheel::TimingWheel;
use timingwheel_durable::{Durable, Kind, MemoryStore};
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};

use crate::leased::Leased;
use crate::work::{Tick, start, work};

#[path = "it/proof/leased.rs"]
mod leased;
#[path = "it/work.rs"]
mod work;

/// Collects events of this crate as lines, and panics at each of one level if it has to.
#[derive(Clone, Default)]
struct Lines {
    lines: Arc<Mutex<Vec<String>>>,
    panics: bool,
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        use fmt::Write;
        if field.name() == "message" {
            self.0.insert_str(0, &format!("{value:?};"));
        } else {
            let _ = write!(self.0, " {}={value:?}", field.name());
        }
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "timingwheel_durable"
    }

    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        let mut line = Line(String::new());
        span.record(&mut line);
        let name = span.metadata().name();
        self.lines.lock().unwrap().push(format!("{} span {name}{}", span.metadata().level(), line.0));
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.lines.lock().unwrap().push(format!("{} {}", event.metadata().level(), line.0));
        if self.panics {
            panic!("a subscriber panics");
        }
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// A payload that does not fit its kind.
#[derive(Serialize, Deserialize)]
struct Text(String);

impl Kind for Text {
    const KIND: &'static str = "tick";
}

#[tokio::test(start_paused = true)]
async fn events_tell_what_happens_and_a_subscriber_that_panics_changes_nothing() {
    for panics in [false, true] {
        let lines = Lines { panics, ..Lines::default() };
        let _installed = tracing::subscriber::set_default(lines.clone());
        let store = MemoryStore::new();
        let (wheel, durable) = start(&store).await;
        work(&wheel, &durable).await;
        let (_, next) = start(&store).await;
        durable.after(Duration::from_secs(1), &Tick { fails: 0 }).save().await.unwrap();
        next.after(Duration::from_secs(1), &Text("4111 1111".into())).save().await.unwrap();
        wheel.sleep(Duration::from_secs(5)).await;
        next.stop(Duration::from_secs(1)).await;
        let seen = lines.lines.lock().unwrap().clone();
        let starts = |line: &str| seen.iter().filter(|seen| seen.starts_with(line)).count();
        assert_eq!(starts("DEBUG durable timers begin; wheel=\"orders\" epoch="), 2, "{seen:#?}");
        assert_eq!(starts("DEBUG an attempt has failed and is made again; id="), 3, "{seen:#?}");
        assert_eq!(starts("WARN a timer is buried; id="), 2, "{seen:#?}");
        let unreadable = seen.iter().any(|line| {
            line.contains(" kind=\"tick\" attempt=2")
                && line.ends_with("reason=\"its payload cannot be read at its beginning\"")
        });
        assert!(unreadable, "{seen:#?}");
        assert!(!seen.iter().any(|line| line.contains("4111")), "payloads are not logged: {seen:#?}");
        assert!(seen.iter().any(|line| line.ends_with("attempt=2 reason=\"not yet\"")), "{seen:#?}");
        assert_eq!(
            starts("WARN another instance has taken over the store of timers; epoch=1"),
            1,
            "{seen:#?}"
        );
        assert_eq!(starts("DEBUG durable timers have stopped; finished=0"), 1, "{seen:#?}");
        assert!(durable.stats().lost && next.stats().done == 0);
        // Before the next subscriber hears of its end.
        durable.stop(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_has_a_span_with_its_kind_its_key_and_its_number() {
    let lines = Lines::default();
    let _installed = tracing::subscriber::set_default(lines.clone());
    let (wheel, durable) = start(&MemoryStore::new()).await;
    let id = durable.after(Duration::ZERO, &Tick { fails: 1 }).key("k").save().await.unwrap();
    durable.after(Duration::ZERO, &Tick { fails: 0 }).save().await.unwrap();
    wheel.sleep(Duration::from_secs(5)).await;
    let seen = lines.lines.lock().unwrap().clone();
    let count = |end: &str| {
        let span =
            |line: &&String| line.starts_with("INFO span attempt kind=\"tick\"") && line.ends_with(end);
        seen.iter().filter(span).count()
    };
    for attempt in [1, 2] {
        assert_eq!(count(&format!(" key=\"k\" attempt={attempt} id={id}")), 1, "{seen:#?}");
    }
    assert_eq!(count(""), 3, "{seen:#?}");
    // Before the next subscriber hears of its end.
    durable.stop(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn who_loses_its_lease_and_joins_again_says_so_and_speaks_of_no_other_owner() {
    let lines = Lines::default();
    let _installed = tracing::subscriber::set_default(lines.clone());
    let store = Leased::new();
    let durable = Durable::builder(&TimingWheel::new(), store.clone()).start().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    store.take_away().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    durable.stop(Duration::from_secs(1)).await;
    let seen = lines.lines.lock().unwrap().clone();
    let warned: Vec<_> = seen.iter().filter(|line| line.starts_with("WARN")).collect();
    let expected = [
        "WARN the lease is over, and other instances have the timers; epoch=1",
        "WARN the instance joined again; before=1 epoch=3",
    ];
    assert_eq!(warned, expected);
}

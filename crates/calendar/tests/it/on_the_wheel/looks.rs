//! The looks at a clock: what they notice, and that they go on after a panic or on a full wheel.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use timingwheel::TimingWheel;
use timingwheel_calendar::{Rule, WallClock, WallSchedule};
use timingwheel_jobs::{JobsExt, LastRun, PendingRun, Schedule};
use tokio::time::Instant;

use super::clocks::looked_at;
use super::{at, clock_at, daily, hours, run};

const HOUR: i64 = 3_600_000;

/// Sets the clock when the next run is planned, and the job does not wait for it yet.
struct SetAfterNext<F> {
    schedule: WallSchedule,
    set: F,
}

impl<F: FnMut() + Send + 'static> Schedule for SetAfterNext<F> {
    fn next(&mut self, last: LastRun) -> Option<Instant> {
        let next = self.schedule.next(last);
        (self.set)();
        next
    }

    fn attach(&mut self, run: PendingRun) {
        self.schedule.attach(run);
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_between_the_plan_and_the_wait_is_followed() {
    // Before the first run, and after it.
    for nth in [1, 2] {
        let (wheel, clock) = clock_at("2026-06-01T08:59:00Z");
        let schedule = clock.schedule(daily("0 9 * * *"));
        let (scheduled, runs) = (schedule.scheduled(), Arc::new(Mutex::new(Vec::new())));
        let (notes, shows, sets) = (Arc::clone(&runs), clock.clone(), clock.clone());
        let mut calls = 0;
        let set = move || {
            calls += 1;
            if calls == nth {
                sets.set(at("2026-06-05T08:59:30Z"));
            }
        };
        let _job = wheel.run_by(SetAfterNext { schedule, set }, move || {
            let shown = shows.now().strftime("%d %H:%M").to_string();
            notes.lock().unwrap().push((scheduled.get().unwrap().strftime("%d %H:%M").to_string(), shown));
            async {}
        });
        wheel.sleep(hours(1)).await;
        let runs = runs.lock().unwrap().clone();
        let last = ("05 09:00".to_owned(), "05 09:00".to_owned());
        assert_eq!(runs.last(), Some(&last), "{nth}: {runs:?}");
        assert_eq!(wheel.pending(), 1, "nobody looks when all is planned");
    }
}

/// Gets its run while the wheel is full.
struct AttachedWhenFull<S>(TimingWheel, S);

impl<S: Schedule> Schedule for AttachedWhenFull<S> {
    fn next(&mut self, last: LastRun) -> Option<Instant> {
        self.1.next(last)
    }

    fn attach(&mut self, run: PendingRun) {
        let _full: Vec<_> = std::iter::from_fn(|| self.0.try_sleep(Duration::from_secs(60)).ok()).collect();
        self.1.attach(run);
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_is_looked_at_from_the_next_run_on_where_the_wheel_was_full() {
    let wheel = TimingWheel::builder().max_pending(2).build().unwrap();
    let (clock, ahead) = looked_at(&wheel, at("2026-06-01T08:59:59Z"));
    let runs = Arc::new(AtomicI64::new(0));
    let counts = Arc::clone(&runs);
    // It has a place of its own, but there was none for a look.
    let schedule = AttachedWhenFull(wheel.clone(), clock.schedule(daily("0 9-12 * * *")));
    let _job = wheel.run_by(schedule, move || {
        counts.fetch_add(1, Ordering::Relaxed);
        async {}
    });
    assert_eq!(wheel.pending(), 1);
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    assert_eq!(wheel.pending(), 2, "the job, and a look");
    ahead.store(HOUR - 100_000, Ordering::Relaxed);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(runs.load(Ordering::Relaxed), 2);
}

/// Panics when it is told to.
struct Explosive(Arc<AtomicBool>);

impl Rule for Explosive {
    fn after(&self, last: Timestamp) -> Option<Timestamp> {
        assert!(!self.0.load(Ordering::Relaxed), "on purpose");
        daily("0 12 * * *").after(last)
    }
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_panics_in_a_look_harms_no_other() {
    let wheel = TimingWheel::new();
    let (clock, ahead) = looked_at(&wheel, at("2026-06-01T00:00:00Z"));
    let panics = Arc::new(AtomicBool::new(false));
    let (explosive, its_book) = run(&wheel, &clock, clock.schedule(Explosive(Arc::clone(&panics))));
    let (_job, book) = run(&wheel, &clock, clock.schedule(daily("0 9 * * *")));
    panics.store(true, Ordering::Relaxed);
    ahead.store(HOUR, Ordering::Relaxed);
    wheel.sleep(Duration::from_secs(2)).await;
    panics.store(false, Ordering::Relaxed);
    // The looks go on.
    ahead.store(2 * HOUR, Ordering::Relaxed);
    wheel.sleep(hours(10)).await;
    let runs = [book.runs(), its_book.runs()];
    for (runs, instant) in runs.iter().zip(["2026-06-01T09:00:00Z", "2026-06-01T12:00:00Z"]) {
        assert_eq!(runs.iter().map(|run| run.0).collect::<Vec<_>>(), [at(instant)]);
        assert!(runs[0].1 < at(instant) + SignedDuration::from_millis(110), "{runs:?}");
    }
    drop(explosive);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_panics_in_a_look_is_looked_at_again() {
    let wheel = TimingWheel::new();
    let (begin, panics, ahead) =
        (Instant::now(), Arc::new(AtomicBool::new(false)), Arc::new(AtomicI64::new(0)));
    let (explodes, by) = (Arc::clone(&panics), Arc::clone(&ahead));
    let clock = WallClock::from_fn(&wheel, move || {
        assert!(!explodes.load(Ordering::Relaxed), "on purpose");
        let passed = SignedDuration::try_from(begin.elapsed()).unwrap();
        at("2026-06-01T00:00:00Z") + passed + SignedDuration::from_millis(by.load(Ordering::Relaxed))
    });
    let (_job, book) = run(&wheel, &clock, clock.schedule(daily("0 9 * * *")));
    panics.store(true, Ordering::Relaxed);
    wheel.sleep(Duration::from_secs(2)).await;
    panics.store(false, Ordering::Relaxed);
    ahead.store(8 * HOUR, Ordering::Relaxed);
    wheel.sleep(hours(2)).await;
    assert_eq!(book.instants(), ["01 09:00"]);
}

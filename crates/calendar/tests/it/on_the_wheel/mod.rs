//! Rules as the schedules of jobs: by the wall clock, whoever sets it, on a paused clock of tokio's.

mod clocks;
mod looks;
mod missed;
mod resets;
mod set_back;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use timingwheel::TimingWheel;
use timingwheel_calendar::{
    Combine, Cron, InZone, Missed, Once, Periodic, Rule, Scheduled, WallClock, WallSchedule,
};
use timingwheel_jobs::{JobState, JobsExt, Repeating, Schedule};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn daily(expression: &str) -> InZone<Cron> {
    Cron::parse(expression).unwrap().in_zone(TimeZone::UTC)
}

const fn hours(hours: u64) -> Duration {
    Duration::from_secs(hours * 3_600)
}

/// For which instant a run was, and what the clock showed.
type Run = (Timestamp, Timestamp);

/// The runs of a job.
#[derive(Clone, Default)]
struct Book(Arc<Mutex<Vec<Run>>>);

impl Book {
    fn note(&self, scheduled: &Scheduled, clock: &WallClock) {
        self.0.lock().unwrap().push((scheduled.get().expect("a run has an instant"), clock.now()));
    }

    fn runs(&self) -> Vec<Run> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    /// For which instants runs were since the last look, as day and time.
    fn instants(&self) -> Vec<String> {
        self.runs().iter().map(|(scheduled, _)| scheduled.strftime("%d %H:%M").to_string()).collect()
    }
}

/// A wheel, and a clock that it turns, which can be set.
fn clock_at(start: &str) -> (TimingWheel, WallClock) {
    let wheel = TimingWheel::new();
    let clock = WallClock::starting_at(&wheel, at(start));
    (wheel, clock)
}

/// Sleeps until the clock shows this, if nobody sets it.
async fn until(wheel: &TimingWheel, clock: &WallClock, text: &str) {
    wheel.sleep(at(text).duration_since(clock.now()).try_into().unwrap()).await;
}

/// Runs a job that does nothing but note when.
fn run(wheel: &TimingWheel, clock: &WallClock, schedule: WallSchedule) -> (Repeating, Book) {
    run_for(wheel, clock, schedule, Duration::ZERO)
}

/// The same, with runs that take so long.
fn run_for(
    wheel: &TimingWheel,
    clock: &WallClock,
    schedule: WallSchedule,
    length: Duration,
) -> (Repeating, Book) {
    let (book, scheduled) = (Book::default(), schedule.scheduled());
    let (notes, shows) = (book.clone(), clock.clone());
    let job = wheel.run_by(schedule, move || {
        notes.note(&scheduled, &shows);
        async move {
            if !length.is_zero() {
                tokio::time::sleep(length).await;
            }
        }
    });
    (job, book)
}

#[tokio::test(start_paused = true)]
async fn a_year_of_runs_is_on_time_to_the_millisecond() {
    let (wheel, clock) = clock_at("2026-01-01T00:00:00Z");
    let berlin = TimeZone::get("Europe/Berlin").unwrap();
    let rule = Cron::parse("30 2 * * *").unwrap().in_zone(berlin);
    let (job, book) = run(&wheel, &clock, clock.schedule(rule.clone()));
    wheel.sleep(hours(365 * 24)).await;
    let runs = book.runs();
    let expected: Vec<Timestamp> = rule.upcoming(at("2026-01-01T00:00:00Z")).take(365).collect();
    assert_eq!(runs.iter().map(|run| run.0).collect::<Vec<_>>(), expected);
    assert!(runs.iter().all(|(scheduled, shown)| {
        let late = shown.duration_since(*scheduled);
        late >= SignedDuration::ZERO && late < SignedDuration::from_millis(2)
    }));
    assert_eq!(job.info().state, JobState::Pending);
}

#[tokio::test(start_paused = true)]
async fn it_follows_a_paused_clock_with_nothing_to_set() {
    let wheel = TimingWheel::new();
    let clock = WallClock::new(&wheel);
    let begin = clock.now();
    wheel.sleep(hours(100)).await;
    let passed = clock.now().duration_since(begin);
    assert!(
        passed >= SignedDuration::from_hours(100) && passed < SignedDuration::from_hours(101),
        "{passed}"
    );
    let job = wheel.run_by(clock.schedule(daily("0 9 * * *")).times(400), || async {});
    assert_eq!(job.await.unwrap(), 400);
}

#[tokio::test]
async fn the_systems_clock_counts_where_no_clock_is_paused() {
    let wheel = TimingWheel::new();
    let clock = WallClock::new(&wheel);
    assert!(!clock.set(Timestamp::MIN), "it is the system's");
    let (job, book) = run(&wheel, &clock, clock.schedule(daily("* * * * * *")));
    wheel.sleep(Duration::from_millis(1_100)).await;
    job.cancel();
    let runs = book.runs();
    assert!(!runs.is_empty());
    assert!(
        runs.iter().all(|(scheduled, shown)| shown >= scheduled && scheduled.subsec_nanosecond() == 0),
        "{runs:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_during_a_run_changes_what_comes_after_it() {
    for missed in [Missed::once(), Missed::none()] {
        let (wheel, clock) = clock_at("2026-06-01T08:59:00Z");
        let schedule = clock.schedule(daily("0 9 * * *")).with_missed(missed);
        let (job, book) = run_for(&wheel, &clock, schedule, Duration::from_secs(600));
        wheel.sleep(Duration::from_secs(120)).await;
        assert_eq!(job.info().state, JobState::Running);
        clock.set(at("2026-06-02T08:00:00Z"));
        wheel.sleep(Duration::from_secs(3_700)).await;
        assert_eq!(book.instants(), ["01 09:00", "02 09:00"], "{missed:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_rule_ends_is_over_also_if_the_clock_is_put_past_its_end() {
    let (wheel, clock) = clock_at("2026-06-01T00:00:00Z");
    let rule = daily("0 9 * * *").until(at("2026-06-03T00:00:00Z"));
    let job = wheel.run_by(clock.schedule(rule.clone()), || async {});
    assert_eq!(job.await.unwrap(), 2);

    clock.set(at("2026-06-01T00:00:00Z"));
    let job = wheel.run_by(clock.schedule(rule).with_missed(Missed::none()), || async {});
    clock.set(at("2026-07-01T00:00:00Z"));
    assert_eq!(job.await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_single_instant_runs_once_and_far_ones_are_waited_for() {
    let (wheel, clock) = clock_at("2026-06-01T00:00:00Z");
    let order = Once::after_hours(clock.now(), 720);
    assert_eq!(wheel.run_by(clock.schedule(order), || async {}).await.unwrap(), 1);
    assert_eq!(clock.now().strftime("%F %H").to_string(), "2026-07-01 00");
    // In seven thousand years.
    let far = wheel.run_by(clock.schedule(Once::at(at("9999-01-01T00:00:00Z"))), || async {});
    assert_eq!(far.info().state, JobState::Pending);
    let rule = Periodic::minutes(90, clock.now());
    assert_eq!(wheel.run_by(clock.schedule(rule).times(4), || async {}).await.unwrap(), 4);
}

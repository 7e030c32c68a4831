//! How do I run on the last business day of each month, and once after an outage?
//!
//! `cargo run -p timingwheel-calendar --example report`
//!
//! A report is due at 18:00 on the last business day of each month, with the holidays of the firm. What a store has is the
//! rule as a line of text, and the instant for which it ran last. The program "crashes" for two months: when it is back,
//! one report makes up for both, and the next is on time. It exits with 1 if that is not so.

use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::civil::{date, time};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use timingwheel::TimingWheel;
use timingwheel_calendar::{BusinessDays, Calendar, InZone, Missed, MonthDay, Plan, PlanError, WallClock};
use timingwheel_jobs::{JobsExt, Repeating};

const DAY: Duration = Duration::from_secs(86_400);

/// The last business day of each month at 18:00.
fn last_business_days(firm: BusinessDays, zone: TimeZone) -> InZone<Calendar> {
    Calendar::months(1, date(2026, 1, 1), MonthDay::BusinessDay(-1))
        .with_business_days(firm)
        .at(time(18, 0, 0, 0))
        .in_zone(zone)
}

/// Runs `report` by a stored plan, from the instant for which it ran last, with that for which it is now. What was missed
/// meanwhile is made up for once. In production `clock` is `WallClock::new(&wheel)`.
fn run_reports<F: Future<Output = ()> + Send + 'static>(
    wheel: &TimingWheel,
    clock: &WallClock,
    (plan, last): (&str, Timestamp),
    mut report: impl FnMut(Timestamp) -> F + Send + 'static,
) -> Result<Repeating, PlanError> {
    let schedule = clock.schedule(plan.parse::<Plan>()?).since(last).with_missed(Missed::once());
    let scheduled = schedule.scheduled();
    Ok(wheel.run_by(schedule, move || report(scheduled.get().expect("a run has an instant"))))
}

/// Stands for a database.
struct Store {
    plan: String,
    last: Timestamp,
    /// For which instant each report was, and when it ran.
    reports: Vec<(Timestamp, Timestamp)>,
}

/// Runs reports as the store has them, from an instant on, for some days.
async fn process(store: &Arc<Mutex<Store>>, begins: Timestamp, days: u32) -> Result<(), Box<dyn Error>> {
    let wheel = TimingWheel::new();
    let clock = WallClock::starting_at(&wheel, begins);
    let (plan, last) = {
        let store = store.lock().unwrap();
        (store.plan.clone(), store.last)
    };
    let (shows, store) = (clock.clone(), Arc::clone(store));
    let job = run_reports(&wheel, &clock, (&plan, last), move |due| {
        // In the transaction that keeps the report, so that it is neither lost nor written twice.
        let mut store = store.lock().unwrap();
        store.last = due;
        store.reports.push((due, shows.now()));
        async {}
    })?;
    wheel.sleep(days * DAY).await;
    job.cancel();
    Ok(())
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    let holidays = BusinessDays::monday_to_friday()
        .with_yearly_holiday(1, 1)
        .with_yearly_holiday(12, 31)
        // Whatever else: Good Friday, or what a table of the firm's says of the years to come.
        .with_holidays_where(2026..=2030, |day| day == date(2026, 4, 3) || day == date(2026, 4, 30));
    let zone = TimeZone::get("Europe/Berlin")?;
    let rule = last_business_days(holidays, zone.clone());
    let begins: Timestamp = "2026-01-10T00:00:00Z".parse()?;
    println!("{}\n", rule.describe_from(begins).to_string().replace(", ", ",\n"));
    let plan = Plan::from(rule).to_string();
    // In one line there; here it has to fit a terminal.
    println!("stored:\n  {}\n", plan.replace(" holidays", "\n  holidays"));
    let store = Arc::new(Mutex::new(Store { plan, last: begins, reports: Vec::new() }));

    process(&store, begins, 120).await?;
    // It was not there for May's and June's.
    let back = begins + (24 * 180).hours();
    process(&store, back, 60).await?;

    let store = store.lock().unwrap();
    println!("| report for       | ran              |");
    println!("|------------------|------------------|");
    let shown = |at: &Timestamp| at.to_zoned(zone.clone()).strftime("%F %H:%M").to_string();
    let reports: Vec<(String, String)> =
        store.reports.iter().map(|(due, ran)| (shown(due), shown(ran))).collect();
    reports.iter().for_each(|(due, ran)| println!("| {due} | {ran} |"));
    let on_time = |at: &str| (at.to_owned(), at.to_owned());
    let expected = [
        on_time("2026-01-30 18:00"),
        on_time("2026-02-27 18:00"),
        on_time("2026-03-31 18:00"),
        // The 30th is a holiday.
        on_time("2026-04-29 18:00"),
        ("2026-05-29 18:00".into(), shown(&back)),
        on_time("2026-07-31 18:00"),
        on_time("2026-08-31 18:00"),
    ];
    if reports != expected {
        return Err(format!("{reports:?}, and not {expected:?}").into());
    }
    println!("\nWhat it means: after an outage one report runs, for the first that was missed.");
    Ok(())
}

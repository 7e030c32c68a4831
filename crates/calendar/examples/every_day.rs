//! How do I run something every day at 9, though clocks are moved and set?
//!
//! `cargo run -p timingwheel-calendar --example every_day`
//!
//! A year in Berlin passes on tokio's paused clock. Clocks change on two days of it, and in July somebody sets the
//! machine's clock back by half an hour and forward again. It is 9 o'clock on the wall whenever the job runs, and each day
//! has one run; if not, the program says so and exits with 1.

use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::civil::time;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use timingwheel::TimingWheel;
use timingwheel_calendar::{Cron, CronError, WallClock};
use timingwheel_jobs::{JobsExt, Repeating};

/// Runs what `good_morning` makes every day at nine, by the clocks of `zone`. In production `clock` is
/// `WallClock::new(&wheel)`.
fn every_day_at_nine<F: Future<Output = ()> + Send + 'static>(
    wheel: &TimingWheel,
    clock: &WallClock,
    zone: TimeZone,
    good_morning: impl FnMut() -> F + Send + 'static,
) -> Result<Repeating, CronError> {
    let at_nine = Cron::parse("0 9 * * *")?.in_zone(zone);
    println!("{}\n", at_nine.describe_from(clock.now()));
    Ok(wheel.run_by(clock.schedule(at_nine), good_morning))
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    let berlin = TimeZone::get("Europe/Berlin")?;
    let wheel = TimingWheel::new();
    let clock = WallClock::starting_at(&wheel, "2026-01-01T00:00:00+01:00".parse()?);

    let runs: Arc<Mutex<Vec<Timestamp>>> = Arc::default();
    let (notes, shows) = (Arc::clone(&runs), clock.clone());
    let _job = every_day_at_nine(&wheel, &clock, berlin.clone(), move || {
        notes.lock().unwrap().push(shows.now());
        async { /* Say good morning. */ }
    })?;

    let half_an_hour = SignedDuration::from_mins(30);
    let day = Duration::from_secs(86_400);
    wheel.sleep(190 * day).await;
    clock.set(clock.now() - half_an_hour);
    wheel.sleep(5 * day).await;
    clock.set(clock.now() + half_an_hour);
    wheel.sleep(170 * day).await;

    let runs = runs.lock().unwrap();
    println!("| run | by the clocks of Berlin | of UTC |");
    println!("|-----|-------------------------|--------|");
    for (number, run) in
        runs.iter().enumerate().filter(|(number, _)| [0, 86, 87, 88, 296, 297, 364].contains(number))
    {
        let local = run.to_zoned(berlin.clone()).strftime("%a %e %b %H:%M %Z");
        println!(
            "| {:>3} | {:<23} | {:<6} |",
            number + 1,
            local.to_string(),
            run.strftime("%H:%M").to_string()
        );
    }
    let at_nine = |run: &&Timestamp| {
        let shown = berlin.to_datetime(**run).time();
        shown >= time(9, 0, 0, 0) && shown < time(9, 0, 0, 10_000_000)
    };
    if runs.len() != 365 || runs.iter().filter(at_nine).count() != 365 {
        return Err(format!(
            "{} runs, of which {} at 9 o'clock",
            runs.len(),
            runs.iter().filter(at_nine).count()
        )
        .into());
    }
    println!("\nWhat it means: a run each day, at 9 on the wall, however clocks are set.");
    Ok(())
}

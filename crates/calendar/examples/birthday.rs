//! How do I remind a person on 29 February, by the clocks of where they live, also after they moved?
//!
//! `cargo run -p timingwheel-calendar --example birthday`
//!
//! Ada was born on 29 February 2000. Whether years without that day remind her on the 28th or not at all is hers to say;
//! here it is the 28th. She moves from Berlin to Auckland, and her reminder with her. Six years pass on tokio's paused
//! clock, and the program exits with 1 if a reminder is not at 8 in the morning where she lives.

use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::civil::{date, time};
use jiff::tz::TimeZone;
use timingwheel::TimingWheel;
use timingwheel_calendar::{Calendar, InZone, MonthEnd, Plan, WallClock};
use timingwheel_jobs::Jobs;

const DAY: Duration = Duration::from_secs(86_400);

/// On which days a person is reminded: in years without a 29 February on the 28th. A store keeps it as a line of text.
fn reminder(zone: TimeZone) -> String {
    let at_eight = Calendar::years(1, date(2000, 2, 29), MonthEnd::Clamp).at(time(8, 0, 0, 0));
    Plan::from(at_eight.in_zone(zone)).to_string()
}

/// The same days, by the clocks of where the person lives now.
fn moved(reminder: &str, zone: TimeZone) -> Result<String, Box<dyn Error>> {
    Ok(reminder.parse::<InZone<Calendar>>()?.with_zone(zone).to_string())
}

/// Reminds a person. The job replaces the one that had the person's key. In production `clock` is
/// `WallClock::new(&wheel)`.
fn remind<F: Future<Output = ()> + Send + 'static>(
    jobs: &Jobs<&'static str>,
    clock: &WallClock,
    (person, reminder): (&'static str, &str),
    remind: impl FnMut() -> F + Send + 'static,
) -> Result<(), Box<dyn Error>> {
    let rule = reminder.parse::<InZone<Calendar>>()?;
    jobs.try_run_by(person, clock.schedule(rule), remind).map_err(|refused| refused.error())?;
    Ok(())
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    let wheel = TimingWheel::new();
    let clock = WallClock::starting_at(&wheel, "2026-01-01T00:00:00Z".parse()?);
    let jobs = Jobs::new(&wheel);
    let reminders: Arc<Mutex<Vec<String>>> = Arc::default();
    let note = |zone: TimeZone| {
        let (clock, reminders) = (clock.clone(), Arc::clone(&reminders));
        move || {
            let here = clock.now().to_zoned(zone.clone());
            reminders.lock().unwrap().push(here.strftime("%F %H:%M %Q").to_string());
            async { /* Send it. */ }
        }
    };

    let berlin = TimeZone::get("Europe/Berlin")?;
    let stored = reminder(berlin.clone());
    println!("stored:\n  {stored}\n");
    remind(&jobs, &clock, ("ada", &stored), note(berlin))?;
    wheel.sleep(2 * 365 * DAY).await;

    let auckland = TimeZone::get("Pacific/Auckland")?;
    let stored = moved(&stored, auckland.clone())?;
    println!("stored:\n  {stored}\n");
    remind(&jobs, &clock, ("ada", &stored), note(auckland))?;
    wheel.sleep(4 * 365 * DAY).await;

    let reminders = reminders.lock().unwrap();
    reminders.iter().for_each(|reminder| println!("reminded {reminder}"));
    let expected = [
        "2026-02-28 08:00 Europe/Berlin",
        "2027-02-28 08:00 Europe/Berlin",
        "2028-02-29 08:00 Pacific/Auckland",
        "2029-02-28 08:00 Pacific/Auckland",
        "2030-02-28 08:00 Pacific/Auckland",
        "2031-02-28 08:00 Pacific/Auckland",
    ];
    if *reminders != expected {
        return Err(format!("{reminders:?}, and not {expected:?}").into());
    }
    println!("\nWhat it means: the rule is a line of text, and follows the person's clocks.");
    Ok(())
}

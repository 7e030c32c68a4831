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
use timingwheel::job::Jobs;
use timingwheel_calendar::{Calendar, InZone, MonthEnd, Plan, WallClock};

const DAY: Duration = Duration::from_secs(86_400);

/// What a store keeps of a person: a line of text.
struct Person {
    reminder: String,
}

impl Person {
    fn rule(&self) -> Result<InZone<Calendar>, Box<dyn Error>> {
        Ok(self.reminder.parse()?)
    }
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    let wheel = TimingWheel::new();
    let clock = WallClock::starting_at(&wheel, "2026-01-01T00:00:00Z".parse()?);
    let jobs = Jobs::new(&wheel);
    let reminders: Arc<Mutex<Vec<String>>> = Arc::default();
    let remind = |rule: InZone<Calendar>| {
        let (zone, clock, reminders) = (rule.zone().clone(), clock.clone(), Arc::clone(&reminders));
        jobs.try_run_by("ada", clock.schedule(rule), move || {
            let here = clock.now().to_zoned(zone.clone());
            reminders.lock().unwrap().push(here.strftime("%F %H:%M %Q").to_string());
            async { /* Send it. */ }
        })
    };

    let birthday = Calendar::years(1, date(2000, 2, 29), MonthEnd::Clamp)
        .at(time(8, 0, 0, 0))
        .in_zone(TimeZone::get("Europe/Berlin")?);
    let mut ada = Person { reminder: Plan::from(birthday).to_string() };
    println!("stored: {}\n", ada.reminder);
    remind(ada.rule()?).map_err(|refused| refused.error())?;
    wheel.sleep(2 * 365 * DAY).await;

    // She moves: the same rule, by other clocks. The job replaces the one that had her key.
    let moved = ada.rule()?.with_zone(TimeZone::get("Pacific/Auckland")?);
    ada.reminder = moved.to_string();
    println!("stored: {}\n", ada.reminder);
    remind(ada.rule()?).map_err(|refused| refused.error())?;
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
    Ok(())
}

//! How do I remind people each year, at 9 o'clock where they live, also those born on 29 February, also after they moved?
//!
//! `cargo run --release -p timingwheel-durable-programs --example reminders -- --short`
//!
//! Each person has a series under their name. The program is restarted each spring, which changes nothing; who moves gets
//! another rule under the same name. Time is tokio's paused clock, so a year takes a moment. The program exits with 1 if a
//! reminder is missing, doubled, or at another hour than nine.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Parser;
use comfy_table::{Table, presets::ASCII_MARKDOWN};
use indicatif::{ProgressBar, ProgressStyle};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde::{Deserialize, Serialize};
use timingwheel::TimingWheel;
use timingwheel_calendar::{Cron, Plan};
use timingwheel_durable::{Answer::Done, Clock, Durable, Kind, RedbStore, Run, SetClock};

#[derive(Parser)]
#[command(about = "Yearly reminders in many zones")]
struct Settings {
    /// How many years pass.
    #[arg(long, default_value_t = 12)]
    years: u64,
    /// Some seconds.
    #[arg(long)]
    short: bool,
}

#[derive(Serialize, Deserialize)]
struct Remind {
    person: String,
    zone: String,
}

impl Kind for Remind {
    const KIND: &'static str = "remind";
}

/// Name, birthday as cron's day and month, zone.
const PEOPLE: [(&str, &str, &str); 5] = [
    ("Ada", "10 12", "Europe/London"),
    ("Lea", "29 2", "Europe/Berlin"),
    ("Kiri", "5 4", "Pacific/Auckland"),
    ("Sam", "8 3", "America/New_York"),
    ("Noor", "21 3", "Asia/Tehran"),
];

fn rule(birthday: &str, zone: &str) -> Result<Plan, Box<dyn Error>> {
    Ok(Cron::parse(&format!("0 9 {birthday} *"))?.in_zone(TimeZone::get(zone)?).into())
}

type Book = Arc<Mutex<BTreeMap<String, Vec<Zoned>>>>;

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    let settings = Settings::parse();
    let years = if settings.short { 3 } else { settings.years };
    let folder = tempfile::tempdir()?;
    let start: Timestamp = "2026-05-01T00:00:00Z".parse()?;
    let clock = SetClock::starting_at(start);
    let (wheel, book) = (TimingWheel::new(), Book::default());
    let style = ProgressStyle::with_template("{msg:12} {wide_bar} {pos:>3} of {len} years")?;
    let bar = ProgressBar::new(years).with_style(style);
    for year in 0..years {
        let notes = book.clone();
        let remind = move |Remind { person, zone }, run: Run| {
            let zoned = TimeZone::get(&zone).map(|zone| run.scheduled().to_zoned(zone));
            let notes = notes.clone();
            async move {
                notes.lock().unwrap().entry(person).or_default().push(zoned?);
                Ok(Done)
            }
        };
        let durable = Durable::builder(&wheel, RedbStore::create(folder.path().join("reminders.redb"))?)
            .clock(clock.clone())
            .on(remind)
            .start()
            .await?;
        // At each start; the same rule changes nothing.
        for (person, birthday, zone) in PEOPLE {
            // In the second year Sam moves.
            let zone = if person == "Sam" && year >= 1 { "Asia/Tokyo" } else { zone };
            let payload = Remind { person: person.into(), zone: zone.into() };
            durable.every(person, rule(birthday, zone)?, &payload).save().await?;
        }
        wheel.sleep(Duration::from_secs(31_556_952)).await;
        durable.stop(Duration::from_secs(20)).await;
        bar.set_message(clock.now().strftime("%B %Y").to_string());
        bar.inc(1);
    }
    bar.finish_and_clear();

    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(["person", "reminders", "the last", "expected"]);
    let (book, mut wrong) = (book.lock().unwrap(), 0);
    for (person, birthday, _) in PEOPLE {
        let reminders = book.get(person).map(Vec::as_slice).unwrap_or_default();
        let from = start.to_zoned(TimeZone::UTC).year();
        let leap_years = (from + 1..)
            .take(usize::try_from(years)?)
            .filter(|year| jiff::civil::date(*year, 1, 1).in_leap_year());
        let expected = if birthday == "29 2" { leap_years.count() as u64 } else { years };
        let is_right = reminders.iter().all(|at| (at.hour(), at.minute()) == (9, 0))
            && reminders.windows(2).all(|pair| pair[0] < pair[1])
            && reminders.len() as u64 == expected;
        wrong += u64::from(!is_right);
        let last = reminders.last().map_or_else(String::new, |at| at.strftime("%F %H:%M %Z").to_string());
        table.add_row([person.to_owned(), reminders.len().to_string(), last, expected.to_string()]);
    }
    println!("{table}");
    if wrong > 0 { Err(format!("{wrong} people were not reminded as they should be").into()) } else { Ok(()) }
}

//! How do I remind people each year, at 9 o'clock where they live, also those born on 29 February, also after they moved?
//!
//! `cargo run --release -p timingwheel-durable-programs --example reminders -- --short`
//!
//! Each person has a series under their name. The program is restarted each spring, which changes nothing; who moves gets
//! another rule under the same name. Each reminder saves a card for the week after. Two reminders run at once, and none takes
//! longer than a minute. Time is tokio's paused clock, so a year takes a moment. The program exits with 1 if a reminder or a card
//! is missing, doubled, or at another hour than nine.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Parser;
use comfy_table::{Table, presets::ASCII_MARKDOWN};
use indicatif::{ProgressBar, ProgressStyle};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};
use serde::{Deserialize, Serialize};
use timingwheel::TimingWheel;
use timingwheel_calendar::{Cron, Plan};
use timingwheel_durable::{
    Answer::Done, Clock, Durable, HandlerResult, Handling, Kind, RedbStore, Run, SetClock,
};

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

/// Follows a reminder.
#[derive(Serialize, Deserialize)]
struct Card {
    person: String,
}

impl Kind for Card {
    const KIND: &'static str = "card";
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

async fn remind(Remind { person, zone }: Remind, run: Run, notes: Book) -> HandlerResult {
    let at = run.scheduled().to_zoned(TimeZone::get(&zone)?);
    // If this attempt is made again, it saves the same card again.
    let week = run.scheduled() + SignedDuration::from_hours(7 * 24);
    run.durable()?
        .at(week, &Card { person: person.clone() })
        .key(format!("card-{person}"))
        .replace()
        .save()
        .await?;
    notes.lock().unwrap().entry(person).or_default().push(at);
    Ok(Done)
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    let settings = Settings::parse();
    let years = if settings.short { 3 } else { settings.years };
    let folder = tempfile::tempdir()?;
    let start: Timestamp = "2026-05-01T00:00:00Z".parse()?;
    let clock = SetClock::starting_at(start);
    let (wheel, book, mut not_followed) = (TimingWheel::new(), Book::default(), 0);
    let style = ProgressStyle::with_template("{msg:17} {wide_bar} {pos:>3} of {len} years")?;
    let bar = ProgressBar::new(years).with_style(style);
    for year in 0..years {
        let notes = book.clone();
        let told = bar.clone();
        let tell = move |run: Run, handling: Handling| {
            told.set_message(format!("{} {}", run.kind, run.scheduled().strftime("%F")));
            handling
        };
        let durable = Durable::builder(&wheel, RedbStore::create(folder.path().join("reminders.redb"))?)
            .clock(clock.clone())
            .on(move |birthday: Remind, run: Run| remind(birthday, run, notes.clone()))
            .concurrency_of::<Remind>(2)
            .time_limit::<Remind>(Duration::from_secs(60))
            .on(|Card { .. }, _: Run| async { Ok(Done) })
            .around(tell)
            .start()
            .await?;
        // At each start; the same rule changes nothing.
        for (person, birthday, zone) in PEOPLE {
            // In the second year Sam moves.
            let zone = if person == "Sam" && year >= 1 { "Asia/Tokyo" } else { zone };
            let payload = Remind { person: person.into(), zone: zone.into() };
            durable.every(person, rule(birthday, zone)?, &payload).save().await?;
        }
        durable.run_until(clock.now() + SignedDuration::from_secs(31_556_952)).await?;
        let year = durable.stats().kinds;
        let attempts = |kind| year.get(kind).map_or(0, |kind| kind.attempts);
        // No birthday is within a week of the restart.
        not_followed += attempts(Remind::KIND).abs_diff(attempts(Card::KIND));
        durable.stop(Duration::from_secs(20)).await;
        bar.inc(1);
    }
    bar.finish_and_clear();

    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(["person", "reminders", "the last", "expected"]);
    let (book, mut wrong) = (book.lock().unwrap(), not_followed);
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
    if wrong > 0 {
        return Err(format!("{wrong} people or cards were not as they should be").into());
    }
    println!("\nWhat it means: each birthday had one reminder, at 9 where the person lives.");
    Ok(())
}

//! How do I run a report on the last business day of each month, once after an outage?
//!
//! `cargo run --release -p timingwheel-durable-programs --example monthly_report -- --short`
//!
//! The report is a series under one name, with its rule in the store. The program is away now and then, once for four
//! months: of what was missed, one report is made, the first. A report that fails is made again by its back-off. Time is
//! tokio's paused clock. The program exits with 1 if a month is not accounted for.

use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Parser;
use comfy_table::{Table, presets::ASCII_MARKDOWN};
use indicatif::{ProgressBar, ProgressStyle};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use timingwheel::TimingWheel;
use timingwheel_calendar::{Cron, Rule};
use timingwheel_durable::{Answer::Done, Backoff, Clock, Durable, Kind, Missed, RedbStore, Run, SetClock};

#[derive(Parser)]
#[command(about = "A report on the last business day of each month")]
struct Settings {
    /// How many months pass.
    #[arg(long, default_value_t = 36)]
    months: u64,
    /// Some seconds.
    #[arg(long)]
    short: bool,
}

#[derive(Serialize, Deserialize)]
struct Report {
    name: String,
}

impl Kind for Report {
    const KIND: &'static str = "report";
}

const DAY: Duration = Duration::from_secs(86_400);

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    let settings = Settings::parse();
    let months = if settings.short { 18 } else { settings.months };
    let folder = tempfile::tempdir()?;
    let start: Timestamp = "2026-01-05T00:00:00Z".parse()?;
    let clock = SetClock::starting_at(start);
    let wheel = TimingWheel::new();
    let made: Arc<Mutex<Vec<(Timestamp, u32, Timestamp)>>> = Arc::default();
    let zone = TimeZone::get("Europe/Berlin")?;
    // `LW` is the last weekday of the month. Calendars with holidays of yours are in `timingwheel-calendar` too.
    let rule = Cron::parse("0 17 LW * *")?.in_zone(zone.clone());
    let style = ProgressStyle::with_template("{msg:14} {wide_bar} {pos:>3} of {len} months")?;
    let bar = ProgressBar::new(months).with_style(style);
    let mut month = 0;
    while month < months {
        let (notes, now) = (made.clone(), clock.clone());
        let report = move |_: Report, run: Run| {
            let (notes, now) = (notes.clone(), now.now());
            async move {
                // The database of the figures is not there at the first attempt of each third month.
                let month = run.scheduled().to_zoned(TimeZone::UTC).month();
                if month % 3 == 0 && run.attempt == 1 {
                    return Err("the figures are not there yet".into());
                }
                notes.lock().unwrap().push((run.scheduled(), run.attempt, now));
                Ok(Done)
            }
        };
        let durable = Durable::builder(&wheel, RedbStore::create(folder.path().join("report.redb"))?)
            .clock(clock.clone())
            .on(report)
            .retry::<Report>(Backoff::fixed(Duration::from_secs(600)))
            .start()
            .await?;
        let payload = Report { name: "revenue".into() };
        durable.every("monthly-report", rule.clone(), &payload).missed(Missed::once()).save().await?;
        // Half a year, and then the program is away for four months.
        let here = 6.min(months - month);
        for _ in 0..here {
            wheel.sleep(DAY.mul_f64(30.44)).await;
            bar.set_message(clock.now().strftime("%B %Y").to_string());
            bar.inc(1);
        }
        durable.stop(Duration::from_secs(20)).await;
        month += here;
        let away = if months - month > 4 { 4 } else { 0 };
        wheel.sleep(DAY.mul_f64(30.44 * away as f64)).await;
        bar.inc(away);
        month += away;
    }
    bar.finish_and_clear();

    let made = made.lock().unwrap();
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(["report of", "made", "attempt", ""]);
    let (mut late, mut retried) = (0, 0);
    let show = |at: Timestamp| at.to_zoned(zone.clone()).strftime("%a %F %H:%M").to_string();
    for (scheduled, attempt, at) in made.iter() {
        let is_late = at.duration_since(*scheduled) > SignedDuration::from_hours(1);
        (late, retried) = (late + u32::from(is_late), retried + u32::from(*attempt > 1));
        let note = if is_late { "after an outage" } else { "" };
        table.add_row([show(*scheduled), show(*at), attempt.to_string(), note.to_owned()]);
    }
    let all = rule.upcoming(start).take_while(|at| *at < clock.now()).count();
    println!("{table}\n{all} months: {} reports, {} left out by outages.", made.len(), all - made.len());
    let is_ordered = made.windows(2).all(|pair| pair[0].0 < pair[1].0);
    // Four months away are one report and three that are left out.
    let outages = all - made.len();
    if !is_ordered || !outages.is_multiple_of(3) || late == 0 || retried == 0 {
        return Err(format!("{late} late, {retried} made again, {outages} left out").into());
    }
    println!("\nWhat it means: after an outage one report comes late, for all that were missed.");
    Ok(())
}

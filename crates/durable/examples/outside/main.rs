//! How does another scheduler wake far timers, so that the store is asked for them once a day at most?
//!
//! `cargo run --release -p timingwheel-durable-programs --example outside -- --short`
//!
//! The scheduler outside is a second `Durable` here, in `store.rs`. A cloud's scheduler takes its place in a program that is not
//! to run all the time. Time is tokio's paused clock, so months take a moment. The program exits with 1 if a timer is late, lost
//! or not handed over, or if the store was asked more often than once a day.

mod store;

use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use clap::Parser;
use serde::{Deserialize, Serialize};
use store::OutsideStore;
use timingwheel::TimingWheel;
use timingwheel_durable::{Answer::Done, Durable, Kind, MemoryStore, Run};

const DAY: Duration = Duration::from_secs(86_400);

#[derive(Parser)]
#[command(about = "Far timers that another scheduler wakes")]
struct Settings {
    /// How many timers there are, one for each day.
    #[arg(long, default_value_t = 90)]
    timers: u32,
    /// Few of them.
    #[arg(long)]
    short: bool,
}

#[derive(Serialize, Deserialize)]
struct EndTrial(u32);

impl Kind for EndTrial {
    const KIND: &'static str = "end-trial";
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    let Settings { timers, short } = Settings::parse();
    let timers = if short { 7 } else { timers };
    let (wheel, late) = (TimingWheel::new(), Arc::new(Mutex::new(Vec::new())));
    let outside = OutsideStore::start(Durable::builder(&wheel, MemoryStore::new())).await?;
    let noted = Arc::clone(&late);
    let durable = Durable::builder(&wheel, MemoryStore::new())
        .outside(outside.clone(), DAY)
        .on(move |_: EndTrial, run: Run| {
            noted.lock().expect("no handler panics").push(run.late);
            async { Ok(Done) }
        })
        .start()
        .await?;
    for day in 1..=timers {
        // Half a day after a scan. So only a call back makes a timer punctual.
        durable.after(DAY * day - DAY / 2, &EndTrial(day)).save().await?;
    }
    wheel.sleep(Duration::from_secs(1)).await;
    let handed_over = outside.durable().count().await?.stored;
    println!("{handed_over} of {timers} timers were handed over to the scheduler outside");
    if handed_over != u64::from(timers) {
        return Err("a timer was not handed over".into());
    }
    wheel.sleep(DAY * timers).await;

    let late = late.lock().expect("no handler panics");
    let (latest, loads) = (late.iter().max().copied().unwrap_or_default(), durable.stats().loads);
    println!("{} handlers were called, the latest after {latest:?}", late.len());
    println!("the store was asked for timers {loads} times in {timers} days");
    if late.len() != timers as usize || latest > Duration::from_secs(1) || loads > u64::from(timers) + 2 {
        return Err("a timer is late or lost, or the store was asked too often".into());
    }
    println!("\nWhat it means: far timers are on time, though the store is asked once a day.");
    Ok(())
}

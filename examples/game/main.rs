//! How do I run cooldowns and buffs in a game loop?
//!
//! `cargo run --release -p timingwheel-examples --example game`, or with `-- --help` for the settings and `-- --short`
//! for a quick look.
//!
//! All future events are in one `DelayQueue`. Once a frame the loop takes out the due ones, without awaiting. Jobs would be
//! tasks, which run on all threads in any order, so the world would need a lock. From a queue the loop itself applies all
//! events to its world, in the order of their deadlines, and the wheel has one timer for thousands of them. A late frame
//! delays events, and changes nothing else: a poison's next tick follows from the deadline of the last, and a long frame
//! makes up for missed events in order.
//!
//! `play` and `next_due` are all that a program needs; the rest is a world. Characters cast spells: each has a cooldown
//! for its caster, and a buff for its target, which can be refreshed or dispelled, and may tick. A plain map has the events
//! that should happen. If an event comes before its time, out of order, never, or against the map, the program says so and
//! exits with 1.

mod world;

use std::error::Error;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use futures::{FutureExt, StreamExt};
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use timingwheel::TimingWheel;
use timingwheel::time::delay_queue::Expired;
use timingwheel::time::{DelayQueue, MissedTickBehavior};
use timingwheel_examples::{Ledger, conclude, whole};
use tokio::task::unconstrained;
use tokio::time::Instant;

use crate::world::{Books, Counts, SPELLS, World};

/// Makes a frame again and again, until it breaks. A long one is followed by the next whole one: that makes up for all
/// that was due meanwhile.
async fn play<E>(
    wheel: &TimingWheel,
    length: Duration,
    mut frame: impl FnMut() -> Result<ControlFlow<()>, E>,
) -> Result<(), E> {
    let mut ticks = wheel.interval(length);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        if frame()?.is_break() {
            return Ok(());
        }
    }
}

/// The next of the events that are due, in the order of their ticks. It does not wait for more.
fn next_due<T>(events: &mut DelayQueue<T>) -> Option<Expired<T>> {
    // Without tokio's budget for a task, as a frame wants all there are.
    unconstrained(events.next()).now_or_never().flatten()
}

// Runs the game, and reports counts that do not add up.

/// How many casts a character tries in a second.
const TRIES: usize = 4;
/// Of so many tries one is no spell, but takes all buffs from its target.
const DISPEL: usize = 16;
/// After the last spell, the time in which all must have run out.
const PATIENCE: Duration = Duration::from_secs(60);

/// Characters that cast spells, in frames of a fixed length.
#[derive(Parser)]
#[command(name = "game")]
struct Settings {
    /// How many characters there are, from 2 to 200,000
    #[arg(long, value_name = "NUMBER", default_value = "10000", value_parser = whole(2..=200_000_usize))]
    #[arg(default_value_if("short", "true", "2000"), allow_negative_numbers = true)]
    characters: usize,

    /// How many frames there are in a second, from 1 to 500
    #[arg(long, value_name = "NUMBER", default_value = "60", value_parser = whole(1..=500_usize))]
    #[arg(allow_negative_numbers = true)]
    frames: usize,

    /// How many seconds spells are cast, from 1 to 3,600; then the last of them run out
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = whole(1..=3_600_usize))]
    #[arg(default_value_if("short", "true", "2"), allow_negative_numbers = true)]
    seconds: usize,

    /// A quick look: fewer characters and seconds, unless they are given
    #[arg(long)]
    short: bool,
}

#[derive(Default)]
struct Frames {
    count: u64,
    /// Frames whose work took longer than a frame.
    took_too_long: u64,
    /// How many timers were in the wheel after a frame, at the most.
    most_timers: usize,
}

/// Plays, prints the closing table, and returns what does not add up.
async fn run(settings: Settings) -> Result<Vec<String>, Box<dyn Error>> {
    let Settings { characters, frames: in_a_second, seconds, short: _ } = settings;
    let frame = Duration::from_secs(1) / u32::try_from(in_a_second)?;
    let load = Duration::from_secs(seconds.try_into()?);
    let count = HumanCount(characters.try_into()?);
    println!("{count} characters cast spells for {load:?}, with {in_a_second} frames a second.\n");
    let style = ProgressStyle::with_template("{wide_bar} {msg} events pending")?;
    let bar = ProgressBar::new(load.as_millis().try_into()?).with_style(style);

    let (wheel, start) = (TimingWheel::new(), Instant::now());
    let mut world = World::new(characters, wheel.delay_queue(), Books::new(start)?);
    let mut frames = Frames::default();
    let tries = (characters * TRIES).div_ceil(in_a_second);
    let make_frame = || {
        let begin = Instant::now();
        world.apply_due()?;
        if begin < start + load {
            for _ in 0..tries {
                let target = fastrand::usize(..characters);
                if fastrand::usize(..DISPEL) == 0 {
                    world.dispel(target);
                } else {
                    world.cast(fastrand::usize(..characters), target, fastrand::usize(..SPELLS.len()));
                }
            }
        } else if world.pending() == 0 || begin > start + load + PATIENCE {
            return Ok(ControlFlow::Break(()));
        }
        frames.count += 1;
        frames.took_too_long += u64::from(begin.elapsed() > frame);
        frames.most_timers = frames.most_timers.max(wheel.pending());
        bar.set_message(HumanCount(world.pending().try_into()?).to_string());
        bar.set_position(start.elapsed().as_millis().try_into()?);
        Ok::<_, Box<dyn Error>>(ControlFlow::Continue(()))
    };
    play(&wheel, frame, make_frame).await?;
    bar.finish_and_clear();
    let World { books, counts, most_pending, .. } = world;
    report(&frames, most_pending, &counts, &books, wheel.pending())
}

/// Prints the closing table, and returns what does not add up.
fn report(
    frames: &Frames,
    most_pending: usize,
    counts: &Counts,
    books: &Books,
    timers: usize,
) -> Result<Vec<String>, Box<dyn Error>> {
    let Counts { cast, refused, cooled_down, begun, refreshed, dispelled, ended, ticks, damage } = *counts;
    let most_timers = frames.most_timers.try_into()?;
    let mut ledger = Ledger::new("count");
    ledger
        .total("frames", frames.count)
        .of_these("longer than they may be", frames.took_too_long, None)
        .total("tries to cast a spell", cast + refused)
        .part("refused during the caster's cooldown", refused)
        .part("cast", cast)
        .of_these("cooled down since", cooled_down, Some(cast))
        .total("spells cast on a target", cast)
        .part("refreshed a buff", refreshed)
        .part("began a buff", begun)
        .total("buffs begun", begun)
        .part("ended when their time was up", ended)
        .part("dispelled", dispelled)
        .total("ticks of buffs", ticks)
        .total("damage that they did", damage)
        .total("most events pending at one time", most_pending.try_into()?)
        .expect("events applied out of order", books.out_of_order, 0)
        .expect("events not as in the books", books.unexpected, 0)
        .expect("events left at the end", books.pending().try_into()?, 0)
        .expect("most timers in the wheel at one time", most_timers, most_timers.min(1))
        .expect("timers left in the wheel", timers.try_into()?, 0)
        .lateness("events late", |share| Duration::from_nanos(books.lateness.value_at_quantile(share)));
    Ok(ledger.print(
        "What it means: cooldowns and buffs came to their end in order, and never early.\n\
         One timer was enough for all of them.",
    ))
}

#[tokio::main]
async fn main() -> ExitCode {
    conclude(run(Settings::parse())).await
}

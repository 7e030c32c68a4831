//! Runs the game, and reports counts that do not add up.

use std::error::Error;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use timingwheel::TimingWheel;
use tokio::time::Instant;

use crate::books::Books;
use crate::ledger::Ledger;
use crate::limits::whole;
use crate::play;
use crate::world::{Counts, SPELLS, World};

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

pub(crate) async fn main() -> ExitCode {
    crate::machine::watch();
    let problems = run(Settings::parse()).await.unwrap_or_else(|error| vec![error.to_string()]);
    crate::machine::verdict(&problems)
}

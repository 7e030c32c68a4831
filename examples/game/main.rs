//! How do I run cooldowns and buffs in a game loop?
//!
//! `cargo run --release --example game`, or with `-- --help` for the settings and `-- --short` for a quick look.
//!
//! All that will happen is in one `DelayQueue`, and the loop takes out what is due once a frame, without awaiting it.
//! Jobs would be tasks, which run on all threads in any order, so that the world would need a lock. From a queue the
//! loop itself applies everything, in the order of the deadlines, to a world that it alone holds; and of thousands of
//! pending effects the wheel sees one timer. A frame that comes late changes nothing but when things happen: a poison's
//! next tick follows from the deadline of the one before, and what a long frame missed is made up for in order.
//!
//! Characters cast spells: each has a cooldown for its caster, and a buff for its target, which is begun or refreshed,
//! can be dispelled, and may tick. A plain map tells what should happen when. If something happens before its time, out
//! of order, when the map says otherwise, or never, the program says so and exits with 1.

mod books;
mod world;

use std::error::Error;
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use timingwheel::TimingWheel;
use timingwheel::time::MissedTickBehavior;
use tokio::time::Instant;

use books::Books;
use world::{Counts, SPELLS, World};

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
    /// How many characters there are
    #[arg(long, value_name = "NUMBER", default_value = "10000", value_parser = number(2..=200_000))]
    #[arg(default_value_if("short", "true", "2000"), allow_negative_numbers = true)]
    characters: usize,

    /// How many frames there are in a second
    #[arg(long, value_name = "NUMBER", default_value = "60", value_parser = number(1..=500))]
    #[arg(allow_negative_numbers = true)]
    frames: usize,

    /// For how many seconds spells are cast; then the last of them run out
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = number(1..=3_600))]
    #[arg(default_value_if("short", "true", "2"), allow_negative_numbers = true)]
    seconds: usize,

    /// A quick look: fewer characters and seconds, unless they are given
    #[arg(long)]
    short: bool,
}

fn number(limits: RangeInclusive<usize>) -> impl Fn(&str) -> Result<usize, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| limits.contains(number));
        number.ok_or_else(|| format!("it takes a number from {} to {}", limits.start(), limits.end()))
    }
}

#[derive(Default)]
struct Frames {
    count: u64,
    /// Those whose work was longer than they are.
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
    let mut ticks = wheel.interval(frame);
    // The frames that a long one missed are left out: the next makes up for all that was due in them.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let tries = (characters * TRIES).div_ceil(in_a_second);
    loop {
        ticks.tick().await;
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
            break;
        }
        frames.count += 1;
        frames.took_too_long += u64::from(begin.elapsed() > frame);
        frames.most_timers = frames.most_timers.max(wheel.pending());
        bar.set_message(HumanCount(world.pending().try_into()?).to_string());
        bar.set_position(start.elapsed().as_millis().try_into()?);
    }
    bar.finish_and_clear();
    drop(ticks);
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
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(["", "count", "expected"]);
    let mut problems = Vec::new();
    for (name, count, expected) in [
        ("frames", frames.count, None),
        ("- that took too long", frames.took_too_long, None),
        ("spells cast", cast, None),
        ("- cooled down since", cooled_down, Some(cast)),
        ("- refused in their cooldown", refused, None),
        ("buffs begun", begun, Some(cast - refreshed)),
        ("- refreshed", refreshed, None),
        ("- dispelled", dispelled, None),
        ("- ended", ended, Some(begun - dispelled)),
        ("ticks", ticks, None),
        ("- damage done", damage, None),
        ("events pending at most", most_pending.try_into()?, None),
        ("- applied out of order", books.out_of_order, Some(0)),
        ("- not as in the books", books.unexpected, Some(0)),
        ("- left at the end", books.pending().try_into()?, Some(0)),
        ("timers that they took, at most", most_timers, Some(most_timers.min(1))),
        ("- pending at the end", timers.try_into()?, Some(0)),
    ] {
        let text = |count| HumanCount(count).to_string();
        table.add_row([name.into(), text(count), expected.map(text).unwrap_or_default()]);
        if let Some(expected) = expected.filter(|&expected| expected != count) {
            problems.push(format!("{name}: {count}, and not {expected}"));
        }
    }
    for (name, quantile) in
        [("lateness, half within", 0.5), ("lateness, 99 % within", 0.99), ("lateness, most", 1.0)]
    {
        let late = Duration::from_nanos(books.lateness.value_at_quantile(quantile));
        table.add_row([name.into(), format!("{:.3} ms", late.as_secs_f64() * 1e3)]);
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    println!("{table}");
    Ok(problems)
}

#[tokio::main]
async fn main() -> ExitCode {
    let problems = run(Settings::parse()).await.unwrap_or_else(|error| vec![error.to_string()]);
    problems.iter().for_each(|problem| eprintln!("error: {problem}"));
    if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

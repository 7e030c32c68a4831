//! A week in which the clock is set.

use std::error::Error;
use std::time::Duration;

use comfy_table::{Table, presets::ASCII_MARKDOWN};
use jiff::civil::{Time, Weekday, date, time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan};
use timingwheel::TimingWheel;
use timingwheel::job::Jobs;

use crate::books::{Books, Run};
use crate::plan::{Plan, WallClock};
use crate::report::JUMP;
use crate::rule::Rule;

/// Days from Monday on, and a time: what a clock shows.
type Shown = (i64, i8, i8);

/// Somebody sets the clock.
struct Set {
    why: &'static str,
    from: Shown,
    to: Shown,
    /// The days for which the job runs from then on until the clock is set again.
    runs_for: &'static [i64],
}

const MON: i64 = 0;
const TUE: i64 = 1;
const WED: i64 = 2;
const THU: i64 = 3;
const FRI: i64 = 4;
const SAT: i64 = 5;
const SUN: i64 = 6;

const END: Shown = (SUN + 1, 0, 0);

/// When the job runs, every day.
const DUE: Time = time(2, 30, 0, 0);

const WEEK: [Set; 5] = [
    Set { why: "it begins", from: (MON, 0, 0), to: (MON, 0, 0), runs_for: &[MON] },
    Set {
        why: "it was slow, and is put past a run",
        from: (TUE, 1, 40),
        to: (TUE, 3, 40),
        runs_for: &[TUE, WED],
    },
    Set {
        why: "it was fast, and is put back over a run",
        from: (WED, 3, 40),
        to: (WED, 1, 30),
        runs_for: &[THU],
    },
    Set { why: "it was wrong by a day", from: (THU, 12, 0), to: (WED, 12, 0), runs_for: &[THU] },
    Set { why: "the machine was suspended", from: (THU, 12, 0), to: (SAT, 12, 0), runs_for: &[FRI, SUN] },
];

/// Lets the week pass, prints its table, and returns what does not add up.
pub(crate) async fn run(year: i16, look_every: Duration) -> Result<Vec<String>, Box<dyn Error>> {
    println!("A week in which the clock is set, with a job every day at {} UTC.\n", DUE.strftime("%H:%M"));
    let monday = date(year, 6, 1).nth_weekday_of_month(1, Weekday::Monday)?;
    let instant = |(days, hour, minute): Shown| {
        TimeZone::UTC.to_timestamp((monday + days.days()).at(hour, minute, 0, 0))
    };

    let wheel = TimingWheel::new();
    let (jobs, books) = (Jobs::new(&wheel), Books::default());
    let clock = WallClock::showing(instant(WEEK[0].from)?);
    let plan = Plan::new(Rule::Daily(DUE), TimeZone::UTC, clock.clone(), look_every);
    let (noted, shows) = (books.clone(), clock.clone());
    plan.run(&jobs, "backup", move |occasion| {
        noted.note(occasion, &shows);
        async {}
    })?;

    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header([
        "the clock",
        "is set from",
        "to",
        "runs until it is set again",
    ]);
    let mut problems = Vec::new();
    let mut seen = 0;
    for (number, set) in WEEK.iter().enumerate() {
        let to = instant(set.to)?;
        clock.set(to);
        let next = WEEK.get(number + 1).map_or(END, |next| next.from);
        wheel.sleep(instant(next)?.duration_since(clock.now()).try_into()?).await;
        let runs = books.runs().split_off(seen);
        seen += runs.len();
        table.add_row([set.why.into(), text(instant(set.from)?), text(to), texts(&runs)]);

        let due: Vec<Timestamp> = runs.iter().map(|run| run.occasion.at).collect();
        let expected = set.runs_for.iter().map(|&day| instant((day, DUE.hour(), DUE.minute())));
        let expected: Vec<Timestamp> = expected.collect::<Result<_, _>>()?;
        // One whose time the clock was put past is found at the next look.
        let look_every = SignedDuration::try_from(look_every)?;
        let is_late = |run: &Run| match to.duration_since(run.occasion.at) {
            put_past if put_past.is_positive() => run.late() > put_past + look_every + JUMP,
            _ => run.late() >= JUMP,
        };
        if due != expected || runs.iter().any(|run| run.late().is_negative() || is_late(run)) {
            problems.push(format!("{}: {}, and not {expected:?}", set.why, texts(&runs)));
        }
    }
    println!("{table}");
    Ok(problems)
}

fn text(instant: Timestamp) -> String {
    instant.strftime("%a %H:%M").to_string()
}

fn texts(runs: &[Run]) -> String {
    let text_of = |run: &Run| match text(run.at) {
        at if at == text(run.occasion.at) => at,
        at => format!("{}, at {at}", text(run.occasion.at)),
    };
    runs.iter().map(text_of).collect::<Vec<_>>().join("; ")
}

//! Cron expressions and calendar rules that are right on every day of every time zone, alone or as the schedules of jobs
//! on a [timing wheel](https://docs.rs/timingwheel).
//!
//! ```
//! use jiff::{Timestamp, tz::TimeZone};
//! use timingwheel_calendar::{Cron, Rule};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let rule = Cron::parse("30 2 * * *")?.in_zone(TimeZone::get("Europe/Berlin")?);
//! println!("{}", rule.describe_from(Timestamp::now()));
//!
//! // On 29 March 2026 clocks go from 02:00 to 03:00: the run comes at 03:00, once.
//! let before: Timestamp = "2026-03-28T12:00:00Z".parse()?;
//! assert_eq!(rule.after(before), Some("2026-03-29T03:00:00+02:00".parse()?));
//! # Ok(())
//! # }
//! ```
//!
//! A rule is a pure function from an instant to the next, [`Rule::after`]: no clock, no task, no state. It is a value
//! that is compared, printed, read back, stored as text and, with the feature `serde`, serialized.
//!
//! # What there is
//!
//! | for | use |
//! |---|---|
//! | `0 9 * * MON-FRI`, `@daily`, `0 18 LW * *` | [`Cron`] |
//! | every second week, the last business day, the 31st or the last day | [`Calendar`], [`MonthDay`], [`BusinessDays`] |
//! | every 90 minutes of real time | [`Periodic`] |
//! | once: at an instant, 30 calendar days later, 720 hours later | [`Once`] |
//! | a rule by the clocks of a zone | [`InZone`] |
//! | other behaviour for times that a clock change skips or repeats | [`Gap`], [`Overlap`] |
//! | one rule or another, a rule except on some days, until an instant, or a number of times | [`Combine`], [`Plan`] |
//! | a line of text for a store or a configuration | [`Plan`] |
//! | a sentence for people, and the next five instants | [`InZone::describe_from`] |
#![cfg_attr(
    feature = "wheel",
    doc = "| jobs on a wheel, by the wall clock | [`WallClock::schedule`], [`Missed`] |"
)]
//! | coming from cron, Quartz, systemd or another | [`coming_from`] |
//!
//! # What it is not
//!
//! - No store: the crate `timingwheel-durable` saves rules and runs them after a restart. A [`Plan`] is a line of text, and
//!   each run is told its scheduled instant.
//! - No calendar but the Gregorian one, and no list of holidays: you give them, as [`BusinessDays`].
//! - No source of zones: jiff reads the system's, or brings its own, as its features say. When a law changes the
//!   clocks of a zone, rules for it are right once the process has the new data.
//! - No leap seconds: POSIX time has none.
//!
//! # Features
//!
//! | feature | brings |
//! |---|---|
//! | `wheel`, on by default | schedules for jobs of `timingwheel-jobs`; without it neither that nor tokio is needed |
//! | `serde` | `Serialize` and `Deserialize` for [`Cron`], [`InZone`] and [`Plan`], as their texts |

// Imports go one way: `on_wheel` over `plan` over `instants`, `rules`, `cron` over `zone` over `rule` and `wall`.
//
// | file | what it has |
// |---|---|
// | `rule` | the trait, and the iterator over instants |
// | `wall` | a time on the wall as one number, and the Gregorian calendar in integers |
// | `zone` | from times on the wall to instants: clock changes are here, and nowhere else |
// | `cron`, `rules` | times on the wall, without zones |
// | `instants` | instants without a wall |
// | `plan` | any of these as one value, its search and its text |
// | `text` | words, zones by their names, and the mark under a mistake |
// | `missed` | the policy for runs whose time has passed |
// | `runs` | which run comes next, by that policy and by a clock that may be set. For `on_wheel` and `timingwheel-durable` |
// | `on_wheel` | schedules of jobs: the only part that reads a clock |

#[doc = include_str!("../docs/coming_from.md")]
pub mod coming_from {}
mod cron;
mod instants;
mod missed;
#[cfg(feature = "wheel")]
mod on_wheel;
mod plan;
mod rule;
mod rules;
#[doc(hidden)]
pub mod runs;
mod text;
mod wall;
mod zone;

pub use cron::{Cron, CronError, CronField};
pub use instants::{Once, Periodic};
pub use missed::{Missed, MissedError};
#[cfg(feature = "wheel")]
pub use on_wheel::{Scheduled, WallClock, WallSchedule};
pub use plan::{Combine, Plan, PlanError};
pub use rule::{Rule, Upcoming};
pub use rules::{BusinessDays, Calendar, MonthDay, MonthEnd};
pub use zone::{Description, Gap, InZone, Overlap};

/// The README's programs compile and run.
#[cfg(all(doctest, feature = "wheel"))]
#[doc = include_str!("../README.md")]
struct Readme;

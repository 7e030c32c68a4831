//! All tests of the crate from outside, in one binary.

mod against_croner;
mod against_reference;
mod calendar_rules;
mod calendar_walk;
mod cases;
mod clock_changes;
mod coming_from;
mod cron_text;
mod layers;
#[cfg(feature = "wheel")]
mod on_the_wheel;
mod plan_search;
mod plans;
mod properties;
mod random;
mod reference;
#[cfg(feature = "serde")]
mod stored;
mod year_of_minutes;

//! A rule in words, and its next instants.

use std::fmt;

use jiff::{Timestamp, Zoned};

use super::{InZone, WallTimes};
use crate::rule::Rule;
use crate::zone_name::name;

/// How many instants are told.
const TOLD: usize = 5;

/// What a rule means, and its next instants, from [`InZone::describe_from`].
///
/// Its `Display` has the sentence in the first line and an instant in each of the following.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    sentence: String,
    instants: Vec<Zoned>,
}

impl Description {
    pub(super) fn of<T: WallTimes>(rule: &InZone<T>, last: Timestamp) -> Self {
        let zone = rule.zone();
        let sentence = format!("{}, by the clocks of {}", rule.times().describe(), name(zone));
        let instants = rule.upcoming(last).take(TOLD).map(|at| at.to_zoned(zone.clone())).collect();
        Self { sentence, instants }
    }

    /// What the rule means.
    #[must_use]
    pub fn sentence(&self) -> &str {
        &self.sentence
    }

    /// The next instants: five, or fewer if there are no more.
    #[must_use]
    pub fn instants(&self) -> &[Zoned] {
        &self.instants
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)?;
        if self.instants.is_empty() {
            f.write_str("\n  never")?;
        }
        for instant in &self.instants {
            write!(f, "\n  {}", instant.strftime("%a %e %b %Y %H:%M:%S %Z"))?;
        }
        Ok(())
    }
}

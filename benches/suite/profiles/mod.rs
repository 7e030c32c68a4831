//! What does each profile of settings cost, and what does it give?
//!
//! Counts of the core, and what a wheel with these settings takes on the real clock. Memory and moves of single timers,
//! which do not vary, are in the documentation of `Profile`.

mod cost;
mod lateness;

use timingwheel::{Builder, Profile, TimingWheel};

use crate::support::Case;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case {
            name: "profiles_cost",
            question: "What do arming and pending timers cost with each profile of settings?",
            run: cost::run,
        },
        Case {
            name: "profiles_lateness",
            question: "How late are timers with each profile of settings, and what CPU time does that take?",
            run: lateness::run,
        },
    ]
}

/// The profiles, and last the default settings.
fn settings() -> Vec<(String, Builder)> {
    let profiles = Profile::all()
        .iter()
        .map(|&profile| (format!("{profile:?}"), TimingWheel::builder().profile(profile)));
    profiles.into_iter().chain([("default".to_owned(), TimingWheel::builder())]).collect()
}

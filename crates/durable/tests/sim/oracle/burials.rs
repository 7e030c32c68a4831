//! Crashes and burials: whether suspects run alone, and whether what is buried was tried.

use std::collections::BTreeSet;

use timingwheel_durable::TimerId;

use super::{Reader, Row};
use crate::history::{KILLS, Settled};
use crate::script::{Action, Ends, POISON, Script};

/// After so many attempts whose process ended a timer is buried, whatever its tries.
const MOST_CRASHES: u32 = 20;

/// After so many it is a suspect.
const SUSPICIOUS: u32 = 3;

/// A suspect that ends no process is taken along by others so often at the most: later it is alone for as long as it runs.
const MOST_TAKEN_ALONG: u32 = 10;

/// Attempts of a timer whose process ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Crashes {
    count: u32,
    /// In these of them another suspect ended the process, while this one was one.
    taken_along: u32,
    /// So ended the present attempt.
    is_taken_along: bool,
}

impl Crashes {
    pub(super) const fn given_back(self) -> Self {
        Self { is_taken_along: false, ..self }
    }

    const fn is_suspicious(self) -> bool {
        self.count >= SUSPICIOUS
    }

    /// How long it is alone, in milliseconds.
    fn alone_for(self) -> i64 {
        (1_000 << self.count.saturating_sub(SUSPICIOUS).min(20)).min(3_600_000)
    }
}

impl Row {
    /// If it had begun, its process has ended.
    pub(super) fn crash(&mut self) {
        if self.begun_by.take().is_some() {
            self.crashes.count += 1;
            self.crashes.taken_along += u32::from(self.crashes.is_taken_along);
            self.crashes.is_taken_along = false;
        }
    }
}

/// The timers whose handlers end their process.
pub(super) fn killers(script: &Script) -> BTreeSet<u32> {
    use Action::*;
    let jobs = script.steps.iter().filter_map(|step| match &step.does {
        Save { job, .. } | SaveIn { job, .. } | Every { job, .. } | Burst { job, .. } => Some(job),
        _ => None,
    });
    jobs.filter(|job| job.ends == Ends::Kills && job.fails > 0).map(|job| job.n).collect()
}

impl Reader {
    pub(super) fn ended(&mut self, inst: usize, id: TimerId, how: &str) {
        if how == KILLS {
            self.takes_along(inst, id);
        } else if how.starts_with("Bury") || how.contains(POISON) {
            // The store cannot take this error.
            self.buries.insert(id);
        } else if !how.starts_with("Done") && !how.starts_with("Snooze") {
            *self.failed.entry(id).or_default() += 1;
        }
    }

    /// A handler has ended its process.
    fn takes_along(&mut self, inst: usize, id: TimerId) {
        let is_suspect = self.row(id).is_some_and(|row| row.crashes.is_suspicious());
        let members = &self.stands.members;
        for row in self.stands.rows.values_mut().filter(|row| row.id != id && row.is_called) {
            if row.begun_by.and_then(|epoch| members.get(&epoch)) == Some(&inst) {
                row.crashes.is_taken_along = is_suspect && row.crashes.is_suspicious();
            }
        }
    }

    /// A handler is called: of the suspects that its owner runs none is alone still.
    pub(super) fn runs_alone(&mut self, id: TimerId) {
        let Some(called) = self.row(id).filter(|row| row.crashes.is_suspicious()).map(|row| row.clone())
        else {
            return;
        };
        let rows = self.stands.rows.values().filter(|row| row.id != id && row.begun_by == called.begun_by);
        let others = rows.filter(|row| row.is_called && row.crashes.is_suspicious());
        let is_too_soon = |other: &&Row| {
            let (first, second) =
                if called.begun_at < other.begun_at { (&called, *other) } else { (*other, &called) };
            second.begun_at - first.begun_at < first.crashes.alone_for()
        };
        let (other, lost_at) = (others.filter(is_too_soon).map(|other| other.id).next(), self.lost_at);
        if let Some(other) = other.filter(|_| lost_at < 0) {
            self.wrong("alone", format!("{id} is called while {other} runs, and both are suspects"));
        }
    }

    /// A timer ends: if it is buried, it was tried.
    pub(super) fn is_tried(&mut self, ended: &Settled, row: &Row) {
        let Settled { inst, id, attempt, told, .. } = *ended;
        // A payload that an old program cannot read is a failure without a call.
        if self.old.contains(&inst) && told != "deleted" && row.needs.1 && !row.is_called {
            *self.failed.entry(id).or_default() += 1;
        }
        if told != "buried" || self.buries.contains(&id) || self.lost_at >= 0 {
            return;
        }
        let (n, tries, crashes) = (row.n, self.script.tries, row.crashes);
        let failed = self.failed.get(&id).copied().unwrap_or(0);
        if attempt < tries {
            self.wrong("buried", format!("{id}, n {n}, is buried after {attempt} of {tries} tries"));
        } else if failed < tries && crashes.count < MOST_CRASHES {
            let what =
                format!("{id}, n {n}, is buried after {failed} failures of {tries} tries, {crashes:?}");
            self.wrong("buried untried", what);
        } else if failed < tries
            && crashes.taken_along > MOST_TAKEN_ALONG
            && !killers(&self.script).contains(&n)
        {
            self.wrong(
                "taken along",
                format!("{id}, n {n}, is buried for the crashes of others, {crashes:?}"),
            );
        }
    }
}

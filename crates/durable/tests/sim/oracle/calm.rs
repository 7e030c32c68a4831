//! When nothing is wrong that could be felt.

use std::collections::BTreeMap;

use super::Reader;
use crate::history::{Event, History};

/// So long after an instance has come or gone the others have its timers, or it has theirs.
pub(super) const HANDED_OVER: i64 = 10_000;

/// The span of a change begins so long before it.
pub(super) const BEFORE: i64 = 1_000;

/// None of these spans touches this one.
fn is_free(spans: &[(i64, i64)], from: i64, to: i64) -> bool {
    let next = spans.partition_point(|(_, end)| *end < from);
    spans.get(next).is_none_or(|(begin, _)| *begin > to)
}

impl Reader {
    /// When something is wrong, and which timers are held.
    pub(super) fn feel(&mut self, history: &History) {
        let after = 2 * self.script.lease_ms + 60_000;
        let mut asked: BTreeMap<usize, (i64, Option<String>)> = BTreeMap::new();
        let (mut calls, limit) = (BTreeMap::new(), self.script.timeout_ms);
        let mut paused: BTreeMap<&String, i64> = BTreeMap::new();
        let mut come_and_go: Vec<(i64, i64, i64)> = Vec::new();
        // The instances of owners, and the spans of those that are about to leave.
        let (mut insts, mut leaves) = (BTreeMap::<u64, usize>::new(), BTreeMap::<usize, usize>::new());
        for (at, event) in &history.events {
            // Calls that wait for a lock have all connections of their instance, four at a time.
            match event {
                Event::Asked { call, .. } => {
                    calls.retain(|_, asked| at - *asked < 10 * limit);
                    calls.insert(*call, *at);
                    let rounds = i64::try_from(calls.len()).unwrap_or(i64::MAX) / 4;
                    if rounds > 0 {
                        self.uncalm.push((*at, at + rounds * limit + 5_000));
                    }
                }
                Event::Told { call, .. } => drop(calls.remove(call)),
                _ => {}
            }
            match event {
                Event::Fault { until, what } => {
                    self.uncalm.push((*at, until + after));
                    if !what.starts_with("Start") {
                        let is_clock = ["SetClock", "SetDbClock"].iter().any(|way| what.starts_with(way));
                        self.faults.push((*at, until + after, is_clock));
                        if ["ServerDown", "ReadOnly"].iter().any(|way| what.starts_with(way)) {
                            self.outages.push((*at, *until));
                        }
                    }
                }
                Event::Lost { .. }
                | Event::Gone { why: "expired", .. }
                | Event::Down { why: "killed", .. } => {
                    self.uncalm.push((*at - BEFORE, at + after));
                }
                Event::Up { .. } | Event::Gone { .. } | Event::Joined { .. } => {
                    come_and_go.push((*at - BEFORE, *at, at + after));
                    if let Event::Joined { inst, epoch } = event {
                        insts.insert(*epoch, *inst);
                    } else if let Event::Gone { epoch, .. } = event
                        && let Some(span) = insts.get(epoch).and_then(|inst| leaves.remove(inst))
                    {
                        come_and_go[span].1 = *at;
                    }
                }
                // It may take so long until it leaves, if nobody hears that it has.
                Event::Down { inst, .. } => {
                    leaves.insert(*inst, come_and_go.len());
                    come_and_go.push((*at - BEFORE, at + self.script.lease_ms, at + after));
                }
                Event::Asked { call, key, what, .. }
                    if ["SaveIn", "CancelIn", "Hold"].iter().any(|way| what.starts_with(way)) =>
                {
                    asked.insert(*call, (*at, key.clone()));
                }
                Event::Told { call, .. } => {
                    if let Some((from, key)) = asked.remove(call) {
                        self.held.push((from, at + 2_000, key));
                    }
                }
                Event::Paused { kind, is_paused: true } => drop(paused.entry(kind).or_insert(*at)),
                Event::Paused { kind, is_paused: false } => {
                    if let Some(from) = paused.remove(kind) {
                        self.uncalm.push((from, at + after));
                    }
                }
                _ => {}
            }
        }
        self.unquiet.clone_from(&self.uncalm);
        self.unquiet.extend(come_and_go.iter().map(|(from, until, _)| (*from, until + HANDED_OVER)));
        self.uncalm.extend(come_and_go.iter().map(|(from, _, until)| (*from, *until)));
        // One after the other.
        for spans in [&mut self.uncalm, &mut self.unquiet] {
            spans.sort_unstable();
            spans.dedup_by(|next, before| {
                let is_one = next.0 <= before.1;
                if is_one {
                    before.1 = before.1.max(next.1);
                }
                is_one
            });
        }
        self.held.extend(asked.into_values().map(|(from, key)| (from, i64::MAX, key)));
    }

    pub(super) fn is_calm(&self, from: i64, to: i64) -> bool {
        is_free(&self.uncalm, from, to)
    }

    pub(super) fn is_quiet(&self, from: i64, to: i64) -> bool {
        is_free(&self.unquiet, from, to)
    }
}

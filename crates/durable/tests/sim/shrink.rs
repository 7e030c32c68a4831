//! Cuts a script that breaks a rule down to the fewest steps that still break it.

use crate::script::{Action, Script};

/// How many worlds are tried at the most.
const MOST: usize = 400;

/// `fails` tells whether a script still breaks the rule.
pub(crate) fn shrunk(script: &Script, fails: impl Fn(&Script) -> bool) -> Script {
    let (mut best, mut tried) = (script.clone(), 0);
    let mut holds = |script: &Script| {
        tried += 1;
        tried <= MOST && fails(script)
    };
    // Ever smaller parts of it are left out.
    let mut part = best.steps.len().div_ceil(2);
    loop {
        let (mut from, mut has_shrunk) = (0, false);
        while from < best.steps.len() {
            let mut less = best.clone();
            less.steps.drain(from..(from + part).min(best.steps.len()));
            if holds(&less) {
                (best, has_shrunk) = (less, true);
            } else {
                from += part;
            }
        }
        if part == 1 && !has_shrunk {
            break;
        }
        part = (part / 2).max(1);
    }
    // What is left is made plainer.
    for step in 0..best.steps.len() {
        for plainer in plainer(&best.steps[step].does) {
            let mut less = best.clone();
            less.steps[step].does = plainer;
            if holds(&less) {
                best = less;
            }
        }
    }
    best
}

fn plainer(action: &Action) -> Vec<Action> {
    let mut plainer = Vec::new();
    if let Action::Start { slot, .. } = action {
        plainer.push(Action::Start {
            slot: *slot,
            kinds: vec![0, 1, 2],
            is_new: true,
            has_zones: true,
            clock_ms: 0,
            drift_ppm: 0,
        });
    }
    if let Action::Save { by, key, due_in_ms, replaces, job } = action {
        let job = crate::script::Job {
            fails: 0,
            takes_ms: 0,
            is_new: false,
            ends: crate::script::Ends::Done,
            ..job.clone()
        };
        plainer.push(Action::Save { by: *by, key: *key, due_in_ms: *due_in_ms, replaces: *replaces, job });
    }
    plainer
}

//! One history of everything: what was asked and answered, and what handlers did. And a checker that reads it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;

/// Each line is one write at the end of the file: what a process that is killed has written is there.
#[derive(Clone)]
pub(crate) struct History(Arc<File>);

impl History {
    pub(crate) fn open(folder: &Path) -> Self {
        let file =
            OpenOptions::new().create(true).append(true).open(folder.join("history")).expect("a history");
        Self(Arc::new(file))
    }

    pub(crate) fn tell(&self, line: &str) {
        (&*self.0).write_all(format!("{line}\n").as_bytes()).expect("written");
    }
}

pub(crate) fn millis(at: Timestamp) -> i64 {
    at.as_millisecond()
}

/// What the checker found, to see that there was something to find.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) saved: usize,
    pub(crate) removed: usize,
    pub(crate) moved: usize,
    pub(crate) repeated: usize,
    pub(crate) occurrences: usize,
}

#[derive(Default)]
struct Timer {
    is_saved: bool,
    /// As it was asked for, or as an answered move has it.
    due: i64,
    /// As a move has it that was not answered, or not yet.
    moving: Option<i64>,
    is_removed: bool,
    /// A cancel was asked for and not answered, or not yet.
    may_be_removed: bool,
    is_cancel_asked: bool,
    has_ended: bool,
    /// How it ended, as the store's history has it.
    pasts: Vec<String>,
    /// A cancel or a move was answered so.
    is_told_to_run: bool,
    /// Epoch and attempt.
    calls: Vec<(i64, i64)>,
}

/// The invariants: none lost, none before its time, none after it was removed, twice only for another owner and with a
/// higher attempt, a series without a hole.
///
/// # Errors
/// Those that do not hold.
pub(crate) fn check(text: &str) -> Result<Found, Vec<String>> {
    check_of(text, false)
}

/// The same of several owners at a time: who comes after another one may have joined before it. An owner that ended in
/// order and had its timers all the time, as a line `clean` says, leaves nothing to be attempted again.
#[allow(dead_code, reason = "of one of the programs that share this file")]
pub(crate) fn check_shared(text: &str) -> Result<Found, Vec<String>> {
    check_of(text, true)
}

fn check_of(text: &str, is_shared: bool) -> Result<Found, Vec<String>> {
    let (mut timers, mut wrong, mut found) = (BTreeMap::<&str, Timer>::new(), Vec::new(), Found::default());
    let (mut series, mut ended) = (BTreeSet::new(), BTreeSet::new());
    let (mut clean, mut keeps_past) = (BTreeSet::new(), false);
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |index: usize| words[index].parse::<i64>().expect(line);
        let timer = timers.entry(words.get(1).copied().unwrap_or_default()).or_default();
        match words[0] {
            "ask" => timer.due = number(2),
            "saved" => timer.is_saved = true,
            "cancelling" => {
                timer.may_be_removed = true;
                timer.is_cancel_asked = true;
            }
            "kept" => timer.may_be_removed = false,
            "removed" => timer.is_removed = true,
            "running" => {
                timer.may_be_removed = false;
                timer.is_told_to_run = true;
            }
            "moving" => timer.moving = Some(number(2)),
            "moved" => {
                timer.due = number(2);
                timer.moving = None;
                found.moved += 1;
            }
            // Whoever tells so has waited for the answers before, and a handler tells of its end before the store hears of it.
            "unmoved" => {
                if timer.is_saved && !timer.has_ended && !timer.is_removed {
                    wrong.push(format!("not found where it stood: {line}"));
                }
                timer.moving = None;
            }
            "call" => {
                let (attempt, epoch) = (number(2), number(3));
                let (due, now) = (number(4), number(5));
                if timer.is_removed {
                    wrong.push(format!("called after it was removed: {line}"));
                }
                let is_asked_for = due == timer.due || timer.moving == Some(due);
                if now < due || !is_asked_for {
                    wrong.push(format!("called before its time, {}: {line}", timer.due));
                }
                if let Some((before, last)) = timer.calls.last()
                    && !is_shared
                    && (*before >= epoch || *last >= attempt)
                {
                    wrong.push(format!("called twice without cause, after {before} {last}: {line}"));
                }
                timer.calls.push((epoch, attempt));
            }
            "end" => timer.has_ended = true,
            "past" => {
                timer.pasts.push(words[2].to_owned());
                keeps_past = true;
            }
            "clean" => drop(clean.insert(number(1))),
            "occurs" => drop(series.insert(number(2))),
            "occurred" => drop(ended.insert(number(2))),
            _ => {}
        }
    }
    for (name, timer) in &mut timers {
        // An owner that was stopped in the middle of a call tells of it later than the one that has taken over.
        timer.calls.sort_unstable_by_key(|(_, attempt)| *attempt);
        let is_twice = |two: &[(i64, i64)]| two[0].0 == two[1].0 || two[0].1 == two[1].1;
        if timer.calls.windows(2).any(is_twice) {
            wrong.push(format!("called twice without cause: {name}, {:?}", timer.calls));
        }
        let mut earlier = timer.calls.iter().rev().skip(1);
        if let Some((epoch, attempt)) = earlier.find(|(epoch, _)| clean.contains(epoch)) {
            wrong.push(format!(
                "called twice without cause: {name}, again after attempt {attempt} of {epoch}"
            ));
        }
        // One that had begun, and was given back as its kind was paused, is told to run, and is removed.
        let is_cancelled = timer.is_cancel_asked && timer.pasts == ["cancelled"];
        if timer.is_saved && !timer.is_removed && !timer.may_be_removed && !timer.has_ended && !is_cancelled {
            wrong.push(format!("lost: {name}"));
        }
        if keeps_past && (timer.pasts.len() > 1 || timer.is_saved && timer.pasts.is_empty()) {
            wrong.push(format!("ended {} times in the history: {name}", timer.pasts.len()));
        }
        if timer.is_removed && timer.pasts.iter().any(|past| past != "cancelled") {
            wrong.push(format!("removed, and {:?} in the history: {name}", timer.pasts));
        }
        if timer.is_told_to_run && timer.calls.is_empty() {
            wrong.push(format!("told to run, and never called: {name}"));
        }
        found.saved += usize::from(timer.is_saved);
        found.removed += usize::from(timer.is_removed);
        found.repeated += usize::from(timer.calls.len() > 1);
    }
    found.occurrences = ended.len();
    if let (Some(first), Some(last)) = (ended.first(), ended.last()) {
        for second in (*first..*last).step_by(1_000) {
            if !ended.contains(&second) {
                wrong.push(format!("a hole in the series, at {second}"));
            }
        }
    }
    if wrong.is_empty() { Ok(found) } else { Err(wrong) }
}

#[test]
fn the_checker_sees_each_kind_of_fault() {
    let sound = "ask a 100\nsaved a\ncall a 1 1 100 105\nend a\n";
    assert_eq!(check(sound).unwrap().saved, 1);
    let again = "ask a 100\nsaved a\ncall a 1 7 100 105\ncall a 2 5 100 106\nend a\n";
    assert!(check(again).is_err() && check_shared(again).is_ok(), "the first owner may be the younger one");
    assert!(check_shared(&format!("{again}clean 7\n")).is_err(), "the first one lived");
    assert!(check_shared(&format!("{again}clean 5\n")).is_ok(), "the second one lived");
    let twice = "ask a 100\nsaved a\ncall a 1 7 100 105\ncall a 2 7 100 106\nend a\n";
    assert!(check_shared(twice).is_err(), "the same owner");
    for (fault, text) in [
        ("lost", "ask a 100\nsaved a\n"),
        ("lost", "ask a 100\nsaved a\ncancelling a\nkept a\n"),
        ("before its time", "ask a 100\nsaved a\nmoving a 90\ncall a 1 1 80 105\nend a\n"),
        ("lost", "ask a 100\nsaved a\ncall a 1 1 100 105\n"),
        ("before its time", "ask a 100\nsaved a\ncall a 1 1 100 99\nend a\n"),
        ("before its time", "ask a 100\nsaved a\nmoved a 200\ncall a 1 1 100 105\nend a\n"),
        ("not found", "ask a 100\nsaved a\nmoving a 90\nunmoved a\ncall a 1 1 100 105\nend a\n"),
        (
            "before its time",
            "ask a 100\nsaved a\nremoved a\nmoving a 90\nunmoved a\ncall a 1 1 90 105\nend a\n",
        ),
        ("after it was removed", "ask a 100\nsaved a\nremoved a\ncall a 1 1 100 105\nend a\n"),
        ("twice", "ask a 100\nsaved a\ncall a 1 1 100 105\nend a\ncall a 2 1 100 106\n"),
        ("twice", "ask a 100\nsaved a\ncall a 1 1 100 105\nend a\ncall a 1 2 100 106\n"),
        ("never called", "ask a 100\nsaved a\ncancelling a\nrunning a\n"),
        ("hole", "occurred s 1000\noccurred s 3000\n"),
        ("lost", "ask a 100\nsaved a\npast a cancelled\n"),
        ("lost", "ask a 100\nsaved a\ncancelling a\nkept a\npast a done\n"),
        ("ended 0 times", "ask a 100\nsaved a\nask b 100\nsaved b\nend a\nend b\npast b done\n"),
        ("ended 2 times", "ask a 100\nsaved a\nend a\npast a done\npast a done\n"),
        ("in the history", "ask a 100\nsaved a\nremoved a\npast a done\n"),
    ] {
        let wrong = check(text).unwrap_err();
        assert!(wrong.iter().any(|line| line.contains(fault)), "{fault}: {wrong:?}");
    }
}

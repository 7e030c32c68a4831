//! Tasks that poll a guard as a script says, on a stream that is ready when the script says so.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use timingwheel::TimingWheel;
use tokio::time::advance;

use super::by_hand::{ByHand, Op, task};
use super::passed;

/// So many seconds, or `never`.
fn limit(text: &str) -> Option<Duration> {
    (text != "never").then(|| Duration::from_secs_f64(text.parse().unwrap()))
}

/// Each step is one of these. Times are in seconds, and `read` may be any operation.
///
/// | step | what |
/// |---|---|
/// | `read limit 10`, `write limit 10`, `idle limit never` | sets a limit |
/// | `+1.5` | so much time passes |
/// | `read ready` | the stream's next read is ready |
/// | `read pends`, `read done`, `read fails` | the read's task polls, with this result; it fails because a limit has passed |
/// | `read fails idle` | and the text has that word |
/// | `read woken`, `read sleeps` | whether its task was woken since it polled |
/// | `read dropped` | the next poll is another task's |
async fn follow(script: &str) {
    let hand = ByHand::default();
    let guard = Arc::new(Mutex::new(TimingWheel::new().idle_guard(hand.clone())));
    let mut tasks = HashMap::new();
    for (number, step) in script.split(", ").enumerate() {
        let place = || format!("step {number}, `{step}`, of `{script}`");
        if let Some(time) = step.strip_prefix('+') {
            advance(limit(time).unwrap()).await;
            continue;
        }
        let words: Vec<_> = step.split(' ').collect();
        match words[..] {
            ["read", "limit", time] => guard.lock().unwrap().set_read_limit(limit(time)),
            ["write", "limit", time] => guard.lock().unwrap().set_write_limit(limit(time)),
            ["idle", "limit", time] => guard.lock().unwrap().set_idle_limit(limit(time)),
            [name, ref what @ ..] => {
                let op = match name {
                    "read" => Op::Read,
                    "write" => Op::Write,
                    "vectored" => Op::WriteVectored,
                    "flush" => Op::Flush,
                    "shutdown" => Op::Shutdown,
                    _ => panic!("{}", place()),
                };
                let waits = tasks.entry(name).or_insert_with(|| task(&guard, op));
                match *what {
                    ["ready"] => hand.make_ready(op),
                    ["dropped"] => _ = tasks.remove(name),
                    ["woken"] => assert!(waits.is_woken(), "{}", place()),
                    ["sleeps"] => assert!(!waits.is_woken(), "{}", place()),
                    ["pends"] => assert!(waits.poll().is_pending(), "{}", place()),
                    ["done"] => assert!(matches!(waits.poll(), Poll::Ready(Ok(()))), "{}", place()),
                    ["fails", ref word @ ..] => {
                        let Poll::Ready(result) = waits.poll() else { panic!("{}", place()) };
                        let text = passed(result);
                        assert!(word.iter().all(|word| text.contains(word)), "{text}: {}", place());
                    }
                    _ => panic!("{}", place()),
                }
            }
            [] => unreachable!("no step is empty"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_changes_counts_from_when_the_wait_began() {
    for script in [
        // When it has long passed.
        "read limit 86400, read pends, +28800, read limit 10, read woken, read fails",
        // A longer one saves a wait that is overdue and was not polled.
        "read limit 10, read pends, +12, read woken, read limit 20, read pends, +7, read sleeps, +1, read woken, read fails",
        // The task that waits does not know of it.
        "read limit 86400, read pends, +0.005, read limit 0.01, read woken, read pends, +0.004, read sleeps, +0.001, \
         read woken, read fails, read limit 86400, read pends, +0.005, read limit 0.005, read woken, read fails",
        "write limit 86400, write pends, +0.005, write limit 0.01, write woken, write pends, +0.004, write sleeps, +0.001, \
         write woken, write fails, write limit 86400, write pends, +0.005, write limit 0.005, write woken, write fails",
        // For silence it counts from when it was set, and can be taken away.
        "read limit 86400, read pends, idle limit 30, +15, read woken, read pends, +15, read woken, read fails idle, \
         idle limit never, read pends, +43200, read pends, +43200, read fails read",
    ] {
        follow(script).await;
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_is_asked_at_half_of_each_limit_and_who_does_not_answer_was_dropped() {
    for script in [
        // At half of the silence again after traffic. The next read comes when its limit has just passed.
        "idle limit 30, read pends, +15, read woken, read pends, write ready, write done, +15, read woken, read dropped, \
         +15.5, read pends",
        // At half of a limit and at half of the silence, which are not the same.
        "idle limit 20, read limit 30, read pends, +9, write ready, write done, +6, read woken, read pends, +4, \
         read woken, read dropped, +10.5, read pends",
        // At the half of a longer limit.
        "read limit 10, read pends, +6, read woken, read pends, read limit 40, +14, read woken, read dropped, +20.5, \
         read pends",
        "idle limit 10, read pends, +6, read woken, read pends, idle limit 40, +14, read woken, read dropped, +20.5, \
         read pends",
        // Before a limit was set: the next read has the whole of that.
        "read limit 10, read pends, read dropped, +5, +15, read limit 5, read pends, +2.499, read sleeps, +0.001, \
         read woken, read pends, +2.499, read sleeps, +0.001, read woken, read fails",
        "read limit 10, read pends, read dropped, +5, +15, read limit 60, read pends, +29.999, read sleeps, +0.001, \
         read woken, read pends, +29.999, read sleeps, +0.001, read woken, read fails",
        // Before a late turn, a second before.
        "read limit 30, read pends, read dropped, +40, +1.001, read pends, +15, read pends, +15, read fails",
        // Within a second it is an answer, at the end too.
        "read limit 30, read pends, +15, read pends, +15, read woken, +1, read fails",
        "read limit 30, read pends, +15, read pends, +15, read woken, +1.001, read pends",
    ] {
        follow(script).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_past_the_limit_ends_whoever_waits_at_the_next_poll() {
    for op in ["read", "write"] {
        // Past the half, then the end; or at once, by as much as may be.
        for jumps in [&["15", "15"][..], &["17", "17"], &["31"], &["86400"]] {
            let jumps = jumps.join(&format!(", {op} woken, {op} pends, +"));
            follow(&format!("{op} limit 30, {op} pends, +{jumps}, {op} woken, {op} fails")).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_ready_at_the_deadline_or_was_before_anybody_looked_wins() {
    for op in ["read", "write", "vectored", "flush", "shutdown"] {
        for late in ["0.01", "0.011", "86400"] {
            follow(&format!(
                "read limit 0.01, write limit 0.01, {op} pends, +{late}, {op} ready, {op} done, {op} pends, +0.01, {op} fails"
            ))
            .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_flush_is_progress_of_a_write_only_if_it_waited_and_any_write_is_progress_of_a_flush() {
    // As a sink that flushes at every occasion, while its peer takes nothing.
    follow("write limit 0.1, write pends, +0.03, flush ready, flush done, write pends, +0.07, write fails")
        .await;
    let waited = "write pends, flush pends, +0.01, flush ready, flush done, +86400";
    follow(&format!("write limit 0.1, {waited}, write pends, +0.09, write pends, +0.01, write fails")).await;
    for (op, ends) in [("flush", true), ("write", true), ("shutdown", true), ("read", false)] {
        let then = if ends { "flush pends, +0.06, flush fails" } else { "flush fails" };
        let waited = format!("flush pends, +0.06, {op} ready, {op} done, flush pends, +0.04");
        follow(&format!("write limit 0.1, {waited}, {then}")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn for_silence_whatever_waits_fails_and_time_in_which_nobody_waits_does_not_count() {
    for op in ["read", "write", "flush", "shutdown"] {
        let waits = format!("{op} pends, +15, {op} woken, {op} pends, +15, {op} woken, {op} fails idle");
        follow(&format!("idle limit 30, {waits}, {waits}, +86400, {waits}")).await;
        follow(&format!(
            "idle limit 30, {op} ready, {op} done, +86400, {op} pends, {op} dropped, +15, +86400, {waits}"
        ))
        .await;
    }
    // Beside a limit of one direction the earlier counts.
    for (read, idle, which) in [(10, 30, "read limit"), (30, 10, "idle")] {
        follow(&format!(
            "read limit {read}, idle limit {idle}, read pends, +10, read woken, read fails {which}"
        ))
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn silence_is_of_both_directions() {
    for (waits, other) in [("read", "write"), ("write", "read")] {
        // Traffic in one direction prolongs the wait of the other.
        let goes_on =
            format!("{other} ready, {other} done, +15, {waits} woken, {waits} pends, +14, ").repeat(100);
        follow(&format!("idle limit 30, {waits} pends, {goes_on}+1, {waits} woken, {waits} fails idle"))
            .await;
    }
    // One that begins to wait beside another does not.
    follow("idle limit 30, read pends, +15, read pends, +10, write pends, +5, read woken, read fails").await;
}

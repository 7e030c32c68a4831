//! The checks at the end of a run.

use crate::books::Count;
use crate::machine::unless_too_busy;
use crate::run::Outcome;

/// The text if there are no problems.
pub(crate) const ALL_HOLD: &str = "\
It adds up: every request was answered or its connection closed; work that
started was finished, or stopped and did nothing after its timeout; silent
clients saw their connections closed; no timer fired early; none is left.";

/// Counts that do not add up at the end of a run, in words.
pub(crate) fn problems(outcome: &Outcome) -> Vec<String> {
    let Outcome { name, books, lateness, timers_left, stats, .. } = outcome;
    let [requests, done, timed_out, unanswered] =
        [&books.requests, &books.done, &books.timed_out, &books.unanswered].map(Count::get);
    let [started, finished, stopped] =
        [&books.work_started, &books.work_finished, &books.work_stopped].map(Count::get);
    let (silent, seen) = (books.went_silent.get(), books.close_seen.get());
    let left_open = books.connections.now();
    let mut problems = Vec::new();
    let mut check = |holds: bool, otherwise: String| {
        if !holds {
            problems.push(format!("{name}: {otherwise}"));
        }
    };

    check(requests > 0, "no request was made: the run is too short for the think time".into());
    check(
        requests == done + timed_out + unanswered,
        format!(
            "of {requests} requests {done} got done, {timed_out} timed out and {unanswered} were not answered"
        ),
    );
    check(
        started == finished + stopped,
        format!("work was started {started} times, but finished {finished} and stopped {stopped} times"),
    );
    check(
        finished == done && stopped == timed_out,
        format!(
            "clients were told that {done} requests got done and {timed_out} timed out, but work was finished \
             {finished} and stopped {stopped} times"
        ),
    );
    let after = books.steps_after_timeout.get();
    check(after == 0, format!("work did {after} steps after its request had timed out"));
    let slow = books.slow_done.get();
    // Work and its timeout may both be due when a thread that was held up goes on.
    if slow > 0 {
        unless_too_busy(format!("{name}: {slow} requests got done that should have timed out"));
    }
    check(silent == seen, format!("{silent} clients went silent, but {seen} saw the connection closed"));
    let closed = books.idle_closed.get();
    check(closed >= seen, format!("clients saw {seen} closes, but the server closed {closed} connections"));
    let early = books.closed_early.get();
    check(early == 0, format!("{early} connections were closed before the idle timeout"));
    check(left_open == 0, format!("{left_open} connections are still open"));
    check(lateness.early == 0, format!("{} timers fired early", lateness.early));
    check(*timers_left == 0, format!("the program still holds {timers_left} timers"));

    if let Some(stats) = stats {
        let (armed, pending) = (stats.armed, stats.pending);
        check(armed > 0, "no timer reached the wheel".into());
        check(pending == 0, format!("{pending} timers are still pending in the wheel"));
        check(
            armed == stats.fired + stats.cancelled + pending as u64,
            format!(
                "{armed} timers were armed in the wheel, but {} fired, {} were cancelled and {pending} are pending",
                stats.fired, stats.cancelled
            ),
        );
    }
    problems
}

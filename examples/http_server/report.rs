//! The closing tables, and the check of the counts.

use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use indicatif::HumanCount;
use timingwheel::Stats;
use tower::BoxError;

use crate::Limits;
use crate::books::{Books, Count, Limit};
use crate::ledger::Ledger;
use crate::machine::unless_too_busy;

/// Prints the closing tables, and returns what does not add up.
pub(crate) fn print(books: &Books, limits: Limits, stats: &Stats) -> Result<Vec<String>, BoxError> {
    print_limits(books, limits);
    let [requests, done, timed_out, asked_again] =
        [&books.requests, &books.done, &books.timed_out, &books.asked_again].map(Count::get);
    let [slow, idle, held_up] = [&books.slow_closed, &books.idle_closed, &books.held_up].map(Count::get);
    let [started, finished, stopped] =
        [&books.work_started, &books.work_finished, &books.work_stopped].map(Count::get);
    let [accepted, ended] = [&books.accepted, &books.ended].map(Count::get);
    let good = accepted - (slow + idle).min(accepted);

    let mut ledger = Ledger::new("seen");
    ledger
        .total("requests of good clients", requests)
        .part("done", done)
        .of_these("with work that is too slow", books.slow_done.get(), Some(0))
        .unless_too_busy()
        .part("answered with 504", timed_out)
        .of_these("with work that is quick", books.quick_cut_off.get(), None)
        .total("requests sent again: connection closed", asked_again)
        .total("connections", accepted)
        .part("of slow clients, closed by the server", slow)
        .part("of idle clients, closed by the server", idle)
        .part("of good clients, one after the other", good)
        .of_these("closed as the machine held them up", held_up, None)
        .expect("connections closed too early", books.closed_early.get(), 0)
        .expect("connections in use after being told to close", books.outlived.get(), 0)
        .expect("connections that ended", ended, accepted)
        .total("pieces of work started", started)
        .part("finished", finished)
        .part_expected("stopped by the request timeout", stopped, books.request_timeouts.reached())
        .total("timers armed in the wheel", stats.armed)
        .part("fired", stats.fired)
        .part("cancelled", stats.cancelled)
        .part_expected("pending at the end", u64::try_from(stats.pending)?, 0);
    let mut problems = ledger.print(
        "What it means: each limit cut off the clients that it is meant for, never too\n\
         early, and a request that timed out stopped its work.",
    );
    for (what, count) in [("requests", requests), ("slow clients", slow), ("idle clients", idle)] {
        if count == 0 {
            unless_too_busy(format!("no {what}: the run is too short to tell anything"));
        }
    }

    // The clients saw each close of the server, except good clients that were held up.
    let (heads, ages) = (books.head_timeouts.reached(), books.keep_alive_ends.reached());
    if heads > slow + idle + held_up {
        problems.push(format!(
            "{heads} heads timed out, but {slow} clients were slow, {idle} idle, {held_up} held up"
        ));
    }
    if slow + idle > heads + ages {
        problems
            .push(format!("{slow} slow and {idle} idle clients were cut off, but {heads} heads timed out"));
    }
    for (name, limit, _) in rows(books, limits) {
        if limit.reached() == 0 {
            unless_too_busy(format!("{name}: never reached, so the run is too short to tell anything"));
        }
        if limit.early() > 0 {
            problems.push(format!("{name}: {} times too early", limit.early()));
        }
    }
    Ok(problems)
}

/// A limit: its name, what came of it, and what it was set to.
fn rows(books: &Books, limits: Limits) -> [(&'static str, &Limit, Duration); 3] {
    [
        ("slow head", &books.head_timeouts, limits.header_timeout),
        ("slow answer", &books.request_timeouts, limits.request_timeout),
        ("age", &books.keep_alive_ends, limits.keep_alive),
    ]
}

fn print_limits(books: &Books, limits: Limits) {
    let mut table = Table::new();
    let header = ["limit", "set to", "reached", "early", "late: half", "99 %", "all within"];
    table.load_preset(ASCII_MARKDOWN).set_header(header);
    for (name, limit, set_to) in rows(books, limits) {
        let mut row = vec![
            name.to_owned(),
            format!("{set_to:?}"),
            HumanCount(limit.reached()).to_string(),
            HumanCount(limit.early()).to_string(),
        ];
        row.extend(
            [0.5, 0.99, 1.0].map(|share| format!("{:.1} ms", limit.quantile(share).as_secs_f64() * 1e3)),
        );
        table.add_row(row);
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    println!("{table}\n");
}

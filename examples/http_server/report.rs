//! The closing tables, and what does not add up.

use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use indicatif::HumanCount;
use timingwheel::Stats;

use crate::books::{Books, Count, Limit};
use crate::settings::Limits;

/// Prints the closing tables, and returns what does not add up.
pub(crate) fn print(
    books: &Books,
    limits: Limits,
    stats: Stats,
) -> Result<Vec<String>, std::num::TryFromIntError> {
    print_limits(books, limits);
    let [requests, done, timed_out, asked_again] =
        [&books.requests, &books.done, &books.timed_out, &books.asked_again].map(Count::get);
    let [slow, idle, held_up] = [&books.slow_closed, &books.idle_closed, &books.held_up].map(Count::get);
    let [started, finished, stopped] =
        [&books.work_started, &books.work_finished, &books.work_stopped].map(Count::get);
    let [accepted, ended] = [&books.accepted, &books.ended].map(Count::get);

    let mut table = new_table(&["", "seen", "expected"]);
    let mut problems = Vec::new();
    // Whether a figure is as expected, where it has to be something.
    for (name, count, expected) in [
        ("requests of good clients", requests, Some(requests.max(1))),
        ("- done", done, Some(requests - timed_out.min(requests))),
        ("- answered with 504", timed_out, None),
        ("  though their work was quick", books.quick_cut_off.get(), None),
        ("- done though their work was slow", books.slow_done.get(), Some(0)),
        ("- asked again, the connection was closed", asked_again, None),
        ("connections of slow clients, closed", slow, Some(slow.max(1))),
        ("connections of idle clients, closed", idle, Some(idle.max(1))),
        ("- either closed too early", books.closed_early.get(), Some(0)),
        ("connections of good ones that the machine held up", held_up, None),
        ("work started", started, None),
        ("- finished", finished, Some(started - stopped.min(started))),
        ("- stopped", stopped, Some(books.request_timeouts.reached())),
        ("connections accepted", accepted, None),
        ("- ended", ended, Some(accepted)),
        ("- in use after they were told to close", books.outlived.get(), Some(0)),
        ("timers armed in the wheel", stats.armed, Some(stats.fired + stats.cancelled)),
        ("- fired", stats.fired, None),
        ("- cancelled", stats.cancelled, None),
        ("- pending at the end", u64::try_from(stats.pending)?, Some(0)),
    ] {
        let text = |count| HumanCount(count).to_string();
        table.add_row([name.into(), text(count), expected.map(text).unwrap_or_default()]);
        if let Some(expected) = expected.filter(|&expected| expected != count) {
            problems.push(format!("{name}: {count}, and not {expected}"));
        }
    }
    print_table(table);

    // What the server closed is what the clients saw closed, but for good ones that were held up.
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
            problems.push(format!("{name}: never reached, so the run is too short to tell anything"));
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
        ("header timeout: closed", &books.head_timeouts, limits.header_timeout),
        ("request timeout: answered 504", &books.request_timeouts, limits.request_timeout),
        ("keep-alive: told to close", &books.keep_alive_ends, limits.keep_alive),
    ]
}

fn print_limits(books: &Books, limits: Limits) {
    let mut table = new_table(&["limit", "set to", "reached", "early", "late, half within", "99 %", "most"]);
    for (name, limit, set_to) in rows(books, limits) {
        let mut row = vec![
            name.to_owned(),
            format!("{set_to:?}"),
            HumanCount(limit.reached()).to_string(),
            HumanCount(limit.early()).to_string(),
        ];
        row.extend(
            [0.5, 0.99, 1.0].map(|share| format!("{:.3} ms", limit.quantile(share).as_secs_f64() * 1e3)),
        );
        table.add_row(row);
    }
    print_table(table);
}

fn new_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(header);
    table
}

fn print_table(mut table: Table) {
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    println!("{table}\n");
}

//! The closing table, and the check of the counts.

use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use indicatif::HumanCount;

use crate::compared::in_words;
use crate::load::LONG_ONE_IN;
use crate::machine::unless_too_busy;
use crate::run::{Outcome, Settings};

/// Prints the table, and returns the problems.
pub(crate) fn print(settings: Settings, tokios: &Outcome, wheels: &Outcome) -> Vec<String> {
    let Settings { clients, requests, rounds, .. } = settings;
    let connections = clients * rounds;
    let long = requests / LONG_ONE_IN;
    let mut problems = Vec::new();
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(["", "on tokio::time", "on the wheel", "expected"]);
    let both = [tokios, wheels];
    for (name, counts, expected) in [
        (
            "requests",
            both.map(|of| of.books.answered.get() + of.books.given_up.get()),
            connections * requests,
        ),
        ("- answered", both.map(|of| of.books.answered.get()), connections * (requests - long)),
        ("- given up at their limit", both.map(|of| of.books.given_up.get()), connections * long),
        ("connections, all closed as idle", both.map(|of| of.books.idle.get()), connections),
        ("timers that fired early", both.map(|of| of.books.early.get()), 0),
    ] {
        let [tokios, wheels] = counts.map(|count| HumanCount(count).to_string());
        table.add_row([name.to_owned(), tokios, wheels, HumanCount(expected).to_string()]);
        for (time, count) in ["tokio::time", "timingwheel::time"].into_iter().zip(counts) {
            if count != expected {
                let problem = format!("{name}, on {time}: {count}, and not {expected}");
                if expected == 0 {
                    problems.push(problem);
                } else {
                    unless_too_busy(problem);
                }
            }
        }
    }
    let millis = |time: Duration| format!("{:.3} ms", time.as_secs_f64() * 1e3);
    let mut row = |name: &str, [tokios, wheels]: [String; 2]| {
        table.add_row([name.to_owned(), tokios, wheels]);
    };
    row("ticks taken", both.map(|of| HumanCount(of.books.ticks.get()).to_string()));
    for (name, quantile) in
        [("late: half within", 0.5), ("late: 99 % within", 0.99), ("late: all within", 1.0)]
    {
        row(name, both.map(|of| millis(of.books.lateness(quantile))));
    }
    row("CPU time of server and clients", both.map(|of| format!("{:.2} s", of.cpu.as_secs_f64())));
    row("timers armed in the wheel", ["-".into(), HumanCount(wheels.stats.armed).to_string()]);
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    println!("{table}\n\nRows with a dash add up to the row above them.");
    if problems.is_empty() {
        let [of_tokio, of_wheel] = both.map(|of| of.cpu.as_secs_f64());
        println!(
            "What it means: with another `use` the same server did the same. CPU time:\n{} \
             with tokio::time.",
            in_words(of_wheel, of_tokio)
        );
    }

    // Each request has at least one timer that fires, and each connection one more.
    let least = connections * (requests + 1);
    if wheels.stats.fired < least {
        unless_too_busy(format!("only {} timers fired in the wheel, and not {least}", wheels.stats.fired));
    }
    problems
}

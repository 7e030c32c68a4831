//! Compares the books of both ends.

use std::collections::HashMap;
use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use hdrhistogram::Histogram;
use indicatif::HumanCount;
use timingwheel::Stats;

use crate::client::{Client, KINDS, Kind};
use crate::machine::unless_too_busy;
use crate::server::{Connection, Direction};

/// For how many limits a connection lives at the most: a run, and a wait after it; and one for a machine that is slow.
const LIFE_IN_LIMITS: u64 = 8;

/// Prints the closing table, and returns what does not add up.
pub(crate) fn report(
    clients: &[Client],
    connections: &HashMap<SocketAddr, Connection>,
    limit: Duration,
    stats: Stats,
) -> Result<Vec<String>, Box<dyn Error>> {
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN);
    table.set_header(["clients", "number", "held up", "closed in", "open", "late: half", "all within"]);
    let mut problems = Vec::new();
    for kind in KINDS {
        let (mut number, mut held_up, mut closed) = (0, 0, 0);
        let mut late = Histogram::<u64>::new(3)?;
        let expected = match kind {
            Kind::Good | Kind::Slow => None,
            Kind::Silent => Some(Direction::Read),
            Kind::Deaf => Some(Direction::Write),
        };
        for client in clients.iter().filter(|client| client.kind == kind) {
            let connection =
                connections.get(&client.address).ok_or("a client is not in the server's books")?;
            number += 1;
            if client.longest_gap >= limit {
                // The machine kept it from talking, so the server was right to take it for idle.
                held_up += 1;
                continue;
            }
            closed += u64::from(connection.closed_in.is_some());
            if connection.closed_in != expected {
                unless_too_busy(format!(
                    "{kind:?} client: closed in {:?}, and not in {expected:?}",
                    connection.closed_in
                ));
            } else if expected.is_some() {
                match connection.waited.checked_sub(limit) {
                    Some(beyond) => late.record(u64::try_from(beyond.as_nanos())?)?,
                    None => problems.push(format!("{kind:?} client: closed after {:?}", connection.waited)),
                }
            }
            if kind != Kind::Deaf && connection.echoed != client.echoed {
                unless_too_busy(format!(
                    "{kind:?} client: {} bytes of echo, and {} came back",
                    connection.echoed, client.echoed
                ));
            }
        }
        let millis = |quantile| match late.len() {
            0 => String::new(),
            _ => format!(
                "{:.2} ms",
                Duration::from_nanos(late.value_at_quantile(quantile)).as_secs_f64() * 1e3
            ),
        };
        table.add_row([
            format!("{kind:?}").to_lowercase(),
            HumanCount(number).to_string(),
            HumanCount(held_up).to_string(),
            match expected {
                Some(direction) => format!("{} a {direction:?}", HumanCount(closed)).to_lowercase(),
                None => HumanCount(closed).to_string(),
            },
            HumanCount(number - held_up - closed).to_string(),
            millis(0.5),
            millis(1.0),
        ]);
    }
    for column in 1..=6 {
        let column = table.column_mut(column).ok_or("the table has fewer columns")?;
        column.set_cell_alignment(CellAlignment::Right);
    }
    println!("{table}\n\nEach number is the sum of those held up by the machine, closed and left open.");
    println!(
        "The wheel saw {} timers for {} connections, and {} are left.",
        HumanCount(stats.armed),
        HumanCount(clients.len() as u64),
        HumanCount(stats.pending as u64)
    );
    if problems.is_empty() {
        println!(
            "What it means: silent clients were closed in a read, deaf ones in a write, and\n\
             good ones not at all. A guard arms few timers, however often it is read."
        );
    }
    if stats.pending > 0 {
        problems.push(format!("{} timers are left", stats.pending));
    }
    // A timer that comes due with nothing overdue is armed again, once for each half of the limit at the most.
    if stats.armed > clients.len() as u64 * 2 * LIFE_IN_LIMITS {
        unless_too_busy(format!("{} timers for {} connections", stats.armed, clients.len()));
    }
    Ok(problems)
}

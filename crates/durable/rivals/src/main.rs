//! How many timers a second four instances on one PostgreSQL handle, and how late, beside job queues: graphile_worker with
//! its local queue, and underway.
//!
//! `cargo run --release --manifest-path crates/durable/rivals/Cargo.toml` takes some 20 minutes, with `-- --rounds 1` some
//! 12, and with `-- --short` two, for a glimpse. It starts a server by itself, in memory where there are files in memory: so
//! processors count, and no disk.
//!
//! Each has the same server, in a database of its own for each run, the same payload, four processes that stand and have
//! nothing to do before there is a job, and handlers that note the time. All jobs of a run are stored in one transaction,
//! by the function that each has for it or by its own statement. Jobs a second are those of a drain, from that
//! transaction's end until the tables say that all are done, of as many jobs as take some 20 seconds. Lateness is from
//! the millisecond for which a job was stored to its handler's call. Rounds go by turns, and figures are medians.

mod instance;
mod late;
mod rates;
mod rivals;
#[allow(dead_code, reason = "tests use the rest")]
#[path = "../../tests/it/postgres/server.rs"]
mod server;

use std::time::Duration;

use server::Server;

/// How long and how often.
#[derive(Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) is_short: bool,
    /// A drain.
    pub(crate) drain: Duration,
    /// For how long jobs come up that are measured by their lateness.
    pub(crate) late: Duration,
    pub(crate) rounds: usize,
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    if let Some((who, setup, url)) = instance::asked() {
        return runtime.block_on(instance::run(who, setup, &url));
    }
    let arguments: Vec<String> = std::env::args().collect();
    let is_short = arguments.iter().any(|argument| argument == "--short");
    let rounds = arguments.iter().skip_while(|argument| *argument != "--rounds").nth(1);
    let rounds = rounds.map_or(3, |text| text.parse().expect("rounds must be a number"));
    assert!(rounds > 0, "rounds must be at least 1, got 0");
    let scale = if is_short {
        Scale { is_short, drain: Duration::from_millis(500), late: Duration::from_secs(1), rounds: 1 }
    } else {
        Scale { is_short, drain: Duration::from_secs(20), late: Duration::from_secs(10), rounds }
    };
    runtime.block_on(async {
        let server = Server::start();
        let drains = rates::measure(&server, scale).await;
        let lates = late::measure(&server, scale, &drains).await;
        println!();
        println!("| measure | beside | got | target |");
        println!("|---|---|---|---|");
        drains.print();
        lates.print();
    });
}

pub(crate) fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

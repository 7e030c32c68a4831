//! Lateness of jobs that come up at a steady rate.

use std::time::Duration;

use crate::instance::now_us;
use crate::rates::{Drains, handled, stand};
use crate::rivals::{Setup, Who};
use crate::server::Server;
use crate::{Scale, median};

/// A second: many, and as few as take all that are set up as shipped.
const MANY: f64 = 2_000.0;
const FEW: f64 = 4.0;

/// How many are few.
const COUNT: u64 = 100;

/// Before the first is due, all are stored.
const AHEAD: Duration = Duration::from_secs(5);

/// How late, in milliseconds.
#[derive(Clone, Copy)]
struct Late {
    half: f64,
    p99: f64,
    /// Of those that were handled before the measure was given up.
    done: f64,
}

/// One way of setting up, at one rate.
struct Series {
    who: Who,
    setup: Setup,
    rate: f64,
    got: Vec<Late>,
}

pub(crate) struct Lates(Vec<Series>);

/// Those that are not done a while after the last is due count as late as they are by then, at the least.
async fn late(server: &Server, series: &Series, scale: Scale) -> Late {
    let Series { who, setup, rate, .. } = *series;
    let (sql, mut instances) = stand(server, who, setup).await;
    let count = if rate == FEW && !scale.is_short { COUNT } else { (rate * scale.late.as_secs_f64()) as u64 };
    let begin = now_us() / 1_000 + AHEAD.as_millis() as i64;
    let first = format!("to_timestamp({begin} / 1000.0)");
    sql.batch_execute(&who.store(count, &first, 1.0 / rate)).await.expect("jobs");
    assert!(now_us() / 1_000 < begin, "all are stored ahead");
    let last = begin + (count as f64 / rate * 1e3) as i64;
    let limit = last + who.patience(setup).as_millis() as i64;
    while handled(&instances) < count && now_us() / 1_000 < limit {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut all: Vec<i64> = instances.iter_mut().flat_map(crate::instance::Instance::late).collect();
    let done = all.len() as f64 / count as f64;
    // As if those were left that were due last: they are the least late.
    let end = now_us();
    for at in all.len() as u64..count {
        all.push(end - begin * 1_000 - (at as f64 / rate * 1e6) as i64);
    }
    all.sort_unstable();
    let quantile = |share: f64| all[((all.len() - 1) as f64 * share) as usize] as f64 / 1_000.0;
    Late { half: quantile(0.5), p99: quantile(0.99), done: done.min(1.0) }
}

pub(crate) async fn measure(server: &Server, scale: Scale, drains: &Drains) -> Lates {
    let mut all = Vec::new();
    for who in Who::ALL {
        let setups: &[Setup] = match who {
            Who::Ours => &[Setup::AsShipped],
            // Its poll is each minute.
            Who::Underway if scale.is_short => &[Setup::Tuned],
            _ => &[Setup::AsShipped, Setup::Tuned],
        };
        for (setup, rate) in setups.iter().flat_map(|setup| [(*setup, MANY), (*setup, FEW)]) {
            all.push(Series { who, setup, rate, got: Vec::new() });
        }
        if drains.rate(who) < MANY {
            let rate = (drains.rate(who) / 2.0).floor().max(1.0);
            all.push(Series { who, setup: Setup::Tuned, rate, got: Vec::new() });
        }
    }
    for _ in 0..scale.rounds {
        // Those take long, and each of their jobs is for itself.
        for series in all.iter_mut().filter(|series| series.rate != FEW || series.got.is_empty()) {
            let got = late(server, series, scale).await;
            println!(
                "{}: p50 {:.1} ms, p99 {:.1} ms, {:.0} % done",
                series.title(),
                got.half,
                got.p99,
                got.done * 100.0
            );
            series.got.push(got);
        }
    }
    Lates(all)
}

impl Series {
    fn title(&self) -> String {
        format!("{}, {:.0}/s", self.who.title(self.setup), self.rate)
    }

    fn of(&self, get: fn(&Late) -> f64) -> f64 {
        median(self.got.iter().map(get).collect())
    }
}

impl Lates {
    pub(crate) fn print(&self) {
        for series in self.0.iter().filter(|series| series.who != Who::Ours) {
            let beside = |ours: &&Series| ours.who == Who::Ours && ours.rate == series.rate;
            // At other rates there is nothing to compare it with.
            let Some(ours) = self.0.iter().find(beside) else { continue };
            let ratio = median(
                ours.got.iter().zip(&series.got).map(|(ours, theirs)| ours.p99 / theirs.p99).collect(),
            );
            let target =
                if series.setup == Setup::AsShipped && series.rate == MANY { "0.02, 0.002" } else { "" };
            println!("| lateness p99 | {} | {ratio:.4} | {target} |", series.title());
        }
        for series in &self.0 {
            let least = if series.of(|late| late.done) < 1.0 { "at least " } else { "" };
            let (half, p99) = (series.of(|late| late.half), series.of(|late| late.p99));
            println!("| ms of lateness p50, p99: {} | | {least}{half:.1}, {p99:.1} | |", series.title());
        }
    }
}

//! Rounds in pairs: ours and the rival's in turn, so that a noisy machine disturbs both alike, and medians.

use std::time::{Duration, Instant};

use comfy_table::{Cell, CellAlignment, Table, presets::ASCII_MARKDOWN};

/// How much work a run does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    rounds: usize,
    /// Each number of operations or timers is divided by this.
    divisor: usize,
}

impl Scale {
    /// All of it under `cargo bench`, and a thousandth, only to see that it works, under `cargo test --benches`.
    pub(crate) fn from_args() -> Self {
        let is_bench = std::env::args().any(|arg| arg == "--bench");
        let is_test = std::env::args().any(|arg| arg == "--test");
        if is_bench && !is_test { Self { rounds: 15, divisor: 1 } } else { Self { rounds: 1, divisor: 1000 } }
    }

    pub(crate) fn of(self, full: usize) -> usize {
        (full / self.divisor).max(1)
    }
}

/// One line of the closing table.
#[derive(Debug)]
pub(crate) struct Comparison {
    name: &'static str,
    ours: f64,
    rival: f64,
    ratio: f64,
}

/// Runs both sides in turn. Each returns the time that it took for `operations` operations; the first pair, in
/// which caches and pools get warm, does not count.
pub(crate) fn compare(
    scale: Scale,
    name: &'static str,
    operations: usize,
    mut ours: impl FnMut() -> Duration,
    mut rival: impl FnMut() -> Duration,
) -> Comparison {
    eprintln!("{name} ...");
    let per_operation = |time: Duration| time.as_nanos() as f64 / operations as f64;
    ours();
    rival();
    let pairs: Vec<(f64, f64)> = (0..scale.rounds)
        .map(|round| {
            // Who goes first alternates, because the second finds the caches as the first left them.
            if round % 2 == 0 {
                let ours = ours();
                (per_operation(ours), per_operation(rival()))
            } else {
                let rival = rival();
                (per_operation(ours()), per_operation(rival))
            }
        })
        .collect();
    Comparison {
        name,
        ours: median(pairs.iter().map(|pair| pair.0)),
        rival: median(pairs.iter().map(|pair| pair.1)),
        ratio: median(pairs.iter().map(|pair| pair.0 / pair.1)),
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The time that `work` takes.
pub(crate) fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

pub(crate) fn print(title: &str, rival: &str, comparisons: &[Comparison]) {
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN);
    table.set_header([title, "timingwheel, ns", &format!("{rival}, ns"), "ratio (median of pairs)"]);
    for Comparison { name, ours, rival, ratio } in comparisons {
        let number = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        table.add_row(vec![
            Cell::new(name),
            number(format!("{ours:.1}")),
            number(format!("{rival:.1}")),
            number(format!("{ratio:.2}")),
        ]);
    }
    println!("{table}");
}

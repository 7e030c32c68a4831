//! How far a run is: a bar on a terminal, and a line now and then elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{HumanCount, ProgressBar, ProgressStyle};

use crate::books::Books;

/// How many lines there are in a run, where there is no terminal, and what is between them at least.
const LINES: u32 = 4;
const BETWEEN_LINES: Duration = Duration::from_secs(1);

pub(crate) struct Progress {
    name: &'static str,
    start: Instant,
    length: Duration,
    view: View,
}

enum View {
    Bar(ProgressBar),
    Lines { every: Duration, next: Duration },
}

impl Progress {
    pub(crate) fn start(name: &'static str, length: Duration) -> Self {
        let view = if std::io::stderr().is_terminal() {
            let style =
                ProgressStyle::with_template("{prefix} {wide_bar} {msg}").expect("a correct template");
            let millis = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
            View::Bar(ProgressBar::new(millis).with_style(style).with_prefix(name))
        } else {
            let every = BETWEEN_LINES.max(length / LINES);
            View::Lines { every, next: every }
        };
        Self { name, start: Instant::now(), length, view }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    pub(crate) fn show(&mut self, books: &Books, most_timers: u64) {
        let elapsed = self.elapsed();
        let state = || {
            let end = if elapsed < self.length { "" } else { ", closing" };
            format!(
                "{} connections, {} requests, {} timers{end}",
                HumanCount(books.connections.now()),
                HumanCount(books.requests.get()),
                HumanCount(most_timers)
            )
        };
        match &mut self.view {
            View::Bar(bar) => {
                bar.set_message(state());
                bar.set_position(u64::try_from(elapsed.min(self.length).as_millis()).unwrap_or(u64::MAX));
            }
            View::Lines { every, next } if elapsed >= *next => {
                eprintln!("{}, {:.1} s: {}", self.name, elapsed.as_secs_f64(), state());
                *next += *every;
            }
            View::Lines { .. } => {}
        }
    }

    pub(crate) fn finish(self) {
        if let View::Bar(bar) = self.view {
            bar.finish_and_clear();
        }
    }
}

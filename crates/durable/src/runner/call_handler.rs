//! Calling handlers.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use super::live::{Attempt, Live};
use super::{Command, Outcome, Runner};
use crate::handler::{Lost, Run};
use crate::id::TimerId;
use crate::store::Stored;

impl Runner {
    pub(super) fn start(&mut self, stored: Box<Stored>, attempt: Attempt) {
        let id = attempt.timer.id();
        let (due, now) = (attempt.timer.due(), self.clocks.wall());
        let late = Duration::try_from(now.duration_since(due)).unwrap_or(Duration::ZERO);
        {
            let mut stats = self.shared.stats();
            stats.attempts += 1;
            stats.lateness.record(late);
        }
        let Stored { key, payload, .. } = *stored;
        let run = Run {
            id,
            key,
            attempt: attempt.number,
            due,
            late,
            epoch: self.owner.epoch,
            lost: Lost(self.lost.subscribe()),
            #[cfg(feature = "postgres")]
            within: crate::handler::Within {
                timer: attempt.timer,
                series: attempt.series.as_deref().cloned(),
                schema: self.settings.schema.clone(),
                is_finished: std::sync::Arc::clone(&attempt.is_finished),
            },
        };
        let handler = attempt.handler.clone();
        let mut teller = Teller { id, sender: self.sender.clone(), has_told: false };
        let good_until = self.good_until();
        let task = tokio::spawn(async move {
            // The process may have stood still since it was begun.
            if good_until.is_some_and(|until| Instant::now() >= until) {
                return teller.tell(Outcome::TooLate);
            }
            // What reads the payload is the user's code too, and so is what makes the future, and an error's text.
            let called = async {
                match handler.start(&payload, run) {
                    Ok(started) => Outcome::Answered(started.await.map_err(|error| error.to_string())),
                    Err(error) => Outcome::Unreadable(error.to_string()),
                }
            };
            let outcome = AssertUnwindSafe(called).catch_unwind().await;
            teller.tell(outcome.unwrap_or_else(|panic| Outcome::Panicked(message(&*panic))));
        });
        self.live.insert(id, Live::Running { attempt, abort: task.abort_handle() });
    }
}

/// Tells how a handler ended, also if its task is dropped.
struct Teller {
    id: TimerId,
    sender: UnboundedSender<Command>,
    has_told: bool,
}

impl Teller {
    fn tell(&mut self, outcome: Outcome) {
        self.has_told = true;
        // The runner may have gone, as one does that has stopped.
        drop(self.sender.send(Command::Ended(self.id, outcome)));
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        if !self.has_told {
            self.tell(Outcome::Dropped);
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("of another type")
        .to_owned()
}

//! How do I build a queue of delayed messages, with retries and a dead-letter end?
//!
//! `cargo run --release -p timingwheel-examples --example delayed_queue`, or with `-- --help` for the settings and
//! `-- --short` for a quick look.
//!
//! A message is a job with the message's number as its key: it runs when its delay is over, and hands the message to a
//! consumer. If that fails, the job adds its next try under the same key, after a back-off with jitter. After the last try
//! the message goes to the dead letters. A message can be taken back by its key before its time. A waiting message is an
//! entry in the wheel, not a task, and the list of jobs shows all of them.
//!
//! `Queue` is all that a program needs; the rest is a load. At the end the queue stops while messages still wait, and
//! returns all of them. If a message was delivered early, twice, or after it was taken back, or if one is missing from the
//! books, the program says so and exits with 1.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use timingwheel::Error;
use timingwheel_jobs::{JobState, Jobs};
use tokio::time::Instant;

use load::{Message, consume};

/// How often a message is tried.
const TRIES: u32 = 3;

struct Queue {
    jobs: Jobs<u64>,
    dead_letters: Mutex<Vec<Message>>,
    back_off: Duration,
}

impl Queue {
    /// Delivers a message when it is due. It is refused if the queue has been stopped, or the wheel is full.
    fn send(self: &Arc<Self>, message: Message) -> Result<(), Error> {
        let (number, due, queue) = (message.number, message.due, self.clone());
        let sent = self.jobs.try_run_at(number, due, async move { queue.deliver(message).await });
        sent.map(drop).map_err(|refused| refused.error())
    }

    /// Takes a message back, and tells whether it will not be delivered any more.
    fn take_back(&self, number: u64) -> bool {
        self.jobs.remove(&number).is_some_and(|job| job.state == JobState::Pending)
    }

    async fn deliver(self: Arc<Self>, mut message: Message) {
        let Err(failed) = consume(&message).await else { return };
        message.tries += 1;
        if message.tries == TRIES {
            return self.dead_letters.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        }
        // Twice as long after each try, and up to a half longer by chance, so that not all come back at once.
        let wait = self.back_off * 2_u32.pow(message.tries - 1);
        message.due = Instant::now() + wait.mul_f64(1.0 + 0.5 * fastrand::f64());
        if let Err(refused) = self.send(message) {
            eprintln!("{failed}, and there is no other try: {refused}");
        }
    }
}

#[path = "../shared/ledger.rs"]
mod ledger;
#[path = "../shared/limits.rs"]
mod limits;
mod load;
#[path = "../shared/machine.rs"]
mod machine;

#[tokio::main]
async fn main() -> std::process::ExitCode {
    load::main().await
}

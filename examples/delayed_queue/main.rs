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

use std::error::Error;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::Parser;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use timingwheel::TimingWheel;
use timingwheel_examples::{Count, Ledger, conclude, whole};
use timingwheel_jobs::{JobState, Jobs};
use tokio::time::{Instant, sleep};

/// How often a message is tried.
const TRIES: u32 = 3;

struct Queue {
    jobs: Jobs<u64>,
    dead_letters: Mutex<Vec<Message>>,
    back_off: Duration,
}

impl Queue {
    /// Delivers a message when it is due. It is refused if the queue has been stopped, or the wheel is full.
    fn send(self: &Arc<Self>, message: Message) -> Result<(), timingwheel::Error> {
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

// Messages for the queue, their consumer, and counts of how they ended.

/// Of eight tries one fails.
const FAILS: u8 = u8::MAX / 8;

/// A queue of delayed messages under load.
#[derive(Parser)]
#[command(name = "delayed_queue")]
struct Settings {
    /// How many messages there are, from 100 to 2,000,000
    #[arg(long, value_name = "NUMBER", default_value = "200000", value_parser = whole(100..=2_000_000_u64))]
    #[arg(default_value_if("short", "true", "20000"), allow_negative_numbers = true)]
    messages: u64,

    /// The longest delay in milliseconds, from 100 to 60,000; the run takes a little longer
    #[arg(long, value_name = "MS", default_value = "5000", value_parser = whole(100..=60_000_u64))]
    #[arg(default_value_if("short", "true", "1000"), allow_negative_numbers = true)]
    delay: u64,

    /// A quick look: fewer messages and shorter delays, unless they are given
    #[arg(long)]
    short: bool,
}

struct Message {
    number: u64,
    due: Instant,
    tries: u32,
    books: Arc<Books>,
}

/// The consumer's counts.
#[derive(Default)]
struct Books {
    delivered: Count,
    failed: Count,
    /// Of all tries.
    early: Count,
}

/// The consumer. Sometimes it fails.
async fn consume(message: &Message) -> Result<(), &'static str> {
    let books = &message.books;
    if Instant::now() < message.due {
        books.early.add();
    }
    tokio::task::yield_now().await;
    if fastrand::u8(..) < FAILS {
        books.failed.add();
        return Err("the consumer is busy");
    }
    books.delivered.add();
    Ok(())
}

/// Loads a queue, lets it run, stops it, prints the closing table, and returns what does not add up.
async fn run(Settings { messages, delay, short: _ }: Settings) -> Result<Vec<String>, Box<dyn Error>> {
    let longest = Duration::from_millis(delay);
    println!("{} messages are due within {longest:?}, and every 16th in an hour.", HumanCount(messages));
    println!("Each 10th is taken back.\n");
    let style = ProgressStyle::with_template("{wide_bar} {msg} messages wait")?;
    let bar = ProgressBar::new(messages).with_style(style);

    let wheel = TimingWheel::new();
    let (jobs, dead_letters, back_off) = (Jobs::new(&wheel), Mutex::default(), longest / 20);
    let queue = Arc::new(Queue { jobs, dead_letters, back_off });
    let books = Arc::new(Books::default());
    let start = Instant::now();
    for number in 0..messages {
        let delay =
            if number % 16 == 0 { Duration::from_secs(3_600) } else { longest.mul_f64(fastrand::f64()) };
        queue.send(Message { number, due: Instant::now() + delay, tries: 0, books: books.clone() })?;
    }
    let taken_back = (0..messages).step_by(10).filter(|&number| queue.take_back(number)).count() as u64;

    // A message that is retried keeps its key, so the list holds all that are not over.
    let far = messages.div_ceil(16) - messages.div_ceil(80);
    let mut most_pending = 0;
    while queue.jobs.len() as u64 > far && start.elapsed() < 10 * longest {
        most_pending = most_pending.max(wheel.pending() as u64);
        bar.set_message(HumanCount(wheel.pending() as u64).to_string());
        bar.set_position(messages - queue.jobs.len() as u64);
        sleep(Duration::from_millis(10)).await;
    }
    let left = queue.jobs.shutdown(longest).await.not_begun.len() as u64;
    bar.finish_and_clear();

    let [delivered, failed, early] = [&books.delivered, &books.failed, &books.early].map(Count::get);
    let dead = queue.dead_letters.lock().unwrap_or_else(PoisonError::into_inner).len() as u64;
    let mut ledger = Ledger::new("count");
    ledger
        .total("messages sent", messages)
        .part("delivered", delivered)
        .part("dead letters, after three tries that failed", dead)
        .part("taken back", taken_back)
        .part_expected("told of when the queue stopped, due in an hour", left, far)
        .total("tries", delivered + failed)
        .part("that delivered a message", delivered)
        .part("that failed for the last time", dead)
        .part("that failed and were followed by another", failed - dead)
        .expect("tries before their time", early, 0)
        .total("most timers pending at one time", most_pending)
        .expect("timers left in the wheel", wheel.pending() as u64, 0)
        .expect("jobs that panicked", queue.jobs.panicked(), 0);
    Ok(ledger.print(
        "What it means: each message was delivered, given up after three tries, taken\n\
         back, or handed back at the end. None was lost, and none came early.",
    ))
}

#[tokio::main]
async fn main() -> ExitCode {
    conclude(run(Settings::parse())).await
}

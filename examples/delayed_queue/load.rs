//! Messages for the queue, their consumer, and counts of how they ended.

use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::Parser;
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use timingwheel::TimingWheel;
use timingwheel_jobs::Jobs;
use tokio::time::{Instant, sleep};

use crate::Queue;
use crate::ledger::Ledger;
use crate::limits::whole;

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

pub(crate) struct Message {
    pub(crate) number: u64,
    pub(crate) due: Instant,
    pub(crate) tries: u32,
    books: Arc<Books>,
}

/// The consumer's counts.
#[derive(Default)]
struct Books {
    delivered: AtomicU64,
    failed: AtomicU64,
    /// Of all tries.
    early: AtomicU64,
}

fn count(counter: &AtomicU64) {
    // Relaxed: they are read when all is over.
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The consumer. Sometimes it fails.
pub(crate) async fn consume(message: &Message) -> Result<(), &'static str> {
    let books = &message.books;
    if Instant::now() < message.due {
        count(&books.early);
    }
    tokio::task::yield_now().await;
    if fastrand::u8(..) < FAILS {
        count(&books.failed);
        return Err("the consumer is busy");
    }
    count(&books.delivered);
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

    let [delivered, failed, early] =
        [&books.delivered, &books.failed, &books.early].map(|counter| counter.load(Ordering::Relaxed));
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

pub(crate) async fn main() -> ExitCode {
    crate::machine::watch();
    let problems = run(Settings::parse()).await.unwrap_or_else(|error| vec![error.to_string()]);
    crate::machine::verdict(&problems)
}

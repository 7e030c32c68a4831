//! How do I build a queue of delayed messages, with retries and a dead-letter end?
//!
//! `cargo run --release --example delayed_queue`, or with `-- --help` for the settings and `-- --short` for a quick
//! look.
//!
//! A message is a job with the message's number as its key: it runs when its delay is over, and hands the message to a
//! consumer. If that fails, the job adds its next try by the same key, after a back-off with jitter; after the last try
//! the message goes to the dead letters. A message that is taken back before its time is removed by its key. So a
//! message that waits is an entry in the wheel, not a task, and the queue's books are the list of jobs.
//!
//! The end stops the queue while messages still wait, and they are all told of. If a message was delivered early,
//! twice, or after it was taken back, or if one is missing from the books, the program says so and exits with 1.

use std::error::Error;
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::Parser;
use comfy_table::{CellAlignment, Table, presets::ASCII_MARKDOWN};
use indicatif::{HumanCount, ProgressBar, ProgressStyle};
use timingwheel::TimingWheel;
use timingwheel::job::{JobState, Jobs};
use tokio::time::{Instant, sleep};

/// How often a message is tried.
const TRIES: u32 = 3;

/// Of eight tries one fails.
const FAILS: u8 = u8::MAX / 8;

/// A queue of delayed messages under load.
#[derive(Parser)]
#[command(name = "delayed_queue")]
struct Settings {
    /// How many messages there are
    #[arg(long, value_name = "NUMBER", default_value = "200000", value_parser = number(100..=2_000_000))]
    #[arg(default_value_if("short", "true", "20000"), allow_negative_numbers = true)]
    messages: u64,

    /// The longest delay in milliseconds; the run takes a little longer
    #[arg(long, value_name = "MS", default_value = "5000", value_parser = number(100..=60_000))]
    #[arg(default_value_if("short", "true", "1000"), allow_negative_numbers = true)]
    delay: u64,

    /// A quick look: fewer messages and shorter delays, unless they are given
    #[arg(long)]
    short: bool,
}

fn number(limits: RangeInclusive<u64>) -> impl Fn(&str) -> Result<u64, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| limits.contains(number));
        number.ok_or_else(|| format!("it takes a number from {} to {}", limits.start(), limits.end()))
    }
}

struct Message {
    number: u64,
    text: String,
    due: Instant,
    tries: u32,
}

/// What became of the messages.
#[derive(Default)]
struct Counts {
    delivered: AtomicU64,
    early: AtomicU64,
    failed_tries: AtomicU64,
    refused: AtomicU64,
}

fn count(counter: &AtomicU64) {
    // Relaxed: they are read when all is over.
    counter.fetch_add(1, Ordering::Relaxed);
}

struct Queue {
    jobs: Jobs<u64>,
    counts: Counts,
    dead_letters: Mutex<Vec<Message>>,
    back_off: Duration,
}

impl Queue {
    fn new(wheel: &TimingWheel, back_off: Duration) -> Arc<Self> {
        let (jobs, counts) = (Jobs::new(wheel), Counts::default());
        Arc::new(Self { jobs, counts, dead_letters: Mutex::default(), back_off })
    }

    /// Delivers a message when it is due. It is refused if the queue has been stopped.
    fn send(self: &Arc<Self>, message: Message) {
        let (number, due, queue) = (message.number, message.due, self.clone());
        if self.jobs.try_run_at(number, due, async move { queue.deliver(message).await }).is_err() {
            count(&self.counts.refused);
        }
    }

    /// Takes a message back, and tells whether it will not be delivered any more.
    fn take_back(&self, number: u64) -> bool {
        self.jobs.remove(&number).is_some_and(|job| job.state == JobState::Pending)
    }

    async fn deliver(self: Arc<Self>, mut message: Message) {
        if Instant::now() < message.due {
            count(&self.counts.early);
        }
        if consume(&message.text).await.is_ok() {
            return count(&self.counts.delivered);
        }
        count(&self.counts.failed_tries);
        message.tries += 1;
        if message.tries == TRIES {
            return self.dead_letters.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        }
        // Twice as long after each try, and up to a half longer by chance, so that not all come back at once.
        let wait = self.back_off * 2_u32.pow(message.tries - 1);
        message.due = Instant::now() + wait.mul_f64(1.0 + 0.5 * fastrand::f64());
        self.send(message);
    }
}

/// The consumer. Sometimes it fails.
async fn consume(text: &str) -> Result<(), &'static str> {
    tokio::task::yield_now().await;
    if text.is_empty() || fastrand::u8(..) < FAILS { Err("the consumer is busy") } else { Ok(()) }
}

/// Loads a queue, lets it run, stops it, prints the closing table, and returns what does not add up.
async fn run(Settings { messages, delay, short: _ }: Settings) -> Result<Vec<String>, Box<dyn Error>> {
    let longest = Duration::from_millis(delay);
    let count_of = HumanCount(messages);
    println!(
        "{count_of} messages are due within {longest:?}, and every 16th in an hour. Each 10th is taken back.\n"
    );
    let style = ProgressStyle::with_template("{wide_bar} {msg} messages wait")?;
    let bar = ProgressBar::new(messages).with_style(style);

    let wheel = TimingWheel::new();
    let queue = Queue::new(&wheel, longest / 20);
    let start = Instant::now();
    for number in 0..messages {
        let delay =
            if number % 16 == 0 { Duration::from_secs(3_600) } else { longest.mul_f64(fastrand::f64()) };
        let text = format!("message {number}");
        queue.send(Message { number, text, due: Instant::now() + delay, tries: 0 });
    }
    let most_pending = wheel.pending() as u64;
    let taken_back = (0..messages).step_by(10).filter(|&number| queue.take_back(number)).count() as u64;

    // A message that is retried keeps its key, so the list holds all that are not over.
    let far = messages.div_ceil(16) - messages.div_ceil(80);
    while queue.jobs.len() as u64 > far && start.elapsed() < 10 * longest {
        bar.set_message(HumanCount(wheel.pending() as u64).to_string());
        bar.set_position(messages - queue.jobs.len() as u64);
        sleep(Duration::from_millis(10)).await;
    }
    let left = queue.jobs.stop();
    bar.finish_and_clear();

    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let Counts { delivered, early, failed_tries, refused } = &queue.counts;
    let dead = queue.dead_letters.lock().unwrap_or_else(PoisonError::into_inner).len() as u64;
    let not_over = left.len() as u64;
    let mut table = Table::new();
    table.load_preset(ASCII_MARKDOWN).set_header(["", "count", "expected"]);
    let mut problems = Vec::new();
    for (name, count, expected) in [
        ("messages", messages, None),
        ("- waiting at most", most_pending, None),
        ("- taken back", taken_back, None),
        ("- delivered", load(delivered), Some(messages - taken_back - dead - not_over)),
        ("- delivered too early", load(early), Some(0)),
        ("- dead letters", dead, None),
        ("- told of when the queue stopped", not_over, Some(far)),
        ("tries that failed", load(failed_tries), None),
        ("retries that were refused", load(refused), Some(0)),
        ("jobs that panicked", wheel.stats().jobs_panicked, Some(0)),
        ("timers pending at the end", wheel.pending() as u64, Some(0)),
    ] {
        let text = |count| HumanCount(count).to_string();
        table.add_row([name.into(), text(count), expected.map(text).unwrap_or_default()]);
        if let Some(expected) = expected.filter(|&expected| expected != count) {
            problems.push(format!("{name}: {count}, and not {expected}"));
        }
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    println!("{table}");
    Ok(problems)
}

#[tokio::main]
async fn main() -> ExitCode {
    let problems = run(Settings::parse()).await.unwrap_or_else(|error| vec![error.to_string()]);
    problems.iter().for_each(|problem| eprintln!("error: {problem}"));
    if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

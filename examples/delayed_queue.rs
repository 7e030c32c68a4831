//! How do I build a queue of delayed messages, with retries and a dead-letter end?
//!
//! `cargo run --release -p timingwheel-examples --example delayed_queue`
//!
//! A message is a job under the message's number: it runs when its delay is over, and hands the message to a consumer. If
//! that fails, the job adds its next try under the same key, after a back-off with jitter. A message can be taken back
//! before its time. A waiting message is an entry in the wheel, not a task. `Queue` is the code to copy.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_jobs::{JobState, Jobs};
use tokio::time::{Instant, sleep};

/// How often a message is tried.
const TRIES: u32 = 3;

struct Message {
    number: u64,
    due: Instant,
    tries: u32,
}

struct Queue {
    jobs: Jobs<u64>,
    back_off: Duration,
    delivered: AtomicU64,
    dead_letters: Mutex<Vec<Message>>,
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
        let Err(failed) = consume(&message).await else {
            self.delivered.fetch_add(1, Ordering::Relaxed);
            return;
        };
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

/// The consumer. One try in eight fails.
async fn consume(message: &Message) -> Result<(), &'static str> {
    assert!(Instant::now() >= message.due, "no message is early");
    if fastrand::u8(..) < u8::MAX / 8 { Err("the consumer is busy") } else { Ok(()) }
}

#[tokio::main]
async fn main() -> Result<(), timingwheel::Error> {
    const MESSAGES: u64 = 50_000;
    let jobs = Jobs::new(&TimingWheel::new());
    let queue = Arc::new(Queue {
        jobs,
        back_off: Duration::from_millis(50),
        delivered: AtomicU64::new(0),
        dead_letters: Mutex::default(),
    });
    for number in 0..MESSAGES {
        // The last hundred are due in an hour.
        let is_far = number >= MESSAGES - 100;
        let delay = if is_far { 3_600_000 } else { fastrand::u64(..1_000) };
        let due = Instant::now() + Duration::from_millis(delay);
        queue.send(Message { number, due, tries: 0 })?;
    }
    let taken_back = (0..MESSAGES - 100).step_by(10).filter(|&number| queue.take_back(number)).count();
    // A message that is tried again keeps its key, so the list holds all that are not over.
    while queue.jobs.len() > 100 {
        sleep(Duration::from_millis(10)).await;
    }
    let left = queue.jobs.shutdown(Duration::from_secs(5)).await.not_begun.len();

    let delivered = queue.delivered.load(Ordering::Relaxed);
    let dead = queue.dead_letters.lock().unwrap_or_else(PoisonError::into_inner).len();
    println!("| messages sent                    | {MESSAGES:>6} |");
    println!("| - delivered                      | {delivered:>6} |");
    println!("| - dead letters, after {TRIES} tries    | {dead:>6} |");
    println!("| - taken back                     | {taken_back:>6} |");
    println!("| - handed back as the queue ended | {left:>6} |");
    assert_eq!(
        delivered + (dead + taken_back + left) as u64,
        MESSAGES,
        "a message was lost, or counted twice"
    );
    println!("What it means: no message was lost, none was early, and none came twice.");
    Ok(())
}

//! Clients that make calls with timeouts, and count how the calls end.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fastrand::Rng;
use timingwheel::TimingWheel;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::run::BoxError;

/// How long a call may take, and how long it takes: one in four takes too long.
const LIMIT: Duration = Duration::from_millis(30);
const LONGEST: Duration = Duration::from_millis(40);
/// How long a client may be silent. It never is, so its timer only moves.
const IDLE: Duration = Duration::from_secs(300);
/// How often a client's session is renewed, at the least and at the most.
const RENEWED: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// How many timers a client has at a time: a call with its limit, its silence, and its session.
pub(crate) const TIMERS_EACH: usize = 4;

/// The clients' counts.
#[derive(Default)]
pub(crate) struct Books {
    pub(crate) answered: AtomicU64,
    pub(crate) timed_out: AtomicU64,
    pub(crate) renewed: AtomicU64,
    pub(crate) clients: AtomicU64,
}

impl Books {
    pub(crate) fn calls(&self) -> u64 {
        self.answered.load(Ordering::Relaxed) + self.timed_out.load(Ordering::Relaxed)
    }

    /// How many timers they armed at the most: two for each call and two for each client; for each renewal that of the
    /// session again, and two of a call that was made again.
    pub(crate) fn most_timers(&self) -> u64 {
        2 * (self.calls() + self.clients.load(Ordering::Relaxed)) + 3 * self.renewed.load(Ordering::Relaxed)
    }
}

pub(crate) struct Load {
    pub(crate) wheel: TimingWheel,
    pub(crate) books: Arc<Books>,
}

impl Load {
    /// Lets so many clients make calls until the time is up.
    pub(crate) async fn run(self, clients: usize, until: Instant) -> Result<(), BoxError> {
        let mut calls = JoinSet::new();
        for number in 0..clients {
            calls.spawn(call_on(self.wheel.clone(), self.books.clone(), number as u64, until));
        }
        while let Some(ended) = calls.join_next().await {
            ended??;
        }
        Ok(())
    }
}

async fn call_on(wheel: TimingWheel, books: Arc<Books>, number: u64, until: Instant) -> Result<(), BoxError> {
    let mut random = Rng::with_seed(number);
    let mut session = pin!(wheel.sleep(between(&mut random, RENEWED)));
    let mut silence = pin!(wheel.sleep(IDLE));
    books.clients.fetch_add(1, Ordering::Relaxed);
    while Instant::now() < until {
        let takes = between(&mut random, [Duration::ZERO, LONGEST]);
        tokio::select! {
            result = wheel.timeout(LIMIT, wheel.sleep(takes)) => match result {
                Ok(()) => books.answered.fetch_add(1, Ordering::Relaxed),
                Err(_) => books.timed_out.fetch_add(1, Ordering::Relaxed),
            },
            // The call that was on its way is made again.
            () = session.as_mut() => {
                session.as_mut().reset_after(between(&mut random, RENEWED));
                books.renewed.fetch_add(1, Ordering::Relaxed)
            }
            () = silence.as_mut() => return Err("a client was silent for too long".into()),
        };
        silence.as_mut().reset_after(IDLE);
    }
    Ok(())
}

fn between(random: &mut Rng, [least, most]: [Duration; 2]) -> Duration {
    least + (most - least).mul_f64(random.f64())
}

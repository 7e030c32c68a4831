//! An instance as a process, which saves, cancels and moves, too.

use std::env;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use timingwheel::TimingWheel;
use timingwheel_durable::tokio_postgres::NoTls;
use timingwheel_durable::{Answer, Backoff, Durable, PostgresOptions, PostgresStore, Run};

use super::support::Tick;
use crate::proof::history::{History, millis};
use crate::proof::user::change_mind;

/// The folder of the history; without it there is no such process.
pub(crate) const FOLDER: &str = "DURABLE_INSTANCE";
pub(crate) const URL: &str = "DURABLE_URL";
/// Whether the process saves, cancels and moves, too.
pub(crate) const USES: &str = "DURABLE_USES";
/// By how many milliseconds its clock is ahead, and by how many thousandths it goes faster.
pub(crate) const SKEW: &str = "DURABLE_SKEW";
pub(crate) const LEASE: Duration = Duration::from_secs(2);

/// An instance whose clock is off knows that of the database up to half of the time that a renewal takes, and to what it
/// drifts from one to the next. It calls its handlers by so much too early at the most; the clocks themselves are off by far
/// more.
const SLACK_MS: i64 = 700;

pub(crate) fn setting(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().expect(name))
}

/// A clock that is wrong.
#[derive(Clone, Copy)]
struct Skew {
    begin: Instant,
    ahead_ms: i64,
    thousandths: i64,
}

impl Skew {
    fn from_env() -> Option<Self> {
        let text = env::var(SKEW).ok()?;
        let (ahead_ms, thousandths) = text.split_once(' ').expect("two numbers");
        let number = |text: &str| text.parse().expect("a number");
        Some(Self { begin: Instant::now(), ahead_ms: number(ahead_ms), thousandths: number(thousandths) })
    }

    fn now(&self) -> Timestamp {
        let passed = i64::try_from(self.begin.elapsed().as_micros()).expect("not that long");
        let ahead_us = self.ahead_ms * 1_000 + passed / 1_000 * self.thousandths;
        Timestamp::now() + SignedDuration::from_micros(ahead_us)
    }
}

/// Is run by the others, and does nothing otherwise.
#[test]
fn an_instance_that_is_killed_stopped_or_cut_off() {
    let Some(folder) = env::var_os(FOLDER) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(work(Path::new(&folder)));
}

async fn connect(url: &str) -> PostgresStore {
    loop {
        let options = PostgresOptions::new(url).expect("an address").timeout(Duration::from_secs(2));
        match PostgresStore::connect_with(options, NoTls).await {
            Ok(store) => return store,
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

pub(crate) async fn start(url: &str, history: &History, epoch: &Arc<AtomicU64>) -> Durable {
    loop {
        let (store, notes, epoch) = (connect(url).await, history.clone(), Arc::clone(epoch));
        let clock = Skew::from_env();
        let slack = if clock.is_none() { 0 } else { SLACK_MS };
        let handler = move |Tick { name }: Tick, run: Run| {
            let notes = notes.clone();
            epoch.store(run.epoch, Ordering::SeqCst);
            async move {
                let now = millis(Timestamp::now()) + slack;
                notes.tell(&format!("call {name} {} {} {} {now}", run.attempt, run.epoch, millis(run.due)));
                tokio::time::sleep(Duration::from_millis(fastrand::u64(..30))).await;
                notes.tell(&format!("end {name}"));
                Ok(Answer::Done)
            }
        };
        let mut builder = Durable::builder(&TimingWheel::new(), store);
        if let Some(skew) = clock {
            builder = builder.clock(move || skew.now());
        }
        let started = builder
            .horizon(Duration::from_secs(2))
            .in_memory(500)
            .lease(LEASE)
            .on(handler)
            .retry::<Tick>(Backoff::fixed(Duration::from_millis(1)).tries(1_000))
            .start()
            .await;
        match started {
            Ok(durable) => return durable,
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn work(folder: &Path) {
    let history = History::open(folder);
    let url = env::var(URL).expect("an address");
    let epoch = Arc::new(AtomicU64::new(0));
    let durable = start(&url, &history, &epoch).await;
    let tasks: Vec<_> = (0..setting(USES, 0))
        .map(|task| tokio::spawn(uses(durable.clone(), history.clone(), task)))
        .collect();
    // Nothing more is saved when its parent says so, and it ends when its parent closes the pipe, or kills it.
    let (mut stdin, mut told) = (tokio::io::stdin(), [0]);
    let _ = tokio::io::AsyncReadExt::read(&mut stdin, &mut told).await;
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    let _ = tokio::io::AsyncReadExt::read(&mut stdin, &mut told).await;
    let before = durable.stats();
    durable.stop(Duration::from_secs(30)).await;
    let stats = durable.stats();
    if stats.rejoined == 0 && !stats.lost {
        history.tell(&format!("clean {}", epoch.load(Ordering::SeqCst)));
    }
    history.tell(&format!(
        "left {} fenced {} takeovers {} rejoined {} errors {}",
        std::process::id(),
        stats.fenced,
        before.takeovers,
        before.rejoined,
        stats.store_errors
    ));
}

/// Somebody who saves, cancels and moves, wherever the timers are.
async fn uses(durable: Durable, history: History, task: u64) {
    let mut random = fastrand::Rng::new();
    let unique = format!("{}-{task}-{}", std::process::id(), random.u64(..));
    for count in 0.. {
        let name = format!("{unique}-{count}");
        let due = Timestamp::from_millisecond(millis(Timestamp::now())).unwrap()
            + SignedDuration::from_millis(random.i64(-5..3_000));
        history.tell(&format!("ask {name} {}", millis(due)));
        if durable.at(due, &Tick::new(name.clone())).key(&name).save().await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        }
        history.tell(&format!("saved {name}"));
        change_mind(&durable, &history, (&name, due), &mut random, 1_000).await;
        tokio::time::sleep(Duration::from_millis(random.u64(..10))).await;
    }
}

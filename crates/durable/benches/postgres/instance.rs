//! Instances: processes of this program that hand timers to handlers which do nothing, and tell how many are done.

use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use timingwheel::TimingWheel;
use timingwheel_durable::{Answer, Durable, Kind, PostgresStore, Run};

const URL: &str = "BENCH_INSTANCE";
const LEASE_MS: &str = "BENCH_LEASE_MS";

/// How often it tells.
const TELLS: Duration = Duration::from_millis(5);

#[derive(Serialize, Deserialize)]
pub(crate) struct Nothing {
    pub(crate) filler: String,
}

impl Kind for Nothing {
    const KIND: &'static str = "nothing";
}

/// A process, which is killed when this is dropped.
pub(crate) struct Instance {
    process: Child,
    done: Arc<AtomicU64>,
}

impl Instance {
    pub(crate) fn spawn(url: &str, lease: Duration) -> Self {
        let mut process = Command::new(env::current_exe().expect("this program"))
            .env(URL, url)
            .env(LEASE_MS, lease.as_millis().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("an instance");
        let (told, done) = (process.stdout.take().expect("piped"), Arc::new(AtomicU64::new(0)));
        let heard = Arc::clone(&done);
        thread::spawn(move || {
            for count in BufReader::new(told).lines().map_while(Result::ok) {
                heard.store(count.parse().expect("a number"), Ordering::Relaxed);
            }
        });
        Self { process, done }
    }

    /// How many timers are done, and gone from the table.
    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.process.kill().expect("killed");
        self.process.wait().expect("it ends");
    }
}

/// The database and the lease, if this process is to be an instance.
pub(crate) fn asked() -> Option<(String, Duration)> {
    let lease = || env::var(LEASE_MS).expect("a lease").parse().expect("a number");
    env::var(URL).ok().map(|url| (url, Duration::from_millis(lease())))
}

/// Until the parent is gone.
pub(crate) async fn run((url, lease): (String, Duration)) {
    let store = PostgresStore::connect(&url).await.expect("a store");
    let durable = Durable::builder(&TimingWheel::new(), store)
        .lease(lease)
        .in_memory(20_000)
        .concurrency(20_000)
        .on(|_: Nothing, _: Run| async { Ok(Answer::Done) })
        .start()
        .await
        .expect("a start");
    let mut end = tokio::task::spawn_blocking(|| drop(std::io::stdin().read(&mut [0])));
    let mut told = 0;
    while tokio::time::timeout(TELLS, &mut end).await.is_err() {
        let done = durable.stats().done;
        if done != told {
            told = done;
            writeln!(std::io::stdout(), "{done}").expect("the parent reads it");
        }
    }
}

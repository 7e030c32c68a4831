//! An instance as a process of its own, and what its parent knows of it.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::rivals::{Setup, Who};

const URL: &str = "RIVALS_URL";
const WHO: &str = "RIVALS_WHO";
const SETUP: &str = "RIVALS_SETUP";

/// How long anything may take that is no measure.
const GUARD: Duration = Duration::from_secs(60);

pub(crate) fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_micros()).expect("before the year 200,000")
}

/// How late handlers were called, in microseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls(Arc<Mutex<Vec<i64>>>);

impl Calls {
    pub(crate) fn note(&self, due_ms: i64) {
        let late = now_us() - due_ms * 1_000;
        self.0.lock().expect("nobody panics").push(late);
    }

    fn count(&self) -> usize {
        self.0.lock().expect("nobody panics").len()
    }
}

/// What this process is to be, if it is an instance.
pub(crate) fn asked() -> Option<(Who, Setup, String)> {
    let url = env::var(URL).ok()?;
    let who = Who::named(&env::var(WHO).expect("who it is"));
    let setup = Setup::named(&env::var(SETUP).expect("how it is set up"));
    Some((who, setup, url))
}

/// Handles jobs until its parent ends it. It says how many it has had whenever there are more, and, when it is told to,
/// how late each was.
pub(crate) async fn run(who: Who, setup: Setup, url: &str) {
    let calls = Calls::default();
    let _running = who.start(url, setup, &calls).await;
    println!("ready");
    let of_thread = calls.clone();
    std::thread::spawn(move || {
        for line in std::io::stdin().lines() {
            drop(line);
            let late = of_thread.0.lock().expect("nobody panics");
            let texts: Vec<String> = late.iter().map(ToString::to_string).collect();
            println!("late {}", texts.join(" "));
        }
        // Its parent has gone.
        std::process::exit(0);
    });
    let mut told = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let count = calls.count();
        if count != told {
            println!("{count}");
            told = count;
        }
    }
}

/// One that runs. It is killed when this is dropped.
pub(crate) struct Instance {
    child: Child,
    ask: ChildStdin,
    count: Arc<AtomicU64>,
    late: Receiver<Vec<i64>>,
}

impl Instance {
    /// Starts one, and waits until it is ready.
    pub(crate) fn start(who: Who, setup: Setup, url: &str) -> Self {
        let mut child = Command::new(env::current_exe().expect("this program"))
            .env(URL, url)
            .env(WHO, who.name())
            .env(SETUP, setup.name())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("an instance");
        let ask = child.stdin.take().expect("a pipe");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let (count, (ready, is_ready), (tell, late)) = (Arc::<AtomicU64>::default(), channel(), channel());
        let of_thread = Arc::clone(&count);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if line == "ready" {
                    ready.send(()).expect("its parent waits");
                } else if let Some(numbers) = line.strip_prefix("late") {
                    let numbers = numbers.split_whitespace().map(|text| text.parse().expect("a number"));
                    drop(tell.send(numbers.collect()));
                } else {
                    of_thread.store(line.parse().expect("a number"), Ordering::Relaxed);
                }
            }
        });
        is_ready.recv_timeout(GUARD).expect("it is ready");
        Self { child, ask, count, late }
    }

    /// How many jobs it has handled.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// How late each was, in microseconds.
    pub(crate) fn late(&mut self) -> Vec<i64> {
        self.ask.write_all(b"late\n").expect("it lives");
        self.late.recv_timeout(GUARD).expect("an answer")
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.child.kill().expect("ended");
        self.child.wait().expect("ended");
    }
}

//! The clients, and how many of them the file limit allows.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use indicatif::HumanCount;
use rustix::process::{Resource, getrlimit};
use timingwheel_examples::raise_limit;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::report::Books;
use crate::server::{Answer, Request, Status, Timers, Watched, unless_closed};
use crate::{LONGEST_THINK, Settings, server::read_greeting};

// A client waits, asks and checks the answer. Now and then it falls silent, to see whether the server hangs up.

pub(crate) struct Client<T> {
    pub(crate) server: SocketAddr,
    /// Bounds how many clients connect at a time.
    pub(crate) connecting: Arc<Semaphore>,
    pub(crate) until: Instant,
    pub(crate) idle_timeout: Duration,
    pub(crate) load: Load,
    pub(crate) timers: Watched<T>,
    pub(crate) books: Arc<Books>,
}

impl<T: Timers> Client<T> {
    /// Makes requests until the time is up, on one connection after the other.
    pub(crate) async fn run(mut self) -> Result<(), String> {
        loop {
            let begun = Instant::now();
            if begun >= self.until {
                return Ok(());
            }
            let stream =
                self.connect().await.map_err(|error| format!("no connection to the server: {error}"))?;
            let talk = self.talk(stream, begun);
            talk.await.map_err(|error| format!("a connection broke at the client: {error}"))?;
        }
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        let _permit = self.connecting.acquire().await.map_err(io::Error::other)?;
        let mut stream = TcpStream::connect(self.server).await?;
        stream.set_nodelay(true)?;
        // Until then the connection may still be in the listener's queue.
        read_greeting(&mut stream).await?;
        Ok(stream)
    }

    /// Makes requests on a connection, last in use at `used`, until the time is up or the connection is closed.
    async fn talk(&mut self, mut stream: TcpStream, mut used: Instant) -> io::Result<()> {
        for id in 1.. {
            self.timers.sleep(self.load.think()).await;
            // Thought to the end even if the time is up: clients leave one by one, as they came.
            let asked = Instant::now();
            if asked >= self.until {
                break;
            }
            if !self.ask(id, &mut stream).await? {
                self.check_close(used);
                break;
            }
            used = asked;
            if self.load.goes_silent() {
                self.wait_for_close(stream).await?;
                self.check_close(used);
                break;
            }
        }
        Ok(())
    }

    /// Makes a request, and tells whether it was answered: not if the server closed the connection.
    async fn ask(&mut self, id: u64, stream: &mut TcpStream) -> io::Result<bool> {
        let work = self.load.work();
        let Books { requests, done, timed_out, unanswered, slow_done, quick_cut_off, .. } = &*self.books;
        requests.add();
        let answer = match (Request { id, work: work.takes }).write(stream).await? {
            Some(()) => Answer::read(stream).await?,
            None => None,
        };
        let Some(answer) = answer else {
            unanswered.add();
            return Ok(false);
        };
        if answer.id != id {
            return Err(io::Error::other(format!("request {id} got the answer to {}", answer.id)));
        }
        match answer.status {
            Status::Done => done.add(),
            Status::TimedOut => timed_out.add(),
        }
        match (answer.status, work.is_slow) {
            (Status::Done, true) => slow_done.add(),
            (Status::TimedOut, false) => quick_cut_off.add(),
            _ => {}
        }
        Ok(true)
    }

    /// Says nothing until the server closes the connection.
    async fn wait_for_close(&self, mut stream: TcpStream) -> io::Result<()> {
        self.books.went_silent.add();
        let mut nothing = [0];
        if unless_closed(stream.read(&mut nothing).await)?.is_some_and(|bytes| bytes > 0) {
            return Err(io::Error::other("the server sent something that nobody asked for"));
        }
        self.books.close_seen.add();
        Ok(())
    }

    /// Checks that the server waited for as long as it should before it closed a connection last in use at `used`.
    fn check_close(&self, used: Instant) {
        // The server saw that use later, if at all, so its idle timer cannot be ahead of this.
        if used.elapsed() < self.idle_timeout {
            self.books.closed_early.add();
        }
    }
}

// Draws the next step of a client at random.

/// How long a client thinks, as a multiple of the average.
const THINK: Range<f64> = 0.5..LONGEST_THINK;
/// How long work takes, as a multiple of the request timeout: most of it well below, so that a busy machine does
/// not make it overrun, and the slow share well above, so that it cannot get done.
const QUICK_WORK: Range<f64> = 0.1..0.5;
const SLOW_WORK: Range<f64> = 1.5..3.0;

/// Draws what one client does. The same seed and settings draw the same.
#[derive(Debug)]
pub(crate) struct Load {
    random: Rng,
    think: Duration,
    request_timeout: Duration,
    slow_share: f64,
    silent_share: f64,
}

/// Work of a request, as drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) takes: Duration,
    /// Whether that is longer than a request may take.
    pub(crate) is_slow: bool,
}

impl Load {
    pub(crate) fn new(settings: &Settings, client: u64) -> Self {
        let Settings { think, request_timeout, slow_share, silent_share, seed, .. } = *settings;
        let random = Rng::with_seed(Rng::with_seed(seed).u64(..).wrapping_add(client));
        Self { random, think, request_timeout, slow_share, silent_share }
    }

    pub(crate) fn think(&mut self) -> Duration {
        self.think.mul_f64(self.between(THINK))
    }

    pub(crate) fn work(&mut self) -> Work {
        let is_slow = self.random.f64() < self.slow_share;
        let share = self.between(if is_slow { SLOW_WORK } else { QUICK_WORK });
        Work { takes: self.request_timeout.mul_f64(share), is_slow }
    }

    /// Whether the client now goes silent.
    pub(crate) fn goes_silent(&mut self) -> bool {
        self.random.f64() < self.silent_share
    }

    fn between(&mut self, range: Range<f64>) -> f64 {
        range.start + self.random.f64() * (range.end - range.start)
    }
}

// How many connections the file limit of the process allows.

/// Both ends of a connection are in this process.
const FILES_PER_CONNECTION: u64 = 2;
/// For the runtime, the listener and the standard streams.
const RESERVE: u64 = 64;

/// Raises the file limit as far as it goes, and takes back the connections that it does not allow.
pub(crate) fn fit(mut settings: Settings) -> Result<Settings, String> {
    let before = getrlimit(Resource::Nofile).current;
    raise_limit();
    let Some(files) = getrlimit(Resource::Nofile).current else {
        println!("no file limit");
        return Ok(settings);
    };
    match before {
        Some(before) if before < files => println!("file limit {files}, raised from {before}"),
        _ => println!("file limit {files}"),
    }

    let allowed = files.saturating_sub(RESERVE) / FILES_PER_CONNECTION;
    if allowed == 0 {
        return Err(format!(
            "a file limit of {files} allows no connection: each takes {FILES_PER_CONNECTION} files beside a reserve \
             of {RESERVE}"
        ));
    }
    if allowed < settings.connections {
        println!(
            "that allows {} connections, not the {} asked for:\n\
             each takes {FILES_PER_CONNECTION} files, beside a reserve of {RESERVE}",
            HumanCount(allowed),
            HumanCount(settings.connections)
        );
        settings.connections = allowed;
    }
    Ok(settings)
}

//! One run: a fresh runtime with server and clients on one kind of timers. The main thread watches it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use timingwheel::Stats;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::books::Books;
use crate::client::Client;
use crate::load::Load;
use crate::progress::Progress;
use crate::server::Server;
use crate::settings::Settings;
use crate::spent::Spent;
use crate::timers::Timers;
use crate::watched::{Lateness, Watched};
use crate::work::Current;

/// How often the main thread looks. It waits on no timer of either sort.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// If a run takes longer than its settings say, and by more than this, it counts as stuck.
const GRACE: Duration = Duration::from_secs(30);
/// How many clients connect at a time: fewer than the listener queues. What finds the queue full tries again only
/// a second later.
const CONNECTING: usize = 64;

/// The result of a run.
pub(crate) struct Outcome {
    pub(crate) name: &'static str,
    pub(crate) books: Arc<Books>,
    pub(crate) lateness: Lateness,
    pub(crate) peaks: Peaks,
    /// Timers that the program made.
    pub(crate) timers_made: u64,
    /// Timers that the program still has at the end.
    pub(crate) timers_left: u64,
    /// The timers' own counts at the end.
    pub(crate) stats: Option<Stats>,
    pub(crate) spent: Spent,
}

impl Outcome {
    /// Connections that the server did not close.
    pub(crate) fn closed_by_clients(&self) -> u64 {
        self.books.connections.total().saturating_sub(self.books.idle_closed.get())
    }

    /// Timers that did not come to their end.
    pub(crate) fn timers_dropped(&self) -> u64 {
        self.timers_made.saturating_sub(self.lateness.fired() + self.timers_left)
    }
}

/// The most there was of something, of all the times that the main thread looked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Peaks {
    pub(crate) connections: u64,
    /// By the program's own count.
    pub(crate) timers: u64,
    /// By the timers' own count.
    pub(crate) pending: Option<usize>,
}

impl Peaks {
    fn look<T: Timers>(&mut self, books: &Books, timers: &Watched<T>) {
        self.connections = self.connections.max(books.connections.now());
        self.timers = self.timers.max(timers.held().now());
        self.pending = self.pending.max(timers.timers().stats().map(|stats| stats.pending));
    }
}

/// Runs server and clients to the end on the timers that `start` makes on a fresh runtime.
pub(crate) fn run<T: Timers>(
    name: &'static str,
    settings: &Settings,
    start: impl FnOnce() -> Result<T, String>,
) -> Result<Outcome, String> {
    let runtime = Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
    let timers = {
        let _context = runtime.enter();
        Watched::new(start()?, runtime.metrics().num_workers())
    };
    let books = Arc::new(Books::default());

    let before = Spent::so_far();
    let (done, end) = channel();
    runtime.spawn({
        let scenario = scenario(settings.clone(), timers.clone(), books.clone());
        async move {
            // Nobody listens any more if the main thread has given up.
            let _ = done.send(scenario.await);
        }
    });

    let longest = settings.seconds + settings.idle_timeout + settings.request_timeout + GRACE;
    let mut progress = Progress::start(name, settings.seconds);
    let mut peaks = Peaks::default();
    loop {
        match end.recv_timeout(LOOK_EVERY) {
            Ok(result) => break result.map_err(|words| format!("{name}: {words}"))?,
            Err(RecvTimeoutError::Disconnected) => return Err(format!("{name}: the run has panicked")),
            Err(RecvTimeoutError::Timeout) if progress.elapsed() > longest => {
                runtime.shutdown_background();
                return Err(format!("{name}: the run has not ended after {} s", longest.as_secs()));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        peaks.look(&books, &timers);
        progress.show(&books, peaks.timers);
    }
    let spent = Spent::so_far().since(before);
    progress.finish();

    Ok(Outcome {
        name,
        lateness: timers.lateness(),
        peaks,
        timers_made: timers.held().total(),
        timers_left: timers.held().now(),
        stats: timers.timers().stats(),
        spent,
        books,
    })
}

/// Server and clients, until all connections are closed.
async fn scenario<T: Timers>(
    settings: Settings,
    timers: Watched<T>,
    books: Arc<Books>,
) -> Result<(), String> {
    let (listener, address) = listen().await.map_err(|error| format!("no server: {error}"))?;
    let (stop, stopped) = oneshot::channel();
    let server = Server {
        request_timeout: settings.request_timeout,
        idle_timeout: settings.idle_timeout,
        timers: timers.clone(),
        books: books.clone(),
        current: Current::default(),
    };
    let server = async {
        let server = tokio::spawn(server.run(listener, stopped)).await;
        server.map_err(|error| format!("the server's task ended: {error}"))?
    };
    let clients = async {
        clients(&settings, address, timers, books).await?;
        drop(stop);
        Ok(())
    };
    tokio::try_join!(server, clients).map(|_| ())
}

async fn listen() -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

async fn clients<T: Timers>(
    settings: &Settings,
    server: SocketAddr,
    timers: Watched<T>,
    books: Arc<Books>,
) -> Result<(), String> {
    let connecting = Arc::new(Semaphore::new(CONNECTING));
    let until = Instant::now() + settings.seconds;
    let mut clients = JoinSet::new();
    for number in 0..settings.connections {
        let client = Client {
            server,
            connecting: connecting.clone(),
            until,
            idle_timeout: settings.idle_timeout,
            load: Load::new(settings, number),
            timers: timers.clone(),
            books: books.clone(),
        };
        clients.spawn(client.run());
    }
    while let Some(client) = clients.join_next().await {
        client.map_err(|error| format!("a client's task ended: {error}"))??;
    }
    Ok(())
}

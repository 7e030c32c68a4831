//! What does it cost to notice that one of very many connections is idle?
//!
//! Reads of ten thousand connections that nobody watches, that an `IdleGuard` watches, and that have a timeout round
//! each, ours or tokio's, which is the usual way. Each connection has a task of its own. The cases prove that every
//! byte went through, which reads had to wait, and how many timers the wheel saw.

use std::future::pending;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use timingwheel::{IdleGuard, TimingWheel};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, DuplexStream, ReadBuf, duplex};
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::task::coop::unconstrained;

use crate::sides::{Timeouts, Tokio, Wakes, assert_pending, join, multi_thread};
use crate::support::{
    Case, Comparison, Duel, Findings, Scale, Table, Unit, median, number, resident_bytes, warm_rounds,
};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new(
            "connections_streams",
            "What does a read from memory cost more when idle connections are to be noticed?",
            streams,
        ),
        Case::new("connections_memory", "How much memory does it take to notice an idle connection?", memory),
    ]
}

// The ways to watch a connection's reads.

/// Never comes while a case runs.
const LIMIT: Duration = Duration::from_secs(30);

trait Watch: Send + 'static {
    fn read(&mut self, byte: &mut [u8; 1]) -> impl Future<Output = io::Result<usize>> + Send;
    fn into_inner(self) -> Counted;
}

/// By nothing.
impl Watch for Counted {
    async fn read(&mut self, byte: &mut [u8; 1]) -> io::Result<usize> {
        AsyncReadExt::read(self, byte).await
    }

    fn into_inner(self) -> Self {
        self
    }
}

impl Watch for IdleGuard<Counted> {
    async fn read(&mut self, byte: &mut [u8; 1]) -> io::Result<usize> {
        AsyncReadExt::read(self, byte).await
    }

    fn into_inner(self) -> Counted {
        self.into_inner()
    }
}

/// By a timeout round each read.
struct Timed<T> {
    stream: Counted,
    timers: T,
}

impl<T: Timeouts<Elapsed: Into<io::Error>>> Watch for Timed<T> {
    async fn read(&mut self, byte: &mut [u8; 1]) -> io::Result<usize> {
        self.timers.timeout(LIMIT, AsyncReadExt::read(&mut self.stream, byte)).await.map_err(Into::into)?
    }

    fn into_inner(self) -> Counted {
        self.stream
    }
}

// Connections that all ways of watching use in turn.

/// What a peer sends.
const BYTE: u8 = b'!';

struct Pool {
    streams: Vec<Counted>,
    peers: Vec<DuplexStream>,
}

/// A stream that counts how many times there was nothing to read.
struct Counted {
    stream: DuplexStream,
    waits: usize,
}

impl Counted {
    const fn take_waits(&mut self) -> usize {
        std::mem::replace(&mut self.waits, 0)
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.waits += usize::from(result.is_pending());
        result
    }
}

// Sweeps: every peer sends, and every connection's task reads.

/// The ways to watch, in this order.
const WAYS: [&str; 4] =
    ["nothing", "`IdleGuard`", "timingwheel's timeout round each", "tokio's timeout round each"];
const BARE: usize = 0;
const TOKIO: usize = 3;

/// How much is read in a run.
#[derive(Clone, Copy, Debug)]
struct Load {
    sweeps: usize,
    /// How many bytes each connection reads in a sweep, one by one. Only the first has to wait.
    in_a_row: usize,
}

/// How many timers a way of watching takes on the wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timers {
    None,
    OnePerConnection,
    OnePerWait,
}

struct Bench {
    runtime: Runtime,
    wheel: TimingWheel,
    pool: Option<Pool>,
}

impl Bench {
    /// One worker, so that a task that has read is back at waiting before the next sweep begins.
    fn new(connections: usize) -> Self {
        let runtime = multi_thread(1);
        let wheel = runtime.block_on(async { TimingWheel::new() });
        let (streams, peers) = (0..connections)
            .map(|_| duplex(READY_IN_A_ROW))
            .map(|(stream, peer)| (Counted { stream, waits: 0 }, peer))
            .unzip();
        Self { runtime, wheel, pool: Some(Pool { streams, peers }) }
    }

    /// Nanoseconds for each read, by round and in it by way of watching.
    fn run(&mut self, scale: Scale, load: Load) -> Vec<Vec<f64>> {
        let this = std::cell::RefCell::new(self);
        let guard = |stream, wheel: &TimingWheel| wheel.idle_guard(stream).with_read_limit(LIMIT);
        let ours = |stream, wheel: &TimingWheel| Timed { stream, timers: wheel.clone() };
        let tokio = |stream, _: &TimingWheel| Timed { stream, timers: Tokio };
        let mut sides: [&mut dyn FnMut() -> f64; WAYS.len()] = [
            &mut || this.borrow_mut().once(load, Timers::None, |stream, _| stream),
            &mut || this.borrow_mut().once(load, Timers::OnePerConnection, guard),
            &mut || this.borrow_mut().once(load, Timers::OnePerWait, ours),
            &mut || this.borrow_mut().once(load, Timers::None, tokio),
        ];
        warm_rounds(scale.rounds(), &mut sides)
    }

    fn once<W: Watch>(&mut self, load: Load, timers: Timers, watch: fn(Counted, &TimingWheel) -> W) -> f64 {
        let (pool, wheel) = (self.pool.take().expect("it is given back"), self.wheel.clone());
        let connections = pool.streams.len();
        let before = wheel.stats();
        let run = self.runtime.spawn(unconstrained(sweep_all(pool, wheel, load, timers, watch)));
        let (mut pool, time) = self.runtime.block_on(run).expect("it does not panic");

        let waits: usize = pool.streams.iter_mut().map(Counted::take_waits).sum();
        assert_eq!(
            waits,
            connections * load.sweeps,
            "the first read of each sweep has to wait, and no other"
        );
        let after = self.wheel.stats();
        let expected = match timers {
            Timers::None => 0,
            Timers::OnePerConnection => connections,
            Timers::OnePerWait => waits,
        };
        assert_eq!(after.armed - before.armed, expected as u64, "timers that reached the wheel");
        assert_eq!((after.pending, after.fired), (0, before.fired), "none of them fired");
        self.pool = Some(pool);
        time.as_nanos() as f64 / (connections * load.sweeps * load.in_a_row) as f64
    }
}

/// Starts a task for each connection, and times the sweeps. The first wait of each is over before that.
async fn sweep_all<W: Watch>(
    pool: Pool,
    wheel: TimingWheel,
    load: Load,
    timers: Timers,
    watch: fn(Counted, &TimingWheel) -> W,
) -> (Pool, Duration) {
    let Pool { streams, mut peers } = pool;
    let connections = streams.len();
    let sweep = Arc::new(Sweep::of(connections));
    let tasks: Vec<_> = streams
        .into_iter()
        .map(|stream| {
            let (wheel, sweep) = (wheel.clone(), sweep.clone());
            tokio::spawn(async move { connection(watch(stream, &wheel), load, &sweep).await })
        })
        .collect();
    sweep.over().await;
    let pending = if timers == Timers::None { 0 } else { connections };
    assert_eq!(wheel.pending(), pending, "every connection waits");

    let bytes = vec![BYTE; load.in_a_row];
    let start = Instant::now();
    for _ in 0..load.sweeps {
        sweep.begin(connections);
        peers.iter_mut().for_each(|peer| send(peer, &bytes));
        sweep.over().await;
    }
    let time = start.elapsed();

    (Pool { streams: join(tasks).await, peers }, time)
}

async fn connection(mut watched: impl Watch, load: Load, sweep: &Sweep) -> Counted {
    sweep.one_is_done();
    let mut byte = [0];
    for _ in 0..load.sweeps {
        for _ in 0..load.in_a_row {
            let read = watched.read(&mut byte).await.expect("the peer is there");
            assert_eq!((read, byte), (1, [BYTE]));
            byte = [0];
        }
        sweep.one_is_done();
    }
    watched.into_inner()
}

/// How many connections have not yet done their part.
struct Sweep {
    left: AtomicUsize,
    over: Notify,
}

impl Sweep {
    fn of(connections: usize) -> Self {
        Self { left: AtomicUsize::new(connections), over: Notify::new() }
    }

    fn begin(&self, connections: usize) {
        // Relaxed, all of them: one worker runs all the tasks.
        self.left.store(connections, Ordering::Relaxed);
    }

    fn one_is_done(&self) {
        if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.over.notify_one();
        }
    }

    async fn over(&self) {
        self.over.notified().await;
    }
}

// What the cases show of their rounds.

/// A table of nanoseconds by round and in it by way of watching.
fn table(title: &str, found: &[Vec<f64>]) -> Table {
    let header = [
        "reads are watched by",
        "a read",
        "more than nothing",
        "divided by tokio's",
        "more, divided by tokio's",
    ];
    let table = Table::new(title, header)
        .ratio_within("divided by tokio's", "a read divided by one that tokio's timeout watches")
        .ratio_within(
            "more, divided by tokio's",
            "what watching adds to a read divided by what tokio's timeout adds",
        );
    WAYS.iter().enumerate().fold(table, |table, (way, name)| {
        let of_rounds = |value: &dyn Fn(&[f64]) -> f64| median(found.iter().map(|round| value(round)));
        let is_watched = way != BARE;
        let ratio = of_rounds(&|round| round[way] / round[TOKIO]);
        let pairs: Vec<_> =
            found.iter().map(|round| (round[way] - round[BARE], round[TOKIO] - round[BARE])).collect();
        let of_more = Comparison::of("", Unit::Nanos, &pairs);
        let table = if [BARE, TOKIO].contains(&way) {
            table
        } else {
            let tokio = ("tokio's timeout", more(found, TOKIO));
            let duel = Duel::new(format!("watching a read, {name}"), Unit::Nanos, more(found, way), tokio);
            table.duel(duel.with_pairs(&of_more))
        };
        table.row([
            (*name).to_owned(),
            Unit::Nanos.show(of_rounds(&|round| round[way])),
            if is_watched { Unit::Nanos.show(more(found, way)) } else { String::new() },
            number(ratio),
            if is_watched { of_more.ratio_cell() } else { String::new() },
        ])
    })
}

/// What a way of watching adds to a read.
fn more(found: &[Vec<f64>], way: usize) -> f64 {
    median(found.iter().map(|round| round[way] - round[BARE]))
}

const CONNECTIONS: usize = 10_000;

// Reads from memory, where what a timer costs is most of what there is to see.

/// Reads of each connection in a run that have to wait.
const WAITS: usize = 8;
const READY_IN_A_ROW: usize = 64;

/// Sends without waiting: there is room.
fn send(peer: &mut DuplexStream, bytes: &[u8]) {
    let sent = Pin::new(peer).poll_write(&mut Context::from_waker(Waker::noop()), bytes);
    assert!(matches!(sent, Poll::Ready(Ok(sent)) if sent == bytes.len()), "there is room");
}

fn streams(scale: Scale) -> Findings {
    let connections = scale.of(CONNECTIONS);
    let mut bench = Bench::new(connections);
    eprintln!("reads that wait");
    let waiting = bench.run(scale, Load { sweeps: WAITS, in_a_row: 1 });
    eprintln!("reads that are ready");
    let ready = bench.run(scale, Load { sweeps: 1, in_a_row: READY_IN_A_ROW });

    let waiting = table("Reads of 10,000 connections from memory, each of which has to wait", &waiting).note(
        "A peer sends one byte at a time, which a task wakes up for, reads, and waits again. With a guard the wheel has \
         seen one timer for each connection in all; with timeouts, one for each read.",
    );
    let ready = table("Reads of 10,000 connections from memory, of which one in 64 has to wait", &ready);
    Findings { tables: vec![waiting, ready] }
}

// The memory of what watches connections that all wait.

const MANY_CONNECTIONS: usize = 1_000_000;

/// Nothing ever arrives.
struct Silent;

impl AsyncRead for Silent {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

/// The growth of the process's memory for each of so many, which are all kept.
fn each<T>(connections: usize, make: impl FnMut() -> T) -> (Option<f64>, Vec<T>) {
    let before = resident_bytes();
    let all: Vec<T> = std::iter::repeat_with(make).take(connections).collect();
    let growth = resident_bytes().zip(before).map(|(after, before)| after - before);
    (growth.map(|growth| growth / connections as f64), all)
}

fn pending_timeout<'t, T: Timeouts>(
    timers: &'t T,
    waker: &Waker,
) -> Pin<Box<impl Future<Output = Result<(), T::Elapsed>> + use<'t, T>>> {
    let mut timeout = Box::pin(timers.timeout(LIMIT, pending()));
    assert_pending(timeout.as_mut(), &mut Context::from_waker(waker));
    timeout
}

fn memory(scale: Scale) -> Findings {
    let connections = scale.of(MANY_CONNECTIONS);
    let runtime = multi_thread(1);
    let _within = runtime.enter();
    let wheel = TimingWheel::new();
    let waker = Waker::from(Arc::<Wakes>::default());
    let cx = &mut Context::from_waker(&waker);
    let mut byte = [0];

    let (guard, guards) = each(connections, || {
        let mut guard = wheel.idle_guard(Silent).with_read_limit(LIMIT);
        assert!(Pin::new(&mut guard).poll_read(cx, &mut ReadBuf::new(&mut byte)).is_pending());
        guard
    });
    assert_eq!(wheel.pending(), connections, "one timer for each guard");
    let (ours, our_timeouts) = each(connections, || pending_timeout(&wheel, &waker));
    assert_eq!(wheel.pending(), 2 * connections, "one timer for each timeout");
    let (tokio, tokio_timeouts) = each(connections, || pending_timeout(&Tokio, &waker));
    let show =
        |bytes: Option<f64>| bytes.map_or_else(|| "unknown".to_owned(), |bytes| Unit::Bytes.show(bytes));
    let size = |bytes: usize| Unit::Bytes.show(bytes as f64);
    let table = Table::new("Bytes for each connection that waits", ["watched by", "in all", "of them beside the stream"])
        .row(["`IdleGuard`".to_owned(), show(guard), size(size_of::<IdleGuard<()>>())])
        .row(["timingwheel's timeout".to_owned(), show(ours), size(size_of_val(&*our_timeouts[0]))])
        .row(["tokio's timeout".to_owned(), show(tokio), size(size_of_val(&*tokio_timeouts[0]))])
        .note(
            "In all: the growth of the process's resident memory, timers included. A guard takes its bytes as long as \
             there is a connection, in whatever its task keeps; a timeout while a read waits, here in a box. A guard \
             limits writes as well.",
        );
    let table = [("bytes for a connection, `IdleGuard`", guard), ("bytes for a connection, timeout", ours)]
        .into_iter()
        .fold(table, |table, (what, ours)| match ours.zip(tokio) {
            Some((ours, tokio)) => table.duel(Duel::new(what, Unit::Bytes, ours, ("tokio's timeout", tokio))),
            None => table,
        });
    drop((guards, our_timeouts, tokio_timeouts));
    table.into()
}

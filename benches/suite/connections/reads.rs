//! Sweeps: every peer sends, and every connection's task reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use timingwheel::{IdleGuard, TimingWheel};
use tokio::io::AsyncRead;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::task::coop::unconstrained;

use super::pool::{BYTE, Counted, Peer, Pool};
use super::watch::{Bare, OurTimeouts, TokioTimeouts, Watch};
use crate::support::{Scale, rounds};

/// The ways to watch, in this order.
pub(super) const WAYS: [&str; 4] =
    ["nothing", "`IdleGuard`", "timingwheel's timeout round each", "tokio's timeout round each"];
pub(super) const BARE: usize = 0;
pub(super) const TOKIO: usize = 3;

/// How much is read in a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) sweeps: usize,
    /// How many bytes each connection reads in a sweep, one by one. Only the first has to wait.
    pub(super) in_a_row: usize,
}

/// How many timers a way of watching takes on the wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timers {
    None,
    OnePerConnection,
    OnePerWait,
}

pub(super) struct Bench<S, P> {
    runtime: Runtime,
    wheel: TimingWheel,
    pool: Option<Pool<S, P>>,
}

impl<S: AsyncRead + Unpin + Send + 'static, P: Peer> Bench<S, P> {
    /// One worker, so that a task that has read is back at waiting before the next sweep begins.
    pub(super) fn new(pool: impl FnOnce() -> Pool<S, P>) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let (wheel, pool) = runtime.block_on(async { (TimingWheel::new(), pool()) });
        Self { runtime, wheel, pool: Some(pool) }
    }

    /// Nanoseconds for each read, by round and in it by way of watching.
    pub(super) fn run(&mut self, scale: Scale, load: Load) -> Vec<Vec<f64>> {
        let this = std::cell::RefCell::new(self);
        let mut sides: [&mut dyn FnMut() -> f64; WAYS.len()] = [
            &mut || this.borrow_mut().once::<Bare<Counted<S>>>(load, Timers::None),
            &mut || this.borrow_mut().once::<IdleGuard<Counted<S>>>(load, Timers::OnePerConnection),
            &mut || this.borrow_mut().once::<OurTimeouts<Counted<S>>>(load, Timers::OnePerWait),
            &mut || this.borrow_mut().once::<TokioTimeouts<Counted<S>>>(load, Timers::None),
        ];
        // The first does not count: in it caches and pools get warm.
        rounds(scale.rounds() + 1, &mut sides).split_off(1)
    }

    fn once<W: Watch<Counted<S>>>(&mut self, load: Load, timers: Timers) -> f64 {
        let (pool, wheel) = (self.pool.take().expect("it is given back"), self.wheel.clone());
        let connections = pool.streams.len();
        let before = wheel.stats();
        let run = self.runtime.spawn(unconstrained(run::<S, P, W>(pool, wheel, load, timers)));
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
async fn run<S, P: Peer, W: Watch<Counted<S>>>(
    pool: Pool<S, P>,
    wheel: TimingWheel,
    load: Load,
    timers: Timers,
) -> (Pool<S, P>, Duration)
where
    S: AsyncRead + Unpin + Send + 'static,
{
    let Pool { streams, mut peers } = pool;
    let connections = streams.len();
    let sweep = Arc::new(Sweep::of(connections));
    let tasks: Vec<_> = streams
        .into_iter()
        .map(|stream| {
            let (wheel, sweep) = (wheel.clone(), sweep.clone());
            tokio::spawn(async move { connection(W::new(stream, &wheel), load, &sweep).await })
        })
        .collect();
    sweep.over().await;
    let pending = if timers == Timers::None { 0 } else { connections };
    assert_eq!(wheel.pending(), pending, "every connection waits");

    let bytes = vec![BYTE; load.in_a_row];
    let start = Instant::now();
    for _ in 0..load.sweeps {
        sweep.begin(connections);
        peers.iter_mut().for_each(|peer| peer.send(&bytes));
        sweep.over().await;
    }
    let time = start.elapsed();

    let mut streams = Vec::with_capacity(connections);
    for task in tasks {
        streams.push(task.await.expect("it does not panic"));
    }
    (Pool { streams, peers }, time)
}

async fn connection<S, W: Watch<S>>(mut watched: W, load: Load, sweep: &Sweep) -> S {
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

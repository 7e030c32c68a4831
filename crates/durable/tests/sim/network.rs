//! The world that instances share: one database behind connections that are slow, silent, cut or gone.

use std::any::Any;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use timingwheel_durable::Place;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::{Instant, sleep};

use crate::db::{Db, Tables, Who};
use crate::history::Event;
use crate::lack::Lack;
use crate::store::{Client, Failed};

thread_local! {
    /// The time of this thread's world, once it was asked for. To read the paused clock costs more.
    static NOW: Cell<Option<i64>> = const { Cell::new(None) };
}

/// The clock may have gone on: it does so only while the runtime's thread is parked.
pub(crate) fn goes_on() {
    NOW.set(None);
}

/// When all worlds begin: the week in which clocks are put forward in Berlin.
pub(crate) const EPOCH_MS: i64 = 1_774_483_200_000;

/// What is wrong with the server, each up to a time.
#[derive(Default)]
pub(crate) struct Faults {
    pub(crate) down: i64,
    pub(crate) read_only: i64,
    pub(crate) slow: i64,
    pub(crate) dead_rows: i64,
    /// Connections of before a restart are gone.
    pub(crate) generation: u64,
    pub(crate) clock_ms: i64,
}

/// An instance that asks for more than a world of instances needs asks without end, and is not answered any more.
pub(crate) const MOST_STATEMENTS: u64 = 150_000;

pub(crate) struct World {
    pub(crate) began: Instant,
    pub(crate) span_ms: i64,
    /// Handlers that end their process tell of the instance.
    pub(crate) crashes: mpsc::UnboundedSender<usize>,
    /// How many were sent.
    pub(crate) statements: Arc<AtomicU64>,
    pub(crate) db: Mutex<Db>,
    lacks: Option<Lack>,
    pub(crate) faults: Mutex<Faults>,
    /// A transaction has ended, or the server.
    pub(crate) released: Notify,
    pub(crate) over: watch::Sender<bool>,
    pub(crate) snapshots: Mutex<Vec<(i64, Tables)>>,
    listeners: Mutex<Vec<(Wire, Client)>>,
    /// Answers that never come.
    limbo: Mutex<Vec<Box<dyn Any + Send>>>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn ms(millis: i64) -> Duration {
    Duration::from_millis(millis.max(0).cast_unsigned())
}

impl World {
    pub(crate) fn new(
        lacks: Option<Lack>,
        span_ms: i64,
        statements: Arc<AtomicU64>,
        crashes: mpsc::UnboundedSender<usize>,
    ) -> Arc<Self> {
        goes_on();
        Arc::new(Self {
            began: Instant::now(),
            span_ms,
            crashes,
            statements,
            db: Mutex::new(Db { lacks, ..Db::default() }),
            lacks,
            faults: Mutex::default(),
            released: Notify::new(),
            over: watch::Sender::new(false),
            snapshots: Mutex::default(),
            listeners: Mutex::default(),
            limbo: Mutex::default(),
        })
    }

    pub(crate) fn has(&self, part: Lack) -> bool {
        self.lacks != Some(part)
    }

    /// Milliseconds since the world began.
    pub(crate) fn now(&self) -> i64 {
        NOW.get().unwrap_or_else(|| {
            let now = i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX);
            NOW.set(Some(now));
            now
        })
    }

    pub(crate) fn db_ms(&self) -> i64 {
        EPOCH_MS + self.now() + lock(&self.faults).clock_ms
    }

    /// One of the server's ills lasts until then.
    pub(crate) fn is_ill(&self, until: i64, of: impl FnOnce(&mut Faults) -> &mut i64) -> i64 {
        *of(&mut lock(&self.faults)) = until;
        until
    }

    pub(crate) fn log(&self, event: Event) {
        let mut db = lock(&self.db);
        db.history.now = self.now();
        db.history.push(event);
    }

    pub(crate) fn listen(&self, wire: Wire, client: Client) {
        lock(&self.listeners).push((wire, client));
    }

    /// What the database does, all at once.
    pub(crate) fn transact<T>(self: &Arc<Self>, inst: usize, work: impl FnOnce(&mut Db) -> T) -> T {
        let mut db = lock(&self.db);
        (db.asks, db.now_ms, db.history.now) = (inst, self.db_ms(), self.now());
        let answer = work(&mut db);
        let notes = std::mem::take(&mut db.notes);
        drop(db);
        if !notes.is_empty() {
            let mut listeners = lock(&self.listeners);
            listeners.retain(|(wire, _)| !wire.is_dead());
            for (wire, client) in listeners.iter().filter(|(wire, _)| !wire.is_cut()) {
                let (latency, client, notes) = (wire.latency(), client.clone(), notes.clone());
                tokio::spawn(async move {
                    sleep(latency).await;
                    notes.into_iter().for_each(|note| client.tell(Some(note)));
                });
            }
        }
        answer
    }

    /// All connections are gone, and all transactions that were open.
    pub(crate) fn disconnect(&self) {
        lock(&self.faults).generation += 1;
        lock(&self.db).locks.clear();
        self.released.notify_waiters();
        for (_, client) in lock(&self.listeners).iter() {
            client.tell(None);
        }
    }

    /// The state of a while ago, and nothing of what came after.
    pub(crate) fn go_back(self: &Arc<Self>, to: i64) {
        let found = lock(&self.snapshots).iter().rev().find(|(at, _)| *at <= to).cloned();
        self.disconnect();
        if let Some((since, tables)) = found {
            self.transact(usize::MAX, |db| {
                db.tables = tables;
                db.history.push(Event::Lost { since });
                for kind in db.tables.paused.clone() {
                    db.history.push(Event::Paused { kind, is_paused: true });
                }
            });
        }
    }

    /// By SQL: of one kind or of all.
    pub(crate) fn resume(self: &Arc<Self>, kind: Option<&str>) {
        self.transact(usize::MAX, |db| {
            let all = db.tables.paused.clone();
            for of in all.into_iter().filter(|of| kind.is_none_or(|kind| kind == *of)) {
                db.pause(Some(&(of, false)));
            }
        });
    }

    pub(crate) fn snapshot(&self) {
        self.log(Event::Snapshot);
        let tables = lock(&self.db).tables.clone();
        lock(&self.snapshots).push((self.now(), tables));
    }
}

/// How far its clock is off, in milliseconds, how it drifts, in parts per million, and whether it knows zones.
pub(crate) type Kit = (i64, i64, bool);

/// The machine and the connections of one incarnation of an instance.
#[derive(Clone)]
pub(crate) struct Wire(pub(crate) Arc<Machine>);

pub(crate) struct Machine {
    world: Arc<World>,
    inst: usize,
    random: Mutex<fastrand::Rng>,
    /// By their epochs, also of owners that are none any more.
    tokens: Mutex<BTreeMap<u64, u64>>,
    is_dead: AtomicBool,
    pub(crate) frozen: AtomicI64,
    pub(crate) cut: AtomicI64,
    pub(crate) flaky: AtomicI64,
    clock_ms: AtomicI64,
    drift_ppm: i64,
    has_zones: bool,
    timeout_ms: i64,
    row_ms: i64,
}

impl Wire {
    pub(crate) fn new(
        world: &Arc<World>,
        inst: usize,
        seed: u64,
        machine: Kit,
        (timeout_ms, row_ms): (i64, i64),
    ) -> Self {
        let (clock_ms, drift_ppm, has_zones) = machine;
        Self(Arc::new(Machine {
            world: Arc::clone(world),
            inst,
            random: Mutex::new(fastrand::Rng::with_seed(seed)),
            tokens: Mutex::default(),
            is_dead: AtomicBool::new(false),
            frozen: AtomicI64::new(0),
            cut: AtomicI64::new(0),
            flaky: AtomicI64::new(0),
            clock_ms: AtomicI64::new(clock_ms),
            drift_ppm,
            has_zones,
            timeout_ms,
            row_ms,
        }))
    }

    pub(crate) fn random(&self, below: i64) -> i64 {
        lock(&self.0.random).i64(0..below.max(1))
    }

    /// No other owner has it.
    pub(crate) fn token(&self) -> u64 {
        lock(&self.0.random).u64(1..)
    }

    pub(crate) fn joined(&self, who: Who) {
        lock(&self.0.tokens).insert(who.epoch, who.token);
    }

    pub(crate) fn who(&self, epoch: u64) -> Who {
        Who { epoch, token: lock(&self.0.tokens).get(&epoch).copied().unwrap_or(0) }
    }

    pub(crate) fn inst(&self) -> usize {
        self.0.inst
    }

    pub(crate) fn world(&self) -> &Arc<World> {
        &self.0.world
    }

    pub(crate) fn wall_ms(&self) -> i64 {
        let now = self.0.world.now();
        EPOCH_MS + now + self.0.clock_ms.load(Ordering::Relaxed) + now * self.0.drift_ppm / 1_000_000
    }

    pub(crate) fn has_zones(&self) -> bool {
        self.0.has_zones
    }

    pub(crate) fn wall(&self) -> Timestamp {
        Timestamp::from_millisecond(self.wall_ms()).unwrap_or(Timestamp::MAX)
    }

    pub(crate) fn set_clock(&self, by_ms: i64) {
        self.0.clock_ms.fetch_add(by_ms, Ordering::Relaxed);
    }

    /// It ends, and nobody hears of it any more.
    pub(crate) fn die(&self) {
        self.0.is_dead.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.0.is_dead.load(Ordering::Relaxed)
    }

    fn is_cut(&self) -> bool {
        self.0.world.now() < self.0.cut.load(Ordering::Relaxed)
    }

    /// Ready when the process goes on; if it is dead, when the world is over.
    pub(crate) async fn thawed(&self) {
        let world = &self.0.world;
        loop {
            let left = self.0.frozen.load(Ordering::Relaxed) - world.now();
            if self.is_dead() {
                let _ = world.over.subscribe().wait_for(|over| *over).await;
                return;
            } else if left > 0 && !*world.over.borrow() {
                sleep(ms(left)).await;
            } else {
                return;
            }
        }
    }

    fn latency(&self) -> Duration {
        let slow = lock(&self.0.world.faults).slow > self.0.world.now();
        ms(if slow { 20 + self.random(6_000) } else { 1 + self.random(4) })
    }

    /// Ready when the answer for so many timers is here.
    pub(crate) async fn carries(&self, count: usize) {
        sleep(ms(self.0.row_ms * i64::try_from(count).unwrap_or(i64::MAX))).await;
    }

    /// While old rows are kept, a load from the first place reads them all.
    pub(crate) async fn walks_through_dead_rows(&self, after: Place) {
        let until = lock(&self.0.world.faults).dead_rows;
        if after == Place::FIRST && self.0.world.now() < until {
            sleep(ms(2_000)).await;
        }
    }

    /// Sends a statement, which is told whether the server only reads. It is carried out whether or not somebody waits for its answer.
    pub(crate) async fn send<T: Send + 'static>(
        &self,
        mut statement: impl FnMut(&mut Db, bool) -> Option<Result<T, Failed>> + Send + 'static,
    ) -> Result<T, Failed> {
        let (world, inst) = (Arc::clone(&self.0.world), self.0.inst);
        if *world.over.borrow() {
            return Err(Failed::Cut);
        }
        let is_flaky = world.now() < self.0.flaky.load(Ordering::Relaxed);
        let fate = if is_flaky { self.random(8) } else { 7 };
        let (mut out, mut back) = (self.latency(), self.latency());
        let late = ms(self.random(20_000));
        match fate {
            0 => out += late,
            1 => back += late,
            _ => {}
        }
        let is_too_much = world.statements.fetch_add(1, Ordering::Relaxed) >= MOST_STATEMENTS;
        if self.is_cut() || fate == 2 || is_too_much {
            // It is silent: the request never comes there.
            return self.silence().await;
        }
        let is_answer_lost = fate == 3;
        let generation = lock(&world.faults).generation;
        let (mut reply, answered) = oneshot::channel();
        let wire = self.clone();
        let sent_at = world.now();
        tokio::spawn(async move {
            sleep(out).await;
            let mut has_waited = false;
            let answer = loop {
                let released = world.released.notified();
                let is_read_only = {
                    let faults = lock(&world.faults);
                    if world.now() < faults.down || generation != faults.generation {
                        break Err(Failed::Cut);
                    }
                    world.now() < faults.read_only
                };
                if let Some(answer) = world.transact(inst, |db| statement(db, is_read_only)) {
                    if has_waited && world.now() - sent_at > wire.0.timeout_ms + 10_000 {
                        world.log(Event::Outlived { inst });
                    }
                    break answer;
                }
                has_waited = true;
                tokio::select! {
                    biased;
                    () = released => {}
                    // Its caller has given it up, and cancels it.
                    () = given_up(&mut reply, &world) => break Err(Failed::Cut),
                    _ = over(&world) => break Err(Failed::Cut),
                }
            };
            sleep(back).await;
            // What the network has not delivered comes when it can again, some of it later.
            while !is_answer_lost && wire.is_cut() && !*world.over.borrow() {
                let left = wire.0.cut.load(Ordering::Relaxed) - world.now();
                sleep(ms(left + wire.random(left / 2))).await;
            }
            if is_answer_lost {
                lock(&world.limbo).push(Box::new(reply));
            } else {
                drop(reply.send(answer));
            }
        });
        match answered.await {
            Ok(answer) => answer,
            Err(_) => Err(Failed::Cut),
        }
    }

    async fn silence<T>(&self) -> Result<T, Failed> {
        tokio::select! {
            biased;
            () = over(&self.0.world) => Err(Failed::Cut),
            never = pending() => never,
        }
    }
}

/// Ready when nobody waits for the answer any more, if that ends a statement.
async fn given_up<T>(reply: &mut oneshot::Sender<T>, world: &World) {
    if world.has(Lack::CancelsStatements) {
        reply.closed().await;
    } else {
        pending::<()>().await;
    }
}

async fn over(world: &World) {
    let _ = world.over.subscribe().wait_for(|over| *over).await;
}

impl World {
    /// Nothing more happens: all who wait are let go.
    pub(crate) fn end(&self) {
        self.over.send_replace(true);
        lock(&self.limbo).clear();
        lock(&self.listeners).clear();
        self.released.notify_waiters();
    }
}

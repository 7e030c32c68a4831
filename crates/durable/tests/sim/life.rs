//! Lets a script happen: starts and ends instances, makes the calls of users, and has handlers that do as their payloads say.

mod open;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use timingwheel::TimingWheel;
use timingwheel_calendar::Cron;
use timingwheel_durable::store::{Change, Ended, Near, Page, Settled, Taken, Which};
use timingwheel_durable::{
    Answer, Backoff, Builder, Cancelled, Durable, Error, HandlerResult, Missed, Moved, Run, TimerId,
};
use tokio::sync::mpsc;
use tokio::time::{sleep, sleep_until, timeout};

use self::open::{Open, cancel_in, save_in};
use crate::history::{Event, History, KILLS, OF_ITSELF, Told};
use crate::network::{Kit, Machine, Wire, World, lock, ms};
use crate::payload::{self, Order};
use crate::script::{Action, Ends, Job, POISON, Script, every_minutes};
use crate::store::{Client, Failed};

fn key(key: u32) -> String {
    format!("k{key}")
}

async fn handle(wire: Wire, job: Job, run: Run) -> HandlerResult {
    let (world, inst) = (Arc::clone(wire.world()), wire.inst());
    wire.thawed().await;
    if wire.is_dead() {
        return Err(Failed::Cut.into());
    }
    let (id, attempt, due_ms) = (run.id, run.attempt, run.due.as_millisecond());
    let db_ms = world.db_ms();
    world.log(Event::Called { inst, epoch: run.epoch, id, attempt, n: job.n, due_ms, db_ms });
    sleep(ms(job.takes_ms)).await;
    wire.thawed().await;
    if job.ends == Ends::Kills && attempt <= job.fails && world.now() < world.span_ms && !wire.is_dead() {
        world.log(Event::Ended { inst, id, attempt, how: KILLS.into() });
        wire.die();
        let _ = world.crashes.send(inst);
        wire.thawed().await;
    }
    if wire.is_dead() {
        return Err(Failed::Cut.into());
    }
    let answer: HandlerResult = match job.ends {
        _ if attempt <= job.fails => Err("it failed".into()),
        Ends::Snooze(after) if run.due == run.scheduled() => {
            let now = wire.wall_ms() + after.max(1);
            Ok(Answer::Snooze(Timestamp::from_millisecond(now).unwrap_or(Timestamp::MAX)))
        }
        Ends::Poison => Err(POISON.into()),
        Ends::Bury => Ok(Answer::Bury("it asked for it".into())),
        Ends::InTransaction(holds) => finish_in(&wire, &run, holds).await,
        Ends::Done | Ends::Snooze(_) | Ends::Kills => Ok(Answer::Done),
    };
    let how = match &answer {
        Ok(answer) => format!("{answer:?}"),
        Err(error) => error.to_string(),
    };
    world.log(Event::Ended { inst, id, attempt, how });
    answer
}

/// Ends a timer that is no series in the transaction of its effect.
async fn finish_in(wire: &Wire, run: &Run, holds: i64) -> HandlerResult {
    let world = wire.world();
    let (id, attempt, who, timer) = (run.id, run.attempt, wire.who(run.epoch), Near::new(run.id, run.due));
    let open = Open::begin(world, &Which::Id(id)).await;
    sleep(ms(holds)).await;
    wire.thawed().await;
    if wire.is_dead() {
        return Err(Failed::Cut.into());
    }
    let done = open.commit(wire.inst(), |db| {
        let version = db.get(&Which::Id(id)).map_or(0, |stored| stored.version);
        let ended = Ended { timer, attempt, version, change: Change::Delete };
        let done = db.settle_one(who, ended) == Settled::Done;
        if done {
            db.history.push(Event::Effect { id, attempt });
        }
        done
    });
    if done == Some(true) { Ok(Answer::Done) } else { Err("its transaction was rolled back".into()) }
}

/// An instance that runs.
#[derive(Clone)]
struct Up {
    durable: Durable,
    wire: Wire,
    wheel: TimingWheel,
}

struct Life {
    script: Script,
    world: Arc<World>,
    /// By their slots; those that start have none yet.
    wires: BTreeMap<usize, Wire>,
    up: Arc<Mutex<BTreeMap<usize, Up>>>,
    /// The program and the machine that each slot had last.
    slots: BTreeMap<usize, (Vec<u8>, bool, Kit)>,
    /// Instances whose handlers have ended their processes.
    crashed: mpsc::UnboundedReceiver<usize>,
    instances: usize,
    calls: usize,
}

fn on<const K: u8, const NEW: bool>(builder: Builder, wire: &Wire, backoff: Backoff) -> Builder {
    let wire = wire.clone();
    builder
        .on(move |order: Order<K, NEW>, run: Run| handle(wire.clone(), order.job, run))
        .retry::<Order<K, NEW>>(backoff)
}

/// Lets it happen, and returns its history.
pub(crate) async fn live(script: &Script, statements: Arc<AtomicU64>) -> History {
    fastrand::seed(script.seed);
    let (crashes, crashed) = mpsc::unbounded_channel();
    let world = World::new(script.lacks, script.span_ms, statements, crashes);
    let mut life = Life {
        script: script.clone(),
        world: Arc::clone(&world),
        wires: BTreeMap::new(),
        up: Arc::default(),
        slots: BTreeMap::new(),
        crashed,
        instances: 0,
        calls: 0,
    };
    let backs: Vec<i64> = script
        .steps
        .iter()
        .filter_map(|step| {
            if let Action::GoBack { by_ms } = step.does { Some((step.at - by_ms).max(0)) } else { None }
        })
        .collect();
    let mut moments: Vec<(i64, Option<&Action>)> = backs.into_iter().map(|at| (at, None)).collect();
    moments.extend(script.steps.iter().map(|step| (step.at, Some(&step.does))));
    moments.sort_by_key(|(at, _)| *at);
    for (at, does) in moments {
        life.goes_on_until(at).await;
        match does {
            None => world.snapshot(),
            Some(action) => life.act(action.clone()),
        }
    }
    life.goes_on_until(script.span_ms).await;
    life.calm_down().await;
    let history = life.left().await;
    world.end();
    let up = std::mem::take(&mut *lock(&life.up));
    for up in up.into_values() {
        let _ = timeout(ms(60_000), up.durable.stop(ms(0))).await;
        up.wheel.shutdown();
    }
    sleep(ms(60_000)).await;
    history
}

impl Life {
    /// Returns after all that timers do at this moment. Who has crashed is started again by its supervisor.
    async fn goes_on_until(&mut self, at: i64) {
        let moment = sleep_until(self.world.began + ms(at));
        tokio::pin!(moment);
        loop {
            let inst = tokio::select! {
                biased;
                Some(inst) = self.crashed.recv() => inst,
                () = &mut moment => return,
            };
            let found = self.wires.iter().find(|(_, wire)| wire.inst() == inst);
            let Some(slot) = found.map(|(slot, _)| *slot) else { continue };
            self.kill(slot);
            if let Some((kinds, is_new, machine)) = self.slots.get(&slot).cloned() {
                self.start(slot, &kinds, is_new, machine);
            }
        }
    }

    fn act(&mut self, action: Action) {
        use Action::*;
        let (world, now) = (Arc::clone(&self.world), self.world.now());
        let is_fault = action.is_fault();
        let what = format!("{action:?}");
        // The last fault ends with the calls.
        let last = |ms: i64| (now + ms).min(self.script.span_ms);
        let mut until = now;
        match action {
            Start { slot, kinds, is_new, has_zones, clock_ms, drift_ppm } => {
                self.start(slot, &kinds, is_new, (clock_ms, drift_ppm, has_zones));
            }
            Stop { slot, limit_ms } => self.stop(slot, limit_ms),
            Kill { slot } => self.kill(slot),
            Freeze { slot, ms } => {
                until = self.wire(slot, last(ms), |wire| &wire.frozen);
                if let Some(wire) = self.wires.get(&slot) {
                    world.log(Event::Frozen { inst: wire.inst(), until });
                }
            }
            SetClock { slot, by_ms } => {
                if let Some(wire) = self.wires.get(&slot) {
                    wire.set_clock(by_ms);
                }
            }
            Cut { slot, ms } => until = self.wire(slot, last(ms), |wire| &wire.cut),
            Flaky { slot, ms } => until = self.wire(slot, last(ms), |wire| &wire.flaky),
            SetDbClock { by_ms } => {
                lock(&world.faults).clock_ms += by_ms;
                world.log(Event::DbClockSet);
            }
            Slow { ms } => until = world.is_ill(last(ms), |faults| &mut faults.slow),
            DeadRows { ms } => until = world.is_ill(last(ms), |faults| &mut faults.dead_rows),
            ServerDown { ms } => {
                until = world.is_ill(last(ms), |faults| &mut faults.down);
                world.disconnect();
            }
            ReadOnly { ms } => until = world.is_ill(last(ms), |faults| &mut faults.read_only),
            GoBack { by_ms } => world.go_back(now - by_ms),
            call => return self.call(call),
        }
        if is_fault {
            world.log(Event::Fault { until, what });
        }
    }

    /// One of its ills lasts until then.
    fn wire(&self, slot: usize, until: i64, of: impl FnOnce(&Machine) -> &AtomicI64) -> i64 {
        if let Some(wire) = self.wires.get(&slot) {
            of(&wire.0).store(until, Ordering::Relaxed);
        }
        until
    }

    fn start(&mut self, slot: usize, kinds: &[u8], is_new: bool, machine: Kit) {
        // A deployment: the former one stops at the same time.
        self.stop(slot, 1_000);
        self.slots.insert(slot, (kinds.to_vec(), is_new, machine));
        let (script, inst) = (&self.script, self.instances);
        self.instances += 1;
        let seed = script.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(inst as u64);
        let wire = Wire::new(&self.world, inst, seed, machine, (script.timeout_ms, script.row_ms));
        self.wires.insert(slot, wire.clone());
        let (up, script, kinds) = (Arc::clone(&self.up), script.clone(), kinds.to_vec());
        tokio::spawn(async move {
            let wheel = TimingWheel::new();
            let world = wire.world();
            // A program that is restarted by its supervisor until it starts.
            while !wire.is_dead() && !*world.over.borrow() {
                let client = Client::new(wire.clone(), ms(script.timeout_ms));
                let clock = wire.clone();
                let mut builder = Durable::builder(&wheel, client.clone())
                    .clock(move || clock.wall())
                    .lease(ms(script.lease_ms))
                    .horizon(ms(script.horizon_ms))
                    .in_memory(script.in_memory)
                    .concurrency(script.concurrency);
                let backoff = Backoff::exponential(ms(1_000)..=ms(60_000)).tries(script.tries);
                for kind in &kinds {
                    let on = match (kind, is_new) {
                        (0, true) => on::<0, true>,
                        (0, false) => on::<0, false>,
                        (1, true) => on::<1, true>,
                        (1, false) => on::<1, false>,
                        (_, true) => on::<2, true>,
                        (_, false) => on::<2, false>,
                    };
                    builder = on(builder, &wire, backoff.clone());
                }
                match builder.start().await {
                    Ok(durable) => {
                        world.listen(wire.clone(), client);
                        let (inst, has_zones) = (wire.inst(), wire.has_zones());
                        world.log(Event::Up { inst, kinds: kinds.clone(), is_new, has_zones });
                        lock(&up).insert(slot, Up { durable, wire, wheel });
                        return;
                    }
                    Err(_) => sleep(ms((script.lease_ms / 60).clamp(1_000, 5_000))).await,
                }
            }
        });
    }

    fn stop(&mut self, slot: usize, limit_ms: i64) {
        let up = lock(&self.up).remove(&slot);
        if let Some(Up { durable, wire, wheel }) = up {
            self.world.log(Event::Down { inst: wire.inst(), why: "stops" });
            tokio::spawn(async move {
                durable.stop(ms(limit_ms)).await;
                wire.die();
                wheel.shutdown();
            });
        } else if let Some(wire) = self.wires.get(&slot) {
            wire.die();
        }
        self.wires.remove(&slot);
    }

    fn kill(&mut self, slot: usize) {
        let Some(wire) = self.wires.remove(&slot) else { return };
        wire.die();
        self.world.log(Event::Down { inst: wire.inst(), why: "killed" });
        if let Some(Up { durable, wheel, .. }) = lock(&self.up).remove(&slot) {
            tokio::spawn(async move {
                durable.stop(ms(0)).await;
                wheel.shutdown();
            });
        }
    }

    /// No more faults and calls. The instances that run stay, so that one that is stuck is seen. The dead ones are started again. A
    /// machine without zones would keep a series for ever, so it is replaced.
    async fn calm_down(&mut self) {
        let lease = self.script.lease_ms;
        self.world.log(Event::Calm);
        self.world.resume(None);
        let slots = std::mem::take(&mut self.slots);
        let stays = |slot: &usize| self.wires.get(slot).is_some_and(Wire::has_zones);
        let anew: Vec<usize> = slots.keys().filter(|slot| !stays(slot)).copied().collect();
        for slot in anew.into_iter().chain([100]) {
            self.start(slot, &[0, 1, 2], true, (0, 0, true));
        }
        // Until the oracle takes this for calm.
        sleep(ms(3 * lease + 35_000)).await;
        // A call of before may have come since.
        self.world.resume(None);
        sleep(ms(35_000)).await;
        self.probe().await;
        // One leaves, and the others have its timers at once.
        sleep(ms(130_000)).await;
        let leaves = lock(&self.up).keys().copied().find(|slot| *slot != 100);
        leaves.into_iter().for_each(|slot| self.stop(slot, 0));
        // Until each attempt of each timer is made, and the last handler has ended.
        sleep(ms(2 * lease + 400_000)).await;
    }

    /// Timers of each kind that nothing disturbs, by each instance, one after the other: many at once would wait for connections.
    async fn probe(&mut self) {
        let instances = lock(&self.up).len();
        let job = |n, kind| Job { n, kind, is_new: false, takes_ms: 1, fails: 0, ends: Ends::Done };
        for (n, (kind, due_in_ms)) in
            (1_000_000..).zip([(0, 0), (1, 500), (2, 90_000), (1, 160_000), (0, 200_000)])
        {
            for (by, key) in (0..instances).zip(16 * n..) {
                self.call(Action::Save { by, key, due_in_ms, replaces: false, job: job(n, kind) });
                sleep(ms(200)).await;
                if due_in_ms == 200_000 {
                    // To be soon, by another one.
                    self.call(Action::Move { by: by + 1, key, due_in_ms: 20_000 });
                    sleep(ms(200)).await;
                }
            }
            let (key, replaces, holds_ms, commits) = (16 * n + 15, false, 1, true);
            self.call(Action::SaveIn { key, due_in_ms, replaces, job: job(n, kind), holds_ms, commits });
            sleep(ms(200)).await;
        }
    }

    async fn left(&self) -> History {
        let db_ms = self.world.db_ms();
        let mut db = lock(&self.world.db);
        db.history.now = self.world.now();
        for is_buried in [false, true] {
            let page = Page { buried: is_buried, limit: usize::MAX, ..Page::default() };
            for stored in db.list(&page) {
                use timingwheel_durable::store::State;
                let begun_by = if let State::Begun { epoch, .. } = stored.state { Some(epoch) } else { None };
                let (id, due_ms) = (stored.timer.id(), stored.timer.due().as_millisecond());
                let n = crate::history::number_in(&stored.payload);
                let is_series = stored.series.is_some();
                db.history.push(Event::Left { id, n, due_ms, is_series, is_buried, begun_by });
            }
        }
        let statements = self.world.statements.load(Ordering::Relaxed);
        db.history.push(Event::End { db_ms, statements });
        std::mem::take(&mut db.history)
    }

    fn call(&mut self, mut action: Action) {
        use Action::*;
        if let Crowd { by, key, count } = action {
            return (0..count).for_each(|_| self.call(Cancel { by, key }));
        }
        if let Burst { by, due_in_ms, count, job } = action {
            // Keys that no other call names.
            let keys = 1_000 + job.n * 1_000..;
            let save = |key| Save { by, key, due_in_ms, replaces: false, job: job.clone() };
            return keys.take(count as usize).for_each(|key| self.call(save(key)));
        }
        let call = self.calls;
        self.calls += 1;
        let world = Arc::clone(&self.world);
        let (by, due_in_ms, of) = (action.by(), action.due_in_ms(), action.key().map(|of| key(*of)));
        let durable = {
            let up = lock(&self.up);
            up.values().nth(by % up.len().max(1)).map(|up| (up.durable.clone(), up.wire.clone()))
        };
        let (db_ms, what) = (world.db_ms(), format!("{action:?}"));
        world.log(Event::Asked { call, db_ms, due_in_ms, key: of, what });
        if let Pause { kind, ms: long, .. } = action {
            let world = Arc::clone(&world);
            tokio::spawn(async move {
                sleep(ms(long)).await;
                world.resume(Some(payload::kind(kind)));
            });
        }
        tokio::spawn(async move {
            let what = match (action, durable) {
                (SaveIn { key, due_in_ms, replaces, job, holds_ms, commits }, _) => {
                    save_in(&world, key, due_in_ms, replaces, &job, holds_ms, commits).await
                }
                (CancelIn { key, holds_ms, commits }, _) => cancel_in(&world, key, holds_ms, commits).await,
                (Hold { key: held, holds_ms }, _) => {
                    let open = Open::begin(&world, &Which::Key(key(held))).await;
                    sleep(ms(holds_ms)).await;
                    drop(open);
                    Told::Other("held".into())
                }
                (_, None) => Told::Failed("nobody is there".into()),
                (action, Some((durable, wire))) => {
                    wire.thawed().await;
                    let told = by_handle(&durable, action).await;
                    wire.thawed().await;
                    if wire.is_dead() {
                        return;
                    }
                    told.unwrap_or_else(|error| match error {
                        Error::KeyTaken(_) => Told::KeyTaken,
                        error => Told::Failed(error.to_string()),
                    })
                }
            };
            world.log(Event::Told { call, what });
        });
    }
}

fn at(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX)
}

async fn by_handle(durable: &Durable, action: Action) -> Result<Told, Error> {
    use Action::*;
    let due = |due_in_ms| at(durable.now().as_millisecond() + due_in_ms);
    let which = |held: u32| Which::Key(key(held));
    Ok(match action {
        Save { key: held, due_in_ms, replaces, job, .. } => {
            Told::Saved(save(durable, held, due(due_in_ms), replaces, &job).await?)
        }
        Every { key: held, minutes, missed, job, .. } => every(durable, held, minutes, missed, &job).await?,
        Cancel { key: held, .. } => match durable.cancel(which(held)).await? {
            Cancelled::Removed => Told::Removed,
            Cancelled::Running(_) => Told::Running,
            Cancelled::NotFound => Told::NotFound,
        },
        Move { key: held, due_in_ms, .. } => {
            let due = due(due_in_ms);
            match durable.reschedule(which(held), due).await? {
                Moved::Moved(id) => Told::Moved(id, due.as_millisecond()),
                Moved::Running(_) => Told::Running,
                Moved::NotFound => Told::NotFound,
            }
        }
        Pause { kind, .. } => {
            durable.pause(payload::kind(kind)).await?;
            Told::Other("paused".into())
        }
        RetryBuried { .. } | DeleteBuried { .. } => {
            let page = Page { buried: true, limit: 1, ..Page::default() };
            let Some(first) = durable.list(page).await?.pop() else { return Ok(Told::NotFound) };
            let id = first.timer.id();
            let told = if matches!(action, RetryBuried { .. }) {
                durable.retry_buried(id).await?
            } else {
                durable.delete_buried(id).await?
            };
            // A key that its own series has is not in its way.
            let is_own = |holder: TimerId| holder.unique() == id.unique();
            match told {
                Taken::KeyTaken(holder) if is_own(holder) => Told::Other(OF_ITSELF.into()),
                told => Told::Other(format!("{told:?}")),
            }
        }
        _ => Told::NotFound,
    })
}

async fn save(
    durable: &Durable,
    held: u32,
    due: Timestamp,
    replaces: bool,
    job: &Job,
) -> Result<TimerId, Error> {
    async fn of<const K: u8>(
        durable: &Durable,
        held: u32,
        due: Timestamp,
        replaces: bool,
        job: &Job,
    ) -> Result<TimerId, Error> {
        let order = Order::<K, true>::new(job.clone(), job.is_new);
        let saving = durable.at(due, &order).key(key(held));
        if !replaces {
            return saving.save().await;
        }
        let saved = saving.replace().save().await?;
        Ok(saved.id().expect("the timer is stored"))
    }
    match job.kind {
        0 => of::<0>(durable, held, due, replaces, job).await,
        1 => of::<1>(durable, held, due, replaces, job).await,
        _ => of::<2>(durable, held, due, replaces, job).await,
    }
}

async fn every(durable: &Durable, held: u32, minutes: i64, missed: u32, job: &Job) -> Result<Told, Error> {
    let order = Order::<0, true>::new(Job { kind: 0, ..job.clone() }, false);
    let rule = match every_minutes(minutes) {
        minutes @ ..60 => format!("*/{minutes} * * * *"),
        minutes => format!("0 */{} * * *", minutes / 60),
    };
    let plan = Cron::parse(&rule).expect("a rule").in_zone(jiff::tz::TimeZone::UTC);
    let missed = match missed {
        0 => Missed::none(),
        1 => Missed::once(),
        _ => Missed::each(3),
    };
    let saved = durable.every(key(held), plan, &order).missed(missed).save().await?;
    Ok(Told::Series(format!("{saved:?}")))
}

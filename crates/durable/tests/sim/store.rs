//! The store of a simulated instance: the trait `Store`, by statements on connections that can fail in all ways.
//!
//! It is to [`Db`](crate::db::Db) as the files in `src/postgres` are to the SQL: numbers, hints, limits of time.

mod hints;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use timingwheel_durable::store::{
    Ask, Begun, Change, Counts, Ended, Hint, Kinds, Loaded, Move, Near, NewTimer, Owner, Page, Paused,
    Removal, Renewed, Saved, Settled, Standing, Store, Stored, Taken, ToBegin, Which,
};
use timingwheel_durable::{Place, TimerId};
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, timeout};

use crate::db::{Db, Parts, Who, shard};
use crate::history::Event;
use crate::lack::Lack;
use crate::network::Wire;
use crate::script::POISON;

/// A timer due within so many milliseconds is put into a shard of the instance that saves it.
const SOON_MS: i64 = 120_000;
const GRACE_MS: i64 = 60_000;
/// How long an instance that leaves tries to give back.
const GIVE_BACK: Duration = Duration::from_millis(500);
/// A zone that no machine knows.
const NOWHERE: &str = " in Nowhere/Never";
/// How many connections an instance has.
const CONNECTIONS: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failed {
    TimedOut,
    ReadOnly,
    TooLate,
    Cut,
    /// For good: the server cannot take what it is told.
    Refused,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for Failed {}

type Result<T> = std::result::Result<T, Failed>;

/// What the instance knows of an owner of its own.
#[derive(Clone, Default)]
struct Owned {
    lease: Duration,
    kinds: Kinds,
    parts: Parts,
    /// Of these kinds it cannot read the rules of series.
    unread: BTreeSet<String>,
    /// When the first timer of its shards is due, as far as the last load from the beginning has seen.
    low: Option<i64>,
    /// The world's time and the database's, at one moment.
    clock: Option<(i64, i64)>,
}

struct State {
    owned: BTreeMap<u64, Owned>,
    /// Notes of the database that nobody has heard yet.
    heard: Vec<Option<(u64, i64)>>,
    is_listening: bool,
    /// How often in a row it could not listen.
    failures: u32,
    once_more: Option<Instant>,
    /// Notes to be sent: for each shard the first and the last due time.
    notes: BTreeMap<u64, (i64, i64)>,
    is_busy: bool,
}

/// Clones are the same store.
#[derive(Clone)]
pub(crate) struct Client(Arc<Inner>);

struct Inner {
    wire: Wire,
    timeout: Duration,
    connections: Semaphore,
    state: Mutex<State>,
    hears: Notify,
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn timestamp(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX)
}

impl Client {
    pub(crate) fn new(wire: Wire, timeout: Duration) -> Self {
        let state = State {
            owned: BTreeMap::new(),
            heard: Vec::new(),
            is_listening: false,
            failures: 0,
            once_more: None,
            notes: BTreeMap::new(),
            is_busy: false,
        };
        let connections = Semaphore::new(CONNECTIONS);
        let inner = Inner { wire, timeout, connections, state: Mutex::new(state), hears: Notify::new() };
        Self(Arc::new(inner))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The database tells all who listen. `None`: the connection that listens is gone.
    pub(crate) fn tell(&self, note: Option<Option<(u64, i64)>>) {
        let mut state = self.state();
        match note {
            Some(note) if state.is_listening => state.heard.push(note),
            Some(_) => {}
            None => state.is_listening = false,
        }
        drop(state);
        self.0.hears.notify_one();
    }

    /// One statement, on one of the connections, within a limit of time.
    async fn ask_within<T: Send + 'static>(
        &self,
        limit: Duration,
        writes: bool,
        statement: impl FnMut(&mut Db) -> Option<Result<T>> + Send + 'static,
    ) -> Result<T> {
        self.ask_on(Some(&self.0.connections), limit, writes, statement).await
    }

    /// Without connections that are shared, on one of its own.
    async fn ask_on<T: Send + 'static>(
        &self,
        connections: Option<&Semaphore>,
        limit: Duration,
        writes: bool,
        mut statement: impl FnMut(&mut Db) -> Option<Result<T>> + Send + 'static,
    ) -> Result<T> {
        let wire = &self.0.wire;
        wire.thawed().await;
        let asked = async {
            let _connection =
                if let Some(connections) = connections { Some(connections.acquire().await) } else { None };
            wire.send(
                move |db, is_read_only| {
                    if writes && is_read_only { Some(Err(Failed::ReadOnly)) } else { statement(db) }
                },
            )
            .await
        };
        let answer = timeout(limit, asked).await;
        wire.thawed().await;
        answer.unwrap_or(Err(Failed::TimedOut))
    }

    async fn write<T: Send + 'static>(
        &self,
        statement: impl FnMut(&mut Db) -> Option<Result<T>> + Send + 'static,
    ) -> Result<T> {
        self.ask_within(self.0.timeout, true, statement).await
    }

    async fn read<T: Send + 'static>(
        &self,
        mut statement: impl FnMut(&mut Db) -> T + Send + 'static,
    ) -> Result<T> {
        self.ask_within(self.0.timeout, false, move |db| Some(Ok(statement(db)))).await
    }

    fn who(&self, owner: Owner) -> Who {
        self.0.wire.who(owner.epoch)
    }

    /// When nobody waits for a statement any more that is sent now, by the clock of the database.
    fn valid_until(&self, epoch: u64) -> Option<i64> {
        let (at, shown) = self.state().owned.get(&epoch)?.clock?;
        Some(shown + self.0.wire.world().now() - at + millis(self.0.timeout))
    }

    /// A statement that does nothing if it arrives too late.
    async fn write_in_time<T: Send + 'static>(
        &self,
        owner: Owner,
        statement: impl Fn(&mut Db) -> T + Clone + Send + 'static,
    ) -> Result<T> {
        for is_last in [false, true] {
            let (until, statement) = (self.valid_until(owner.epoch), statement.clone());
            let asked = self.write(move |db| {
                let is_late = until.is_some_and(|until| db.now_ms > until);
                Some(if is_late { Err(Failed::TooLate) } else { Ok(statement(db)) })
            });
            match asked.await {
                Err(Failed::TooLate) if !is_last => {
                    let now_ms = self.read(|db| db.now_ms).await?;
                    self.set_clock(owner.epoch, now_ms);
                }
                answer => return answer,
            }
        }
        Err(Failed::TooLate)
    }

    /// The same for many timers, within the limit of one statement.
    async fn write_many<T: Send + 'static>(
        &self,
        owner: Owner,
        count: usize,
        statement: impl Fn(&mut Db) -> T + Clone + Send + 'static,
    ) -> Result<T> {
        let asked = async {
            let answer = self.write_in_time(owner, statement).await;
            self.0.wire.carries(count).await;
            answer
        };
        timeout(self.0.timeout, asked).await.unwrap_or(Err(Failed::TimedOut))
    }

    /// A machine without zone data cannot read the rule.
    fn as_read(&self, stored: &mut Stored) {
        if let Some(series) = stored.series.as_mut().filter(|_| !self.0.wire.has_zones()) {
            series.rule = series.rule.replace(" in UTC", NOWHERE);
        }
    }

    fn set_clock(&self, epoch: u64, now_ms: i64) {
        if let Some(own) = self.state().owned.get_mut(&epoch) {
            own.clock = Some((self.0.wire.world().now(), now_ms));
        }
    }

    /// The time by the clock of the database, as far as that is known here.
    fn now_ms(&self, epoch: u64) -> i64 {
        let clock = self.state().owned.get(&epoch).and_then(|own| own.clock);
        let wire = &self.0.wire;
        clock.map_or_else(|| wire.wall_ms(), |(at, shown)| shown + wire.world().now() - at)
    }
}

impl Store for Client {
    type Error = Failed;

    fn is_transient(failed: &Failed) -> bool {
        *failed != Failed::Refused
    }

    async fn join(&self, lease: Duration, kinds: Kinds) -> Result<Owner> {
        let lease_ms = millis(lease);
        let token = self.0.wire.token();
        let names = Arc::clone(&kinds);
        let joined = self.write(move |db| Some(Ok((db.join(lease_ms, &names, token), db.now_ms)))).await?;
        let (epoch, now_ms) = joined;
        let clock = Some((self.0.wire.world().now(), now_ms));
        let owned = Owned { lease, kinds, clock, ..Owned::default() };
        self.state().owned.insert(epoch, owned);
        self.0.wire.joined(Who { epoch, token });
        self.0.wire.world().log(Event::Knows { epoch });
        Ok(Owner { epoch })
    }

    async fn leave(&self, owner: Owner) -> Result<u64> {
        let who = self.who(owner);
        self.state().owned.remove(&owner.epoch);
        self.state().is_listening = false;
        let _ = timeout(GIVE_BACK, self.send_notes()).await;
        self.write(move |db| Some(Ok(db.leave(who)))).await
    }

    async fn save(&self, timers: Vec<NewTimer>) -> Result<Vec<Saved>> {
        let answers = self.write(move |db| db.save(&timers).map(Ok)).await?;
        for answer in &answers {
            if let Saved::Stored(id) | Saved::Replaced { id, .. } | Saved::Follows { id, .. } = answer {
                self.note(Near::from(*id));
            }
        }
        Ok(answers)
    }

    async fn load(&self, owner: Owner, ask: Ask) -> Result<Loaded> {
        self.0.wire.walks_through_dead_rows(ask.after).await;
        let (who, is_first, until) = (self.who(owner), ask.after == Place::FIRST, ask.until);
        let loaded = self.read(move |db| db.load(who, &ask)).await?;
        if is_first && !loaded.lost {
            let recent = (self.now_ms(owner.epoch) - GRACE_MS).min(until.as_millisecond());
            let first = loaded.timers.first().map_or(recent, |first| first.due().as_millisecond());
            if let Some(own) = self.state().owned.get_mut(&owner.epoch) {
                own.low = Some(first.min(recent));
            }
        }
        Ok(loaded)
    }

    async fn begin(&self, owner: Owner, ask: ToBegin) -> Result<Vec<Begun>> {
        let who = self.who(owner);
        let count = ask.timers.len();
        let mut answers = self.write_many(owner, count, move |db| db.begin(who, &ask)).await?;
        for answer in &mut answers {
            if let Begun::Yours(stored) = answer {
                self.as_read(stored);
            }
        }
        Ok(answers)
    }

    async fn settle(&self, owner: Owner, mut ends: Vec<Ended>) -> Result<Vec<Settled>> {
        for ended in &mut ends {
            if let Change::Put(put) | Change::Bury { next: Some(put), .. } = &mut ended.change
                && let Some(series) = &mut put.series
            {
                series.rule = series.rule.replace(NOWHERE, " in UTC");
            }
        }
        let nears: Vec<Option<Near>> = ends.iter().map(stored_by).collect();
        let who = self.who(owner);
        if ends.iter().any(|ended| error_in(&ended.change).is_some_and(|error| error.contains(POISON))) {
            // The server says so.
            self.write(|_| Some(Ok(()))).await?;
            return Err(Failed::Refused);
        }
        let mut answers = self.write_many(owner, ends.len(), move |db| db.settle(who, ends.clone())).await?;
        for answer in &mut answers {
            if let Settled::Changed(stored) = answer {
                self.as_read(stored);
            }
        }
        for (near, answer) in nears.into_iter().zip(&answers) {
            if let (Some(near), Settled::Done) = (near, answer) {
                self.note(near);
            }
        }
        Ok(answers)
    }

    async fn cancel(&self, which: Which) -> Result<Removal> {
        self.write(move |db| db.cancel(&which).map(Ok)).await
    }

    async fn get(&self, which: Which) -> Result<Option<Stored>> {
        self.read(move |db| db.get(&which)).await
    }

    async fn reschedule(&self, which: Which, due: Timestamp) -> Result<Move> {
        let answer = self.write(move |db| db.reschedule(&which, due).map(Ok)).await?;
        if let Move::Moved { to, .. } = answer {
            self.note(to);
        }
        Ok(answer)
    }

    async fn unbury(&self, id: TimerId, due: Option<Timestamp>, number: u64) -> Result<Taken> {
        let answer = self.write(move |db| db.unbury(id, due, number).map(Ok)).await?;
        if let Taken::Stored(near) = answer {
            self.note(near);
        }
        Ok(answer)
    }

    async fn list(&self, page: Page) -> Result<Vec<Stored>> {
        let mut listed = self.read(move |db| db.list(&page)).await?;
        listed.iter_mut().for_each(|stored| self.as_read(stored));
        Ok(listed)
    }

    async fn pause(&self, change: Option<(String, bool)>) -> Result<Paused> {
        self.write(move |db| Some(Ok(db.pause(change.as_ref())))).await
    }

    async fn count(&self) -> Result<Counts> {
        self.read(|db| db.count()).await
    }

    fn clock(&self, owner: Owner) -> Option<Timestamp> {
        let is_known = self.state().owned.get(&owner.epoch).is_some_and(|own| own.clock.is_some());
        is_known.then(|| timestamp(self.now_ms(owner.epoch)))
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn renew(&self, owner: Owner, from: Option<Timestamp>) -> Result<Renewed> {
        let nothing = Renewed {
            standing: Standing::Expired,
            again_in: Duration::ZERO,
            good_for: Duration::ZERO,
            clock: None,
            first_due: None,
            low: None,
            paused: Paused::new(),
            taken: 0,
            shards: (0, 0),
        };
        let epoch = owner.epoch;
        let Some(own) = self.state().owned.get(&epoch).cloned() else { return Ok(nothing) };
        let (limit, lease_ms) = (self.0.timeout.min(own.lease / 3), millis(own.lease));
        let who = self.who(owner);
        let is_own = self.0.wire.world().has(Lack::LeaseConnection);
        let connections = if is_own { None } else { Some(&self.0.connections) };
        let lease = self
            .ask_on(connections, limit, true, move |db| {
                Some(Ok(db.renew(who, lease_ms, from, own.low, &own.unread)))
            })
            .await?;
        let Some(lease) = lease else {
            self.state().owned.remove(&epoch);
            self.state().is_listening = false;
            return Ok(nothing);
        };
        self.set_clock(epoch, lease.now_ms);
        let (parts, works) = (lease.parts, !own.kinds.is_empty());
        let count = u32::try_from(parts.shards.len()).unwrap_or(0);
        let before = match self.state().owned.get_mut(&epoch) {
            Some(own) => {
                if own.parts.shards != parts.shards {
                    own.low = None;
                }
                std::mem::replace(&mut own.parts, parts.clone())
            }
            None => Parts::default(),
        };
        if let Some(lost) = before.shards.difference(&parts.shards).next() {
            self.notify(*lost, self.now_ms(epoch));
        }
        let third = millis(own.lease / 3);
        let mut again_in = third * 9 / 10 + self.0.wire.random(third / 10 + 1);
        if let Some(others) = lease.others_ms {
            again_in = again_in.min(others.max(0) + 5 + self.0.wire.random(20));
        }
        let is_same = (&before.shards, &before.helps) == (&parts.shards, &parts.helps);
        Ok(Renewed {
            standing: if is_same { Standing::Same } else { Standing::Changed },
            again_in: Duration::from_millis(again_in.cast_unsigned()),
            good_for: own.lease * 4 / 5,
            clock: Some(timestamp(lease.now_ms)),
            first_due: lease.first_due,
            low: lease.low.map(timestamp),
            paused: lease.paused,
            taken: lease.taken,
            shards: if works { (count, 64) } else { (0, 0) },
        })
    }

    async fn hint(&self, owner: Owner) -> Hint {
        loop {
            if let Some(hint) = self.hear(owner).await {
                return hint;
            }
        }
    }

    fn cannot_read(&self, owner: Owner, kind: &str) {
        if let Some(own) = self.state().owned.get_mut(&owner.epoch) {
            own.unread.insert(kind.to_owned());
        }
    }

    fn is_mine(&self, owner: Owner, timer: Near) -> bool {
        self.state().owned.get(&owner.epoch).is_some_and(|own| own.parts.has(shard(timer.id().unique())))
    }

    fn number(&self, owner: Owner, count: u64, due: Timestamp, kind: &str) -> u64 {
        let due_in_ms = due.as_millisecond() - self.now_ms(owner.epoch);
        let first = if self.0.wire.world().has(Lack::NumbersFromToken) { self.who(owner).token } else { 0 };
        let state = self.state();
        let count = count.wrapping_add(first);
        let own = state.owned.get(&owner.epoch).filter(|own| due_in_ms < SOON_MS && own.kinds.contains(kind));
        let own = own.map(|own| &own.parts).filter(|parts| !parts.shards.is_empty());
        let shard = match own {
            Some(own) => {
                let nth = usize::try_from(count % own.shards.len() as u64).unwrap_or(0);
                own.shards.iter().nth(nth).copied().unwrap_or(0)
            }
            None => count.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58,
        };
        owner.epoch << 36 | (count & ((1 << 30) - 1)) << 6 | shard
    }
}

fn error_in(change: &Change) -> Option<&String> {
    match change {
        Change::Put(put) => put.error.as_ref(),
        Change::Bury { reason, .. } => Some(reason),
        Change::Delete => None,
    }
}

/// The timer that is stored after this end.
fn stored_by(ended: &Ended) -> Option<Near> {
    match &ended.change {
        Change::Put(put) | Change::Bury { next: Some(put), .. } => Some(put.timer),
        Change::Delete | Change::Bury { next: None, .. } => None,
    }
}

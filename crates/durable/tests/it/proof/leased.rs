//! A store that is shared, in memory: one instance at a time has all timers, as long as it renews.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use jiff::Timestamp;
use timingwheel_durable::store::{
    Ask, Begun, Counts, Ended, Hint, Kinds, Loaded, Move, Near, NewTimer, Owner, Page, Paused, Removal,
    Renewed, Saved, Settled, Standing, State, Store, Stored, Taken, ToBegin, Which,
};
use timingwheel_durable::{MemoryStore, Place};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Clones are the same store.
#[derive(Clone)]
pub(crate) struct Leased {
    memory: MemoryStore,
    state: Arc<Mutex<Standings>>,
    hints: Arc<Hints>,
}

struct Standings {
    epoch: u64,
    lease: Duration,
    expires_at: Instant,
    renewals: u64,
    /// How many of them were asked for what is first due.
    scans: u64,
    left: Vec<u64>,
    /// Somebody holds these.
    locked: HashSet<u64>,
    /// The mark that the first renewal tells, and where loads began.
    low: Option<Timestamp>,
    loads: Vec<Place>,
    /// Kinds of series that are not read.
    unread: Vec<String>,
}

struct Hints {
    tell: mpsc::UnboundedSender<Hint>,
    told: tokio::sync::Mutex<mpsc::UnboundedReceiver<Hint>>,
}

#[allow(dead_code, reason = "of one of the programs that share this file")]
impl Leased {
    pub(crate) fn new() -> Self {
        let (tell, told) = mpsc::unbounded_channel();
        let state = Standings {
            epoch: 0,
            lease: Duration::ZERO,
            expires_at: Instant::now(),
            renewals: 0,
            scans: 0,
            left: Vec::new(),
            locked: HashSet::new(),
            low: None,
            loads: Vec::new(),
            unread: Vec::new(),
        };
        Self {
            memory: MemoryStore::new(),
            state: Arc::new(Mutex::new(state)),
            hints: Arc::new(Hints { tell, told: told.into() }),
        }
    }

    fn state(&self) -> MutexGuard<'_, Standings> {
        self.state.lock().unwrap()
    }

    /// Another instance has the timers for a moment, as if the present one had been silent for too long. That one hears of
    /// it at once.
    pub(crate) async fn take_away(&self) {
        let Ok(other) = self.memory.join(Duration::ZERO, Kinds::default()).await;
        self.state().epoch = other.epoch;
        self.hint(Hint::Shares);
    }

    pub(crate) fn hint(&self, hint: Hint) {
        self.hints.tell.send(hint).unwrap();
    }

    /// Somebody holds these timers, by their numbers, and no others.
    pub(crate) fn lock(&self, numbers: impl IntoIterator<Item = u64>) {
        self.state().locked = numbers.into_iter().collect();
    }

    /// The first renewal tells this mark.
    pub(crate) fn mark(&self, low: Timestamp) {
        self.state().low = Some(low);
    }

    /// The kinds of series that an owner has told that it cannot read.
    pub(crate) fn unread(&self) -> Vec<String> {
        self.state().unread.clone()
    }

    /// Where loads began.
    pub(crate) fn loads(&self) -> Vec<Place> {
        self.state().loads.clone()
    }

    fn is_locked(&self, timer: Near) -> bool {
        self.state().locked.contains(&timer.id().unique())
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.state().epoch
    }

    pub(crate) fn renewals(&self) -> u64 {
        self.state().renewals
    }

    pub(crate) fn scans(&self) -> u64 {
        self.state().scans
    }

    /// Who has left in order.
    pub(crate) fn left(&self) -> Vec<u64> {
        self.state().left.clone()
    }
}

impl Store for Leased {
    type Error = <MemoryStore as Store>::Error;

    async fn join(&self, lease: Duration, kinds: Kinds) -> Result<Owner, Self::Error> {
        let owner = self.memory.join(lease, kinds).await?;
        let mut state = self.state();
        (state.epoch, state.lease, state.expires_at) = (owner.epoch, lease, Instant::now() + lease);
        Ok(owner)
    }

    async fn leave(&self, owner: Owner) -> Result<u64, Self::Error> {
        self.state().left.push(owner.epoch);
        self.memory.leave(owner).await
    }

    fn cannot_read(&self, _: Owner, kind: &str) {
        self.state().unread.push(kind.to_owned());
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn renew(&self, owner: Owner, from: Option<Timestamp>) -> Result<Renewed, Self::Error> {
        if self.state().epoch == owner.epoch && Instant::now() >= self.state().expires_at {
            self.take_away().await;
        }
        let all = Page { limit: usize::MAX, ..Page::default() };
        let all = self.memory.list(all).await?;
        let is_asked = |timer: &&Stored| from.is_some_and(|from| timer.timer.due() >= from);
        let mut to_do = all.iter().filter(|timer| timer.state == State::Stored);
        let first_due = to_do.find(is_asked).map(|timer| timer.timer.due());
        let mut state = self.state();
        state.scans += u64::from(from.is_some());
        let low = state.low.take();
        let standing = match state.epoch == owner.epoch {
            true if low.is_some() => Standing::Changed,
            true => Standing::Same,
            false => Standing::Expired,
        };
        if matches!(standing, Standing::Same | Standing::Changed) {
            state.renewals += 1;
            state.expires_at = Instant::now() + state.lease;
        }
        Ok(Renewed {
            standing,
            again_in: state.lease / 3,
            good_for: state.lease * 4 / 5,
            clock: None,
            first_due,
            low,
            paused: Paused::new(),
            taken: 0,
            shards: (1, 1),
        })
    }

    async fn hint(&self, _: Owner) -> Hint {
        self.hints.told.lock().await.recv().await.unwrap()
    }

    /// Whoever saves a timer has it, as long as that one is an instance.
    fn is_mine(&self, owner: Owner, timer: Near) -> bool {
        timer.id().unique() >> 32 == owner.epoch
    }

    async fn save(&self, timers: Vec<NewTimer>) -> Result<Vec<Saved>, Self::Error> {
        self.memory.save(timers).await
    }

    async fn load(&self, owner: Owner, ask: Ask) -> Result<Loaded, Self::Error> {
        self.state().loads.push(ask.after);
        self.memory.load(owner, ask).await
    }

    async fn begin(&self, owner: Owner, ask: ToBegin) -> Result<Vec<Begun>, Self::Error> {
        let ToBegin { timers, kinds } = ask;
        let mut answers = Vec::new();
        for timer in timers {
            let ask = ToBegin { timers: vec![timer], kinds: kinds.clone() };
            let is_locked = self.is_locked(timer);
            let begun = if is_locked { vec![Begun::Locked] } else { self.memory.begin(owner, ask).await? };
            answers.extend(begun);
        }
        Ok(answers)
    }

    async fn settle(&self, owner: Owner, ends: Vec<Ended>) -> Result<Vec<Settled>, Self::Error> {
        let mut answers = Vec::new();
        for end in ends {
            let is_locked = self.is_locked(end.timer);
            let settled =
                if is_locked { vec![Settled::Locked] } else { self.memory.settle(owner, vec![end]).await? };
            answers.extend(settled);
        }
        Ok(answers)
    }

    async fn cancel(&self, which: Which) -> Result<Removal, Self::Error> {
        self.memory.cancel(which).await
    }

    async fn get(&self, which: Which) -> Result<Option<Stored>, Self::Error> {
        self.memory.get(which).await
    }

    async fn reschedule(&self, which: Which, due: Timestamp) -> Result<Move, Self::Error> {
        self.memory.reschedule(which, due).await
    }

    async fn unbury(
        &self,
        id: timingwheel_durable::TimerId,
        due: Option<Timestamp>,
        number: u64,
    ) -> Result<Taken, Self::Error> {
        self.memory.unbury(id, due, number).await
    }

    async fn list(&self, page: Page) -> Result<Vec<Stored>, Self::Error> {
        self.memory.list(page).await
    }

    async fn count(&self) -> Result<Counts, Self::Error> {
        self.memory.count().await
    }
}

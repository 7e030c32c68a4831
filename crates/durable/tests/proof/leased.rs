//! A store that is shared, in memory: one instance at a time has all timers, as long as it renews.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use jiff::Timestamp;
use timingwheel_durable::MemoryStore;
use timingwheel_durable::store::{
    Ask, Begun, Counts, Ended, Hint, Loaded, Move, Near, NewTimer, Owner, Page, Removal, Renewed, Saved,
    Settled, Standing, Store, Stored, Taken, ToBegin, Which,
};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Clones are the same store.
#[derive(Clone)]
pub(crate) struct Leased {
    memory: MemoryStore,
    /// Who is followed is so for good.
    is_sole: bool,
    state: Arc<Mutex<State>>,
    hints: Arc<Hints>,
}

struct State {
    epoch: u64,
    lease: Duration,
    expires_at: Instant,
    renewals: u64,
    left: Vec<u64>,
}

struct Hints {
    tell: mpsc::UnboundedSender<Hint>,
    told: tokio::sync::Mutex<mpsc::UnboundedReceiver<Hint>>,
}

#[allow(dead_code, reason = "of one of the programs that share this file")]
impl Leased {
    pub(crate) fn new() -> Self {
        let (tell, told) = mpsc::unbounded_channel();
        let state = State {
            epoch: 0,
            lease: Duration::ZERO,
            expires_at: Instant::now(),
            renewals: 0,
            left: Vec::new(),
        };
        Self {
            memory: MemoryStore::new(),
            is_sole: false,
            state: Arc::new(Mutex::new(state)),
            hints: Arc::new(Hints { tell, told: told.into() }),
        }
    }

    pub(crate) fn sole() -> Self {
        Self { is_sole: true, ..Self::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Another instance has the timers for a moment, as if the present one had been silent for too long. That one hears of
    /// it at once.
    pub(crate) async fn take_away(&self) {
        let Ok(other) = self.memory.join(Duration::ZERO).await;
        self.state().epoch = other.epoch;
        self.hint(Hint::Shares);
    }

    pub(crate) fn hint(&self, hint: Hint) {
        self.hints.tell.send(hint).unwrap();
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.state().epoch
    }

    pub(crate) fn renewals(&self) -> u64 {
        self.state().renewals
    }

    /// Who has left in order.
    pub(crate) fn left(&self) -> Vec<u64> {
        self.state().left.clone()
    }
}

impl Store for Leased {
    type Error = <MemoryStore as Store>::Error;

    async fn join(&self, lease: Duration) -> Result<Owner, Self::Error> {
        let owner = self.memory.join(lease).await?;
        let mut state = self.state();
        (state.epoch, state.lease, state.expires_at) = (owner.epoch, lease, Instant::now() + lease);
        Ok(owner)
    }

    async fn leave(&self, owner: Owner) -> Result<u64, Self::Error> {
        self.state().left.push(owner.epoch);
        self.memory.leave(owner).await
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn renew(&self, owner: Owner) -> Result<Renewed, Self::Error> {
        if self.state().epoch == owner.epoch && Instant::now() >= self.state().expires_at {
            self.take_away().await;
        }
        let mut state = self.state();
        let standing = match state.epoch == owner.epoch {
            true => Standing::Same,
            false if self.is_sole => Standing::Followed,
            false => Standing::Lost,
        };
        if standing == Standing::Same {
            state.renewals += 1;
            state.expires_at = Instant::now() + state.lease;
        }
        Ok(Renewed {
            standing,
            again_in: state.lease / 3,
            good_for: state.lease * 4 / 5,
            clock: None,
            first_due: None,
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
        self.memory.load(owner, ask).await
    }

    async fn begin(&self, owner: Owner, ask: ToBegin) -> Result<Vec<Begun>, Self::Error> {
        self.memory.begin(owner, ask).await
    }

    async fn settle(&self, owner: Owner, ends: Vec<Ended>) -> Result<Vec<Settled>, Self::Error> {
        self.memory.settle(owner, ends).await
    }

    async fn cancel(&self, which: Vec<Which>) -> Result<Vec<Removal>, Self::Error> {
        self.memory.cancel(which).await
    }

    async fn reschedule(&self, which: Which, due: Timestamp) -> Result<Move, Self::Error> {
        self.memory.reschedule(which, due).await
    }

    async fn unbury(
        &self,
        ids: Vec<timingwheel_durable::TimerId>,
        due: Option<Timestamp>,
    ) -> Result<Vec<Taken>, Self::Error> {
        self.memory.unbury(ids, due).await
    }

    async fn list(&self, page: Page) -> Result<Vec<Stored>, Self::Error> {
        self.memory.list(page).await
    }

    async fn count(&self) -> Result<Counts, Self::Error> {
        self.memory.count().await
    }
}

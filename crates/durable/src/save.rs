//! Saves. Those that come during a call of the store go out together in the next call.

use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use timingwheel_calendar::{Missed, Plan};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::batches::Batches;
use crate::durable::Durable;
use crate::error::Error;
use crate::handler::{Kind, Payload};
use crate::id::TimerId;
use crate::next_run::{self, Next};
use crate::runner::Command;
use crate::shared::{Shared, Watched};
use crate::store::{ErasedStore, Near, NewTimer, Saved, Series, check_key, check_payload};

/// A timer that is about to be saved: from [`Durable::at`] and [`after`](Durable::after), or in a transaction, from
/// `PostgresStore::save_in`.
#[derive(Debug)]
#[must_use = "nothing is stored before `save`"]
pub struct Saving<To, Told = TimerId> {
    pub(crate) to: To,
    pub(crate) due: Timestamp,
    pub(crate) payload: Payload,
    pub(crate) key: Option<String>,
    told: PhantomData<fn() -> Told>,
}

impl<To> Saving<To> {
    pub(crate) fn new<K: Kind>(to: To, due: Timestamp, payload: &K) -> Self {
        Self { to, due, payload: Payload::of(payload), key: None, told: PhantomData }
    }

    /// Lets this timer replace the timer that has the key. The answer of [`save`](Saving::save) tells what became of that one:
    ///
    /// | answer | the old timer |
    /// |---|---|
    /// | [`Saved::Stored`] | nobody had the key |
    /// | [`Saved::Replaced`] | is gone, and its handler is not called |
    /// | [`Saved::Follows`] | has begun: its handler was called, or is about to be. The attempt goes on without the key, and nothing follows it, as after a cancel |
    ///
    /// So a handler can save the next timer under its own key.
    pub fn replace(self) -> Saving<To, Saved> {
        let Self { to, due, payload, key, told: _ } = self;
        Saving { to, due, payload, key, told: PhantomData }
    }
}

impl<To, Told> Saving<To, Told> {
    /// A name by which the timer is found, cancelled and moved, such as `order-42`. It has 1 to 1,024 bytes, none of them zero. If
    /// another timer that is stored or has begun has the key, this one is refused, unless it [replaces](Self::replace) that.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }
}

impl Saving<&Durable> {
    /// Stores the timer. It is durable when this is ready.
    ///
    /// Saves of many tasks go to the store together.
    ///
    /// # Cancel safety
    /// If this is dropped before it is ready, the timer may be stored or not. With a key it can be saved again.
    ///
    /// # Errors
    /// [`Error::KeyTaken`], [`Error::Key`], [`Error::Payload`], [`Error::Encode`], [`Error::Stopped`], [`Error::Lost`], [`Error::Failed`];
    /// [`Error::Store`], after which the timer is stored or not.
    pub async fn save(self) -> Result<TimerId, Error> {
        let (id, saving) = self.timer(false)?;
        saving.await?;
        Ok(id)
    }
}

impl Saving<&Durable, Saved> {
    /// As [`save`](Saving::save) of a timer that replaces none, but the answer tells what became of the timer that had the key: see
    /// [`replace`](Saving::replace).
    ///
    /// # Cancel safety
    /// If this is dropped before it is ready, the timer may be stored or not. It can be saved again.
    ///
    /// # Errors
    /// The same, without [`Error::KeyTaken`].
    pub async fn save(self) -> Result<Saved, Error> {
        self.timer(true)?.1.await
    }
}

impl<'a, Told> Saving<&'a Durable, Told> {
    fn timer(
        self,
        replaces: bool,
    ) -> Result<(TimerId, impl Future<Output = Result<Saved, Error>> + use<'a, Told>), Error> {
        let Self { to: durable, due, payload: Payload { kind, json }, key, told: _ } = self;
        let id = TimerId::new(due, durable.unique(due, kind));
        let timer = NewTimer { key, replaces, ..NewTimer::new(id, kind, json.map_err(Error::Encode)?) };
        Ok((id, durable.save(timer)))
    }
}

/// A series that is about to be saved: from [`Durable::every`], or in a transaction, from `PostgresStore::every_in`.
#[derive(Debug)]
#[must_use = "nothing is stored before `save`"]
pub struct SavingSeries<To> {
    pub(crate) to: To,
    name: String,
    plan: Plan,
    missed: Missed,
    jitter: Duration,
    payload: Payload,
}

impl<To> SavingSeries<To> {
    pub(crate) fn new<K: Kind>(to: To, name: String, plan: Plan, payload: &K) -> Self {
        Self {
            to,
            name,
            plan,
            missed: Missed::default(),
            jitter: Duration::ZERO,
            payload: Payload::of(payload),
        }
    }

    /// The policy for missed runs: [`Missed::once`] unless it is set.
    pub fn missed(mut self, missed: Missed) -> Self {
        self.missed = missed;
        self
    }

    /// Puts all runs of the series off by the same time, from 0 to `most`, which its name decides: so series that all begin at
    /// midnight are spread out. The runs keep their distances. [`Run::scheduled`](crate::Run::scheduled) tells when the run was
    /// due then. Another `most` is another rule.
    pub fn jitter(mut self, most: Duration) -> Self {
        self.jitter = most;
        self
    }

    /// Its first timer after `now`, with a number for its due time and its kind.
    pub(crate) fn timer(
        self,
        now: Timestamp,
        number: impl FnOnce(&To, Timestamp, &str) -> u64,
    ) -> Result<(To, NewTimer), Error> {
        let Self { to, name, plan, missed, jitter, payload: Payload { kind, json } } = self;
        let payload = json.map_err(Error::Encode)?;
        let rule = plan.to_string();
        // As it is read when it comes up.
        let plan = rule.parse::<Plan>().map_err(|error| Error::Rule(why_not(&rule, &error.to_string())))?;
        let rule = next_run::shifted(plan, &name, jitter);
        let series = Series::new(rule.to_string(), missed);
        let next = next_run::first(series.clone(), &rule, now);
        let is_over = next.is_none();
        let Next { due, series, .. } =
            next.unwrap_or_else(|| Next { due: now, series: series.planned_after(now), begins_anew: false });
        let id = TimerId::new(due, number(&to, due, kind));
        let (key, series) = (Some(name), Some(series));
        Ok((to, NewTimer { key, series, replaces: true, is_over, ..NewTimer::new(id, kind, payload) }))
    }
}

impl SavingSeries<&Durable> {
    /// Stores the series, and answers what this has changed. It is durable when this is ready.
    ///
    /// | the series that has the name | becomes | answer |
    /// |---|---|---|
    /// | none | | [`Saved::Stored`] |
    /// | has the same rule, policy and payload | as it is | [`Saved::Kept`] |
    /// | has the same rule | gets the new policy and payload. A pending run keeps its time and its attempts, and has the new payload | [`Saved::Updated`] |
    /// | has another rule, and a run of it has begun | goes on by the new rule after that | [`Saved::Updated`] |
    /// | has another rule, and a run of it is pending | is planned anew by the new rule: the pending run is dropped | [`Saved::Replaced`] |
    ///
    /// A timer that is no series stays as it is: the answer is [`Error::KeyTaken`].
    ///
    /// If the last instant of the rule has passed, nothing is stored: that is [`Saved::Over`]. A run of the same rule that is still
    /// pending is kept.
    ///
    /// # Cancel safety
    /// If this is dropped before it is ready, the series may be stored or not. It can be saved again.
    ///
    /// # Errors
    /// [`Error::Key`] and [`Error::Rule`] of a name or rule that cannot be stored; [`Error::KeyTaken`], [`Error::Payload`],
    /// [`Error::Encode`], [`Error::Stopped`], [`Error::Lost`], [`Error::Failed`]; [`Error::Store`], after which the series is stored
    /// or not.
    pub async fn save(self) -> Result<Saved, Error> {
        let now = self.to.now();
        let (durable, timer) = self.timer(now, |durable, due, kind| durable.unique(due, kind))?;
        durable.save(timer).await
    }
}

/// Why a rule cannot be stored, in one line: the lines after that quote it.
fn why_not(rule: &str, error: &str) -> String {
    match error.lines().next().unwrap_or_default() {
        why if why.contains("is not a zone") => format!("a rule must have a zone with a name, got {rule}"),
        why => format!("a rule cannot be stored: {why}"),
    }
}

impl Durable {
    /// Saves many timers, as many [saves](Saving::save) at once: they go to the store 4,096 at a time. Each is stored or refused
    /// alone. The answers are in the order of the timers.
    ///
    /// # Cancel safety
    /// If this is dropped before it is ready, each timer may be stored or not.
    ///
    /// # Examples
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # use timingwheel_durable::{Durable, Error, Kind};
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Invite(u64);
    /// # impl Kind for Invite { const KIND: &'static str = "invite"; }
    /// async fn invite(durable: &Durable, guests: &[u64]) -> Result<(), Error> {
    ///     let tomorrow = std::time::Duration::from_secs(86_400);
    ///     let invites = guests.iter().map(|guest| durable.after(tomorrow, &Invite(*guest)));
    ///     durable.save_all(invites).await.into_iter().try_for_each(|saved| saved.map(drop))
    /// }
    /// ```
    pub async fn save_all<'a>(
        &self,
        timers: impl IntoIterator<Item = Saving<&'a Durable>>,
    ) -> Vec<Result<TimerId, Error>> {
        join_all(timers.into_iter().map(Saving::<&Durable>::save)).await
    }

    /// # Errors
    /// [`Error::KeyTaken`] where the store answers so.
    async fn save(&self, timer: NewTimer) -> Result<Saved, Error> {
        let calling = self.calling()?;
        check_key(timer.key.as_deref()).map_err(Error::Key)?;
        check_payload(&timer.payload).map_err(Error::Payload)?;
        self.0.shared.note_kind(&timer.kind);
        let (reply, saved) = oneshot::channel();
        let (store, reply) = (self.0.store.clone(), (reply, calling));
        self.0.saves.send(Save { timer, store, reply }).map_err(|_| Error::Stopped)?;
        // It may have been stored before the runtime ended.
        match saved.await.unwrap_or(Err(Error::Stopped))? {
            Saved::KeyTaken(other) => Err(Error::KeyTaken(other)),
            saved => Ok(saved),
        }
    }
}

/// How many timers go out together at the most.
const BATCH: usize = 4_096;

/// How many bytes of payloads go out together at the most, unless one alone has more.
const BATCH_BYTES: usize = 16 << 20;

/// A timer on its way to the store, and the caller that waits for it.
pub(crate) struct Save {
    timer: NewTimer,
    store: Arc<dyn ErasedStore>,
    reply: Reply,
}

/// The caller, and a mark for which a stop waits.
type Reply = (oneshot::Sender<Result<Saved, Error>>, TaskTrackerToken);

/// Stores saves in batches. It has no store of its own, so that a store is free once its last save is answered.
#[derive(Clone)]
pub(crate) struct Saver {
    pub(crate) shared: Arc<Shared>,
    /// Hears how saves have ended.
    pub(crate) runner: mpsc::UnboundedSender<Command>,
}

impl Saver {
    /// Runs until nobody can save any more.
    pub(crate) async fn run(self, mut to_save: mpsc::UnboundedReceiver<Save>) {
        let _watched = Watched(Arc::clone(&self.shared));
        let mut batch = Vec::new();
        while to_save.recv_many(&mut batch, BATCH).await > 0 {
            let mut saves = batch.drain(..).peekable();
            while let Some(first) = saves.next() {
                let (store, mut bytes) = (Arc::clone(&first.store), first.timer.payload.len());
                let mut together = vec![first];
                while let Some(next) = saves.next_if(|next| bytes + next.timer.payload.len() <= BATCH_BYTES) {
                    bytes += next.timer.payload.len();
                    together.push(next);
                }
                self.save(&store, together).await;
            }
        }
    }

    /// Stores a batch. If the store refuses one of its timers, only the caller of that gets the error.
    async fn save(&self, store: &Arc<dyn ErasedStore>, saves: Vec<Save>) {
        let mut batches = Batches::of_at_most(BATCH);
        saves.into_iter().for_each(|save| batches.push(save));
        loop {
            let mut saves = batches.next();
            if saves.is_empty() {
                return;
            }
            // Somebody may hold its key: nobody waits for it here.
            if saves.len() == 1 && store.is_shared() && saves[0].timer.key.is_some() {
                saves.drain(..).for_each(|save| self.save_alone(store, save));
                continue;
            }
            let timers = saves.iter().map(|save| save.timer.clone()).collect();
            match store.clone().save(timers).await {
                Ok(answers) => self.saved(answers, saves),
                // Somebody holds one of the keys. Each timer with a key waits alone.
                Err(error) if error.is_locked() && saves.iter().any(|save| save.timer.key.is_some()) => {
                    let (plain, keyed): (Vec<_>, Vec<_>) =
                        saves.into_iter().partition(|save| save.timer.key.is_none());
                    plain.into_iter().for_each(|save| batches.push(save));
                    keyed.into_iter().for_each(|save| self.save_alone(store, save));
                }
                Err(error) if error.is_transient() => self.failed(&error, saves),
                Err(error) => {
                    if let Some(alone) = batches.failed(saves, false) {
                        self.failed(&error, vec![alone]);
                    }
                }
            }
        }
    }

    fn save_alone(&self, store: &Arc<dyn ErasedStore>, save: Save) {
        let (saver, saving) = (self.clone(), Arc::clone(store).save(vec![save.timer.clone()]));
        tokio::spawn(async move {
            match saving.await {
                Ok(answers) => saver.saved(answers, vec![save]),
                Err(error) => saver.failed(&error, vec![save]),
            }
        });
    }

    fn saved(&self, answers: Vec<Saved>, saves: Vec<Save>) {
        let mut count = 0;
        for answer in &answers {
            if let Saved::Replaced { dropped, .. } | Saved::Over { dropped: Some(dropped) } = answer {
                drop(self.runner.send(Command::Removed(*dropped)));
            }
            count += u64::from(!matches!(answer, Saved::KeyTaken(_) | Saved::Over { .. }));
        }
        // Timers that were there before are reported too: the call that stored them may have failed afterwards. Arming twice does
        // no harm.
        let nears = answers.iter().filter_map(|answer| answer.id().map(Near::from)).collect();
        // The runner hears of them before the callers do.
        drop(self.runner.send(Command::Saved(nears)));
        {
            let mut stats = self.shared.stats();
            stats.saved += count;
            stats.save_batches += 1;
        }
        for (Save { reply: (reply, _calling), .. }, answer) in saves.into_iter().zip(answers) {
            // The caller may have dropped the save.
            drop(reply.send(Ok(answer)));
        }
    }

    /// All saves of a batch get the same error. They may be stored all the same.
    fn failed(&self, error: &Error, saves: Vec<Save>) {
        self.shared.failed(error);
        drop(self.runner.send(Command::LoadAnew));
        for Save { reply: (reply, _calling), .. } in saves {
            drop(reply.send(Err(error.again())));
        }
    }
}

//! What an operator does: looks at timers, acts on many of them, pauses kinds.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use crate::durable::Durable;
use crate::error::Error;
use crate::runner::Command;
use crate::store::{
    Cursor, Filter, Histories, Listing, Near, Paused, Phase, Picked, Shown, Sight, Tally, Which,
};

/// What is done to timers that a [`Filter`] wants.
///
/// | to | act | on |
/// |---|---|---|
/// | cancel | [`Cancel`](Self::Cancel) | any that have not begun |
/// | run now, retry now | [`RunNow`](Self::RunNow) | [waiting](Phase::Waiting), [retrying](Phase::Retrying) |
/// | move | [`MoveTo`](Self::MoveTo) | any that have not begun |
/// | retry buried ones | [`RunNow`](Self::RunNow), [`MoveTo`](Self::MoveTo) | [buried](Phase::Buried) |
/// | delete buried ones | [`Cancel`](Self::Cancel) | [buried](Phase::Buried) |
/// | prune by age | [`Cancel`](Self::Cancel) | [buried](Phase::Buried), [`Filter::before`] |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Act {
    /// As [`Durable::cancel`] does, which ends a series, and deletes buried timers.
    Cancel,
    /// They are due now, unless they are already. Buried ones are attempted again, as by [`Durable::retry_buried`].
    RunNow,
    /// They are due then. Buried ones are attempted again then.
    MoveTo(Timestamp),
}

/// What [`Durable::act`] has done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Acted {
    /// So many were cancelled, moved or deleted.
    pub done: u64,
    /// So many have begun. If they were to be cancelled, nothing follows their attempts; if they were to be moved, they stay.
    pub running: u64,
    /// So many stay buried, because another timer has their key.
    pub key_taken: u64,
    /// So many stay as they are, because a transaction that is open in PostgreSQL holds them, or saves another timer under their key.
    /// The same filter finds them again.
    pub locked: u64,
    /// The filter of those that are left. `None` if no more are wanted by it. serde leaves it out.
    #[serde(skip)]
    pub next: Option<Filter>,
}

/// So many are acted on in one call of the store.
const AT_A_TIME: usize = 500;

impl Durable {
    /// A page of the timers that a filter wants, with their phases, errors and times.
    ///
    /// A page takes a few milliseconds, however many timers there are: it [looks at 2,500](Listing::timers) at the most.
    ///
    /// # Cancel safety
    /// It only reads, and can be called again.
    ///
    /// # Errors
    /// [`Error::Store`].
    ///
    /// # Examples
    ///
    /// ```
    /// use timingwheel_durable::{Durable, Error, Filter, Phase};
    ///
    /// /// Prints all dead letters.
    /// async fn dead_letters(durable: &Durable) -> Result<(), Error> {
    ///     let mut next = Some(Filter::new().phase(Phase::Buried));
    ///     while let Some(filter) = next {
    ///         let page = durable.look(filter).await?;
    ///         for shown in page.timers {
    ///             println!("{} {}: {:?}", shown.timer.timer.id(), shown.timer.kind, shown.timer.failures.last());
    ///         }
    ///         next = page.next;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub async fn look(&self, filter: Filter) -> Result<Listing, Error> {
        let (timers, next) = self.0.store.clone().look(filter.clone(), self.sight()).await?;
        Ok(Listing { timers, next: next.map(|after: Cursor| Filter { after: Some(after), ..filter }) })
    }

    /// The timer with this id or key: stored, begun, or buried. Of several that are buried under a key it is the first. If there is
    /// none, it is the last that has ended, where a [history](Self::keep_history) is kept. [`Filter::only`] finds all of them.
    ///
    /// # Cancel safety
    /// It only reads, and can be called again.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn show(&self, which: impl Into<Which>) -> Result<Option<Shown>, Error> {
        Ok(self.look(Filter::only(which)).await?.timers.into_iter().next())
    }

    /// How many timers there are of each kind in each phase.
    ///
    /// It is cheap: of more than about a hundred thousand timers it counts a part, and says so.
    ///
    /// # Cancel safety
    /// It only reads, and can be called again.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn tally(&self) -> Result<Tally, Error> {
        self.0.store.clone().tally(self.sight()).await
    }

    /// Acts on the timers that a filter wants: on its [limit](Filter::limit) at the most, and tells on how many.
    ///
    /// Each timer is changed if it still has not begun, a few hundred in one transaction. An act waits for no other transaction:
    /// timers that one holds are [left out, and counted](Acted::locked).
    ///
    /// # Cancel safety
    /// If this is dropped before it is ready, it goes on by itself.
    ///
    /// # Errors
    /// [`Error::Store`], after which some are done and some are not; [`Error::Stopped`]; [`Error::Lost`]; [`Error::Failed`].
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use timingwheel_durable::{Act, Durable, Error, Filter, Phase};
    ///
    /// /// Attempts dead letters of a kind again, and deletes those of last month.
    /// async fn tidy(durable: &Durable) -> Result<(), Error> {
    ///     let dead = Filter::new().phase(Phase::Buried).limit(1_000);
    ///     let retried = durable.act(dead.clone().kind("cancel-order"), Act::RunNow).await?;
    ///     println!("{} are attempted again", retried.done);
    ///     let month = Duration::from_secs(30 * 86_400);
    ///     durable.act(dead.before(durable.now() - month), Act::Cancel).await?;
    ///     Ok(())
    /// }
    /// ```
    pub async fn act(&self, filter: Filter, act: Act) -> Result<Acted, Error> {
        let durable = self.clone();
        self.on_its_own(async move { durable.act_on(filter, act).await }).await
    }

    async fn act_on(&self, filter: Filter, act: Act) -> Result<Acted, Error> {
        let now = self.now();
        let due = match act {
            Act::Cancel => None,
            Act::RunNow => Some(now),
            Act::MoveTo(at) => Some(at),
        };
        let is_there = |shown: &Shown| {
            let stands = shown.timer.timer.due();
            let is_due = act == Act::RunNow && stands <= now;
            // Nothing is to be done about what has ended.
            shown.phase.has_ended()
                || shown.phase != Phase::Buried
                    && (is_due
                        || due.is_some_and(|due| Near::new(shown.timer.timer.id(), due) == shown.timer.timer))
        };
        let tell = |command| drop(self.0.runner.send(command));
        let (mut acted, limit) = (Acted::default(), filter.most());
        let mut left = limit;
        acted.next = Some(filter);
        while let Some(filter) = acted.next.take_if(|_| left > 0) {
            let page = self.look(filter.limit(left.min(AT_A_TIME))).await?;
            acted.next = page.next.map(|next| next.limit(limit));
            // What was put aside as damaged stays there.
            let wanted = page.timers.iter().filter(|shown| !is_there(shown));
            let picked: Vec<Picked> = wanted
                .map(|shown| Picked { id: shown.timer.timer.id(), number: self.unique(now, "") })
                .collect();
            left -= picked.len();
            if picked.is_empty() {
                continue;
            }
            let effects =
                self.0.store.clone().act(picked, due).await.inspect_err(|_| tell(Command::LoadAnew))?;
            acted.done += (effects.gone.len() + effects.stored.len()) as u64;
            acted.running += effects.running;
            acted.key_taken += effects.key_taken;
            acted.locked += effects.locked;
            effects.gone.into_iter().for_each(|near| tell(Command::Removed(near)));
            tell(Command::Saved(effects.stored));
        }
        Ok(acted)
    }

    /// Pauses a kind: no instance begins timers of it any more, until it is [resumed](Self::resume). Attempts that have begun go on.
    ///
    /// The store keeps it, over restarts. Where instances share the store, each hears of it within a second, or at the latest as it
    /// next renews its [lease](crate::Builder::lease). A timer that is paused takes no place of another.
    /// A timer that is about to be called as its kind is paused is given back. A cancel in that moment answers
    /// [`Running`](crate::Cancelled::Running), and the timer is removed.
    ///
    /// # Cancel safety
    /// If this is dropped before it is ready, it goes on by itself.
    ///
    /// # Errors
    /// [`Error::Store`], after which it is paused or not; [`Error::Stopped`]; [`Error::Lost`]; [`Error::Failed`].
    pub async fn pause(&self, kind: impl Into<String>) -> Result<(), Error> {
        self.set_paused(kind.into(), true).await
    }

    /// Resumes a kind that was [paused](Self::pause). What is overdue runs at once.
    ///
    /// # Cancel safety
    /// If this is dropped before it is ready, it goes on by itself.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub async fn resume(&self, kind: impl Into<String>) -> Result<(), Error> {
        self.set_paused(kind.into(), false).await
    }

    async fn set_paused(&self, kind: String, is_paused: bool) -> Result<(), Error> {
        let inner = Arc::clone(&self.0);
        self.on_its_own(async move {
            let _in_order = inner.pausing.lock().await;
            let paused = inner.store.clone().pause(Some((kind, is_paused))).await?;
            drop(inner.runner.send(Command::Paused(paused)));
            Ok(())
        })
        .await
    }

    /// The kinds that are paused.
    ///
    /// # Cancel safety
    /// It only reads, and can be called again.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn paused(&self) -> Result<Paused, Error> {
        self.0.store.clone().pause(None).await
    }

    /// Keeps the timers of a kind for `age` after their end: how each ended, its times, attempts and errors, and which instance ran it.
    /// `Duration::ZERO` ends that, as it is at first. [`show`](Self::show) and [`look`](Self::look) with [`Filter::history`] find
    /// them.
    ///
    /// The store keeps the setting, and all instances heed it. Set it at each start, or once. An end is noted by the statement that
    /// makes it, and is as durable. Instances that run delete what is older every five minutes. The page about sizing
    /// says what this costs in PostgreSQL. A [buried](Phase::Buried) timer is no history before it is deleted.
    ///
    /// # Cancel safety
    /// If this is dropped before it is ready, it goes on by itself.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use timingwheel_durable::{Durable, Error, Filter, Phase};
    /// async fn cancelled_today(durable: &Durable) -> Result<(), Error> {
    ///     let day = Duration::from_secs(86_400);
    ///     durable.keep_history("cancel-order", day).await?;
    ///     let cancelled = Filter::history().phase(Phase::Cancelled).from(durable.now() - day);
    ///     for shown in durable.look(cancelled).await?.timers {
    ///         println!("{:?} was cancelled at {:?}", shown.timer.key, shown.timer.times.ended);
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub async fn keep_history(&self, kind: impl Into<String>, age: Duration) -> Result<(), Error> {
        let setting = self.0.store.clone().keep_history(kind.into(), age);
        self.on_its_own(setting).await
    }

    /// The kinds of which a [history](Self::keep_history) is kept, and for how long.
    ///
    /// # Cancel safety
    /// It only reads, and can be called again.
    ///
    /// # Errors
    /// [`Error::Store`].
    pub async fn histories(&self) -> Result<Histories, Error> {
        let mut all = self.0.store.clone().histories().await?;
        all.retain(|_, age| !age.is_zero());
        Ok(all)
    }

    fn sight(&self) -> Sight {
        Sight { now: self.now(), kinds: self.0.shared.kinds() }
    }
}

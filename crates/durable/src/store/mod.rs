//! The trait of a store, and the types of its questions and answers. Not public API: it changes with every version.

mod answers;
mod look;
mod questions;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;

use crate::clock::Clock;
use crate::error::Error;
use crate::id::{Place, TimerId};
pub use answers::{
    Begun, Buried, Counts, Failure, Hint, Loaded, Move, Near, Overdue, Removal, Renewed, Saved, Settled,
    Standing, State, Stored, Taken, Times,
};
pub use look::{
    Cursor, Effects, Filter, Histories, Listing, Looked, Part, Paused, Phase, Picked, Shown, Sight, Tally,
};
pub(crate) use look::{LAST_ENDED, PASSED};
pub use questions::{
    Ask, Change, Ended, Kinds, LARGEST_PAYLOAD, NewTimer, Page, Put, Series, ToBegin, Which,
};
pub(crate) use questions::{check_key, check_payload};

/// An owner of timers: a process from its [`join`](Store::join) on, with a number from a counter in the store.
///
/// The number is never used again. Once another owner has taken over, the results of the former owner are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// Counts up with each [`Store::join`].
    pub epoch: u64,
}

/// The answer to come of a call.
pub trait Answers<T, E>: Future<Output = Result<T, E>> + Send {}

impl<T, E, F: Future<Output = Result<T, E>> + Send> Answers<T, E> for F {}

/// A store of timers, in which `timingwheel-durable` keeps them.
///
/// [`MemoryStore`](crate::MemoryStore), `RedbStore` and `PostgresStore` are such stores.
///
/// # Promises
/// - When a call has answered, its changes are durable, and all later calls see them. A call that fails has done all of
///   its work or none.
/// - Calls are atomic among each other: for two that touch one timer, one comes after the other.
/// - Answers stand in the order of the questions.
/// - A timer has one state: stored, begun or [buried](Buried). A [key](NewTimer::key) belongs to one stored or begun timer
///   at most.
///
/// Calls are made from several tasks at once. Their futures may be dropped before they are ready; the call has then
/// happened or not.
pub trait Store: Send + Sync + 'static {
    /// Its errors.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Whether the same call may succeed a little later, as after a lost connection. Callers see it in
    /// [`Error::Store`].
    fn is_transient(error: &Self::Error) -> bool {
        let _ = error;
        false
    }

    /// A new owner. From here, all earlier ones are answered [`Begun::Lost`], [`Settled::Fenced`] and
    /// [`Loaded::lost`].
    ///
    /// In a store that several processes share, `lease` is how long the owner may be silent. A store with one owner at a time needs
    /// no lease.
    ///
    /// `kinds`: the kinds that the owner has handlers for. A shared store gives a timer to an owner that has a handler for it, if
    /// there is one. An owner without handlers only saves, cancels and moves, and gets no timers.
    fn join(&self, lease: Duration, kinds: Kinds) -> impl Answers<Owner, Self::Error>;

    /// The owner begins nothing more. The timers that it has begun and not settled are stored again, and their attempts
    /// count. Returns the number of these timers.
    fn leave(&self, owner: Owner) -> impl Answers<u64, Self::Error>;

    /// Stores timers. Each answer is independent of the others, except for timers with the same key.
    fn save(&self, timers: Vec<NewTimer>) -> impl Answers<Vec<Saved>, Self::Error>;

    /// The timers of some kinds after a place and up to a time, the earliest first. They are stored, or an earlier owner has begun
    /// them. It writes nothing, so a later cancel or move still succeeds.
    fn load(&self, owner: Owner, ask: Ask) -> impl Answers<Loaded, Self::Error>;

    /// Begins the timers that still stand where they stood when they were loaded, if they are of the given kinds.
    /// Counts the attempt. From here on a cancel comes too late. A timer that was cancelled while it ran, and whose owner is
    /// gone, is deleted instead.
    ///
    /// If the owner has already begun a timer, and not ended it, the answer has the same attempt again: the first
    /// answer may have been lost.
    fn begin(&self, owner: Owner, ask: ToBegin) -> impl Answers<Vec<Begun>, Self::Error>;

    /// Ends attempts, in one transaction: each timer that is as its attempt began is changed, or deleted.
    fn settle(&self, owner: Owner, ends: Vec<Ended>) -> impl Answers<Vec<Settled>, Self::Error>;

    /// Removes a stored timer. If there is none, deletes the buried ones of this name or key. An attempt that has begun goes on, and [nothing follows it](Removal::Running).
    ///
    /// If an earlier owner began a timer and did not settle it, cancels, moves and saves treat the timer as stored.
    /// That attempt counts, and is over.
    fn cancel(&self, which: Which) -> impl Answers<Removal, Self::Error>;

    /// The timer of this name or key, unless it is [buried](Buried).
    fn get(&self, which: Which) -> impl Answers<Option<Stored>, Self::Error>;

    /// Moves a stored timer to another time.
    fn reschedule(&self, which: Which, due: Timestamp) -> impl Answers<Move, Self::Error>;

    /// Retries or deletes a [buried](Buried) timer. With a time it is stored again, due at that time, and its attempts are counted
    /// from 1 again. Without a time it is deleted.
    ///
    /// A run of a series is stored without its key and its rule, and under `number` in place of the series' number.
    fn unbury(&self, id: TimerId, due: Option<Timestamp>, number: u64) -> impl Answers<Taken, Self::Error>;

    /// The timers of a page that can be read. They are in the order of their places, buried ones in the order of their ids.
    fn list(&self, page: Page) -> impl Answers<Vec<Stored>, Self::Error> {
        async move {
            let (mut found, most) = (Vec::new(), page.limit);
            let mut next = Some(Filter::of_page(page));
            while let Some(filter) = next.take_if(|_| found.len() < most) {
                let filter = filter.limit(most - found.len());
                let (timers, end) = self.look(filter.clone(), Sight::default()).await?;
                found.extend(
                    timers.into_iter().filter(|shown| shown.damage.is_none()).map(|shown| shown.timer),
                );
                next = end.map(|after| Filter { after: Some(after), ..filter });
            }
            Ok(found)
        }
    }

    /// A page of this owner's series, after a place. If it is empty, there are no more. The payloads, failures, and series of other
    /// owners may be left out.
    fn series(&self, owner: Owner, after: Place, limit: usize) -> impl Answers<Vec<Stored>, Self::Error> {
        let _ = owner;
        self.list(Page { only_series: true, after, limit, ..Page::default() })
    }

    /// Timers of this owner after a place that are due by `until`, the earliest first: stored ones of a kind that no owner has a handler
    /// for, series, and those that it has begun. `kinds` are this owner's. It passes a bounded number of timers, and tells the last
    /// one's place if there may be more.
    fn overdue(
        &self,
        owner: Owner,
        after: Place,
        until: Timestamp,
        kinds: Kinds,
    ) -> impl Answers<(Vec<Overdue>, Option<Place>), Self::Error> {
        async move {
            let page = Page { after, ..Page::default() };
            let timers = self.list(page.clone()).await?;
            let end = timers.last().filter(|_| timers.len() == page.limit).map(|last| last.timer.place());
            let mut found = Vec::new();
            for Stored { timer, kind, series, state, .. } in timers {
                if timer.due() > until {
                    return Ok((found, None));
                }
                let is_handled = kinds.contains(&kind);
                let has_begun = matches!(state, State::Begun { epoch, .. } if epoch == owner.epoch);
                if has_begun || (state == State::Stored && (series.is_some() || !is_handled)) {
                    let rule = series.map(|series| series.rule);
                    found.push(Overdue { timer, kind, rule, is_handled, has_begun });
                }
            }
            Ok((found, end))
        }
    }

    /// The timers that a filter wants, and where the next look begins. It passes 2,500 timers at the most.
    ///
    /// The runner makes neither this call nor the next two, so a store that only it uses, and that answers [`list`](Self::list)
    /// in a way of its own, does not answer them.
    fn look(&self, filter: Filter, sight: Sight) -> impl Answers<Looked, Self::Error> {
        let _ = (filter, sight);
        std::future::pending()
    }

    /// How many there are of each kind in each phase. Where there are very many, it reckons from a part of them.
    fn tally(&self, sight: Sight) -> impl Answers<Tally, Self::Error> {
        let _ = sight;
        std::future::pending()
    }

    /// Makes timers due at a time, buried ones too, as [`reschedule`](Self::reschedule) and [`unbury`](Self::unbury) do. Without a
    /// time it cancels them, and deletes buried ones. It waits for no transaction that holds one of them, and leaves that one out.
    fn act(&self, picked: Vec<Picked>, due: Option<Timestamp>) -> impl Answers<Effects, Self::Error> {
        let _ = (picked, due);
        std::future::pending()
    }

    /// Pauses a kind (`true`) or resumes it (`false`), if asked to. Answers the kinds that are paused then.
    fn pause(&self, change: Option<(String, bool)>) -> impl Answers<Paused, Self::Error> {
        let _ = change;
        std::future::ready(Ok(Paused::new()))
    }

    /// Keeps timers of a kind for so long after their end; no longer, if the time is zero.
    fn keep_history(&self, kind: String, age: Duration) -> impl Answers<(), Self::Error> {
        let _ = (kind, age);
        std::future::ready(Ok(()))
    }

    /// For how long ended timers are [kept](Self::keep_history), of each kind of which that was ever set.
    fn histories(&self) -> impl Answers<Histories, Self::Error> {
        std::future::ready(Ok(Histories::new()))
    }

    /// Deletes so many ended timers at the most, of those that are older than is [kept](Self::keep_history). Returns how many.
    fn prune(&self, most: usize) -> impl Answers<usize, Self::Error> {
        let _ = most;
        std::future::ready(Ok(0))
    }

    /// The clock for the times of [`Times`] and [`Failure::at`], where the store has none of its own.
    fn set_clock(&self, clock: Arc<dyn Clock>) {
        let _ = clock;
    }

    /// How many there are.
    fn count(&self) -> impl Answers<Counts, Self::Error>;

    /// How many damaged timers were found since the store was opened.
    fn damaged(&self) -> u64 {
        0
    }

    /// Whether several instances may each have a part of the timers at the same time. Only then the calls below are made.
    fn is_shared(&self) -> bool {
        false
    }

    /// Tells the store that the owner lives, and returns how it stands. Only a [shared](Self::is_shared) store is asked.
    ///
    /// With `from`, the answer has [`Renewed::first_due`], among the timers that are due from then on.
    fn renew(&self, owner: Owner, from: Option<Timestamp>) -> impl Answers<Renewed, Self::Error> {
        let _ = (owner, from);
        std::future::pending()
    }

    /// Ready when another instance or program has done something that concerns this owner. A lost hint does no harm: the owner
    /// finds the same timers when it next scans.
    fn hint(&self, owner: Owner) -> impl Future<Output = Hint> + Send {
        let _ = owner;
        std::future::pending()
    }

    /// The owner cannot read the rule of a series of this kind: its program is too old, or its machine lacks data of zones. A shared
    /// store gives such series to another owner too, from the next renewal on.
    fn cannot_read(&self, owner: Owner, kind: &str) {
        let _ = (owner, kind);
    }

    /// Whether a timer is in this owner's part, as far as this instance knows.
    fn is_mine(&self, owner: Owner, timer: Near) -> bool {
        let _ = (owner, timer);
        true
    }

    /// The time by which timers of this store are due, as far as this instance knows. `None` if that is the instance's own clock.
    fn clock(&self, owner: Owner) -> Option<Timestamp> {
        let _ = owner;
        None
    }

    /// A number for a timer that this owner saves. No other timer of the store has it. `count` differs for each timer.
    fn number(&self, owner: Owner, count: u64, due: Timestamp, kind: &str) -> u64 {
        let _ = (due, kind);
        // Epochs are used once, as long as nobody puts an older copy of the store in its place: see `RedbStore`.
        (owner.epoch << 32).wrapping_add(count)
    }
}

/// The same, without its type.
pub(crate) type Answered<T> = BoxFuture<'static, Result<T, Error>>;

/// The list of all calls, for macros that do the same with each. The first word says where its meaning is, if the store has maps:
/// in `tables`, as a call that reads or writes these, in the store, or in looks.
macro_rules! all_calls {
    ($then:ident $($before:tt)*) => {
        $then! {
            $($before)*
            write join(lease: Duration, kinds: Kinds) -> Owner;
            write leave(owner: Owner) -> u64;
            of_store renew(owner: Owner, from: Option<Timestamp>) -> Renewed;
            write save(timers: Vec<NewTimer>) -> Vec<Saved>;
            read load(owner: Owner, ask: Ask) -> Loaded;
            write begin(owner: Owner, ask: ToBegin) -> Vec<Begun>;
            write settle(owner: Owner, ends: Vec<Ended>) -> Vec<Settled>;
            write cancel(which: Which) -> Removal;
            read get(which: Which) -> Option<Stored>;
            write reschedule(which: Which, due: Timestamp) -> Move;
            write unbury(id: TimerId, due: Option<Timestamp>, number: u64) -> Taken;
            by_look list(page: Page) -> Vec<Stored>;
            of_store series(owner: Owner, after: Place, limit: usize) -> Vec<Stored>;
            of_store overdue(owner: Owner, after: Place, until: Timestamp, kinds: Kinds)
                -> (Vec<Overdue>, Option<Place>);
            read count() -> Counts;
            read look(filter: Filter, sight: Sight) -> Looked;
            read tally(sight: Sight) -> Tally;
            write act(picked: Vec<Picked>, due: Option<Timestamp>) -> Effects;
            write pause(change: Option<(String, bool)>) -> Paused;
            write keep_history(kind: String, age: Duration) -> ();
            read histories() -> Histories;
            write prune(most: usize) -> usize;
        }
    };
}
pub(crate) use all_calls;

/// A store without its type, so that `Durable` has no type parameter. One allocation for each call, which is one for each
/// batch.
macro_rules! erased {
    (
        plain { $($plain:ident($($part:ident: $what:ty),*) -> $told:ty;)* }
        $($of:ident $call:ident($($name:ident: $type:ty),*) -> $answer:ty;)*
    ) => {
        pub(crate) trait ErasedStore: Send + Sync {
            fn hint(self: Arc<Self>, owner: Owner) -> BoxFuture<'static, Hint>;
            $(fn $plain(&self, $($part: $what),*) -> $told;)*
            $(fn $call(self: Arc<Self>, $($name: $type),*) -> Answered<$answer>;)*
        }

        impl<S: Store> ErasedStore for S {
            fn hint(self: Arc<Self>, owner: Owner) -> BoxFuture<'static, Hint> {
                async move { Store::hint(&*self, owner).await }.boxed()
            }

            $(
                fn $plain(&self, $($part: $what),*) -> $told {
                    Store::$plain(self, $($part),*)
                }
            )*

            $(
                fn $call(self: Arc<Self>, $($name: $type),*) -> Answered<$answer> {
                    async move { Store::$call(&*self, $($name),*).await.map_err(Error::store::<S>) }.boxed()
                }
            )*
        }
    };
}

all_calls! {
    erased plain {
        set_clock(clock: Arc<dyn Clock>) -> ();
        damaged() -> u64;
        is_shared() -> bool;
        cannot_read(owner: Owner, kind: &str) -> ();
        is_mine(owner: Owner, timer: Near) -> bool;
        clock(owner: Owner) -> Option<Timestamp>;
        number(owner: Owner, count: u64, due: Timestamp, kind: &str) -> u64;
    }
}

//! A store that asks before and after each call: to fail, to wait, or to end the process.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use timingwheel_durable::store::{
    Ask, Begun, Counts, Effects, Ended, Filter, Hint, Histories, Kinds, Loaded, Looked, Move, Near, NewTimer,
    Owner, Page, Paused, Picked, Removal, Renewed, Saved, Settled, Sight, Store, Stored, Taken, Tally,
    ToBegin, Which,
};
use timingwheel_durable::{Clock, TimerId};

/// Where a call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Step {
    /// The store has not been asked.
    Before,
    /// It has done it, and nobody knows.
    After,
}

pub(crate) trait Hook: Send + Sync + 'static {
    /// Whether the call goes on.
    fn at(&self, call: &'static str, step: Step) -> impl Future<Output = Result<(), Injected>> + Send {
        let _ = (call, step);
        std::future::ready(Ok(()))
    }

    /// Whether the store takes these arguments.
    fn takes(&self, call: &'static str, arguments: &[&dyn Any]) -> Result<(), Refused> {
        let _ = (call, arguments);
        Ok(())
    }
}

/// Why a store does not take the arguments of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The call would take too long.
    TooMuch,
    /// One of them can never be stored.
    Culprit,
}

/// An error that a hook made.
#[derive(Debug)]
pub(crate) struct Injected;

#[derive(Debug)]
pub(crate) enum HookedError<E> {
    Injected,
    Refused(Refused),
    Store(E),
}

impl<E: fmt::Display> fmt::Display for HookedError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Injected => f.write_str("injected"),
            Self::Refused(why) => write!(f, "refused: {why:?}"),
            Self::Store(error) => error.fmt(f),
        }
    }
}

impl<E: fmt::Debug + fmt::Display> std::error::Error for HookedError<E> {}

pub(crate) struct Hooked<S, H> {
    pub(crate) store: S,
    pub(crate) hook: H,
}

macro_rules! hooked {
    ($($call:ident($($name:ident: $type:ty),*) -> $answer:ty;)*) => {
        impl<S: Store, H: Hook> Store for Hooked<S, H> {
            type Error = HookedError<S::Error>;

            fn is_transient(error: &Self::Error) -> bool {
                !matches!(error, HookedError::Refused(Refused::Culprit))
            }

            fn set_clock(&self, clock: Arc<dyn Clock>) {
                self.store.set_clock(clock);
            }

            fn is_shared(&self) -> bool {
                self.store.is_shared()
            }

            fn hint(&self, owner: Owner) -> impl Future<Output = Hint> + Send {
                self.store.hint(owner)
            }

            fn cannot_read(&self, owner: Owner, kind: &str) {
                self.store.cannot_read(owner, kind);
            }

            fn is_mine(&self, owner: Owner, timer: Near) -> bool {
                self.store.is_mine(owner, timer)
            }

            fn number(&self, owner: Owner, count: u64, due: Timestamp, kind: &str) -> u64 {
                self.store.number(owner, count, due, kind)
            }

            $(
                async fn $call(&self, $($name: $type),*) -> Result<$answer, Self::Error> {
                    let injected = |Injected| HookedError::Injected;
                    self.hook.takes(stringify!($call), &[$(&$name),*]).map_err(HookedError::Refused)?;
                    self.hook.at(stringify!($call), Step::Before).await.map_err(injected)?;
                    let answer = self.store.$call($($name),*).await.map_err(HookedError::Store)?;
                    self.hook.at(stringify!($call), Step::After).await.map_err(injected)?;
                    Ok(answer)
                }
            )*
        }
    };
}

hooked! {
    join(lease: Duration, kinds: Kinds) -> Owner;
    leave(owner: Owner) -> u64;
    renew(owner: Owner, from: Option<Timestamp>) -> Renewed;
    save(timers: Vec<NewTimer>) -> Vec<Saved>;
    load(owner: Owner, ask: Ask) -> Loaded;
    begin(owner: Owner, ask: ToBegin) -> Vec<Begun>;
    settle(owner: Owner, ends: Vec<Ended>) -> Vec<Settled>;
    cancel(which: Which) -> Removal;
    get(which: Which) -> Option<Stored>;
    reschedule(which: Which, due: Timestamp) -> Move;
    unbury(id: TimerId, due: Option<Timestamp>, number: u64) -> Taken;
    list(page: Page) -> Vec<Stored>;
    count() -> Counts;
    look(filter: Filter, sight: Sight) -> Looked;
    tally(sight: Sight) -> Tally;
    act(picked: Vec<Picked>, due: Option<Timestamp>) -> Effects;
    pause(change: Option<(String, bool)>) -> Paused;
    keep_history(kind: String, age: Duration) -> ();
    histories() -> Histories;
    prune(most: usize) -> usize;
}

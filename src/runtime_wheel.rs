//! The wheel of each runtime: made at first use, found cheaply after that, and dropped with the runtime.
//!
//! | where | holds | until |
//! |---|---|---|
//! | `WHEELS` | each runtime's wheel, in this process | the runtime drops the [`Keeper`] |
//! | `LAST` | the wheel that this thread found last | the thread finds another |
//! | a task of the runtime | the [`Keeper`] | the runtime is shut down |
//!
//! Any code on the runtime may shut its wheel down. The next call that needs the wheel makes another one, with the same
//! settings.
//!
//! A new runtime may get the id of an old one. So `LAST` counts only while its wheel has not ended.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::{error, fmt, process};

use tokio::runtime::{Handle, Id, RuntimeFlavor, worker_index};

use crate::engine::shard::Shard;
use crate::handle::TimingWheel;
use crate::platform::sync::PerProcess;

static WHEELS: PerProcess<Mutex<HashMap<Id, TimingWheel>>> = PerProcess::new();

thread_local!(static LAST: RefCell<Option<(Id, TimingWheel)>> = const { RefCell::new(None) });

/// Calls `f` with the wheel that this thread found last, and returns its result. Returns `None` if there is no such
/// wheel, or if it has ended. `f` must not call this module, because `LAST` is borrowed meanwhile.
fn of_last<R>(f: impl FnOnce(Id, &TimingWheel) -> Option<R>) -> Option<R> {
    // A thread that is about to end has no `LAST` any more, and needs none.
    let found = LAST.try_with(|last| match &*last.borrow() {
        Some((id, wheel)) if !wheel.is_ended() => f(*id, wheel),
        _ => None,
    });
    found.ok().flatten()
}

/// Calls `f`, which must not come back here, with the current runtime's wheel.
///
/// # Panics
/// If this thread is not within a tokio runtime, and as [`TimingWheel::new`] does.
#[track_caller]
pub(crate) fn with_current<R>(f: impl Fn(&TimingWheel) -> R) -> R {
    let Ok(runtime) = Handle::try_current() else {
        panic!(
            "there is no timing wheel here, because this thread is not within a tokio runtime: call it inside \
             `block_on`, or under `Runtime::enter`"
        )
    };
    let id = runtime.id();
    if let Some(result) = of_last(|last, wheel| (last == id).then(|| f(wheel))) {
        return result;
    }
    let wheel = find_or_make(id);
    let result = f(&wheel);
    _ = LAST.try_with(|last| last.replace(Some((id, wheel))));
    result
}

/// The shard for a timer that this thread arms by name, for the task of `waker`.
///
/// Asking tokio for the current runtime counts a reference that all workers share. So if this thread is a worker, its
/// last wheel is one of a multi-thread runtime, and that wheel still has a dropped timer of the same task, the timer goes
/// to it without asking. Such a wheel has workers, which fire the
/// timer whatever this thread does.
///
/// # Panics
/// As [`with_current`].
#[track_caller]
pub(crate) fn shard_for(waker: Option<&Waker>) -> Arc<Shard> {
    let of_same_task = of_last(|_, wheel| {
        // Not outside of workers: there all `block_on`s of a thread share one waker, whatever their runtime.
        worker_index()?;
        let has_workers = matches!(wheel.wheel.runtime, Some((_, RuntimeFlavor::MultiThread)));
        let shard = has_workers.then(|| wheel.shard())?;
        shard.has_spare_of(waker?).then(|| shard.clone())
    });
    // Not by a closure, in which a panic would not name the caller.
    match of_same_task {
        Some(shard) => shard,
        None => with_current(|wheel| wheel.shard().clone()),
    }
}

/// Makes `wheel` the current runtime's, or gives it back and says why not.
pub(crate) fn set(wheel: TimingWheel) -> Result<(), SetWheelError> {
    let reason = match Handle::try_current() {
        Err(_) => {
            "there is no runtime whose wheel to set, because this thread is not within one: call it inside \
             `block_on`, or under `Runtime::enter`"
        }
        Ok(_) if wheel.is_ended() => "the wheel has ended",
        Ok(runtime) if wheel.runtime_id() != Some(runtime.id()) => {
            "the wheel is driven by another runtime: make it on this one"
        }
        Ok(runtime) if put(runtime.id(), &wheel).is_err() => {
            "the runtime has a wheel already: set one before `timingwheel::time` is used there"
        }
        Ok(_) => return Ok(()),
    };
    Err(SetWheelError { wheel, reason })
}

/// Why [`set_wheel`](crate::time::set_wheel) refused a wheel. The wheel is in here.
#[derive(Debug)]
pub struct SetWheelError {
    wheel: TimingWheel,
    reason: &'static str,
}

impl SetWheelError {
    /// The wheel, as it was given.
    #[must_use]
    pub fn into_inner(self) -> TimingWheel {
        self.wheel
    }
}

impl fmt::Display for SetWheelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason)
    }
}

impl error::Error for SetWheelError {}

#[track_caller]
fn find_or_make(id: Id) -> TimingWheel {
    let found = wheels().get(&id).cloned();
    // Without the lock: a runtime that is being shut down drops tasks, and their wheels, as they are spawned.
    let made = match found {
        Some(wheel) if !wheel.is_ended() => return wheel,
        Some(ended) => match ended.builder_of_another().build() {
            Ok(wheel) => wheel,
            Err(error) => panic!("the runtime's wheel was shut down, and another cannot be made: {error}"),
        },
        None => TimingWheel::new(),
    };
    match put(id, &made) {
        Ok(()) => made,
        Err(found) => found,
    }
}

/// Makes `wheel` the runtime's wheel. If the runtime has one that has not ended, returns that one.
fn put(id: Id, wheel: &TimingWheel) -> Result<(), TimingWheel> {
    let mut wheels = wheels();
    match wheels.entry(id) {
        Entry::Occupied(mut found) if found.get().is_ended() => {
            let ended = found.insert(wheel.clone());
            drop(wheels);
            drop(ended);
        }
        Entry::Occupied(found) => return Err(found.get().clone()),
        Entry::Vacant(place) => {
            place.insert(wheel.clone());
            drop(wheels);
            let keeper = Keeper(id);
            tokio::spawn(async move {
                let _keeper = keeper;
                std::future::pending::<()>().await;
            });
        }
    }
    Ok(())
}

fn wheels() -> std::sync::MutexGuard<'static, HashMap<Id, TimingWheel>> {
    // No user code runs under the lock, so the map is whole even after a panic elsewhere.
    WHEELS.of(process::id(), Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the wheel of this runtime out of `WHEELS` when the runtime drops its tasks. No other runtime has its id as yet.
struct Keeper(Id);

impl Drop for Keeper {
    fn drop(&mut self) {
        let removed = wheels().remove(&self.0);
        // Without the lock.
        drop(removed);
    }
}

//! The wheel that belongs to a runtime: made at first use, found cheaply from then on, gone with the runtime.
//!
//! | where | holds | until |
//! |---|---|---|
//! | `WHEELS` | each runtime's wheel | the runtime drops the [`Keeper`] |
//! | `LAST` | the wheel that this thread found last | the thread finds another |
//! | a task of the runtime | the [`Keeper`] | the runtime is shut down |
//!
//! A runtime's id is used again after it is gone. So `LAST` counts only while its wheel has not ended.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::{error, fmt};

use tokio::runtime::{Handle, Id};

use crate::timing_wheel::TimingWheel;

static WHEELS: LazyLock<Mutex<HashMap<Id, TimingWheel>>> = LazyLock::new(Mutex::default);

thread_local!(static LAST: RefCell<Option<(Id, TimingWheel)>> = const { RefCell::new(None) });

/// Calls `f`, which must not come back here, with the current runtime's wheel.
///
/// # Panics
/// If this thread is not within a tokio runtime, and as [`TimingWheel::new`] does.
#[track_caller]
pub(crate) fn with_current<R>(f: impl FnOnce(&TimingWheel) -> R) -> R {
    let id = match Handle::try_current() {
        Ok(runtime) => runtime.id(),
        Err(_) => panic!(
            "there is no timing wheel here, because this thread is not within a tokio runtime: call it inside \
             `block_on`, or under `Runtime::enter`"
        ),
    };
    let mut f = Some(f);
    let found = LAST.try_with(|last| match &*last.borrow() {
        Some((last_id, wheel)) if *last_id == id && !wheel.is_ended() => f.take().map(|f| f(wheel)),
        _ => None,
    });
    if let Ok(Some(result)) = found {
        return result;
    }
    let wheel = find_or_make(id);
    let result = f.take().expect("not called, as nothing was found")(&wheel);
    // A thread that is about to end has no `LAST` any more, and needs none.
    let _ = LAST.try_with(|last| last.replace(Some((id, wheel))));
    result
}

/// Makes `wheel` the current runtime's, or gives it back and says why not.
pub(crate) fn set(wheel: TimingWheel) -> Result<(), SetWheelError> {
    let refused = |wheel, reason| Err(SetWheelError { wheel, reason });
    let Ok(runtime) = Handle::try_current() else { return refused(wheel, Reason::NoRuntime) };
    if wheel.is_ended() {
        return refused(wheel, Reason::Ended);
    }
    if !wheel.is_on_this_runtime() {
        return refused(wheel, Reason::OtherRuntime);
    }
    let id = runtime.id();
    match wheels().entry(id) {
        Entry::Occupied(_) => return refused(wheel, Reason::Taken),
        Entry::Vacant(entry) => drop(entry.insert(wheel.clone())),
    }
    keep(id, wheel);
    Ok(())
}

/// A wheel did not become that of the runtime. It is in here.
#[derive(Debug)]
pub struct SetWheelError {
    wheel: TimingWheel,
    reason: Reason,
}

#[derive(Clone, Copy, Debug)]
enum Reason {
    NoRuntime,
    Taken,
    OtherRuntime,
    Ended,
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
        f.write_str(match self.reason {
            Reason::NoRuntime => {
                "there is no runtime whose wheel to set, because this thread is not within one: call it inside \
                 `block_on`, or under `Runtime::enter`"
            }
            Reason::Taken => "the runtime has a wheel already: set one before `timingwheel::time` is used there",
            Reason::OtherRuntime => "the wheel is driven by another runtime: make it on this one",
            Reason::Ended => "the wheel has ended",
        })
    }
}

impl error::Error for SetWheelError {}

#[track_caller]
fn find_or_make(id: Id) -> TimingWheel {
    if let Some(wheel) = wheels().get(&id) {
        return wheel.clone();
    }
    // Without the lock, because a runtime that is being shut down drops tasks, and wheels, as they are spawned.
    let made = TimingWheel::new();
    let wheel = wheels().entry(id).or_insert_with(|| made.clone()).clone();
    if wheel.is_same(&made) {
        keep(id, made);
    }
    wheel
}

fn wheels() -> std::sync::MutexGuard<'static, HashMap<Id, TimingWheel>> {
    // No code of a user's runs under the lock, so the map is whole also after a panic elsewhere.
    WHEELS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes a wheel out of `WHEELS` when its runtime drops its tasks.
struct Keeper {
    id: Id,
    wheel: TimingWheel,
}

fn keep(id: Id, wheel: TimingWheel) {
    let keeper = Keeper { id, wheel };
    tokio::spawn(async move {
        let _keeper = keeper;
        std::future::pending::<()>().await;
    });
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let mut wheels = wheels();
        if wheels.get(&self.id).is_some_and(|wheel| wheel.is_same(&self.wheel)) {
            let removed = wheels.remove(&self.id);
            drop(wheels);
            drop(removed);
        }
    }
}

//! The wheel of each runtime: made at first use, found cheaply after that, and dropped with the runtime.
//!
//! | where | holds | until |
//! |---|---|---|
//! | `WHEELS` | each runtime's wheel, in this process | the runtime drops the [`Keeper`] |
//! | `LAST` | the wheel that this thread found last | the thread finds another |
//! | the wheel's driver | the [`Keeper`] | the runtime is shut down, or has another wheel |
//!
//! Any code on the runtime may shut its wheel down. The next call that needs the wheel makes another one, with the same
//! settings.
//!
//! A new runtime may get the id of an old one. So `LAST` counts only while its wheel has not ended.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard};
use std::{error, fmt, process};

use tokio::runtime::{Handle, Id};

use crate::handle::TimingWheel;
use crate::platform::sync::{PerProcess, lock_hidden};

static WHEELS: PerProcess<Mutex<HashMap<Id, TimingWheel>>> = PerProcess::new();

thread_local!(static LAST: RefCell<Option<(Id, TimingWheel)>> = const { RefCell::new(None) });

/// Calls `f`, which must not come back here, with the current runtime's wheel.
///
/// Asks tokio each time for the current runtime. Nothing cheaper tells it: a task may enter another runtime in each poll,
/// and neither its waker nor its worker shows that.
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
    // A thread that is about to end has no `LAST` any more, and needs none.
    let found = LAST.try_with(|last| match &*last.borrow() {
        Some((of, wheel)) if *of == id && !wheel.is_ended() => Some(f(wheel)),
        _ => None,
    });
    if let Ok(Some(result)) = found {
        return result;
    }
    let wheel = find_or_make(id);
    let result = f(&wheel);
    _ = LAST.try_with(|last| last.replace(Some((id, wheel))));
    result
}

/// Makes `wheel` the current runtime's, or gives it back and says why not.
pub(crate) fn set(wheel: TimingWheel) -> Result<(), SetWheelError> {
    let reason = match Handle::try_current() {
        Err(_) => {
            "there is no runtime whose wheel to set, because this thread is not within one: call it inside \
             `block_on`, or under `Runtime::enter`"
        }
        Ok(_) if wheel.is_ended() => "the wheel has ended",
        // Asked of a wheel that has not ended: later another runtime may have the id.
        Ok(runtime) if wheel.runtime_id() != runtime.id() => {
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
    let turner = |wheel: &TimingWheel| wheel.wheel.turner.clone();
    let mut wheels = wheels();
    // The keeper changes hands under the lock, so there is one for each entry.
    let (ended, keeper) = match wheels.entry(id) {
        Entry::Occupied(mut found) if found.get().is_ended() => {
            let ended = found.insert(wheel.clone());
            let keeper = turner(&ended).take_guest();
            (Some(ended), keeper)
        }
        Entry::Occupied(found) => return Err(found.get().clone()),
        Entry::Vacant(place) => {
            place.insert(wheel.clone());
            (None, Some(Box::new(Keeper(id)) as _))
        }
    };
    // Without one the runtime is being shut down, and the old keeper is about to take the entry out.
    let refused = keeper.and_then(|keeper| turner(wheel).keep(keeper));
    drop(wheels);
    drop((ended, refused));
    Ok(())
}

fn wheels() -> MutexGuard<'static, HashMap<Id, TimingWheel>> {
    lock_hidden(WHEELS.of(process::id(), Mutex::default))
}

/// Takes the wheel of this runtime out of `WHEELS` when the runtime drops the driver's task. No other runtime has its id as
/// yet.
#[derive(Debug)]
struct Keeper(Id);

impl Drop for Keeper {
    fn drop(&mut self) {
        let removed = wheels().remove(&self.0);
        // Without the lock.
        drop(removed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    use std::time::Duration;

    use tokio::runtime::Builder;

    const TICK: Duration = Duration::from_millis(3);

    #[test]
    fn a_runtimes_wheels_are_one_task_and_one_entry_until_the_runtime_ends() {
        for workers in [0, 2] {
            let runtime = match workers {
                0 => Builder::new_current_thread().enable_all().build().unwrap(),
                _ => Builder::new_multi_thread().worker_threads(workers).enable_all().build().unwrap(),
            };
            let (id, tasks) = (runtime.handle().id(), runtime.metrics());
            let wheel = || with_current(TimingWheel::clone);
            let one_task_is_left = async || {
                while tasks.num_alive_tasks() > 1 {
                    tokio::task::yield_now().await;
                }
                assert_eq!(tasks.num_alive_tasks(), 1);
            };
            runtime.block_on(async {
                set(TimingWheel::builder().tick(TICK).build().unwrap()).unwrap();
                for _ in 0..3 {
                    one_task_is_left().await;
                    assert_eq!(wheel().tick(), TICK, "it has the settings of the one that was shut down");
                    wheel().shutdown();
                    // The driver keeps the entry, which has the settings.
                    tokio::task::yield_now().await;
                    assert!(wheels()[&id].is_ended());
                }
            });
            drop(runtime);
            assert!(
                !wheels().contains_key(&id),
                "nobody took out the entry of a runtime with {workers} workers"
            );
        }
    }
}

//! Operations on a [timing wheel](timingwheel) that wait for a condition, until a deadline at most, as in Kafka's purgatory.
//!
//! A server often cannot answer at once. It acknowledges a write when enough replicas have it, and answers a read when there
//! is something to read. The request that makes the difference knows which partition it has changed, but not who waits for
//! it. So an operation is *watched* under keys, usually one or a few, with a condition and a deadline. Code that changes
//! what a key stands for *checks* that key: this tries the conditions of the operations under it. Each operation
//! completes or fails exactly once, whatever happens first:
//!
//! | what happens | the future returns |
//! |---|---|
//! | the condition holds: at once, at a check of one of the keys, or at the deadline | `Ok`, with what the condition returned |
//! | the deadline comes | [`WatchError::Expired`] |
//! | one of the keys is [cancelled](Purgatory::cancel), or the purgatory is [shut down](Purgatory::shutdown) | [`WatchError::Cancelled`] |
//! | the wheel ends, or is full | [`WatchError::CouldNotRun`] |
//! | the condition panics | the same panic |
//! | the future is dropped | nothing; the condition's output, if there is one, is dropped or [given back](Watch::give_back) |
//!
//! The example `produce` (`long_poll` and `barrier` are others):
//!
//! ```
#![doc = include_str!("../examples/produce.rs")]
//! ```
//!
//! # Where code runs
//!
//! Conditions run in the caller of `watch` or `check`. While you check, do not hold a lock that conditions take. If you
//! have to hold one, call [`check_in_tasks`](Purgatory::check_in_tasks), which leaves the conditions to the tasks that
//! await them. Your code after `.await` runs in the task too. So none of your code runs on the wheel's driver, and a
//! check completes any number of operations without running what they do next.
//!
//! At the deadline a condition runs a last time, in a task of its own on the wheel's runtime. So an operation expires even
//! if nobody polls its future. Keep the future, because dropping it withdraws the operation; or [spawn](tokio::spawn) a
//! task for it. If the wheel ends within its runtime, each condition is tried a last time too. If the runtime ends, or a
//! thread outside of it ends the wheel, the operations end untried: no condition runs in a runtime that is not the wheel's.
//!
//! No condition runs under a lock of the purgatory, so a condition may take locks and use its purgatory or another. Two
//! threads never run a condition at the same time: a check that finds a condition being tried by another thread asks that
//! thread to try it once more, and does not wait. If a condition checks one of its own keys, the check tries the other
//! operations under that key, and skips its own. A condition should check a key only when it has changed something: two
//! conditions that check each other on every try never come to rest.
//!
//! # When a map is enough
//!
//! A client of an RPC protocol waits for the response that has its request's number. There is one key and one value, and no
//! condition to try. A map of senders does that, with a [timeout](timingwheel::TimingWheel::timeout) round each receiver,
//! and in less time than a purgatory takes:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! use std::collections::HashMap;
//! use std::sync::Mutex;
//! use std::time::Duration;
//! use timingwheel::TimingWheel;
//! use tokio::sync::oneshot;
//!
//! let (wheel, waiting) = (TimingWheel::new(), Mutex::new(HashMap::new()));
//! let (sender, receiver) = oneshot::channel();
//! waiting.lock().unwrap().insert(7, sender);
//! let response = wheel.timeout(Duration::from_secs(9), receiver);
//!
//! // The reader of the connection finds the sender for number 7.
//! let sender = waiting.lock().unwrap().remove(&7).unwrap();
//! sender.send("pong").unwrap();
//! assert_eq!(response.await, Ok(Ok("pong")));
//! # }
//! ```
//!
//! After a timeout the sender is still in the map: remove it there.
//!
//! # Coming from Kafka
//!
//! | `DelayedOperationPurgatory` | here |
//! |---|---|
//! | `tryCompleteElseWatch(operation, keys)` | [`watch(keys, delay, condition)`](Purgatory::watch); without a key it waits for its deadline |
//! | `tryComplete` | the condition, which returns what to complete with |
//! | `onComplete`, `onExpiration` | what the task does after `.await` |
//! | `forceComplete` | a condition that looks at a flag, and a check |
//! | `checkAndComplete(key)` | [`check(&key)`](Purgatory::check) |
//! | `checkAndComplete` from an action queue, as the caller holds a lock | [`check_in_tasks(&key)`](Purgatory::check_in_tasks) |
//! | `cancelForKey(key)` | [`cancel(&key)`](Purgatory::cancel); a task whose future returns `Cancelled` knows its own operation |
//! | `watched`, `numDelayed` | [`watched`](Purgatory::watched), [`delayed`](Purgatory::delayed), which count no operation that has ended; [`watched_under`](Purgatory::watched_under) counts by key |
//! | `purgeInterval`, the reaper | nothing: an operation that ends leaves all lists at once |
//! | `shutdown` | [`shutdown`](Purgatory::shutdown) |

mod error;
mod lists;
#[cfg(all(test, loom))]
mod models;
mod operation;
mod purgatory;
mod watch;

pub use equivalent::Equivalent;
pub use error::WatchError;
pub use purgatory::Purgatory;
pub use watch::Watch;

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs code of a user's that may panic. The panic hook has told of that. Inlined, because most such code only drops a
/// reference.
#[inline]
fn contained(run: impl FnOnce()) {
    // The payload may panic as it is dropped, and so may the payload of that panic: the second one is forgotten.
    if let Err(panic) = catch_unwind(AssertUnwindSafe(run))
        && let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic)))
    {
        std::mem::forget(again);
    }
}

/// The lock of a shard and of an operation, at which the models look.
mod sync {
    #[cfg(all(test, loom))]
    pub(crate) use loom::sync::{Mutex, MutexGuard};

    /// Taken by one locked instruction and released by none; std's takes two. No code of a user's runs under it. A thread
    /// that finds it held lets others run.
    #[cfg(not(all(test, loom)))]
    pub(crate) type Mutex<T> = spin::mutex::SpinMutex<T, spin::Yield>;
    #[cfg(not(all(test, loom)))]
    pub(crate) type MutexGuard<'a, T> = spin::mutex::SpinMutexGuard<'a, T, spin::Yield>;

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        #[cfg(all(test, loom))]
        return mutex.lock().unwrap();
        #[cfg(not(all(test, loom)))]
        mutex.lock()
    }
}

/// Runs the README's code.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

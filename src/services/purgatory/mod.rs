//! Operations that wait for a condition, and no longer than they may: Kafka's purgatory.
//!
//! A server often cannot answer at once. A write is acknowledged when enough replicas have it, a read when there is
//! something to read; whichever request changes that knows the partition, but not who waits for it. So an operation is
//! *watched* under one or more keys, with its condition and a deadline, and whoever changes what a key stands for
//! *checks* that key, which tries the conditions of the operations under it. Each operation completes or fails exactly
//! once, whoever wins:
//!
//! | what happens | its future returns |
//! |---|---|
//! | its condition holds: at once, at a check of one of its keys, or at its deadline | `Ok`, with what the condition returned |
//! | its deadline comes | [`WatchError::Expired`] |
//! | one of its keys is [cancelled](Purgatory::cancel), or the purgatory is [shut down](Purgatory::shutdown) | [`WatchError::Cancelled`] |
//! | the wheel ends, or has no place for its timer | [`WatchError::CouldNotRun`] |
//! | its condition panics | the same panic |
//! | the future is dropped | what its condition returned before is dropped too, or [given back](Watch::give_back) |
//!
//! # Where code runs
//!
//! A condition runs in who calls `watch` or `check`, and, a last time when its deadline has come, in the task that
//! awaits the future. So do not hold a lock that conditions take while you check; where that cannot be helped,
//! [`check_in_tasks`](Purgatory::check_in_tasks) leaves them to their tasks. What follows from the outcome runs in that
//! task, after `.await`: nothing of yours runs on the wheel's driver, and a check completes any number of operations
//! without running what they do next. An operation that nobody awaits does not expire; [spawn](tokio::spawn) a task for
//! it.
//!
//! No condition runs under a lock of the purgatory's, so one may take locks of its own and use its purgatory or
//! another. It is never run by two threads at a time: a check that finds it being tried has that thread try it once
//! more, and goes on. A condition that checks a key which it is watched under itself tries the others, not itself. It
//! should do so only when it has changed something: two that check each other whenever they are tried never come to
//! rest.
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
//! | `cancelForKey(key)` | [`cancel(&key)`](Purgatory::cancel) |
//! | `watched`, `numDelayed` | [`watched`](Purgatory::watched), [`delayed`](Purgatory::delayed), which count no operation that has ended |
//! | `purgeInterval`, the reaper | nothing: what ends leaves all lists at once |
//! | `shutdown` | [`shutdown`](Purgatory::shutdown) |

mod awaited;
mod cancelled;
mod checks;
mod count;
mod deadline;
mod error;
mod expire;
mod give_back;
mod handle;
mod links;
mod listed;
mod lists;
mod make;
mod operation;
mod outcome;
mod stage;
mod trying;
mod watch;

pub use cancelled::Cancelled;
pub use error::WatchError;
pub use handle::Purgatory;
pub use watch::Watch;

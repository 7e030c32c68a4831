//! Timers that outlive the process. A store keeps them. When a timer is due on a
//! [timing wheel](https://docs.rs/timingwheel), its handler is called at least once.
//!
//! ```
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("orders.redb");
//! use std::time::Duration;
//!
//! use serde::{Deserialize, Serialize};
//! use timingwheel::TimingWheel;
//! use timingwheel_durable::{Answer::Done, Cancelled, Durable, Kind, RedbStore, Run};
//!
//! #[derive(Serialize, Deserialize)]
//! struct CancelOrder {
//!     order: u64,
//! }
//!
//! impl Kind for CancelOrder {
//!     const KIND: &'static str = "cancel-order";
//! }
//!
//! let durable = Durable::builder(&TimingWheel::new(), RedbStore::create(path)?)
//!     .on(|CancelOrder { order }, run: Run| async move {
//!         println!("order {order} was not paid; attempt {}", run.attempt);
//!         Ok(Done)
//!     })
//!     .start()
//!     .await?;
//!
//! let month = Duration::from_secs(30 * 86_400);
//! durable.after(month, &CancelOrder { order: 42 }).key("order-42").save().await?;
//!
//! // Forty restarts later it is paid.
//! assert_eq!(durable.cancel("order-42").await?, Cancelled::Removed);
//! durable.stop(Duration::from_secs(20)).await;
//! # Ok(())
//! # }
//! ```
//!
//! # How it goes
//!
//! A timer is first **stored**. When its time is near, it is **armed**: put on the wheel of this process. When it is due, it
//! is **begun**: the store records the attempt before the handler is called. You can cancel or move it until it has
//! begun. If a crash cuts an attempt short, the timer is attempted again after the next start, with a higher attempt
//! number. Handlers are called **at least once**, so make each outside effect happen once for each [`Run::id`].
//! [`promises`] lists the promises and their tests.
//!
//! # What there is
//!
//! | to | use |
//! |---|---|
//! | save a timer at an instant, after a duration | [`Durable::at`], [`Durable::after`]; many: [`Durable::save_all`] |
//! | save a series by a rule of `timingwheel-calendar` | [`Durable::every`], [`Missed`] |
//! | name it, replace it | [`Saving::key`], [`Saving::replace`] |
//! | cancel, move | [`Durable::cancel`], [`Durable::reschedule`] |
//! | handle it | [`Builder::on`], [`Run`], [`Answer`] |
//! | save and cancel in a handler, hear of a stop or a cancel | [`Run::durable`], [`Run::token`], [`Run::interrupted`] |
//! | see or wrap each attempt | [`Builder::around`], [`Stats::kinds`], a span of `tracing` |
//! | limit how many of a kind run, and for how long | [`Builder::concurrency_of`], [`Builder::concurrency_in_all`], [`Builder::time_limit`] |
//! | spread series that all begin at midnight | [`SavingSeries::jitter`] |
//! | try again | [`Backoff`], [`Builder::retry`] |
//! | look at timers | [`Durable::look`] with a [`Filter`], [`Durable::show`], [`Durable::tally`], [`Durable::get`], [`Durable::list`], [`Durable::count`] |
//! | cancel, move, retry, delete many | [`Durable::act`], [`Durable::retry_buried`], [`Durable::delete_buried`] |
//! | stop a kind for a while | [`Durable::pause`], [`Durable::resume`] |
//! | stop | [`Durable::stop`] |
//! | watch | [`Durable::stats`], [`Health`] |
//! | test | [`MemoryStore`], tokio's paused clock, [`Durable::run_until`], [`Run::in_test`], [`SetClock`] |
//! | let something else wake far timers | [`Outside`], [`Builder::outside`] |
//! | come from River, Oban, Hangfire, Sidekiq, Quartz, db-scheduler, Temporal, Celery or `RocketMQ` | [`coming_from`] |
//!
//! # What it is not
//!
//! - Not for timers that need not outlive the process: use the plain wheel, which is a thousand times cheaper.
//! - Only one process can open a file. Many instances can share one PostgreSQL database.
//! - Not exactly once: that is impossible for effects outside of the store.
//!
//! # Features
//!
//! | feature | brings |
//! |---|---|
//! | `redb`, on by default | `RedbStore`, the store in a file. It needs Rust 1.90 |
//! | `deadline` | a handler with a [time limit](Builder::time_limit) runs under a deadline of `timingwheel-deadline` |
//! | `metrics` | the module `metrics`: the statistics, for any exporter of the crate `metrics` |
//! | `postgres` | `PostgresStore`, which many instances share, and timers in your transactions |
//!
//! Events of `tracing` have the target `timingwheel_durable`. They tell that a timer is buried, an attempt is made again, a rule
//! cannot be read, the store fails (at most once a second), a clock was set, another instance has taken over, or timers start
//! or stop.

// Imports go one way, from the top down.
//
// | file | what it has |
// |---|---|
// | `durable`, `operate`, `builder`, `save`, `metrics` | the calls of users, and their answers |
// | `runner`, `save`, `shared` | the two tasks, and the state that they share with the handle |
// | `handler`, `backoff`, `health`, `clock`, `events`, `outside` | the parts that the runner uses |
// | `window`, `next_run` | pure: what is in memory, and when a series is due next |
// | `memory`, `redb`, `postgres` | stores |
// | `tables` | pure: the meaning of each call of a store, over five maps |
// | `store`, `id`, `error` | the trait, and the types of its questions and answers |
// | `guide` | pages without code, from the folder `docs` |

mod backoff;
mod batches;
mod builder;
mod clock;
mod durable;
mod error;
mod events;
mod guide;
mod handler;
mod health;
mod id;
mod memory;
#[cfg(feature = "metrics")]
pub mod metrics;
mod next_run;
mod operate;
mod outside;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redb")]
mod redb;
mod runner;
mod save;
mod shared;
#[doc(hidden)]
pub mod store;
mod tables;
mod window;

pub use backoff::Backoff;
pub use builder::Builder;
pub use clock::{Clock, SetClock};
pub use durable::{Cancelled, Durable, Moved};
pub use error::Error;
pub use guide::{coming_from, promises};
#[cfg(feature = "postgres")]
pub use guide::{many_instances, on_call, sizing};
pub use handler::{Answer, HandlerError, HandlerResult, Handling, Interrupt, Kind, Run};
pub use health::{Health, KindStats, Stats, Symptom, Unhandled};
pub use id::{Place, TimerId, TimerIdError};
pub use memory::MemoryStore;
pub use operate::{Act, Acted};
pub use outside::{CallBack, Outside};
#[cfg(feature = "postgres")]
pub use postgres::{InTransaction, PostgresError, PostgresOptions, PostgresStore};
#[cfg(feature = "redb")]
pub use redb::{RedbError, RedbOptions, RedbStore};
pub use runner::Stopped;
pub use save::{Saving, SavingSeries};
pub use store::{
    Buried, Counts, Failure, Filter, Histories, Listing, Near, Page, Phase, Saved, Shown, State, Stored,
    Taken, Tally, Times, Which,
};
pub use timingwheel_calendar::{Missed, MissedError};
/// The client of `PostgresStore`, whose transactions timers are saved in.
#[cfg(feature = "postgres")]
pub use tokio_postgres;

/// The README's program compiles.
#[cfg(all(doctest, feature = "redb"))]
#[doc = include_str!("../README.md")]
struct Readme;

//! The promises of durable timers, with a fault at each step.

mod batches;
#[cfg(feature = "redb")]
mod child;
#[cfg(feature = "redb")]
mod disk;
mod failures;
#[cfg(any(feature = "redb", feature = "postgres"))]
pub(crate) mod history;
pub(crate) mod hooked;
#[cfg(feature = "redb")]
mod kills;
mod leased;
mod locked;
#[cfg(feature = "redb")]
mod power;
mod races;
#[cfg(feature = "redb")]
mod redb_races;
mod schedules;
mod script;
mod shared;
mod stops;
mod too_late;
mod unheard;
#[cfg(any(feature = "redb", feature = "postgres"))]
pub(crate) mod user;

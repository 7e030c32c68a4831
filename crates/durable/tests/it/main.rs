//! All tests that need no process or flags of their own, in one program: it is linked once.

mod attempts;
mod every_store;
#[cfg(feature = "redb")]
mod folder;
mod history;
#[cfg(feature = "metrics")]
mod metrics;
mod operate;
#[cfg(feature = "postgres")]
mod postgres;
mod promises;
mod proof;
#[cfg(feature = "redb")]
mod redb_far;
#[cfg(feature = "redb")]
mod redb_file;
mod runner;
mod second_day;
mod stores;
#[cfg(feature = "metrics")]
mod work;

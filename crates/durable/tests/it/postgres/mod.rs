//! Durable timers on a real PostgreSQL, which the tests start by themselves.

mod child;
mod clock;
mod cluster;
mod damage;
mod faults;
mod hints;
mod instances;
mod kinds;
mod limits;
mod locks;
mod many;
mod operate;
mod other_clients;
mod places;
mod proof;
mod proxy;
mod races;
mod rights;
mod schemas;
mod second_day;
#[allow(dead_code, reason = "the benchmark and the example use the rest")]
pub(crate) mod server;
mod shares;
mod sole;
mod support;
mod user_transaction;

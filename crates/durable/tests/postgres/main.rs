//! Durable timers on a real PostgreSQL, which the tests start by themselves.

mod instances;
mod server;
mod store;
mod support;
mod within;

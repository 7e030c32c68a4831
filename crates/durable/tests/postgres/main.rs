//! Durable timers on a real PostgreSQL, which the tests start by themselves.

mod server;
mod store;

//! Futures, streams and guards that wait by a timer, and a queue of items that do.
//!
//! [`Sleep`](sleep::Sleep) is the one that holds a timer; all others hold sleeps. Each file adds its own methods to
//! `TimingWheel`.

pub(crate) mod delay_queue;
pub(crate) mod future_ext;
pub(crate) mod idle_guard;
pub(crate) mod interval;
pub(crate) mod sleep;
pub mod stream;
pub(crate) mod timeout;
pub(crate) mod tolerance;

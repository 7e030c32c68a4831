//! Futures, streams, guards and a queue that wait by a timer.
//!
//! Only [`Sleep`](sleep::Sleep) holds a timer of the wheel; all others hold sleeps. Each file adds its own methods to
//! `TimingWheel`.

pub(crate) mod delay_queue;
pub(crate) mod idle_guard;
pub(crate) mod interval;
pub(crate) mod sleep;
pub mod stream;
pub(crate) mod timeout;

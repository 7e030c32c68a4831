//! Cancels and moves against load, begin and settle, in all orders: each call of the store waits before it is done, and
//! again before its answer is known, until the schedule lets it go on. Time is one more thing that goes on by choice.

mod one;
mod rig;
mod two;

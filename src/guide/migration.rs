//! Migrating from `tokio::time`: what replaces what, step by step, and all that differs.
//!
//! # Step by step
//!
//! 1. Add the crate: `timingwheel = "0.1"` under `[dependencies]`. Where tests use `pause`, `resume` or `advance`, add
//!    `timingwheel = { version = "0.1", features = ["test-util"] }` under `[dev-dependencies]` besides.
//! 2. Change each `tokio::time` in a path or a `use` to `timingwheel::time`:
//!    `grep -rl tokio::time src tests | xargs sed -i 's/tokio::time/timingwheel::time/g'`. A `use tokio::{net, time}`
//!    becomes two lines.
//! 3. Build. What the compiler may say is [below](#what-the-compiler-may-say).
//! 4. Run the tests. `#[tokio::test(start_paused = true)]` stays as it is: the wheel follows tokio's clock.
//! 5. Where the defaults do not fit, call [`set_wheel`] first thing in `main`.
//!
//! Code that was not switched, in this program or in its libraries, keeps to tokio's timers. Both may be used side by
//! side: they go by the same clock.
//!
//! # What replaces what
//!
//! ## `tokio::time`
//!
//! | tokio | here | |
//! |---|---|---|
//! | `sleep`, `sleep_until` | [`sleep`], [`sleep_until`] | the same |
//! | `Sleep` | [`Sleep`] | see [differences](#differences); and [`reset_after`](crate::Sleep::reset_after), [`try_wait`](crate::Sleep::try_wait), [`poll_try_wait`](crate::Sleep::poll_try_wait) |
//! | `timeout`, `timeout_at` | [`timeout`], [`timeout_at`] | the same |
//! | `Timeout` | [`Timeout`] | see differences; and [`deadline`](crate::Timeout::deadline), [`reset`](crate::Timeout::reset), [`reset_after`](crate::Timeout::reset_after) |
//! | `interval`, `interval_at` | [`interval`], [`interval_at`] | the same |
//! | `Interval` | [`Interval`] | the same, and [`set_period`](crate::Interval::set_period) |
//! | `MissedTickBehavior` | [`MissedTickBehavior`] | tokio's own type |
//! | `Instant`, `Duration` | [`Instant`], [`Duration`] | tokio's and std's own types |
//! | `error::Elapsed` | [`Elapsed`] | see differences |
//! | `error::Error` | [`Error`] | see differences |
//! | `pause`, `resume`, `advance` | the same names, with the feature `test-util` | tokio's own functions |
//! | | [`try_sleep`], [`try_sleep_until`], [`try_timeout`], [`try_timeout_at`] | errors instead of panics |
//! | | [`wheel`], [`set_wheel`] | the runtime's wheel |
//!
//! ## `tokio-util`, `tokio-stream` and `tokio-io-timeout`
//!
//! Methods that come by a trait end in `_on` and take the wheel, [`time::wheel()`](crate::time::wheel), so that our
//! traits can be imported beside theirs. What else differs in streams is
//! [there](crate::stream#differences-from-tokio-stream).
//!
//! | there | here |
//! |---|---|
//! | `tokio_util::future::FutureExt::timeout`, `timeout_at` (also as `tokio_util::time::FutureExt`) | [`timeout_on`](crate::FutureTimeExt::timeout_on), [`timeout_at_on`](crate::FutureTimeExt::timeout_at_on), or [`timeout`], [`timeout_at`] |
//! | `tokio_util::time::DelayQueue`, `tokio_util::time::delay_queue` | [`time::DelayQueue`](crate::time::DelayQueue), [`time::delay_queue`](crate::time::delay_queue), see [below](#tokio-utils-delayqueue) |
//! | `tokio_util::sync::CancellationToken` | stays: it has no timer |
//! | `tokio_stream::StreamExt::timeout` | [`timeout_on`](crate::stream::StreamTimeExt::timeout_on) |
//! | `timeout_repeating` | [`timeout_repeating_on`](crate::stream::StreamTimeExt::timeout_repeating_on), which takes our [`Interval`] |
//! | `throttle` | [`throttle_on`](crate::stream::StreamTimeExt::throttle_on) |
//! | `chunks_timeout` | [`chunks_timeout_on`](crate::stream::StreamTimeExt::chunks_timeout_on) |
//! | `tokio_stream::wrappers::IntervalStream` | [`IntervalStream`](crate::stream::IntervalStream) |
//! | `tokio_stream::Elapsed` | [`Elapsed`] |
//! | tokio-io-timeout's `TimeoutStream`, `TimeoutReader`, `TimeoutWriter` | [`IdleGuard`](crate::IdleGuard), made by [`wheel`]`().idle_guard(stream)`, with limits instead of timeouts; what writes, flushes and shuts down waits as one |
//! | | [`idle_timeout_on`](crate::stream::StreamTimeExt::idle_timeout_on) |
//!
//! What stays takes and returns tokio's types: make those with `tokio::time`, by its full path.
//!
//! What replaces the methods of Kafka's `DelayedOperationPurgatory` is [there](crate::purgatory#coming-from-kafka).
//!
//! ## tokio-util's `DelayQueue`
//!
//! Change `use tokio_util::time` to `use timingwheel::time`. `tests/delay_queue` runs the same code on both, fixed and
//! random scripts, and compares what comes and when.
//!
//! | there | here | because |
//! |---|---|---|
//! | `new`, `with_capacity`, `Default` | the same; [`wheel.delay_queue()`](crate::TimingWheel::delay_queue) makes one on a wheel of your own | its tick is the queue's |
//! | `insert`, `insert_at` | the same; any deadline is taken, where tokio-util's panics for one more than 2.2 years after the queue was made | the wheel has no top level |
//! | `poll_expired`, `Stream` | the same, in the order of deadlines and then of insertion, overdue or not, where tokio-util's promises none among what is due; `size_hint` and [`FusedStream`](futures::stream::FusedStream) besides | it is what one expects |
//! | | each item spends a unit of the cooperative budget, also one that was inserted overdue | a task that only ever finds items has to let others run |
//! | | may wake its task with nothing due at other times than tokio-util's | the timer is not moved for what is removed or reset to later, but when it has come |
//! | after the runtime's end | panics with another text, and [`poll_try_expired`](crate::time::DelayQueue::poll_try_expired) returns an error; no item is lost | what has its value in the queue need not go with the timer |
//! | `remove`, `try_remove`, `reset`, `reset_at`, `deadline` | the same; a key whose item has left finds nothing, where tokio-util's may touch another item | keys have the number of their insertion |
//! | `deadline`, `Expired::deadline` | the deadline that was set, where tokio-util's is rounded up to a millisecond and not before what is due | nothing has to be rounded |
//! | `peek` | the same | |
//! | | [`drain`](crate::time::DelayQueue::drain) takes out all items in order, of a queue whose wheel has ended too | by `peek` and `remove` it would take a look at a whole slot for each |
//! | `clear`, `len`, `is_empty`, `capacity`, `reserve`, `shrink_to_fit` | the same; up to [`MAX_LEN`](crate::time::DelayQueue::MAX_LEN) items, where tokio-util's takes a quarter of that; `reserve` counts from `len`, and not from `capacity` | |
//! | `compact` | the same; only the keys of items that were moved take longer afterwards, where tokio-util's all do | |
//! | `Key` | 16 bytes, tokio-util's 8 | the number of the insertion |
//! | `Expired` | the same, and [`Clone`], [`PartialEq`], [`Eq`] | |
//! | `Debug` | other texts, and the values need not have it | |
//!
//! ## Linux's slack
//!
//! Linux's timer wheel lets each timer be late by up to 12.5 % of its delay, and its other timers by what
//! `prctl(PR_SET_TIMERSLACK)` sets for a thread. Here a timer is exact unless it is given a
//! [`Tolerance`](crate::Tolerance): `Tolerance::share(0.125)` for the former, `Tolerance::time(slack)` for the latter.
//!
#![cfg_attr(
    any(feature = "hyper", feature = "tower"),
    doc = r"
## `hyper` and `tower`

| there | here |
|---|---|"
)]
#![cfg_attr(
    feature = "hyper",
    doc = "| `hyper_util::rt::TokioTimer` | a clone of [`TimingWheel`](crate::TimingWheel), see [`hyper`](crate::integrations::hyper) |"
)]
#![cfg_attr(
    feature = "tower",
    doc = "| `tower::timeout`, `tower::retry::backoff` | [`TimeoutLayer`](crate::integrations::tower::TimeoutLayer) and what else is in [`tower`](crate::integrations::tower) |"
)]
//!
//! ## What stays in tokio
//!
//! `mpsc::Sender::send_timeout` and `Runtime::shutdown_timeout`, which have timers of tokio's inside, as have tower's
//! rate limit and its `hedge`; `runtime::Builder::enable_time`, which a current-thread runtime needs for its wheel too;
//! `start_paused`.
//!
//! # What the compiler may say
//!
//! | it says | because | so |
//! |---|---|---|
//! | expected `tokio::time::Sleep` (or `Timeout`, `Interval`), found ours | a library, or code not yet switched, names tokio's type in a signature | switch that, or make this one with `tokio::time` |
//! | the trait `From<timingwheel::Elapsed>` is not implemented for your error | its `From` is for tokio's `Elapsed` | switch the `impl`, or `#[from]`; with two it serves both |
//! | no `pause` (or `advance`, `resume`) in `time` | the feature `test-util` is not on | turn it on in `dev-dependencies` |
//! | unused `Interval` that must be used | ours is `#[must_use]` | use it, or drop it |
//! | `wheel`, `set_wheel` or `TimingWheel` is ambiguous | `use timingwheel::time::*` brings names that tokio has not | name what you use |
//! | conflicting implementations for `Sleep`, or type annotations needed in an assertion of `!Unpin` | ours is [`Unpin`] | leave it out |
//!
//! # Differences
//!
//! `tests/switch` runs the same code on tokio's functions and on ours, fixed and random scripts, and
//! compares what happens, when and in which order. What differs:
//!
//! | item | here | because |
//! |---|---|---|
//! | deadlines | are kept to the nanosecond; tokio's wait for the end of their millisecond, so that a sleep of zero takes up to one | precision is what a wheel of one's own is for. On a clock that starts paused this shows only between whole milliseconds. On one that is paused later, by `pause`, in the middle of tokio's millisecond, idle jumps end beyond the deadline that they are for: then what else is due up to there fires with it, which tokio's leave for the next millisecond |
//! | what is due at the same instant | is woken in an order of its own | neither promises one; timers that went to sleep together for the same time wake in that order in both |
//! | tasks overdue when a paused clock is moved on again | may run before whoever moved it goes on; with tokio after it | the wheel's driver is a task among others |
//! | [`Sleep`], [`Timeout`] | are [`Unpin`] (if the future within is) | nothing points at them |
//! | [`Sleep::is_elapsed`] after a [`reset`](crate::Sleep::reset) without a poll | stays false until the next poll | the timer is registered by that |
//! | [`Sleep`] first polled after its deadline, on a multi-thread runtime | may be pending for a moment | it does not look at the clock a second time |
//! | [`Sleep`] after the runtime's end | panics as tokio's does, with another text; [`Sleep::try_wait`] does not panic; [`Sleep::is_elapsed`] stays false; one that was ready stays so, where tokio's panics | a deadline that did not come has not elapsed |
//! | [`Sleep`] polled by what is dropped while its runtime ends | may panic; tokio's stays pending | the wheel's driver may have ended before |
//! | [`Timeout`] after the runtime's end | returns [`Elapsed`] with a [reason](crate::Elapsed::reason); tokio's panics | there is an error to return |
//! | [`timeout`] of more than time can hold, outside a runtime | panics as others do; tokio's takes it | every timer here belongs to a wheel |
//! | on a multi-thread runtime without `enable_time` | all works; tokio's panic | the wheel's driver needs none of tokio's timers there |
//! | [`interval`] outside a runtime | the panic names the caller; tokio's names itself | it is the caller's mistake |
//! | [`Elapsed`] | a type of our own with the same traits, and [`Default`], [`Clone`], [`Copy`], [`Hash`](std::hash::Hash); its `Debug` shows other fields, and a reason | tokio's cannot be made outside of tokio |
//! | [`Error`] | a type of our own with the same methods, and [`PartialEq`], [`Eq`], [`Hash`](std::hash::Hash); other texts | it names the limit that was reached |
//! | `Debug` of futures | other texts | they show other fields |
//!
//! [`sleep`]: crate::time::sleep
//! [`sleep_until`]: crate::time::sleep_until
//! [`timeout`]: crate::time::timeout()
//! [`timeout_at`]: crate::time::timeout_at
//! [`interval`]: crate::time::interval()
//! [`interval_at`]: crate::time::interval_at
//! [`try_sleep`]: crate::time::try_sleep
//! [`try_sleep_until`]: crate::time::try_sleep_until
//! [`try_timeout`]: crate::time::try_timeout
//! [`try_timeout_at`]: crate::time::try_timeout_at
//! [`wheel`]: crate::time::wheel
//! [`set_wheel`]: crate::time::set_wheel
//! [`Sleep`]: crate::Sleep
//! [`Sleep::is_elapsed`]: crate::Sleep::is_elapsed
//! [`Sleep::try_wait`]: crate::Sleep::try_wait
//! [`Timeout`]: crate::Timeout
//! [`Interval`]: crate::Interval
//! [`MissedTickBehavior`]: crate::time::MissedTickBehavior
//! [`Instant`]: crate::time::Instant
//! [`Duration`]: crate::time::Duration
//! [`Elapsed`]: crate::time::error::Elapsed
//! [`Error`]: crate::time::error::Error

//! Migrating from `tokio::time`: the steps, what replaces what, and every difference.
//!
//! # Before you begin
//!
//! You need Rust 1.88 or later and tokio 1.54.1 or later: `cargo update -p tokio`.
//!
//! Code that is not switched keeps tokio's timers, in your program and in its libraries. A library's own timers stay
//! tokio's, unless it takes a timer as in the [recipes](crate::recipes). Both may be used side by side: they go by the same
//! clock.
//!
//! A library whose public types name `tokio::time::Sleep`, `Interval`, `Timeout` or `Elapsed` changes its public API when it
//! is switched. Switch it with its next breaking version, or only where no such type is public.
//!
//! # Step by step
//!
//! 1. Add the crate: `timingwheel = "0.1"` under `[dependencies]`, with the `path` of your checkout until it is published.
//!    If tests use `pause`, `resume` or `advance`, also add
//!    `timingwheel = { version = "0.1", features = ["test-util"] }` under `[dev-dependencies]`.
//! 2. Change each `tokio::time` in a path or a `use` to `timingwheel::time`:
//!    `grep -rl tokio::time src tests examples benches | xargs sed -i 's/tokio::time/timingwheel::time/g'`. Change these by
//!    hand:
//!    - a nested `use tokio::{net, time}`, which becomes two lines;
//!    - a path by another name, if your `Cargo.toml` renames tokio (`package = "tokio"`) or a `use tokio as rt` does.
//! 3. Build, with `--all-targets`. What the compiler may say is [below](#what-the-compiler-may-say).
//! 4. In tests that begin with `pause()`, put `start_paused = true` into `#[tokio::test]` instead, and remove the call.
//!    Other tests with a paused clock stay as they are: the wheel follows tokio's clock.
//! 5. Run the tests. If one fails, look at [what tests may notice](#what-tests-may-notice).
//! 6. If the defaults do not fit, call [`set_wheel`] first thing in `main`.
//!
//! # What tests may notice
//!
//! - **Timers are less late.** tokio's timers come up to two milliseconds after their deadlines. A wheel's timers come less
//!   than a tick after them, or less than two ticks where many fire. So a test that checks the age of something at the
//!   ticks of an [`Interval`] may find it a little too young. bb8's reaper is an example. With tokio, a connection made
//!   just after one interval tick was old enough at a later one, because timers were late. On a wheel the connection is
//!   slightly too young at that tick, and is reaped at the next. Make such a test wait a little longer than the age.
//! - **A loop of sleeps drifts less.** Five sleeps of 1 s end almost together with one sleep of 5 s. With tokio's timers
//!   they end some milliseconds later. A test's server that handles one packet for each read falls behind when two packets
//!   arrive in one read: rumqttc's broker for tests is an example. Let the server handle every packet of a read, or let the
//!   timers fire further apart.
//! - **The order within a tick** is the wheel's own. tokio does not promise one either.
//! - **A clock that is paused in the middle of a millisecond** jumps to other times than with tokio's timers. Step 4 avoids
//!   this. The first row of [differences](#differences) tells why.
//!
//! # What replaces what
//!
//! ## `tokio::time`
//!
//! | tokio | here | |
//! |---|---|---|
//! | `sleep`, `sleep_until` | [`sleep`], [`sleep_until`] | the same |
//! | `Sleep` | [`Sleep`] | see [differences](#differences); and [`reset_after`](crate::Sleep::reset_after), [`wait`](crate::Sleep::wait), [`poll_wait`](crate::Sleep::poll_wait) |
//! | `timeout`, `timeout_at` | [`timeout`], [`timeout_at`] | the same |
//! | `Timeout` | [`Timeout`] | see differences; and [`deadline`](crate::Timeout::deadline), [`reset`](crate::Timeout::reset), [`reset_after`](crate::Timeout::reset_after) |
//! | `interval`, `interval_at` | [`interval`], [`interval_at`] | the same |
//! | `Interval` | [`Interval`] | the same, and [`set_period`](crate::Interval::set_period) |
//! | `MissedTickBehavior` | [`MissedTickBehavior`] | tokio's own type |
//! | `Instant`, `Duration` | [`Instant`], [`Duration`] | tokio's and std's own types |
//! | `error::Elapsed` | [`Elapsed`] | see differences |
//! | `error::Error` | [`Error`] | see differences |
//! | `pause`, `resume`, `advance` | the same names, with the feature `test-util` | tokio's own functions |
//! | | [`wheel`]`().try_sleep(d)`, and [`Sleep::limiting`](crate::Sleep::limiting) of that | errors instead of panics |
//! | | [`wheel`], [`set_wheel`] | the runtime's wheel |
//!
//! ## `tokio-util`, `tokio-stream` and `tokio-io-timeout`
//!
//! Methods of our traits end in `_on` and take the wheel, [`time::wheel()`](crate::time::wheel), so that our traits can be
//! imported beside theirs. The page on streams lists [other differences](crate::stream#differences-from-tokio-stream).
//!
//! | there | here |
//! |---|---|
//! | `tokio_util::future::FutureExt::timeout`, `timeout_at` (also as `tokio_util::time::FutureExt`) | [`timeout_on`](crate::FutureTimeExt::timeout_on), [`timeout_at_on`](crate::FutureTimeExt::timeout_at_on), or [`timeout`], [`timeout_at`] |
//! | `tokio_util::time::DelayQueue`, `tokio_util::time::delay_queue` | [`time::DelayQueue`](crate::time::DelayQueue), [`time::delay_queue`](crate::time::delay_queue), see [below](#tokio-utils-delayqueue) |
//! | `tokio_util::sync::CancellationToken` | stays, because it has no timer |
//! | `tokio_stream::StreamExt::timeout` | [`timeout_on`](crate::stream::StreamTimeExt::timeout_on) |
//! | `timeout_repeating` | [`timeout_repeating_on`](crate::stream::StreamTimeExt::timeout_repeating_on), which takes our [`Interval`] |
//! | `throttle` | [`throttle_on`](crate::stream::StreamTimeExt::throttle_on) |
//! | `chunks_timeout` | [`chunks_timeout_on`](crate::stream::StreamTimeExt::chunks_timeout_on) |
//! | `tokio_stream::wrappers::IntervalStream` | [`IntervalStream`](crate::stream::IntervalStream) |
//! | `tokio_stream::Elapsed` | [`Elapsed`] |
//! | tokio-io-timeout's `TimeoutStream`, `TimeoutReader`, `TimeoutWriter` | [`IdleGuard`](crate::IdleGuard), made by [`wheel`]`().idle_guard(stream)`, with limits instead of timeouts; writes, flushes and shutdowns share one limit |
//! | | [`idle_timeout_on`](crate::stream::StreamTimeExt::idle_timeout_on) |
//!
//! tokio functions that you do not replace take and return tokio's types. Make values of those types with
//! `tokio::time`, by its full path.
//!
//! For Kafka's `DelayedOperationPurgatory` see the crate `timingwheel-purgatory`.
//!
//! ## tokio-util's `DelayQueue`
//!
//! Change `use tokio_util::time` to `use timingwheel::time`. `tests/delay_queue` runs fixed and random
//! scripts on both, and compares which items come, and when.
//!
//! | there | here | because |
//! |---|---|---|
//! | `new`, `with_capacity`, `Default` | the same; [`wheel.delay_queue()`](crate::TimingWheel::delay_queue) makes one on a wheel of your own | the wheel's tick is the queue's |
//! | `insert`, `insert_at` | the same; any deadline is taken, where tokio-util's panics for one more than 2.2 years after the queue was made | the wheel has no top level |
//! | `poll_expired`, `Stream` | the same, in the order of ticks, overdue or not, where tokio-util's promises no order among items that are due; within a tick in any order; `size_hint` and [`FusedStream`](futures::stream::FusedStream) besides | a wheel knows no finer order |
//! | | each item spends a unit of the cooperative budget, even one that was inserted overdue | a task that always finds items has to let others run |
//! | | may wake its task with nothing due, at other times than tokio-util's | removing an item, or resetting it to later, does not move the queue's timer |
//! | after the runtime's end | panics with another text, and [`poll_try_expired`](crate::time::DelayQueue::poll_try_expired) returns an error; no item is lost | items outlive the timer |
//! | `remove`, `try_remove`, `reset`, `reset_at`, `deadline` | the same; a key whose item has left finds nothing, where tokio-util's may touch another item | a key carries the number of its insertion |
//! | `deadline`, `Expired::deadline` | the deadline that was set; tokio-util rounds it up to a millisecond, and moves a deadline that has passed to the time that its queue has reached | nothing has to be rounded |
//! | `peek` | the same | |
//! | | [`drain`](crate::time::DelayQueue::drain) takes out all items in order, even if the wheel has ended | with `peek` and `remove`, each item would cost a search of a whole slot |
//! | `clear`, `len`, `is_empty`, `capacity`, `reserve`, `shrink_to_fit` | the same; up to [`MAX_LEN`](crate::time::DelayQueue::MAX_LEN) items, four times as many as tokio-util's; `reserve` counts from `len`, and not from `capacity` | |
//! | `compact` | the same; only keys of items that were moved take longer afterwards, where all of tokio-util's do | |
//! | `Key` | 16 bytes, tokio-util's 8 | the number of the insertion |
//! | `Expired` | the same, and [`Clone`], [`PartialEq`], [`Eq`] | |
//! | `Debug` | other texts, and values need not implement it | |
//!
//! ## Linux's slack
//!
//! Linux's timer wheel lets each timer be late by up to 12.5 % of its delay. Linux's other timers may be late by the slack
//! that `prctl(PR_SET_TIMERSLACK)` sets for a thread. Here a timer is exact unless it has a
//! [`Tolerance`](crate::Tolerance): `Tolerance::share(0.125)` replaces the former, `Tolerance::time(slack)` the latter.
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
    doc = "| `hyper_util::rt::TokioTimer` | a clone of [`TimingWheel`](crate::TimingWheel), see [`hyper`](crate::hyper) |"
)]
#![cfg_attr(feature = "tower", doc = "| `tower::timeout` | [`TimeoutLayer`](crate::tower::TimeoutLayer) |")]
//!
//! ## What stays in tokio
//!
//! - `mpsc::Sender::send_timeout` and `Runtime::shutdown_timeout`, and tower's rate limit and `hedge`: they use tokio's
//!   timers inside.
//! - `runtime::Builder::enable_all`: a multi-thread runtime needs its I/O driver for its wheel, a current-thread runtime its
//!   timers. Where they are missing, tokio says so as the wheel is made.
//! - `start_paused`.
//!
//! # What the compiler may say
//!
//! | message | cause | remedy |
//! |---|---|---|
//! | expected `tokio::time::Sleep` (or `Timeout`, `Interval`), found ours | a library, or code that is not switched, names tokio's type in a signature | switch that code, or make this value with `tokio::time` |
//! | the trait `From<timingwheel::Elapsed>` is not implemented for your error | your error's `From` is for tokio's `Elapsed` | switch the `impl` or the `#[from]`, or have one for each |
//! | no `pause` (or `advance`, `resume`) in `time` | the feature `test-util` is not on | turn the feature on under `[dev-dependencies]` |
//! | unused `Interval` that must be used | our `Interval` is `#[must_use]` | use it, or drop it |
//! | `wheel`, `set_wheel` or `TimingWheel` is ambiguous | `use timingwheel::time::*` brings names that tokio does not have | import the names that you use |
//! | conflicting implementations for `Sleep`, or type annotations needed in an assertion of `!Unpin` | our `Sleep` is [`Unpin`] | remove the assertion |
//!
//! # Differences
//!
//! `tests/switch` runs fixed and random scripts on tokio's functions and on ours, and compares what happens, when, and
//! in which order. These are the differences:
//!
//! | item | here | because |
//! |---|---|---|
//! | deadlines | are kept to the nanosecond on a multi-thread runtime; tokio's wait for the end of their millisecond. A sleep of zero is ready at once; tokio's may take a millisecond | precision is the purpose of a wheel. On a clock that starts paused, this shows only for deadlines that are not at a whole millisecond. If `pause` stops the clock later, in the middle of tokio's millisecond, an idle runtime jumps beyond the deadline of the next timer. All other timers that are due by then fire in the same jump; tokio fires them in its next millisecond |
//! | timers due at the same instant | wake in an order of their own | neither promises an order; timers that were made in a row with the same delay wake in that order in both |
//! | overdue tasks, when a paused clock is moved on again | may run before the task that moved the clock; with tokio after it | the wheel's driver is a task among others |
//! | [`Sleep`], [`Timeout`] | are [`Unpin`] (`Timeout` if its future is) | nothing points at them |
//! | [`Sleep::is_elapsed`] after a [`reset`](crate::Sleep::reset) without a poll | stays false until the next poll | that poll registers the timer |
//! | [`Sleep`] first polled after its deadline | may be pending for a moment, unless a paused clock was seen in the process | the sleep does not read the clock a second time |
//! | [`Sleep`] after the runtime's end | panics as tokio's does, with another text; [`Sleep::wait`] does not panic; [`Sleep::is_elapsed`] stays false; a sleep that was ready stays ready, where tokio's panics | a deadline that did not come has not elapsed |
//! | [`Sleep`] polled in a destructor while its runtime ends | may panic; tokio's stays pending | the wheel's driver may have ended before |
//! | [`Timeout`] after the runtime's end | goes on by the timer of the runtime that polls it, and panics where there is none; tokio's always panics | a limit should hold wherever it can |
//! | [`timeout`] beyond the end of time, outside a runtime | panics as other timers do there; tokio's is accepted | every timer belongs to a wheel |
//! | all timers, made on one runtime and first polled on another | belong to the one that polls them; tokio's to the one on which they were made. Outside of every runtime they panic | a timer that is not armed holds nothing, so a timeout whose future is ready costs a reading of the clock |
//! | all timers, on a multi-thread runtime without `enable_io` | panic with tokio's words, that I/O is disabled; tokio's work | a timerfd in the runtime's poller turns the wheel |
//! | all timers, on a multi-thread runtime without `enable_time` | work; tokio's panic | the same |
//! | all timers, on a current-thread runtime without `enable_time` | panic with tokio's words as they are first found pending; tokio's as they are made | the wheel is made then |
//! | [`interval`] outside a runtime | the panic names the caller; tokio's names itself | the mistake is the caller's |
//! | [`Elapsed`] | a type of our own with the same traits, and [`Default`], [`Clone`], [`Copy`], [`Hash`](std::hash::Hash); its `Debug` shows other fields | only tokio can make tokio's |
//! | [`Error`] | a type of our own without `at_capacity` and `invalid` to make one, and with [`PartialEq`], [`Eq`], [`Hash`](std::hash::Hash); other texts | our texts name the limit that was reached |
//! | `Debug` of futures | other texts | they show other fields |
//!
//! [`sleep`]: crate::time::sleep
//! [`sleep_until`]: crate::time::sleep_until
//! [`timeout`]: crate::time::timeout()
//! [`timeout_at`]: crate::time::timeout_at
//! [`interval`]: crate::time::interval()
//! [`interval_at`]: crate::time::interval_at
//! [`wheel`]: crate::time::wheel
//! [`set_wheel`]: crate::time::set_wheel
//! [`Sleep`]: crate::Sleep
//! [`Sleep::is_elapsed`]: crate::Sleep::is_elapsed
//! [`Sleep::wait`]: crate::Sleep::wait
//! [`Timeout`]: crate::Timeout
//! [`Interval`]: crate::Interval
//! [`MissedTickBehavior`]: crate::time::MissedTickBehavior
//! [`Instant`]: crate::time::Instant
//! [`Duration`]: crate::time::Duration
//! [`Elapsed`]: crate::time::error::Elapsed
//! [`Error`]: crate::time::error::Error

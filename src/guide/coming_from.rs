//! Coming from another timer: what replaces what.
//!
//! For `tokio::time`, tokio-util and tokio-stream see the page [`migration`](crate::migration). `run_after` and its kin,
//! `Job` and `Jobs` are those of the crate `timingwheel-jobs`, in `crates/jobs`.
//!
//! # Netty
//!
//! | `HashedWheelTimer` | here |
//! |---|---|
//! | `newTimeout(task, delay)` | `run_after(delay, future)` |
//! | `Timeout::cancel`, which returns whether it was in time | `Job::cancel` |
//! | `isExpired`, `isCancelled` | `Job::state` |
//! | a slow task holds up all others | each job is a task of its own |
//! | a task that throws is logged | `JobError` in its handle, and `Jobs::panicked` |
//! | `maxPendingTimeouts`, `RejectedExecutionException` | [`max_pending`](crate::Builder::max_pending), `try_run_after`, which gives the future back |
//! | `pendingTimeouts()` | [`pending`](crate::TimingWheel::pending), [`stats`](crate::TimingWheel::stats) |
//! | `stop()`, which returns what did not run | `Jobs::shutdown`, with keys and futures; [`shutdown`](crate::TimingWheel::shutdown) wakes all futures |
//! | a thread that ticks from the first timeout on | no thread ticks |
//! | a cancelled timeout stays until the thread's next tick | what a cancelled job would run is dropped at once |
//!
//! | `IdleStateHandler` and its kin | here |
//! |---|---|
//! | `ReadTimeoutHandler` | [`idle_guard`](crate::TimingWheel::idle_guard) with a [read limit](crate::IdleGuard::with_read_limit), which counts while somebody waits for a read |
//! | `WriteTimeoutHandler` | the same with a [write limit](crate::IdleGuard::with_write_limit) |
//! | `allIdleTime`, to close the connection | the same with an [idle limit](crate::IdleGuard::with_idle_limit) |
//! | `IdleStateEvent` for `READER_IDLE`, `WRITER_IDLE`, `ALL_IDLE` | a [`Sleep`](crate::Sleep) that each message [resets](crate::Sleep::reset_after), beside the read in a `select!`: the example `heartbeat` |
//! | `isFirst()` of an event | not there: count them |
//!
//! Examples: `timeout`, `idle_connections`, `heartbeat`.
//!
//! # Kafka
//!
//! | Kafka | here |
//! |---|---|
//! | `SystemTimer`, `TimingWheel` with overflow wheels | [`TimingWheel`](crate::TimingWheel); [`wheel::Hierarchy`](crate::wheel::Hierarchy) alone |
//! | `DelayQueue` of buckets | one queue for the buckets of all levels, in the hierarchy |
//! | deadlines are cut down to ticks, so timers are early by up to a tick | deadlines round up, so no timer is early |
//! | `DelayedOperationPurgatory` | the crate `timingwheel-purgatory`, whose first page has a table for it |
//!
//! Examples: `purgatory`, `rpc_server`.
//!
//! # Go
//!
//! | `time`, and the package `RussellLuo/timingwheel` | here |
//! |---|---|
//! | `AfterFunc(d, f)` | `run_after(d, async { f() })` |
//! | `Timer.Stop()`, which returns whether it was in time | `Job::cancel` |
//! | `ScheduleFunc(scheduler, f)`, with `Next(prev)` | `run_by(schedule, f)`, `Schedule` |
//! | `Timer.Reset(d)` | [`Sleep::reset_after`](crate::Sleep::reset_after). For `AfterFunc`'s timer: `Job::reset_after` until it has fired; after that too, `Jobs::try_run_after` by a key |
//! | `context.WithTimeout` | [`timeout`](crate::TimingWheel::timeout), which drops the work when time is up |
//! | `time.Ticker` | [`interval`](crate::TimingWheel::interval) |
//!
//! Examples: `delayed_queue`, `timeout`.
//!
//! # Linux
//!
//! | `timer_list`, timer slack | here |
//! |---|---|
//! | granularity of an eighth of the delay, no cascading | [`Tolerance::share(0.125)`](crate::Tolerance::share), or 0.143, by which no timer is moved |
//! | `timer_slack`, `hrtimer_start_range_ns` | [`Tolerance::time`](crate::Tolerance::time) |
//! | `mod_timer` | [`Sleep::reset`](crate::Sleep::reset) |
//! | `timerfd` | [`sleep_until`](crate::TimingWheel::sleep_until), [`interval_at`](crate::TimingWheel::interval_at) |
//!
//! Example: `idle_connections`, with `--tolerance 12.5`.
//!
//! # Quartz, cron, keyed schedulers
//!
//! | there | here |
//! |---|---|
//! | `JobKey`, `scheduleJob`, `deleteJob`, `checkExists` | `Jobs`: add, replace, remove, look up, list, count |
//! | `rescheduleJob` | `Jobs::set_schedule`, `Jobs::reset` |
//! | `SimpleTrigger` with a repeat count, an end | `FixedRate`, its `times` and `until` |
//! | cron expressions, `CronTrigger` | `Cron` of the crate `timingwheel-calendar`, in `crates/calendar`, whose `parse_quartz` reads Quartz's expressions. Its page `coming_from` shows each kind of expression, and what it does on the two days of the year on which clocks change |
//! | `CalendarIntervalTrigger`, `HolidayCalendar` | `Calendar` and `BusinessDays` of `timingwheel-calendar` |
//! | misfire instructions | [`MissedTickBehavior`](crate::time::MissedTickBehavior); for rules of `timingwheel-calendar`, its `Missed` |
//! | `ScheduledExecutorService::scheduleAtFixedRate`, `scheduleWithFixedDelay` | `run_every`, `run_by` with a `FixedDelay`; the initial delay by `starting_after` |
//! | `getDelay`, `cancel(true)` | `time_left`, `abort` |
//! | a job store | `Durable` of the crate `timingwheel-durable`, in `crates/durable`, whose page `coming_from` has Sidekiq, Celery and `RocketMQ` too |
//!
//! Examples: `delayed_queue`, and those of `crates/calendar`.
//!
//! # Game engines
//!
//! | there | here |
//! |---|---|
//! | Unreal's `FTimerManager`, which calls back when the game ticks it | a [`DelayQueue`](crate::time::DelayQueue): once a frame the loop takes the items that are due |
//! | `SetTimer`, `ClearTimer` by an `FTimerHandle` | [`insert`](crate::time::DelayQueue::insert), [`try_remove`](crate::time::DelayQueue::try_remove) by a [`Key`](crate::time::delay_queue::Key) |
//! | `SetTimer` with the handle of a timer, which replaces that timer | [`reset`](crate::time::DelayQueue::reset), which keeps item and key |
//! | `SetTimer` that loops | insert the item again, a period after its [deadline](crate::time::delay_queue::Expired::deadline) |
//! | Bevy's `Timer`, each of which has to be ticked in each frame | an item: the queue looks only at those that are due |
//!
//! Example: `game`.

//! Coming from another system: what replaces what.
//!
//! # Sidekiq's scheduled set
//!
//! | there | here |
//! |---|---|
//! | `perform_at`, `perform_in` | [`Durable::at`](crate::Durable::at), [`Durable::after`](crate::Durable::after) |
//! | the class of the job | [`Kind`](crate::Kind) |
//! | arguments as JSON | the payload, as JSON |
//! | `retry: 25`, over about 20 days | [`Backoff`](crate::Backoff), by default over about three days. With delays from 15 seconds to 4 days and 20 tries, it also goes on for about 20 days. [`Answer::Retry`](crate::Answer::Retry) sets a delay of your own |
//! | the dead set | [buried](crate::store::Buried) timers: [`Durable::list`](crate::Durable::list), [`revive`](crate::Durable::revive), [`delete_buried`](crate::Durable::delete_buried) |
//! | `ScheduledSet#find_job(jid).delete`, which walks through the set | [`Durable::cancel`](crate::Durable::cancel), by id or key |
//! | a poll every five seconds or so | none: a timer is no later than the wheel's timers |
//! | a job is popped, and pushed in a second step: a crash in between loses the job | a timer leaves the store only when its handler has ended |
//!
//! Tests: `tests/it/runner`, `tests/it/proof/kills.rs`. Example: `webhooks`.
//!
//! # Celery's ETA and countdown
//!
//! | there | here |
//! |---|---|
//! | `apply_async(eta=…)`, `countdown=…` | [`Durable::at`](crate::Durable::at), [`Durable::after`](crate::Durable::after) |
//! | far tasks wait in a worker's memory | they wait in the store alone |
//! | an ETA beyond the visibility timeout runs many times | no timeout: if a process ends during an attempt, the attempt is made again |
//! | `revoke(id)`, which each worker has to remember | [`Durable::cancel`](crate::Durable::cancel), which says whether it was in time |
//! | `autoretry_for`, `retry_backoff`, `retry_jitter`, `max_retries` | [`Backoff`](crate::Backoff) |
//! | beat, with a crontab | [`Durable::every`](crate::Durable::every), with the rules of `timingwheel-calendar` |
//! | after an outage beat forgets the missed runs, or runs all of them | [`Missed`](crate::Missed) |
//!
//! Tests: `tests/it/runner/windows.rs`, `tests/it/runner/series.rs`. Examples: `orders`, `monthly_report`.
//!
//! # `RocketMQ`'s timer messages
//!
//! | there | here |
//! |---|---|
//! | `setDeliverTimeMs`, up to three days | [`Durable::at`](crate::Durable::at), up to the year 9999 |
//! | a wheel in a mapped file; messages beyond the wheel are rolled over | an ordered map in a file, and a wheel in memory for near timers |
//! | precision: a second | a millisecond |
//! | only special messages can be taken back | [`Durable::cancel`](crate::Durable::cancel), [`Durable::reschedule`](crate::Durable::reschedule) |
//! | messages are lost if the broker is down for longer than the wheel covers | timers that fell due meanwhile are due at the start |
//! | by default, messages are flushed to disk only now and then | a timer is durable when [`save`](crate::Saving::save) has answered |
//!
//! Tests: `tests/it/runner/windows.rs`, `tests/it/proof/power.rs`. Example: `orders`.

//! The engine: what keeps wakers in hierarchies, and has them woken in time.
//!
//! # The life of a timer
//!
//! | what happens | where |
//! |---|---|
//! | `wheel.sleep(d)` is called | `TimingWheel::sleep` fixes the deadline, and takes the shard of this thread. A sleep by name fixes its deadline too, and takes a shard when it is first polled |
//! | the sleep is first polled | `Sleep::poll_changed` has `State::arm` call `Shard::arm`. That **reuses** the entry of a dropped timer, or **inserts** one. The sleep keeps the entry's key |
//! | the entry gets its place | `Levels::slot_for` finds the slot for the deadline, and `Levels::link` puts the key into the slot's bucket |
//! | nothing comes up earlier | `Shard::publish` tells all threads, and `Alarm::request` sets the park's timer |
//! | the sleep is moved | `Shard::reschedule`: the entry stays where it is, if its bucket comes up early enough for it |
//! | the park's timer is due | a worker that parks calls the timer's waker, which calls `Turner::turn` |
//! | the timer fires | `Shard::turn` has `Hierarchy::advance_and_tell` hand out the wakers of due entries, and publishes how far it came. `Turner::turn_shards` wakes them, and `Turner::turn` sets the alarm for the next turn |
//! | the task polls the sleep again | it finds its deadline reached, and `Shard::finish` tells how the timer ended |
//! | the sleep is dropped before | `Shard::discard` leaves the entry for the next timer, or takes it out |
//!
//! # Files
//!
//! | file | what it has |
//! |---|---|
//! | `shard` | a hierarchy of wakers under a lock: arming, moving, dropping and handing out |
//! | `max_pending` | the bound on pending timers |
//! | `leftovers` | entries of dropped timers, which the next timer reuses, or which are taken out together |
//! | `turn` | a turn of all shards, the driver's task, the end of a wheel |
//! | `alarm` | when the next turn is |
//! | `many_wheels` | notices a thread that turns many wheels |
//! | `park_timer` | the timer in the runtime's park that calls for a turn; Linux's is in `platform::linux` |
//! | `watchdog` | a thread that notices that nobody turned a wheel |

pub(crate) mod alarm;
mod leftovers;
mod many_wheels;
pub(crate) mod max_pending;
mod park_timer;
pub(crate) mod shard;
#[cfg(all(test, not(loom)))]
mod tests;
pub(crate) mod turn;
pub(crate) mod watchdog;

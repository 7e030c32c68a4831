//! The pure core: a hierarchical timing wheel that is told what time it is.
//!
//! Nothing in here reads a clock, takes a lock, holds a `Waker` or knows of tokio. [`Hierarchy`] is a timer queue for any
//! event loop. It is generic over its payload: the rest of the crate puts wakers into it, and you may put in what you like.
//!
//! # How it works
//!
//! Level 0 is a ring of slots, each one tick wide. A deadline beyond it goes to an overflow level: a ring with as many
//! slots, each of which is wider than a slot of the level below by some factor. With 64 slots the factor is 8. So level 1
//! covers eight times what level 0 covers, levels overlap, and a slot is at most an eighth as wide as the delays for which
//! it is used. With more slots the factor is the greatest power of two whose square is at most their number. With fewer
//! slots it is at most an eighth of them, but at least 2. Overflow levels are made when a deadline first needs them.
//!
//! A bucket holds the entries of a slot. All levels share one delay queue, which has every non-empty bucket, and tells the
//! one that begins first. So the clock does not tick: it jumps from one such bucket to the next. When a
//! bucket of an overflow level begins, its entries cascade to finer levels, and skip those in between. An entry that is
//! due just when its bucket begins is handed out with it. When the last deadline in a bucket of level 0 comes, the bucket's
//! entries are handed out.
//!
//! With 3 slots a level and a tick of 1, each level is twice as wide as the one below. Three deadlines travel like this
//! (`3]` is a bucket with the deadlines up to 3, and `[4` one with the deadlines from 4 on):
//!
//! ```text
//!            level 0 (width 1)   level 1 (width 2)   level 2 (width 4)   level 3 (width 8)
//!  now 0     1] 2] 3]            [0 [2 [4            [0 [4 [8            [0 [8 [16
//!            a at 2              b at 5                                  c at 12
//!  now 2     3] 4] 5]            [2 [4 [6            [0 [4 [8            a is handed out
//!  now 4     5] 6] 7]            [4 [6 [8            [4 [8 [12           the bucket [4 begins: b moves to level 0, bucket 5]
//!  now 5     6] 7] 8]            [4 [6 [8            [4 [8 [12           b is handed out
//!  now 8     9] 10] 11]          [8 [10 [12          [8 [12 [16          the bucket [8 begins: c moves to level 1, bucket [12
//!  now 12    13] 14] 15]         [12 [14 [16         [12 [16 [20         the bucket [12 begins: c is handed out with it
//! ```
//!
//! An entry that may be late by a part of its delay can be spared all moves: [`Resolution::round_up_within`] rounds its
//! deadline up to where a slot begins.
//!
//! The scheme comes from Varghese and Lauck, *Hashed and Hierarchical Timing Wheels* (1987), the delay queue from Kafka's
//! purgatory, and the widths from Linux's timer wheel. Two things differ from Kafka's. Deadlines round up, so no entry is
//! early. And a bucket of level 0 is due at its last deadline instead of at the end of its tick, so a lone entry is handed
//! out exactly on time.

// | file | what it has |
// |---|---|
// | `hierarchy` | what callers do: insert, cancel, move, advance, count |
// | `levels` | which slot a deadline belongs to, the delay queue of buckets, and the clock |
// | `entries` | entries, keys, and the buckets in which keys stand |
// | `time` | points in time, ticks, and how a deadline with a tolerance is rounded up to a grid |

mod entries;
mod hierarchy;
mod levels;
mod time;

pub use self::entries::Key;
pub(crate) use self::entries::MAX_ENTRIES;
pub use self::hierarchy::{Hierarchy, Progress};
pub(crate) use self::time::Grid;
pub use self::time::{Nanos, Resolution};

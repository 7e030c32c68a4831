//! Parts of the meaning of the SQL, or of its client, that can be left out: mends that are undone, to see that it is found.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Lack {
    /// An owner is told by its epoch alone.
    Token,
    /// An owner counts its saves from its token on.
    NumbersFromToken,
    /// Renewals share the connections of other calls.
    LeaseConnection,
    /// The first lease is short.
    FirstLease,
    /// Who gives up a statement that waits cancels it.
    CancelsStatements,
    /// Each transaction tells of the soon timers that it saves.
    HintsOfTransactions,
    /// Who is told of a soon timer is decided by the database's clock.
    HintsByDatabase,
    /// A run of a series is retried as a plain timer.
    PlainRetry,
    /// What was cancelled while it ran is not begun again, if its process died.
    CancelledAndDied,
    /// A begin looks at whose the shard is.
    BeginsOwnShards,
    /// A begin looks at whether a living owner has begun the timer.
    BeginsOnce,
    /// A begin leaves a timer that a transaction holds.
    BeginsUnlocked,
    /// An end looks at the version.
    SettlesVersion,
    /// An end looks at who has begun the attempt.
    SettlesOwn,
    /// An end leaves a timer that a transaction holds.
    SettlesUnlocked,
    /// A renewal lengthens the lease.
    RenewLengthens,
    /// A renewal removes the owners that were silent.
    RenewRemoves,
    /// A renewal shares out what they had.
    RenewShares,
    /// A leave shares out what it had.
    LeaveShares,
    /// Each shard has an owner.
    ShareAll,
    /// No shard has two owners in the eyes of those that have lost it: a hint tells them.
    ShareHints,
    /// What the owner of a shard has no handler for is another's, who has one.
    Helps,
}

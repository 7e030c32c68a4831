//! What the owners of a sleep need that use it as their alarm.

use std::task::Waker;

use super::{Sleep, State};
use crate::platform::clock::Clock;
use crate::wheel::Nanos;

impl Sleep {
    /// A timer of the same shard, without a deadline, as [`sleep_unset`](crate::TimingWheel::sleep_unset) has it.
    pub(crate) fn another(&self) -> Self {
        Self { shard: self.shard.clone(), deadline: Nanos::MAX, state: State::Unregistered.pack() }
    }

    /// The wheel's.
    pub(crate) fn clock(&self) -> &Clock {
        self.shard.clock()
    }

    /// The deadline at which a task is to be woken, or was woken already; `None` if none is registered.
    #[inline]
    pub(crate) const fn armed(&self) -> Option<Nanos> {
        match self.state.unpack() {
            State::Registered { .. } => Some(self.deadline),
            State::MadeAt(_) | State::Unregistered | State::Due | State::Elapsed | State::RoundedAt(_) => {
                None
            }
        }
    }

    /// When the wheel last fired timers of this shard more than half a second too late, or zero.
    pub(crate) fn last_late_turn(&self) -> Nanos {
        self.shard.late_turn()
    }

    /// Whether the wheel has.
    pub(crate) fn has_ended(&self) -> bool {
        self.shard.has_ended()
    }

    /// Takes the timer out of the wheel. There is no waker if none was registered, or if it has been woken.
    pub(crate) fn take_waker(&mut self) -> Option<Waker> {
        let State::Registered { key, .. } = self.state.unpack() else { return None };
        self.state.set(State::Unregistered);
        self.shard.cancel(key, self.deadline)
    }
}

//! What the watchdog knows of a wheel, and what it does to it.

use std::io;
use std::sync::Arc;

use super::{AWAKE, Alarm};
use crate::engine::watchdog::{Role, Watched};
use crate::platform::sync::Ordering;
use crate::wheel::Nanos;

impl Alarm {
    /// Has the watchdog watch the wheel from now on.
    pub(crate) fn begin_watch(self: &Arc<Self>, role: Role) -> io::Result<()> {
        self.watch.begin(self, role)
    }
}

impl Watched for Alarm {
    fn next_turn(&self) -> Option<Nanos> {
        match self.next_turn.load(Ordering::Relaxed) {
            AWAKE | u64::MAX => None,
            at => Some(Nanos(at)),
        }
    }

    fn wake(&self, role: Role) {
        match role {
            // The task turns nothing. The worker that polls it looks at the runtime's input and timers next.
            Role::Backup => self.driver.wake(),
            Role::OnlyWaker => self.wake_to_turn(),
        }
    }
}

//! What somebody else holds in the store for a moment: the store is asked again after a second.

use std::time::Duration;

use tokio::time::Instant;

use super::Runner;
use super::live::Live;
use super::{Near, TookBack};
use crate::store::Ended;

/// How long after the answer the store is asked again.
const AGAIN: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct PutOff {
    /// When the store is asked again, at the latest.
    at: Option<Instant>,
    /// What may have begun by a call that failed. It is live.
    begins: Vec<Near>,
    ends: Vec<Ended>,
}

impl PutOff {
    /// When there is something to ask again.
    pub(super) fn at(&self) -> Option<Instant> {
        self.at
    }

    fn wait(&mut self) {
        self.at.get_or_insert_with(|| Instant::now() + AGAIN);
    }
}

impl Runner {
    /// A timer was not begun, because somebody holds it.
    pub(super) fn put_off_begin(&mut self, near: Near) {
        let may_begin = self.may_begin();
        match self.live.get_mut(&near.id()) {
            // Perhaps the owner itself, by a call that failed. A load would leave out what that has begun.
            Some(Live::Beginning { takes, may_have_begun: true }) if may_begin => {
                takes.drain(..).for_each(|take| take.tell(TookBack::AskAgain));
                self.put_off.begins.push(near);
                self.put_off.wait();
            }
            // It takes no handler's place while it waits.
            _ => {
                self.reply(near.id(), TookBack::AskAgain);
                if may_begin {
                    self.arm_at(near, Instant::now() + AGAIN);
                }
            }
        }
    }

    /// An end was not stored, because somebody holds its timer.
    pub(super) fn put_off_end(&mut self, ended: Ended) {
        self.put_off.ends.push(ended);
        self.put_off.wait();
    }

    /// Asks again, if it is time.
    pub(super) fn take_up(&mut self) {
        if self.put_off.at.is_some_and(|at| at <= Instant::now()) {
            let PutOff { at: _, begins, ends } = std::mem::take(&mut self.put_off);
            self.again.extend(begins);
            self.ends.extend(ends);
        }
    }

    /// What may have begun by a call that failed is found by the next owner, if it has.
    pub(super) fn forget_what_may_have_begun(&mut self) {
        let put_off = std::mem::take(&mut self.put_off.begins);
        for near in std::mem::take(&mut self.again).into_iter().chain(put_off) {
            self.reply(near.id(), TookBack::AskAgain);
        }
    }
}

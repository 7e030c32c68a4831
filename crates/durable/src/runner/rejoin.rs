//! Losing the lease of a store that is shared, and joining again.

use tokio::sync::watch;
use tokio::time::Instant;

use super::renew::AGAIN;
use super::{GRACE, Runner};
use crate::error::Error;
use crate::store::Owner;
use crate::window::Window;

impl Runner {
    /// Whether the owner is none any more, and a new one is made.
    pub(super) fn joins(&self) -> bool {
        self.share.as_ref().is_some_and(|share| share.joining.is_some())
    }

    /// Others may have the timers. Tells whether the owner asks how it stands, and is not lost for good.
    pub(super) fn asks_how_it_stands(&mut self) -> bool {
        let Some(share) = &mut self.share else { return false };
        share.lease.set(None);
        share.renew_at = Instant::now();
        true
    }

    /// What the owner has is other than before: what is near is loaded anew. What has begun goes on.
    pub(super) fn forget_what_is_near(&mut self) {
        self.armed.clear();
        self.keys.clear();
        self.ready.clear();
        self.give_up_load();
        self.looks_anew = false;
        self.window = Window::new();
        if let Some(share) = &mut self.share {
            (share.scan, share.is_scanning) = (None, false);
        }
    }

    /// Others have the timers. Handlers that run are told, and a new owner is made.
    pub(super) fn join_again(&mut self) {
        let lost = std::mem::replace(&mut self.lost, watch::Sender::new(false));
        lost.send_replace(true);
        self.shared.events.lease_lost(self.owner.epoch);
        self.forget_what_is_near();
        self.forget_what_may_have_begun();
        self.forget_what_waits();
        self.unsure.clear();
        for ended in std::mem::take(&mut self.doubts) {
            self.was_fenced(&ended);
        }
        let Some(share) = &mut self.share else { return };
        share.lease.set(None);
        if self.stopping.is_none() {
            share.joining = Some(self.store.clone().join(self.settings.lease, !self.handlers.is_empty()));
        } else {
            // Nothing is left but to tell what has ended.
            share.renew_at = Instant::now() + self.settings.lease;
        }
    }

    /// Waits for a join that is under way, so that a runner that stops can give back the share that the new owner gets.
    pub(super) async fn finish_joining(&mut self) {
        let joining = self.share.as_mut().and_then(|share| share.joining.take());
        if let Some(joining) = joining
            && let Ok(answer) = tokio::time::timeout(GRACE, joining).await
        {
            self.joined(answer);
        }
    }

    pub(super) fn joined(&mut self, answer: Result<Owner, Error>) {
        match answer {
            Ok(owner) => {
                self.shared.events.joined_again(self.owner.epoch, owner.epoch);
                self.owner = owner;
                self.shared.set_owner(owner);
                // What was told meanwhile, the owner before has told.
                self.unsure.clear();
                self.shared.stats().rejoined += 1;
                if let Some(share) = &mut self.share {
                    share.renew_at = Instant::now();
                    share.hinting = None;
                }
            }
            Err(error) => {
                self.shared.failed(&error);
                if let Some(share) = &mut self.share {
                    // It asks how it stands, is told again that it is lost, and joins.
                    share.renew_at = Instant::now() + AGAIN;
                }
            }
        }
    }
}

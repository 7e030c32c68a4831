//! The clock of the model moves, and hands entries out: which, when, and in how many calls.

use std::ops::ControlFlow;

use timingwheel::wheel::{Nanos, Progress};

use super::{ALL, Made, Model};

impl Model {
    /// Advances by one batch, and returns how many entries were handed out or moved in it.
    pub(super) fn advance(&mut self, now: u64, batch: usize) -> (Progress, u64) {
        let (clock, cascaded) = (self.clock(), self.wheel.cascaded());
        let mut expired = vec![usize::MAX];
        let progress = self.wheel.advance(Nanos(now), batch, &mut expired);
        let now = now.max(clock);
        assert_eq!(expired.remove(0), usize::MAX, "what stood there is overwritten");
        let cascaded = self.wheel.cascaded() - cascaded;
        let steps = expired.len() as u64 + cascaded;
        for id in expired {
            let Made { key, deadline, due } = self.made[id];
            assert!(self.pending.remove(&(due, id)), "{id} was not pending");
            assert!(!self.wheel.contains(key), "{id} was handed out and is there");
            assert!(deadline <= now, "{id} is early: {deadline} at {now}");
            assert!(due >= self.last_due, "{id}, due in {due}, comes after tick {}", self.last_due);
            self.last_due = due;
        }
        // Fewer where places were passed whose entries had gone.
        assert!(steps <= batch as u64, "{steps} in a batch of {batch}");
        match progress {
            Progress::Done => {
                assert_eq!(self.clock(), now);
                assert!(self.wheel.handed_out_through().0 == now || !self.pending.is_empty());
                if let Some(&(due, id)) = self.pending.first() {
                    assert!(self.end(due) > now, "{id}, due in {due}, is left at {now}");
                }
            }
            Progress::More => assert!((clock..=now).contains(&self.clock())),
        }
        self.check();
        (progress, steps)
    }

    pub(super) fn advance_until_done(&mut self, batch: usize) {
        let mut steps_left = self.most_steps();
        let mut emptied_left = self.most_emptied();
        let mut answer = self.advance(self.now, batch);
        while let (Progress::More, steps) = answer {
            steps_left = steps_left.checked_sub(steps).expect("it comes to an end");
            emptied_left = emptied_left.checked_sub(batch as u64 - steps).expect("it comes to an end");
            answer = self.advance(self.now, batch);
        }
    }

    pub(super) fn next_expiration(&mut self) -> Option<u64> {
        let at = self.wheel.next_expiration().map(|at| at.0);
        assert_eq!(at.is_none(), self.pending.is_empty());
        if let (Some(at), Some(&(due, id))) = (at, self.pending.first()) {
            assert!(at.max(self.clock()) <= self.end(due), "{id}, due in {due}, is late at {at}");
        }
        assert_eq!(self.wheel.next_expiration().map(|at| at.0), at, "it is another when looked at again");
        at
    }

    /// Advances as an alarm would make it, and returns the time.
    pub(crate) fn advance_to_expiration(&mut self) -> ControlFlow<(), u64> {
        let Some(at) = self.next_expiration() else { return ControlFlow::Break(()) };
        self.now = self.now.max(at);
        let (progress, steps) = self.advance(at, ALL);
        assert_eq!(progress, Progress::Done);
        assert!(steps > 0, "nothing to do at {at}");
        ControlFlow::Continue(at)
    }

    pub(super) fn advance_to_just_before_expiration(&mut self) {
        if let Some(at) = self.next_expiration()
            && at > self.clock()
        {
            self.now = at - 1;
            assert_eq!(self.advance(at - 1, ALL), (Progress::Done, 0));
        }
    }

    pub(crate) fn advance_to_the_last_expiration(&mut self) {
        for _ in 0..=self.most_steps() {
            if self.advance_to_expiration().is_break() {
                self.check_everything();
                return;
            }
        }
        panic!("it does not come to an end");
    }

    /// For each entry a step for each level, and one to where it was moved.
    fn most_steps(&self) -> u64 {
        (self.pending.len() * (self.levels_needed + 1)) as u64
    }

    /// Each deadline that was set may have left a place vacant.
    fn most_emptied(&self) -> u64 {
        self.deadlines_set
    }
}

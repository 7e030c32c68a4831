//! Taking over: the next timer gets the entry of a leftover.

use std::task::Waker;

use super::drop_stranger;
use crate::engine::shard::Shard;
use crate::error::Error;
use crate::platform::waker_id::WakerId;
use crate::wheel::{Key, Moved, Nanos};

impl Shard {
    /// Moves the spare's entry to `deadline`, if the entry has `waker` already. `id` is the id of `waker`. On `None`
    /// call [`register_or_take_over`](Self::register_or_take_over).
    ///
    /// Call neither of them while you hold a lock: the waker of another task may be dropped here.
    #[inline(always)]
    pub(crate) fn take_over(&self, now: Nanos, deadline: Nanos, waker: &Waker, id: WakerId) -> Option<Key> {
        if deadline <= now || !self.leftovers.spare.is_of(id) {
            return None;
        }
        self.take_over_if(now, deadline, || self.leftovers.spare.take(), |left| left.will_wake(waker))
    }

    /// As [`register`](Self::register), but if there is a leftover, of whatever task, moves its entry to `deadline` and
    /// gives it `waker`.
    #[inline]
    pub(crate) fn register_or_take_over(
        &self,
        now: Nanos,
        deadline: Nanos,
        mut waker: Waker,
    ) -> Result<Option<Key>, Error> {
        if deadline > now && (self.leftovers.spare.is_there() || self.may_take_from_batch()) {
            let take = || self.leftovers.spare.take().or_else(|| self.leftovers.batch.take_one());
            let key = self.take_over_if(now, deadline, take, |left| {
                std::mem::swap(left, &mut waker);
                true
            });
            if key.is_some() {
                drop_stranger(Some(waker));
                return Ok(key);
            }
        }
        self.register(now, deadline, waker)
    }

    /// Whether a key may be taken from the batch. Not among very many entries: there an old entry is in no cache, and
    /// the batch is cleared as a whole instead.
    #[inline]
    fn may_take_from_batch(&self) -> bool {
        self.leftovers.batch.has_one_to_take() && !self.published.is_crowd()
    }

    /// Moves the entry whose key `take` returns to `deadline`, if `is_wanted` says so of its waker. Otherwise takes the
    /// entry out.
    #[inline(always)]
    fn take_over_if(
        &self,
        now: Nanos,
        deadline: Nanos,
        take: impl FnOnce() -> Option<Key>,
        is_wanted: impl FnOnce(&mut Waker) -> bool,
    ) -> Option<Key> {
        let mut state = self.state.lock();
        let key = take()?;
        // A deadline that the wheel has passed counts as handed out.
        if !state.ended
            && deadline > state.hierarchy.clock()
            && let Some(moved) = state.hierarchy.reschedule_if(now, key, deadline, is_wanted)
        {
            state.armed += 1;
            state.cancelled += 1;
            if let Moved::Expires(expiration) = moved {
                self.publish_and_request(state, expiration);
            }
            return Some(key);
        }
        let waker = state.cancel(key);
        drop(state);
        drop_stranger(waker);
        None
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::engine::shard::test_shards::{Counts, lone_shard};
    use crate::platform::waker_id::KnownWaker;
    use crate::wheel::Progress;

    const MINUTE: Duration = Duration::from_secs(60);

    fn shard() -> Arc<Shard> {
        Arc::new(lone_shard())
    }

    fn known() -> Waker {
        Arc::<KnownWaker>::default().into()
    }

    fn id_of(waker: &Waker) -> WakerId {
        WakerId::of(waker).expect("it is known")
    }

    /// Arms a timer with `waker`, and drops it as if it had `other`.
    fn leave(shard: &Shard, waker: Waker, other: &Waker) -> Key {
        let deadline = shard.clock().now().after(MINUTE);
        let armed = shard.register(shard.clock().now(), deadline, waker);
        let key = armed.expect("not refused").expect("not due");
        shard.discard(key, deadline, Some(id_of(other)));
        key
    }

    fn take_over(shard: &Shard, after: Duration, waker: &Waker) -> Option<Key> {
        let now = shard.clock().now();
        shard.take_over(now, now.after(after), waker, id_of(waker))
    }

    #[test]
    fn the_waker_of_another_task_is_dropped_outside_the_lock() {
        type Next = fn(&Shard, &Waker);
        let next: [Next; 2] = [
            |shard, waker| assert_eq!(take_over(shard, MINUTE, waker), None),
            |shard, waker| {
                let deadline = shard.clock().now().after(MINUTE);
                shard.register_or_take_over(Nanos::ZERO, deadline, waker.clone()).expect("not refused");
            },
        ];
        for next in next {
            let (shard, waker) = (shard(), known());
            leave(&shard, Arc::new(Counts(Arc::downgrade(&shard))).into(), &waker);
            let (done, is_done) = channel();
            thread::spawn(move || {
                next(&shard, &waker);
                done.send(())
            });
            assert_eq!(is_done.recv_timeout(Duration::from_secs(30)), Ok(()), "it waits for itself");
        }
    }

    #[test]
    fn a_timer_that_is_due_takes_nothing_over() {
        let (shard, waker) = (shard(), known());
        let key = leave(&shard, waker.clone(), &waker);
        assert_eq!(take_over(&shard, Duration::ZERO, &waker), None);
        let now = shard.clock().now();
        assert!(matches!(shard.register_or_take_over(now, now, waker.clone()), Ok(None)));
        assert_eq!(take_over(&shard, MINUTE, &waker), Some(key));
    }

    #[test]
    fn the_turner_is_to_come_a_second_after_the_first_and_not_after_each() {
        let (shard, waker) = (shard(), known());
        assert_eq!(shard.clear_by(), Nanos::MAX);
        leave(&shard, waker.clone(), &waker);
        let clear_by = shard.clear_by();
        assert!(clear_by <= shard.clock().now().after(Duration::from_secs(1)));
        for _ in 0..3 {
            let key = take_over(&shard, MINUTE, &waker).expect("it is there");
            shard.discard(key, shard.clock().now().after(MINUTE), Some(id_of(&waker)));
            assert_eq!(shard.clear_by(), clear_by);
        }
    }

    /// A thread that checked for the end just before the end came may leave a key after it, while the end still hands
    /// out.
    #[test]
    fn between_two_batches_of_the_end_nobody_takes_over() {
        for after in [MINUTE / 2, 2 * MINUTE] {
            let (shard, waker) = (shard(), known());
            let now = shard.clock().now();
            let arm =
                |deadline| shard.register(now, deadline, waker.clone()).expect("no end").expect("not due");
            let [_, key, _] = [MINUTE / 6, MINUTE, 60 * MINUTE].map(|after| arm(now.after(after)));
            assert_eq!(shard.end(3, &mut Vec::new()), (3, Progress::More));
            assert!(shard.leave_as_spare(key, id_of(&waker)));
            assert_eq!(take_over(&shard, after, &waker), None);
            assert!(shard.register_or_take_over(now, now.after(after), waker).is_err());
        }
    }
}

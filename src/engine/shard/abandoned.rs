//! An abandoned timer: one that was dropped, and whose entry stays for the next timer to take over.
//!
//! Who waits for something with a timeout makes a timer and drops it, again and again. To take an entry out and to put
//! another in costs two holds of the lock and a slot to find. So the entry is left as it is, and the next timer moves its
//! deadline, which is later as a rule, so that it does not even leave its bucket; and if it is one of the same task, as
//! it often is, the waker stays too.
//!
//! It is the place of one entry. While it is taken, a timer that is dropped takes its own entry out. Who counts, and who
//! fires, counts it out; the driver takes it out when it turns the shard, and a second later at the latest.

use std::task::Waker;

use super::Shard;
use super::cancelled::drop_unwanted;
use crate::error::Error;
use crate::platform::sync::{AtomicU64, Ordering};
use crate::platform::waker_id::WakerId;
use crate::wheel::{Key, Nanos};

#[derive(Debug)]
pub(super) struct Abandoned {
    /// The key of an entry that its owner has left, or one of two vacancies: [`EMPTY`], [`EMPTY_AND_DUE`]. It is put here
    /// without the lock, and taken away under it. Acquire and release: who leaves an entry after another was taken away
    /// sees what was done before that.
    key: AtomicU64,
    /// Which waker that entry has. Relaxed, a guess: another may be about to leave its own.
    waker: AtomicU64,
}

/// Nothing has been left here since the driver looked.
const EMPTY: u64 = Key::vacancy(0).to_bits();
/// What was left here has been taken away again, not by the driver. It is to come, or about to be told to.
const EMPTY_AND_DUE: u64 = Key::vacancy(1).to_bits();

/// The key, unless it is a vacancy.
#[inline]
fn key_of(bits: u64) -> Option<Key> {
    Some(Key::from_bits(bits)).filter(|key| !key.is_vacancy())
}

impl Abandoned {
    pub(super) fn new() -> Self {
        Self { key: AtomicU64::new(EMPTY), waker: AtomicU64::new(0) }
    }

    /// Leaves an entry here, unless there is one. If it is the first since the driver looked, `has_driver_come`.
    #[inline]
    fn leave(&self, key: Key, waker: WakerId, has_driver_come: impl FnOnce()) -> bool {
        let before = self.key.load(Ordering::Relaxed);
        if key_of(before).is_some() {
            return false;
        }
        self.waker.store(waker.to_bits().get(), Ordering::Relaxed);
        let left = self.key.compare_exchange(before, key.to_bits(), Ordering::AcqRel, Ordering::Relaxed);
        if left == Ok(EMPTY) {
            has_driver_come();
        }
        left.is_ok()
    }

    /// Whether there seems to be one.
    #[inline]
    fn has_any(&self) -> bool {
        key_of(self.key.load(Ordering::Relaxed)).is_some()
    }

    /// Whether there seems to be one that has that waker.
    #[inline]
    fn has(&self, waker: WakerId) -> bool {
        self.waker.load(Ordering::Relaxed) == waker.to_bits().get() && self.has_any()
    }

    /// For who counts, under the lock. Its entry may have been handed out.
    pub(super) fn look(&self) -> Option<Key> {
        key_of(self.key.load(Ordering::Acquire))
    }

    /// Takes it away. Only under the lock, so that nobody else does.
    #[inline]
    pub(super) fn take(&self) -> Option<Key> {
        let key = self.look()?;
        self.key.store(EMPTY_AND_DUE, Ordering::Release);
        Some(key)
    }

    /// As [`take`](Self::take), for who has told before that the driver need not come any more. A swap also where nothing
    /// is here: so who leaves an entry after it knows that, and has the driver come.
    pub(super) fn swap_out(&self) -> Option<Key> {
        key_of(self.key.swap(EMPTY, Ordering::AcqRel))
    }
}

impl Shard {
    /// Leaves the entry of a timer that is dropped where it is, if there is room for that.
    #[inline]
    pub(super) fn abandon(&self, key: Key, waker: WakerId) -> bool {
        self.abandoned.leave(key, waker, || self.request_clearing())
    }

    /// Registers a timer in the place of the abandoned one, if that was one of the same task; which `waker` is told by
    /// `id`. Tells the key, or by `None` that [`replace_abandoned`](Self::replace_abandoned) is to do it.
    ///
    /// Neither is for who holds a lock: a waker may be dropped that is a stranger to it.
    #[inline(always)]
    pub(crate) fn take_over(&self, now: Nanos, deadline: Nanos, waker: &Waker, id: WakerId) -> Option<Key> {
        if deadline <= now || !self.abandoned.has(id) {
            return None;
        }
        self.take_over_if(now, deadline, || self.abandoned.take(), |left| left.will_wake(waker))
    }

    /// As [`register`](Self::register), in the place of the abandoned timer, of whatever task that was, or of one that is to
    /// be taken out later, if there is one: see [`cancelled`](super::cancelled).
    #[inline]
    pub(crate) fn replace_abandoned(
        &self,
        now: Nanos,
        deadline: Nanos,
        mut waker: Waker,
    ) -> Result<Option<Key>, Error> {
        if deadline > now && (self.abandoned.has_any() || self.has_cancelled_to_take()) {
            let take = || self.abandoned.take().or_else(|| self.cancelled.take_one());
            let key = self.take_over_if(now, deadline, take, |left| {
                std::mem::swap(left, &mut waker);
                true
            });
            if key.is_some() {
                drop_unwanted(Some(waker));
                return Ok(key);
            }
        }
        self.register(now, deadline, waker)
    }

    /// Whether an entry may be taken over from those that are to be taken out later. Not among very many, where an old
    /// one's lies in no cache, and is waited for together with others.
    #[inline]
    fn has_cancelled_to_take(&self) -> bool {
        self.cancelled.has_some_to_take() && !self.published.is_crowd()
    }

    /// Moves the entry that `take` gives to `deadline`, if its waker `is_wanted`. Otherwise takes it out.
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
        // What the wheel has passed counts as handed out.
        if !state.ended
            && deadline > state.hierarchy.elapsed()
            && let Some(expiration) = state.hierarchy.reschedule_if(now, key, deadline, is_wanted)
        {
            state.armed += 1;
            state.cancelled += 1;
            self.publish_and_request(state, expiration);
            return Some(key);
        }
        let unwanted = state.cancel(key);
        drop(state);
        drop_unwanted(unwanted);
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
    use crate::engine::shard::testing::{Counts, lone_shard};
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
    fn abandon(shard: &Shard, waker: Waker, other: &Waker) -> Key {
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
                shard.replace_abandoned(Nanos::ZERO, deadline, waker.clone()).expect("not refused");
            },
        ];
        for next in next {
            let (shard, waker) = (shard(), known());
            abandon(&shard, Arc::new(Counts(Arc::downgrade(&shard))).into(), &waker);
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
        let key = abandon(&shard, waker.clone(), &waker);
        assert_eq!(take_over(&shard, Duration::ZERO, &waker), None);
        let now = shard.clock().now();
        assert!(matches!(shard.replace_abandoned(now, now, waker.clone()), Ok(None)));
        assert_eq!(take_over(&shard, MINUTE, &waker), Some(key));
    }

    #[test]
    fn the_driver_is_to_come_a_second_after_the_first_and_not_after_each() {
        let (shard, waker) = (shard(), known());
        assert_eq!(shard.clear_by(), Nanos::MAX);
        abandon(&shard, waker.clone(), &waker);
        let clear_by = shard.clear_by();
        assert!(clear_by <= shard.clock().now().after(Duration::from_secs(1)));
        for _ in 0..3 {
            let key = take_over(&shard, MINUTE, &waker).expect("it is there");
            shard.discard(key, shard.clock().now().after(MINUTE), Some(id_of(&waker)));
            assert_eq!(shard.clear_by(), clear_by);
        }
    }

    /// Whoever looked before the end whether it has come may abandon a timer after it, while others are still handed out.
    #[test]
    fn between_two_batches_of_the_end_nobody_takes_over() {
        for after in [MINUTE / 2, 2 * MINUTE] {
            let (shard, waker) = (shard(), known());
            let now = shard.clock().now();
            let arm =
                |deadline| shard.register(now, deadline, waker.clone()).expect("no end").expect("not due");
            let [_, key, _] = [MINUTE / 6, MINUTE, 60 * MINUTE].map(|after| arm(now.after(after)));
            assert_eq!(shard.end(3, &mut Vec::new()), (3, Progress::More));
            assert!(shard.abandon(key, id_of(&waker)));
            assert_eq!(take_over(&shard, after, &waker), None);
            assert!(shard.replace_abandoned(now, now.after(after), waker).is_err());
        }
    }
}

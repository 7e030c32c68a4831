//! Whether two wakers are one, told by 8 bytes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;

/// The addresses that make a waker what it is. Two wakers that are alive at the same time and have the same addresses
/// wake the same task.
///
/// A process has very many wakers but few kinds of them, which differ by the address of their functions: a kind is
/// remembered by the first that is seen of it, and takes one byte here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WakerId {
    data: [u8; 7],
    kind: Kind,
}

/// The number of a kind in [`KINDS`]. An enum for the sake of all the values that it does not have: they tell the
/// states of a future that has no waker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    First,
    Second,
    Third,
    Fourth,
    Fifth,
    Sixth,
    Seventh,
    Eighth,
}

/// Tasks and `block_on` are two; `join_all` and its likes have one for each type of future. Wakers of kinds beyond the
/// eighth that a process shows to its timers have no [`WakerId`]: polling a timer again with one takes the shard's
/// lock.
static KINDS: [(Kind, AtomicUsize); 8] = [
    (Kind::First, AtomicUsize::new(0)),
    (Kind::Second, AtomicUsize::new(0)),
    (Kind::Third, AtomicUsize::new(0)),
    (Kind::Fourth, AtomicUsize::new(0)),
    (Kind::Fifth, AtomicUsize::new(0)),
    (Kind::Sixth, AtomicUsize::new(0)),
    (Kind::Seventh, AtomicUsize::new(0)),
    (Kind::Eighth, AtomicUsize::new(0)),
];

impl WakerId {
    /// `None` for one that cannot be told from others.
    #[inline]
    pub(crate) fn of(waker: &Waker) -> Option<Self> {
        let vtable = std::ptr::from_ref(waker.vtable()).addr();
        let kind = Kind::of(vtable)?;
        let &[ref data @ .., 0] = &(waker.data().addr() as u64).to_le_bytes() else { return None };
        Some(Self { data: *data, kind })
    }

    /// All of it, for a place that is written without a lock.
    #[inline]
    pub(crate) const fn to_bits(self) -> u64 {
        let [a, b, c, d, e, f, g] = self.data;
        u64::from_le_bytes([a, b, c, d, e, f, g, self.kind as u8])
    }

    /// Whether that waker has these addresses. With fewer instructions than to look for its kind among all.
    #[inline]
    pub(crate) fn is_of(self, waker: &Waker) -> bool {
        let (_, vtable) = &KINDS[self.kind as usize];
        let [data @ .., 0] = (waker.data().addr() as u64).to_le_bytes() else { return false };
        data == self.data && vtable.load(Ordering::Relaxed) == std::ptr::from_ref(waker.vtable()).addr()
    }
}

impl Kind {
    #[inline]
    fn of(vtable: usize) -> Option<Self> {
        // Relaxed: the address is all there is to see.
        let known = KINDS.iter().find(|(_, known)| known.load(Ordering::Relaxed) == vtable);
        known.map_or_else(|| Self::remember(vtable), |&(kind, _)| Some(kind))
    }

    #[cold]
    fn remember(vtable: usize) -> Option<Self> {
        let free_or_same = KINDS.iter().find(|(_, known)| {
            // Looks first: an attempt takes the cache line away from all who only look.
            let known = match known.load(Ordering::Relaxed) {
                0 => known
                    .compare_exchange(0, vtable, Ordering::Relaxed, Ordering::Relaxed)
                    .map_or_else(|k| k, |_| vtable),
                known => known,
            };
            known == vtable
        });
        free_or_same.map(|&(kind, _)| kind)
    }
}

/// A waker for tests that need its kind to be known: those below, which use up the kinds, show it first.
#[cfg(test)]
#[derive(Debug, Default)]
pub(crate) struct KnownWaker(AtomicUsize);

#[cfg(all(test, not(loom)))]
impl KnownWaker {
    /// How many times it was woken.
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
impl std::task::Wake for KnownWaker {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::sync::Arc;
    use std::task::Wake;

    /// Each number is a kind of its own.
    struct Of<const KIND: usize>;

    impl<const KIND: usize> Wake for Of<KIND> {
        fn wake(self: Arc<Self>) {
            std::hint::black_box(KIND);
        }
    }

    fn waker<const KIND: usize>() -> Waker {
        Arc::new(Of::<KIND>).into()
    }

    #[test]
    fn it_tells_wakers_and_kinds_apart_and_knows_a_clone_or_says_that_it_cannot() {
        let wakers = [
            Arc::<KnownWaker>::default().into(),
            // These have the same data.
            Waker::noop().clone(),
            futures::task::noop_waker(),
            waker::<0>(),
            waker::<0>(),
            waker::<1>(),
            waker::<2>(),
            waker::<3>(),
            waker::<4>(),
            waker::<5>(),
            waker::<6>(),
            waker::<7>(),
            waker::<8>(),
        ];
        for (a, waker) in wakers.iter().enumerate() {
            for (b, other) in wakers.iter().enumerate() {
                if let (Some(id), Some(other_id)) = (WakerId::of(waker), WakerId::of(&other.clone())) {
                    assert_eq!(id == other_id, a == b, "{waker:?} and {other:?}");
                    assert_eq!(id.is_of(other), a == b, "{waker:?} and {other:?}");
                }
            }
        }
        // How many depends on what other tests of this process have shown it.
        assert!(wakers.iter().any(|waker| WakerId::of(waker).is_none()), "there are more kinds than places");
    }

    #[test]
    fn it_tells_many_of_one_kind_apart() {
        let wakers: Vec<Waker> = (0..1_000).map(|_| Arc::<KnownWaker>::default().into()).collect();
        let ids: Vec<WakerId> = wakers.iter().filter_map(WakerId::of).collect();
        assert_eq!(ids.len(), wakers.len());
        for (n, id) in ids.iter().enumerate() {
            assert!(!ids[..n].contains(id), "{n}");
        }
    }

    #[test]
    fn it_takes_8_bytes_also_where_there_may_be_none() {
        assert_eq!(size_of::<Option<Option<WakerId>>>(), 8);
    }
}

//! Eight bytes that tell whether two wakers are the same.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;

/// The two addresses of a waker: of its data and of its functions. Two wakers that are alive at the same time and have the
/// same addresses wake the same task.
///
/// A process has very many wakers but few kinds of them. A kind is the address of the functions. The first waker of a kind
/// registers it, so a kind takes one byte here.
// One word, with the kind's number in its upper byte and the other address below, so that it moves in a register. If its
// parts were written one by one and read as a whole soon after, the processor would wait until all were in its cache.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct WakerId(NonZeroU64);

/// The address of the functions of each kind, or zero as long as there is none. The first kind has the number 1.
///
/// Tasks and `block_on` are two; `join_all` and its likes have one for each type of future. Wakers of kinds beyond those
/// that there is room for have no [`WakerId`]: polling a timer again with one takes the shard's lock.
static VTABLES: [AtomicUsize; WakerId::KINDS as usize] =
    [const { AtomicUsize::new(0) }; WakerId::KINDS as usize];

/// So many are looked at without a call: more than most processes have.
const FIRST: usize = 8;

/// Bits below the number of the kind.
const ADDRESS_BITS: u32 = 56;

impl WakerId {
    /// How many kinds can be told apart. Their numbers are 1 to this one.
    pub(crate) const KINDS: u8 = 64;

    /// `None` if the waker's kind has no number.
    #[inline]
    pub(crate) fn of(waker: &Waker) -> Option<Self> {
        let vtable = std::ptr::from_ref(waker.vtable()).addr();
        // Relaxed: the address is the whole message.
        let known = VTABLES[..FIRST].iter().position(|known| known.load(Ordering::Relaxed) == vtable);
        let place = known.or_else(|| find_or_remember(vtable))?;
        let kind = NonZeroU64::new((place as u64 + 1) << ADDRESS_BITS)?;
        let data = waker.data().addr() as u64;
        (data >> ADDRESS_BITS == 0).then_some(Self(kind | data))
    }

    /// All of its bits. The upper byte is 1 to [`KINDS`](Self::KINDS).
    #[inline]
    pub(crate) const fn to_bits(self) -> NonZeroU64 {
        self.0
    }

    /// The id that had these [bits](Self::to_bits).
    #[inline]
    pub(crate) const fn from_bits(bits: NonZeroU64) -> Self {
        Self(bits)
    }

    /// Whether that waker has these addresses. With fewer instructions than to look for its kind among all.
    #[inline]
    pub(crate) fn is_of(self, waker: &Waker) -> bool {
        let word = self.0.get();
        let (kind, data) = (word >> ADDRESS_BITS, word & ((1 << ADDRESS_BITS) - 1));
        let vtable = usize::try_from(kind - 1).ok().and_then(|place| VTABLES.get(place));
        data == waker.data().addr() as u64
            && vtable.is_some_and(|known| {
                known.load(Ordering::Relaxed) == std::ptr::from_ref(waker.vtable()).addr()
            })
    }
}

impl fmt::Debug for WakerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WakerId({:#x})", self.0)
    }
}

#[inline(never)]
fn find_or_remember(vtable: usize) -> Option<usize> {
    VTABLES.iter().position(|known| {
        // A look first, because an attempt takes the cache line away from all who only look.
        let known = match known.load(Ordering::Relaxed) {
            0 => known
                .compare_exchange(0, vtable, Ordering::Relaxed, Ordering::Relaxed)
                .map_or_else(|k| k, |_| vtable),
            known => known,
        };
        known == vtable
    })
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

    /// Each pair of numbers is a kind of its own.
    struct Of<const ROW: usize, const KIND: usize>;

    impl<const ROW: usize, const KIND: usize> Wake for Of<ROW, KIND> {
        fn wake(self: Arc<Self>) {
            std::hint::black_box((ROW, KIND));
        }
    }

    fn waker<const ROW: usize, const KIND: usize>() -> Waker {
        Arc::new(Of::<ROW, KIND>).into()
    }

    fn row<const ROW: usize>() -> [Waker; 8] {
        [
            waker::<ROW, 0>(),
            waker::<ROW, 1>(),
            waker::<ROW, 2>(),
            waker::<ROW, 3>(),
            waker::<ROW, 4>(),
            waker::<ROW, 5>(),
            waker::<ROW, 6>(),
            waker::<ROW, 7>(),
        ]
    }

    /// More kinds than there is room for.
    fn rows() -> Vec<Waker> {
        let rows =
            [row::<0>(), row::<1>(), row::<2>(), row::<3>(), row::<4>(), row::<5>(), row::<6>(), row::<7>()];
        rows.into_iter().flatten().chain(row::<8>()).collect()
    }

    #[test]
    fn it_tells_wakers_and_kinds_apart_and_knows_a_clone_or_says_that_it_cannot() {
        // All but the last two have data of their own.
        let mut wakers = vec![Arc::<KnownWaker>::default().into(), waker::<0, 0>()];
        wakers.extend(rows());
        wakers.extend([Waker::noop().clone(), futures::task::noop_waker()]);
        for (a, waker) in wakers.iter().enumerate() {
            for (b, other) in wakers.iter().enumerate() {
                if let (Some(id), Some(other_id)) = (WakerId::of(waker), WakerId::of(&other.clone())) {
                    assert_eq!(id == other_id, a == b, "{waker:?} and {other:?}");
                    assert_eq!(id.is_of(other), a == b, "{waker:?} and {other:?}");
                }
            }
        }
        // How many depends on what other tests of this process have shown it.
        let known = wakers.iter().filter(|waker| WakerId::of(waker).is_some()).count();
        assert!((48..wakers.len()).contains(&known), "{known} are known, of {} kinds", wakers.len());
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
        assert_eq!(size_of::<Option<WakerId>>(), 8);
    }
}

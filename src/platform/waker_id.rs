//! The identity of a waker, in 8 bytes.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;

/// A waker's two addresses, that of its functions and that of its data. Two wakers that are alive at the same time and
/// have the same addresses wake the same task.
///
/// A process has very many wakers, but few kinds of them. Wakers of one kind have the same functions. So kinds are
/// numbered in the order in which they are first seen, and here a kind takes one byte.
// This is one word, so that it is moved in a register: the upper byte is the kind's number, the lower bits are the address
// of the data, and six bits between them are left to others. If it were written in parts and read as a whole soon after,
// the processor would wait until all parts are in its cache.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct WakerId(NonZeroU64);

/// The address of each kind's functions, or zero where no kind is known yet. The first kind has the number 1.
///
/// Tasks are one kind, and `block_on` another; `join_all` and its likes have one for each type of future. When there
/// are more kinds than there is room for, the wakers of the others have no [`WakerId`]: to poll a timer again with such
/// a waker takes the shard's lock.
static VTABLES: [AtomicUsize; WakerId::KINDS as usize] =
    [const { AtomicUsize::new(0) }; WakerId::KINDS as usize];

/// So many kinds are searched without a call. Most processes have fewer.
const FIRST: usize = 8;

/// The kind's number stands above these bits.
const KIND_SHIFT: u32 = 56;

/// As many bits as the addresses of processes have today, and two more. A waker beyond them cannot be told from others.
const ADDRESS_BITS: u32 = 50;

impl WakerId {
    /// The bits that are zero in each id: for whoever keeps one and has something to say beside it.
    pub(crate) const UNUSED: u64 = (1 << KIND_SHIFT) - (1 << ADDRESS_BITS);

    /// How many kinds can be told apart. Their numbers are 1 to this.
    pub(crate) const KINDS: u8 = 64;

    /// The id of a waker. `None` if there is no room for its kind, or if its data's address takes more than 50 bits.
    #[inline]
    pub(crate) fn of(waker: &Waker) -> Option<Self> {
        let vtable = std::ptr::from_ref(waker.vtable()).addr();
        // Relaxed: no other memory goes with the address.
        let known = VTABLES[..FIRST].iter().position(|known| known.load(Ordering::Relaxed) == vtable);
        let place = known.or_else(|| find_or_remember(vtable))?;
        let kind = NonZeroU64::new((place as u64 + 1) << KIND_SHIFT)?;
        let data = waker.data().addr() as u64;
        (data >> ADDRESS_BITS == 0).then_some(Self(kind | data))
    }

    /// The id as a number, whose upper byte is 1 to [`KINDS`](Self::KINDS).
    #[inline]
    pub(crate) const fn to_bits(self) -> NonZeroU64 {
        self.0
    }

    /// The id that had these [bits](Self::to_bits), whatever stands in those that are [unused](Self::UNUSED).
    #[inline]
    pub(crate) const fn from_bits(bits: NonZeroU64) -> Self {
        match NonZeroU64::new(bits.get() & !Self::UNUSED) {
            Some(bits) => Self(bits),
            // No kind has the number zero.
            None => Self(bits),
        }
    }

    /// Whether `waker` has these addresses. This takes fewer instructions than to make its id, which searches for its
    /// kind.
    #[inline]
    pub(crate) fn is_of(self, waker: &Waker) -> bool {
        let word = self.0.get();
        let (kind, data) = (word >> KIND_SHIFT, word & ((1 << ADDRESS_BITS) - 1));
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

/// The place of the kind whose functions are at `vtable`. A new kind takes the first free place. `None` if there is
/// none.
#[inline(never)]
fn find_or_remember(vtable: usize) -> Option<usize> {
    VTABLES.iter().position(|known| {
        // Read before the exchange is tried: an attempt takes the cache line away from all threads that only read.
        let known = match known.load(Ordering::Relaxed) {
            0 => known
                .compare_exchange(0, vtable, Ordering::Relaxed, Ordering::Relaxed)
                .map_or_else(|k| k, |_| vtable),
            known => known,
        };
        known == vtable
    })
}

/// A waker for tests that need its kind to be known. The tests below, which use up the kinds, show it first.
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

    /// A waker of a kind of its own for each pair of numbers.
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
        // All but the last two have their own data.
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
        // The number depends on the kinds that other tests of this process have shown.
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

//! The names of timers, and their places in order.

use std::error::Error;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The name of a timer, from its save to its end: the time at which it was first due, and a number of its own.
///
/// It stays the same when the timer is moved or tried again. serde has it as its text. Ids are ordered as the timers fell due at first. As text an
/// id has 33 characters, as bytes 16; both are ordered as ids are.
///
/// # Examples
///
/// ```
/// use timingwheel_durable::TimerId;
///
/// let id: TimerId = "800001979b5c0c00-0000000100000007".parse()?;
/// assert_eq!(id.first_due().to_string(), "2025-06-23T05:56:30.336Z");
/// assert_eq!(id.to_string().parse::<TimerId>()?, id);
/// assert_eq!(TimerId::from_bytes(id.to_bytes()), id);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimerId {
    pub(crate) due_ms: i64,
    pub(crate) unique: u64,
}

impl TimerId {
    /// The id of a timer that is first due then, with a number that no other timer of its store has.
    ///
    /// A fraction of a millisecond counts as a whole one.
    #[must_use]
    pub fn new(first_due: Timestamp, unique: u64) -> Self {
        Self { due_ms: millis(first_due), unique }
    }

    /// The time at which the timer was first due.
    #[must_use]
    pub fn first_due(self) -> Timestamp {
        timestamp(self.due_ms)
    }

    /// The number that no other timer of the store has. All occurrences of a series share it, until a wrong clock is put right: the
    /// series gets a new one then, as instants that ran by the wrong clock may come again.
    #[must_use]
    pub const fn unique(self) -> u64 {
        self.unique
    }

    /// Sixteen bytes, ordered as ids are.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.place().to_number().to_be_bytes()
    }

    /// The id that [`to_bytes`](Self::to_bytes) made these of.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        let place = Place::from_number(u128::from_be_bytes(bytes));
        Self { due_ms: place.due_ms, unique: place.unique }
    }

    /// Where the timer stands as long as it has not been moved.
    pub(crate) const fn place(self) -> Place {
        Place { due_ms: self.due_ms, unique: self.unique }
    }
}

impl fmt::Display for TimerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.place().to_number();
        write!(f, "{:016x}-{:016x}", number >> 64, self.unique)
    }
}

impl fmt::Debug for TimerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TimerId({self})")
    }
}

impl FromStr for TimerId {
    type Err = TimerIdError;

    fn from_str(text: &str) -> Result<Self, TimerIdError> {
        let error = || TimerIdError(text.to_owned());
        let (due, unique) = text.split_once('-').ok_or_else(error)?;
        let part = |part: &str| {
            let is_hex = part.len() == 16 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
            if is_hex { u64::from_str_radix(part, 16).map_err(|_| error()) } else { Err(error()) }
        };
        let number = u128::from(part(due)?) << 64 | u128::from(part(unique)?);
        let id = Self::from_bytes(number.to_be_bytes());
        // No timer is due outside the years of `Timestamp`.
        if Timestamp::from_millisecond(id.due_ms).is_err() {
            return Err(error());
        }
        Ok(id)
    }
}

/// As its text.
impl Serialize for TimerId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TimerId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A text that is no id of a timer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimerIdError(String);

impl fmt::Display for TimerIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the id of a timer must be two numbers of 16 hexadecimal digits with `-` between, got {:?}",
            self.0
        )
    }
}

impl Error for TimerIdError {}

/// Where a timer stands in the order of a store: its present due time, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub(crate) due_ms: i64,
    pub(crate) unique: u64,
}

impl Place {
    /// Before all timers.
    pub const FIRST: Self = Self { due_ms: i64::MIN, unique: 0 };

    /// After all timers that are due by then, and before all others.
    #[must_use]
    pub fn last_of(due: Timestamp) -> Self {
        // Rounded down: a timer of the millisecond that has begun is due later.
        Self { due_ms: floor_millis(due), unique: u64::MAX }
    }

    /// When a timer at this place is due.
    #[must_use]
    pub fn due(self) -> Timestamp {
        timestamp(self.due_ms)
    }

    /// One number, ordered as places are: the sign of the time is turned, so that times before 1970 come first.
    pub(crate) const fn to_number(self) -> u128 {
        ((self.due_ms.cast_unsigned() ^ SIGN) as u128) << 64 | self.unique as u128
    }

    #[allow(clippy::cast_possible_truncation, reason = "each half is what it was")]
    pub(crate) const fn from_number(number: u128) -> Self {
        Self { due_ms: ((number >> 64) as u64 ^ SIGN).cast_signed(), unique: number as u64 }
    }
}

/// A number that no other process draws. It is the system's and not `fastrand`'s, whose generators follow from that of the thread:
/// a program may have given it a seed, the same in each of its processes.
#[cfg(any(feature = "postgres", feature = "redb"))]
pub(crate) fn drawn() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(())
}

/// Nanoseconds in a millisecond.
const NANOS: i128 = 1_000_000;

const SIGN: u64 = 1 << 63;

/// The first millisecond that is not before this.
pub(crate) fn millis(at: Timestamp) -> i64 {
    let nanos = at.as_nanosecond();
    let up = nanos.div_euclid(NANOS) + i128::from(nanos.rem_euclid(NANOS) != 0);
    // The last second has milliseconds that are no timestamps.
    i64::try_from(up).unwrap_or(i64::MAX).min(Timestamp::MAX.as_second() * 1_000)
}

/// The millisecond that this is in.
pub(crate) fn floor_millis(at: Timestamp) -> i64 {
    i64::try_from(at.as_nanosecond().div_euclid(NANOS)).unwrap_or(i64::MAX)
}

/// The instant of a millisecond, kept within the years of `Timestamp`.
pub(crate) fn timestamp(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap_or(if millis < 0 { Timestamp::MIN } else { Timestamp::MAX })
}

/// So much later, but not after the last year of `Timestamp`.
pub(crate) fn later(at: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    at.saturating_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_texts_and_bytes_have_one_order() {
        let times =
            [Timestamp::MIN, "1969-12-31T23:59:59Z".parse().unwrap(), Timestamp::UNIX_EPOCH, Timestamp::MAX];
        let mut ids: Vec<TimerId> = Vec::new();
        for time in times {
            ids.extend([0, 1, u64::MAX].map(|unique| TimerId::new(time, unique)));
        }
        assert!(ids.is_sorted());
        assert!(ids.iter().map(ToString::to_string).is_sorted());
        assert!(ids.iter().map(|id| id.to_bytes()).is_sorted());
        for id in ids {
            assert_eq!(id.to_string().parse(), Ok(id));
            assert_eq!(TimerId::from_bytes(id.to_bytes()), id);
        }
    }

    #[cfg(any(feature = "postgres", feature = "redb"))]
    #[test]
    fn processes_whose_programs_seed_the_generator_of_the_thread_draw_different_numbers() {
        let drawn = [1, 1].map(|seed| {
            fastrand::seed(seed);
            drawn()
        });
        assert_ne!(drawn[0], drawn[1]);
    }

    #[test]
    fn a_fraction_of_a_millisecond_counts_as_a_whole_one() {
        let at = |nanos| millis(Timestamp::from_nanosecond(nanos).unwrap());
        assert_eq!([at(0), at(1), at(1_000_000), at(1_000_001)], [0, 1, 1, 2]);
        assert_eq!([at(-1), at(-1_000_000), at(-1_000_001)], [0, -1, -1]);
        assert_eq!(timestamp(millis(Timestamp::MAX)).as_second(), Timestamp::MAX.as_second());
    }

    #[test]
    fn what_is_no_id_is_refused_with_what_was_given() {
        for text in ["", "7", "800001979b5c0c00", "800001979b5c0c00-7", "+00001979b5c0c00-0000000100000007"] {
            let error = text.parse::<TimerId>().unwrap_err();
            assert!(error.to_string().ends_with(&format!("got {text:?}")), "{error}");
        }
        assert!("ffffffffffffffff-0000000000000000".parse::<TimerId>().is_err(), "beyond the year 9999");
    }
}

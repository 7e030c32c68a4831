//! A timer as bytes, with a check of them.

use crate::id::{Place, TimerId, floor_millis, timestamp};
use crate::store::{Failure, Near, NewTimer, Series, Stored};

/// The layout of the bytes. From the second one on the number of crashes stands before the payload, and from the third one on
/// the times of the timer and of its failures do.
const LAYOUT: u8 = 1;
const WITH_CRASHES: u8 = 2;
const WITH_TIMES: u8 = 3;

/// For a time that is not known.
const NEVER: i64 = i64::MIN;

mod flag {
    pub(super) const CANCELLED: u8 = 1;
    pub(super) const KEY: u8 = 2;
    pub(super) const SERIES: u8 = 4;
    pub(super) const MADE: u8 = 8;
    pub(super) const BURIED: u8 = 16;
}

/// Bytes that are no timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowError;

/// The bytes after the beginning, with what says how to read them.
pub(crate) struct Rest<'a> {
    layout: u8,
    flags: u8,
    from: Reader<'a>,
}

/// The check covers the key too, because the due time is in it.
fn check_of(key: u128, bytes: &[u8]) -> u32 {
    let mut check = crc32fast::Hasher::new();
    check.update(&key.to_be_bytes());
    check.update(bytes);
    check.finalize()
}

impl Stored {
    /// The bytes that stand at this key.
    pub(crate) fn to_bytes(&self, at: u128) -> Vec<u8> {
        let Self {
            timer,
            kind,
            payload,
            key,
            series,
            attempts,
            crashes,
            failures,
            cancelled,
            version,
            state: _,
            times,
        } = self;
        let mut flags = 0;
        for (is_set, flag) in [
            (*cancelled, flag::CANCELLED),
            (key.is_some(), flag::KEY),
            (series.is_some(), flag::SERIES),
            (times.made.is_some(), flag::MADE),
            (times.buried.is_some(), flag::BURIED),
        ] {
            flags |= if is_set { flag } else { 0 };
        }
        let mut to = Vec::with_capacity(40 + kind.len() + payload.len());
        to.extend([0; 4]);
        to.extend([WITH_TIMES, flags]);
        to.extend(attempts.to_le_bytes());
        to.extend(version.to_le_bytes());
        to.extend(timer.id.due_ms.to_le_bytes());
        write_text(&mut to, kind);
        if let Some(key) = key {
            write_text(&mut to, key);
        }
        if let Some(series) = series {
            write_text(&mut to, &series.rule);
            write_text(&mut to, &series.missed.to_string());
            write_text(&mut to, &series.standing());
        }
        to.extend(length(failures.len()).to_le_bytes());
        for Failure { attempt, error, at } in failures {
            to.extend(attempt.to_le_bytes());
            write_text(&mut to, error);
            to.extend(at.map_or(NEVER, floor_millis).to_le_bytes());
        }
        to.extend(crashes.to_le_bytes());
        for at in [times.made, times.buried].into_iter().flatten() {
            to.extend(floor_millis(at).to_le_bytes());
        }
        to.extend(payload);
        let check = check_of(at, &to[4..]);
        to[..4].copy_from_slice(&check.to_le_bytes());
        to
    }

    /// The timer that stands at this key, as far as calls need it that look at very many: its name, its place, and its kind. Refuses
    /// bytes whose check is wrong. With a wrong bit, a timer might run at another time.
    pub(crate) fn beginning(at: u128, bytes: &[u8]) -> Result<(Self, Rest<'_>), RowError> {
        let mut from = Reader(bytes);
        let check = u32::from_le_bytes(from.array()?);
        if check != check_of(at, from.0) {
            return Err(RowError);
        }
        let [layout, flags] = from.array()?;
        if !(LAYOUT..=WITH_TIMES).contains(&layout) {
            return Err(RowError);
        }
        let attempts = u32::from_le_bytes(from.array()?);
        let version = u32::from_le_bytes(from.array()?);
        let first_ms = i64::from_le_bytes(from.array()?);
        let Place { due_ms, unique } = Place::from_number(at);
        let timer = Near { due_ms, id: TimerId { due_ms: first_ms, unique } };
        let cancelled = flags & flag::CANCELLED != 0;
        let new = NewTimer::new(timer.id, from.text()?, Vec::new());
        Ok((Self { timer, attempts, version, cancelled, ..new.into() }, Rest { layout, flags, from }))
    }

    /// The row that stands at this key.
    pub(crate) fn from_bytes(at: u128, bytes: &[u8]) -> Result<Self, RowError> {
        let (mut row, Rest { layout, flags, mut from }) = Self::beginning(at, bytes)?;
        if flags & flag::KEY != 0 {
            row.key = Some(from.text()?.to_owned());
        }
        if flags & flag::SERIES != 0 {
            let (rule, missed, standing) = (from.text()?.to_owned(), from.text()?, from.text()?);
            row.series = Some(Series::from_texts(rule, missed, standing).map_err(|_| RowError)?);
        }
        for _ in 0..u32::from_le_bytes(from.array()?) {
            let attempt = u32::from_le_bytes(from.array()?);
            let error = from.text()?.to_owned();
            let at = if layout >= WITH_TIMES { i64::from_le_bytes(from.array()?) } else { NEVER };
            row.failures.push(Failure { attempt, error, at: (at != NEVER).then(|| timestamp(at)) });
        }
        if layout >= WITH_CRASHES {
            row.crashes = u32::from_le_bytes(from.array()?);
        }
        for (flag, at) in [(flag::MADE, &mut row.times.made), (flag::BURIED, &mut row.times.buried)] {
            if flags & flag != 0 {
                *at = Some(timestamp(i64::from_le_bytes(from.array()?)));
            }
        }
        row.payload = from.0.to_vec();
        Ok(row)
    }
}

fn write_text(to: &mut Vec<u8>, text: &str) {
    to.extend(length(text.len()).to_le_bytes());
    to.extend(text.as_bytes());
}

/// A value of the store has less than 3 GiB, so each length fits.
fn length(len: usize) -> u32 {
    u32::try_from(len).expect("a text of less than 4 GiB")
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], RowError> {
        let (array, rest) = self.0.split_first_chunk().ok_or(RowError)?;
        self.0 = rest;
        Ok(*array)
    }

    fn text(&mut self) -> Result<&'a str, RowError> {
        let len = u32::from_le_bytes(self.array()?) as usize;
        let (text, rest) = self.0.split_at_checked(len).ok_or(RowError)?;
        self.0 = rest;
        str::from_utf8(text).map_err(|_| RowError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Missed;
    use crate::store::{State, Times};

    const AT: u128 = Place { due_ms: -7, unique: 9 }.to_number();

    fn full() -> Stored {
        Stored {
            timer: TimerId { due_ms: -7, unique: 9 }.into(),
            kind: "report".into(),
            payload: b"{\"a\":1}".to_vec(),
            key: Some("monthly".into()),
            series: Some(Series::new("cron 0 9 * * * in UTC".into(), Missed::each(3))),
            attempts: 4,
            crashes: 2,
            failures: vec![
                Failure { attempt: 3, error: "no".into(), at: Some(timestamp(5)) },
                Failure { attempt: 4, error: String::new(), at: None },
            ],
            cancelled: true,
            version: 5,
            state: State::Stored,
            times: Times { made: Some(timestamp(-9)), begun: None, buried: Some(timestamp(7)), ended: None },
        }
    }

    #[test]
    fn a_row_is_read_back_as_it_was_written() {
        let bare = Stored {
            key: None,
            series: None,
            failures: Vec::new(),
            cancelled: false,
            payload: Vec::new(),
            crashes: 0,
            times: Times::default(),
            ..full()
        };
        for row in [full(), bare] {
            let bytes = row.to_bytes(AT);
            assert_eq!(Stored::from_bytes(AT, &bytes), Ok(row.clone()));
            let (head, _) = Stored::beginning(AT, &bytes).unwrap();
            assert_eq!((head.timer, head.kind), (row.timer, row.kind));
        }
    }

    #[test]
    fn bytes_with_any_bit_turned_cut_off_or_at_another_place_are_refused() {
        let bytes = full().to_bytes(AT);
        for len in 0..bytes.len() {
            assert_eq!(Stored::from_bytes(AT, &bytes[..len]), Err(RowError), "{len}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Stored::from_bytes(AT, &damaged), Err(RowError), "{bit}");
        }
        assert_eq!(Stored::from_bytes(AT ^ 1 << 70, &bytes), Err(RowError));
    }
}

//! A timer as it is stored, and the bytes of it.

#[cfg(feature = "redb")]
use crate::id::Place;
use crate::id::TimerId;
use crate::store::{Failure, Series};

/// A timer that is stored, begun or buried. Where it stands is not in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) id: TimerId,
    pub(crate) kind: String,
    pub(crate) payload: Vec<u8>,
    pub(crate) key: Option<String>,
    pub(crate) series: Option<Series>,
    pub(crate) attempts: u32,
    pub(crate) failures: Vec<Failure>,
    pub(crate) ending: bool,
}

/// The layout of the bytes that this version writes.
#[cfg(feature = "redb")]
const LAYOUT: u8 = 1;

#[cfg(feature = "redb")]
mod flag {
    pub(super) const ENDING: u8 = 1;
    pub(super) const KEY: u8 = 2;
    pub(super) const SERIES: u8 = 4;
}

/// Bytes that are no timer.
#[cfg(feature = "redb")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowError;

/// What stands at the beginning of the bytes, for who looks at very many.
#[cfg(feature = "redb")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeadView<'a> {
    flags: u8,
    attempts: u32,
    /// The first due time.
    pub(crate) due_ms: i64,
    pub(crate) kind: &'a str,
    rest: &'a [u8],
}

#[cfg(feature = "redb")]
impl<'a> HeadView<'a> {
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, RowError> {
        let mut from = Reader(bytes);
        let [layout, flags] = from.array()?;
        if layout != LAYOUT {
            return Err(RowError);
        }
        let attempts = u32::from_le_bytes(from.array()?);
        let due_ms = i64::from_le_bytes(from.array()?);
        let kind = from.text()?;
        Ok(Self { flags, attempts, due_ms, kind, rest: from.0 })
    }
}

#[cfg(feature = "redb")]
impl Row {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let Self { id, kind, payload, key, series, attempts, failures, ending } = self;
        let mut flags = 0;
        for (is_set, flag) in
            [(*ending, flag::ENDING), (key.is_some(), flag::KEY), (series.is_some(), flag::SERIES)]
        {
            flags |= if is_set { flag } else { 0 };
        }
        let mut to = Vec::with_capacity(32 + kind.len() + payload.len());
        to.extend([LAYOUT, flags]);
        to.extend(attempts.to_le_bytes());
        to.extend(id.due_ms.to_le_bytes());
        write_text(&mut to, kind);
        if let Some(key) = key {
            write_text(&mut to, key);
        }
        if let Some(series) = series {
            write_text(&mut to, &series.to_string());
        }
        to.extend(length(failures.len()).to_le_bytes());
        for Failure { attempt, error } in failures {
            to.extend(attempt.to_le_bytes());
            write_text(&mut to, error);
        }
        to.extend(payload);
        to
    }

    /// The row of a timer that is over, as [`take_over`](super::Tables::take_over) needs it. To copy the kind, the payload and
    /// the failures was an eighth of a settle.
    pub(crate) fn over(at: Place, bytes: &[u8]) -> Result<Self, RowError> {
        let HeadView { flags, attempts, due_ms, .. } = HeadView::read(bytes)?;
        if flags != 0 || due_ms != at.due_ms {
            return Self::from_bytes(at.unique, bytes);
        }
        Ok(Self {
            id: TimerId { due_ms, unique: at.unique },
            kind: String::new(),
            payload: Vec::new(),
            key: None,
            series: None,
            attempts,
            failures: Vec::new(),
            ending: false,
        })
    }

    pub(crate) fn from_bytes(unique: u64, bytes: &[u8]) -> Result<Self, RowError> {
        let HeadView { flags, attempts, due_ms, kind, rest } = HeadView::read(bytes)?;
        let mut from = Reader(rest);
        let key = if flags & flag::KEY == 0 { None } else { Some(from.text()?.to_owned()) };
        let series =
            if flags & flag::SERIES == 0 { None } else { Some(from.text()?.parse().map_err(|_| RowError)?) };
        let mut failures = Vec::new();
        for _ in 0..u32::from_le_bytes(from.array()?) {
            let attempt = u32::from_le_bytes(from.array()?);
            failures.push(Failure { attempt, error: from.text()?.to_owned() });
        }
        let id = TimerId { due_ms, unique };
        let ending = flags & flag::ENDING != 0;
        Ok(Self {
            id,
            kind: kind.to_owned(),
            payload: from.0.to_vec(),
            key,
            series,
            attempts,
            failures,
            ending,
        })
    }
}

#[cfg(feature = "redb")]
fn write_text(to: &mut Vec<u8>, text: &str) {
    to.extend(length(text.len()).to_le_bytes());
    to.extend(text.as_bytes());
}

/// Of what fits into memory beside the row, and into a value of the store: less than 3 GiB.
#[cfg(feature = "redb")]
fn length(len: usize) -> u32 {
    u32::try_from(len).expect("a text of less than 4 GiB")
}

#[cfg(feature = "redb")]
struct Reader<'a>(&'a [u8]);

#[cfg(feature = "redb")]
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

#[cfg(all(test, feature = "redb"))]
mod tests {
    use super::*;
    use crate::Missed;

    fn full() -> Row {
        Row {
            id: TimerId { due_ms: -7, unique: 9 },
            kind: "report".into(),
            payload: b"{\"a\":1}".to_vec(),
            key: Some("monthly".into()),
            series: Some(Series::new("cron 0 9 * * * in UTC".into(), Missed::each(3))),
            attempts: 4,
            failures: vec![
                Failure { attempt: 3, error: "no".into() },
                Failure { attempt: 4, error: String::new() },
            ],
            ending: true,
        }
    }

    #[test]
    fn a_row_is_read_back_as_it_was_written() {
        let bare = Row {
            key: None,
            series: None,
            failures: Vec::new(),
            ending: false,
            payload: Vec::new(),
            ..full()
        };
        for row in [full(), bare] {
            let bytes = row.to_bytes();
            assert_eq!(Row::from_bytes(9, &bytes), Ok(row.clone()));
            let head = HeadView::read(&bytes).unwrap();
            assert_eq!((head.due_ms, head.kind), (-7, "report"));
        }
    }

    #[test]
    fn of_what_is_over_only_that_is_left_out_which_nothing_needs() {
        let bare = Row { key: None, series: None, ending: false, ..full() };
        let at = bare.id.place();
        let over = Row::over(at, &bare.to_bytes()).unwrap();
        assert_eq!(
            over,
            Row { kind: String::new(), payload: Vec::new(), failures: Vec::new(), ..bare.clone() }
        );
        let moved = Place { due_ms: at.due_ms + 1, ..at };
        assert_eq!(Row::over(moved, &bare.to_bytes()), Ok(bare.clone()));
        let (full, series) = (full(), full().series);
        for row in [
            Row { key: full.key, ..bare.clone() },
            Row { series, ..bare.clone() },
            Row { ending: true, ..bare.clone() },
        ] {
            assert_eq!(Row::over(at, &row.to_bytes()), Ok(row));
        }
    }

    #[test]
    fn bytes_that_are_cut_off_or_of_another_layout_are_refused() {
        let row = full();
        let bytes = row.to_bytes();
        for len in 0..bytes.len() - row.payload.len() {
            assert_eq!(Row::from_bytes(9, &bytes[..len]), Err(RowError), "{len}");
        }
        let mut newer = bytes;
        newer[0] += 1;
        assert_eq!(Row::from_bytes(9, &newer), Err(RowError));
    }
}

//! [`Header`]: how the time that is left is read and written.

use std::str::FromStr;
use std::time::Duration;

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};

/// The header in which the time that is left travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Header {
    /// `grpc-timeout`, in [gRPC's format](format_grpc_timeout).
    Grpc,
    /// A header of your own, in whole milliseconds.
    Millis(HeaderName),
}

/// How much of a header that cannot be read an answer repeats, in bytes.
const REPEATED: usize = 32;

impl Header {
    fn name(&self) -> HeaderName {
        match self {
            Self::Grpc => HeaderName::from_static("grpc-timeout"),
            Self::Millis(name) => name.clone(),
        }
    }

    fn parse(&self, text: &str) -> Option<Duration> {
        match self {
            Self::Grpc => parse_grpc_timeout(text),
            Self::Millis(_) => number(text).map(Duration::from_millis),
        }
    }

    /// The time in the headers, if there is one, and of several the least; as the error, what is wrong with one.
    pub(super) fn read(&self, headers: &HeaderMap) -> Result<Option<Duration>, String> {
        let name = self.name();
        let times = headers.get_all(&name).iter().map(|value| {
            self.parse(value.to_str().unwrap_or_default()).ok_or_else(|| {
                let allowed = match self {
                    Self::Grpc => "one to eight digits and a unit of H, M, S, m, u, n",
                    Self::Millis(_) => "a whole number of milliseconds",
                };
                let given = &value.as_bytes()[..value.len().min(REPEATED)];
                let rest = if value.len() > REPEATED { "..." } else { "" };
                format!("{name} takes {allowed}, got \"{}\"{rest}", given.escape_ascii())
            })
        });
        times.reduce(|one, other| Ok(one?.min(other?))).transpose()
    }

    /// Writes what is `left`, or a lesser time that is there already. Rounds down, so that the callee ends first. Returns
    /// what it says, or `None` if that is nothing: many servers take a zero for no limit.
    pub(super) fn write(&self, headers: &mut HeaderMap, left: Duration) -> Option<Duration> {
        let there = self.read(headers).ok().flatten();
        let left = there.map_or(left, |there| there.min(left));
        let text = match self {
            Self::Grpc => format_grpc_timeout(left),
            Self::Millis(_) => left.as_millis().min(u64::MAX.into()).to_string(),
        };
        headers.insert(self.name(), HeaderValue::from_str(&text).expect("digits and a letter"));
        self.parse(&text).filter(|sent| !sent.is_zero())
    }
}

/// Digits alone: `parse` also takes a sign.
fn number<N: FromStr>(text: &str) -> Option<N> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The units of gRPC, the finest first.
const UNITS: [(char, Duration); 6] = [
    ('n', Duration::from_nanos(1)),
    ('u', Duration::from_micros(1)),
    ('m', Duration::from_millis(1)),
    ('S', Duration::from_secs(1)),
    ('M', Duration::from_secs(60)),
    ('H', Duration::from_secs(3600)),
];

/// Reads the value of a `grpc-timeout`: one to eight digits and a unit. `None` if it is anything else.
///
/// ```
/// # use std::time::Duration;
/// # use timingwheel_deadline::wire::parse_grpc_timeout;
/// assert_eq!(parse_grpc_timeout("250m"), Some(Duration::from_millis(250)));
/// assert_eq!(parse_grpc_timeout("2H"), Some(Duration::from_secs(7200)));
/// assert_eq!(parse_grpc_timeout("123456789n"), None, "nine digits");
/// assert_eq!(parse_grpc_timeout("1.5S"), None);
/// ```
#[must_use]
pub fn parse_grpc_timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = UNITS.iter().find_map(|(name, unit)| Some((text.strip_suffix(*name)?, *unit)))?;
    // Eight digits of hours are fewer than 2^39 seconds.
    number(digits).filter(|_| digits.len() <= 8).map(|count: u32| unit * count)
}

/// The value of a `grpc-timeout` for `left`, in the finest unit that takes eight digits at most. It is rounded down, and
/// capped at 99,999,999 hours.
///
/// ```
/// # use std::time::Duration;
/// # use timingwheel_deadline::wire::format_grpc_timeout;
/// assert_eq!(format_grpc_timeout(Duration::from_millis(20)), "20000000n");
/// assert_eq!(format_grpc_timeout(Duration::from_nanos(1_999_999_999)), "1999999u");
/// ```
#[must_use]
pub fn format_grpc_timeout(left: Duration) -> String {
    const MOST: u128 = 99_999_999;
    let mut counts = UNITS.iter().map(|(name, unit)| (left.as_nanos() / unit.as_nanos(), name));
    let (count, name) = counts.find(|(count, _)| *count <= MOST).unwrap_or((MOST, &'H'));
    format!("{count}{name}")
}

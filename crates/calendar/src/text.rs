//! Helpers for reading texts: words one after the other, zones by their names, and a mark under a mistake.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use jiff::fmt::temporal::{DateTimeParser, DateTimePrinter};
use jiff::tz::TimeZone;

/// A mistake in a text, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mistake {
    pub(crate) text: String,
    /// In bytes.
    pub(crate) place: Range<usize>,
    pub(crate) problem: String,
    /// The values that are expected there.
    pub(crate) hint: Option<String>,
}

impl Mistake {
    /// A text that is too long to be quoted whole.
    pub(crate) fn too_long(what: &str, text: &str, most: usize) -> Self {
        const QUOTED: usize = 60;
        let quoted: String = text.chars().take(QUOTED).collect();
        let place = quoted.len()..quoted.len();
        let problem = format!("{what} must be at most {most} bytes long, got {}", text.len());
        Self { text: quoted, place, problem, hint: None }
    }
}

/// The problem, the text, and a mark under the place, in a line each. The hint, if there is one, is the fourth.
impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, place, problem, hint } = self;
        // A line is a line, whatever stands in it.
        let shown: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let before = text[..place.start].chars().count();
        let marks = text[place.clone()].chars().count().max(1);
        write!(f, "{problem}\n  {shown}\n  {:before$}{:^<marks$}", "", "")?;
        hint.iter().try_for_each(|hint| write!(f, "\n{hint}"))
    }
}

/// Words between spaces; a parenthesis is a word.
pub(crate) struct Words<'a> {
    text: &'a str,
    /// The place of the word that was taken last.
    place: Range<usize>,
}

impl<'a> Words<'a> {
    pub(crate) const fn new(text: &'a str) -> Self {
        Self { text, place: 0..0 }
    }

    /// The place of the word that was taken last.
    pub(crate) fn place(&self) -> Range<usize> {
        self.place.clone()
    }

    /// Marks this place as the mistake, instead of the word that was taken last.
    pub(crate) const fn point_at(&mut self, place: Range<usize>) {
        self.place = place;
    }

    /// The text between two places.
    pub(crate) fn between(&self, from: usize, to: usize) -> &'a str {
        &self.text[from..to]
    }

    fn find(&self) -> Option<Range<usize>> {
        let rest = &self.text[self.place.end..];
        let from = self.place.end + rest.find(|c: char| !c.is_whitespace())?;
        let word = &self.text[from..];
        let length = match word.find(|c: char| c.is_whitespace() || c == '(' || c == ')') {
            // A parenthesis.
            Some(0) => 1,
            Some(length) => length,
            None => word.len(),
        };
        Some(from..from + length)
    }

    pub(crate) fn peek(&self) -> Option<&'a str> {
        self.find().map(|place| &self.text[place])
    }

    /// Takes the next word. If there is none, the error says that `what` is missing.
    pub(crate) fn next(&mut self, what: &str) -> Result<&'a str, String> {
        let Some(place) = self.find() else {
            let end = self.text.len();
            self.place = end..end;
            return Err(format!("{what} is missing at the end"));
        };
        self.place = place.clone();
        Ok(&self.text[place])
    }

    /// Whether the next word is this one, which is taken then.
    pub(crate) fn take(&mut self, word: &str) -> bool {
        let found = self.find().filter(|place| &self.text[place.clone()] == word);
        if let Some(place) = found {
            self.place = place;
            return true;
        }
        false
    }

    pub(crate) fn must(&mut self, word: &str) -> Result<(), String> {
        match self.next(&format!("`{word}`"))? {
            found if found == word => Ok(()),
            found => Err(format!("`{word}` is expected, got {found}")),
        }
    }
}

/// Reads a number. Refuses a leading `+`, which Rust's `parse` accepts.
pub(crate) fn number<T: FromStr>(text: &str) -> Option<T> {
    if text.starts_with('+') { None } else { text.parse().ok() }
}

static PRINTER: DateTimePrinter = DateTimePrinter::new();
static PARSER: DateTimeParser = DateTimeParser::new();

/// Printed for a zone that cannot be read back: one without a name, as from a file, or a POSIX rule.
pub(crate) const NAMELESS: &str = "<a-zone-without-a-name>";

/// Whether the zone is one of the database, or an offset. A POSIX rule is neither: its changes can contradict each other.
fn is_named(zone: &TimeZone) -> bool {
    zone.iana_name().is_some() || zone.to_fixed_offset().is_ok()
}

/// The zone's name or offset.
pub(crate) fn zone_name(zone: &TimeZone) -> String {
    let name = Some(zone).filter(|zone| is_named(zone)).map(|zone| PRINTER.time_zone_to_string(zone));
    name.and_then(Result::ok).unwrap_or_else(|| NAMELESS.into())
}

pub(crate) fn parse_zone(text: &str) -> Result<TimeZone, String> {
    let zone = PARSER
        .parse_time_zone(text)
        .map_err(|error| format!("{text} is not a zone, as Europe/Berlin or +02:00: {error}"))?;
    if is_named(&zone) {
        Ok(zone)
    } else {
        Err(format!("a zone is a name, as Europe/Berlin, or an offset, as +02:00, got the POSIX rule {text}"))
    }
}

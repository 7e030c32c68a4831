//! Zones as texts, and back.

use jiff::fmt::temporal::{DateTimeParser, DateTimePrinter};
use jiff::tz::TimeZone;

static PRINTER: DateTimePrinter = DateTimePrinter::new();
static PARSER: DateTimeParser = DateTimeParser::new();

/// The zone's name, offset or POSIX text; `None` if it has none, as one that was read from a file without a name.
pub(crate) fn text(zone: &TimeZone) -> Option<String> {
    PRINTER.time_zone_to_string(zone).ok()
}

/// For people.
pub(crate) fn name(zone: &TimeZone) -> String {
    text(zone).unwrap_or_else(|| "a zone without a name".into())
}

pub(crate) fn parse(text: &str) -> Result<TimeZone, String> {
    PARSER.parse_time_zone(text).map_err(|error| error.to_string())
}

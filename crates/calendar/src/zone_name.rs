//! Zones as texts, and back.

use jiff::fmt::temporal::{DateTimeParser, DateTimePrinter};
use jiff::tz::TimeZone;

static PRINTER: DateTimePrinter = DateTimePrinter::new();
static PARSER: DateTimeParser = DateTimeParser::new();

/// What stands for a zone without a name, as one that was read from a file. It cannot be read back.
pub(crate) const NAMELESS: &str = "<a-zone-without-a-name>";

/// The zone's name, offset or POSIX text.
pub(crate) fn name(zone: &TimeZone) -> String {
    PRINTER.time_zone_to_string(zone).unwrap_or_else(|_| NAMELESS.into())
}

pub(crate) fn parse(text: &str) -> Result<TimeZone, String> {
    PARSER.parse_time_zone(text).map_err(|error| error.to_string())
}

//! A table of a report that another page shows too.

use std::fmt;

use super::table::Table;

/// Stands between two marks, so that the next report finds it.
pub(crate) struct Part {
    name: &'static str,
    table: String,
}

impl Part {
    /// Of a table that has no rows yet.
    pub(crate) fn new<R>(name: &'static str, table: Table, rows: impl IntoIterator<Item = R>) -> Self
    where
        R: IntoIterator<Item: Into<String>>,
    {
        let table = rows.into_iter().fold(table, Table::row);
        Self { name, table: table.untitled().to_string() }
    }

    /// Puts it in place of that which an earlier report has left in `page`. Nothing if there was none.
    pub(crate) fn renew(&self, page: &str) -> Option<String> {
        let (before, rest) = page.split_once(&self.begin())?;
        let (_, after) = rest.split_once(Self::END)?;
        Some(format!("{before}{self}{after}"))
    }

    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    fn begin(&self) -> String {
        format!("<!-- {}: made with the report. -->\n", self.name)
    }

    const END: &str = "<!-- End. -->\n";
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}\n{}", self.begin(), self.table, Self::END)
    }
}

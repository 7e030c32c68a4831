//! A part of a report that another page shows too.

use std::fmt;

/// Stands between two marks, so that the next report finds it.
pub(crate) struct Part {
    name: &'static str,
    /// Markdown that ends with a newline.
    text: String,
}

impl Part {
    pub(crate) fn new(name: &'static str, text: String) -> Self {
        Self { name, text }
    }

    /// Puts it in place of the same part of an earlier report in `page`. Nothing if there was none.
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
        write!(f, "{}\n{}\n{}", self.begin(), self.text, Self::END)
    }
}

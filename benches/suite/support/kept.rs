//! All that a report is made from, kept beside it: so that it can be drawn anew without being measured anew.

use std::error::Error;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::case::Outcome;
use super::table::Table;

const FILE: &str = "findings.json";

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// Describes the machine.
    pub(crate) made_on: Table,
    pub(crate) outcomes: Vec<Outcome>,
    /// The names of the cases that did not run.
    pub(crate) left_out: Vec<String>,
}

impl Kept {
    /// # Errors
    /// If there is no such file in the folder, or if another version of the suite wrote it.
    pub(crate) fn read(directory: &Path) -> Result<Self, Box<dyn Error>> {
        let file = directory.join(FILE);
        let in_words = |error: &dyn Error| format!("{}: {error}", file.display());
        let text = fs::read_to_string(&file).map_err(|error| in_words(&error))?;
        Ok(serde_json::from_str(&text).map_err(|error| in_words(&error))?)
    }

    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn write(&self, directory: &Path) -> Result<(), Box<dyn Error>> {
        fs::create_dir_all(directory)?;
        Ok(fs::write(directory.join(FILE), serde_json::to_string(self)? + "\n")?)
    }
}

//! Where the tables are.

use std::borrow::Cow;
use std::sync::Arc;

use super::PostgresError;

/// The schema that statements and the file of tables name.
const USUAL: &str = "timingwheel";

/// How long a name may be: the database cuts off what is longer.
const LONGEST: usize = 63;

/// The name of a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schema(Arc<str>);

impl Default for Schema {
    fn default() -> Self {
        Self(USUAL.into())
    }
}

impl Schema {
    /// # Errors
    /// [`PostgresError::Setting`]: a name that would have to be written in another way somewhere.
    pub(super) fn new(name: String) -> Result<Self, PostgresError> {
        let mut letters = name.bytes();
        let is_allowed = letters.next().is_some_and(|first| first.is_ascii_lowercase() || first == b'_')
            && letters.all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'_')
            && name.len() <= LONGEST
            && !name.starts_with("pg_");
        if is_allowed {
            return Ok(Self(name.into()));
        }
        Err(PostgresError::Setting(format!(
            "the name of a schema must be 1 to {LONGEST} of a to z, 0 to 9 and _, with no digit first and no pg_, got {name:?}"
        )))
    }

    pub(super) fn name(&self) -> &str {
        &self.0
    }

    /// A statement of this crate's, for this schema. Statements have the usual name before a point, in quotes, and where
    /// the schema is created, and nowhere else.
    pub(super) fn of<'a>(&self, statement: &'a str) -> Cow<'a, str> {
        if *self.0 == *USUAL {
            return Cow::Borrowed(statement);
        }
        // In double quotes, as it may be a word of the language's.
        let name = &self.0;
        let named = statement.replace(&format!("{USUAL}."), &format!("\"{name}\"."));
        let named = named.replace(&format!("'{USUAL}'"), &format!("'{name}'"));
        Cow::Owned(named.replace(&format!("schema {USUAL}"), &format!("schema \"{name}\"")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_would_have_to_be_quoted_is_refused_with_what_is_allowed() {
        for name in ["a", "_", "timers_2", "select", &"x".repeat(63)] {
            assert!(Schema::new(name.to_owned()).is_ok(), "{name}");
        }
        for name in ["", "2a", "A", "a-b", "a.b", "a\"b", "ä", "pg_x", &"x".repeat(64)] {
            let error = Schema::new(name.to_owned()).expect_err(name).to_string();
            assert!(
                error.contains("must be 1 to 63") && error.ends_with(&format!("got {name:?}")),
                "{error}"
            );
        }
    }

    #[test]
    fn no_statement_of_the_tables_names_the_usual_schema_where_there_is_another() {
        let schema = Schema::new("other".to_owned()).expect("a name");
        let tables = schema.of(super::super::migrate::FIRST);
        let statements = tables.lines().filter(|line| !line.trim_start().starts_with("--"));
        let left: Vec<&str> = statements.filter(|line| line.contains(USUAL)).collect();
        assert_eq!(left, [""; 0]);
    }
}

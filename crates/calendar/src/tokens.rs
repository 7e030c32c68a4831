//! The words of a plan's text, one after the other.

use std::ops::Range;
use std::str::FromStr;

/// Words between spaces; a parenthesis is a word.
pub(crate) struct Words<'a> {
    text: &'a str,
    /// Of the word that was taken last.
    place: Range<usize>,
}

impl<'a> Words<'a> {
    pub(crate) const fn new(text: &'a str) -> Self {
        Self { text, place: 0..0 }
    }

    /// Where the word stands that was taken last.
    pub(crate) fn place(&self) -> Range<usize> {
        self.place.clone()
    }

    /// Says where something is wrong that is not the word which was taken last.
    pub(crate) const fn point_at(&mut self, place: Range<usize>) {
        self.place = place;
    }

    /// What stands between two words.
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

    /// The next word, which is `what`.
    pub(crate) fn next(&mut self, what: &str) -> Result<&'a str, String> {
        let Some(place) = self.find() else {
            let end = self.text.len();
            self.place = end..end;
            return Err(format!("it ends too soon: {what} is missing"));
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

    /// What follows this word, which is `what`.
    pub(crate) fn expect(&mut self, word: &str, what: &str) -> Result<&'a str, String> {
        self.must(word)?;
        self.next(what)
    }

    pub(crate) fn must(&mut self, word: &str) -> Result<(), String> {
        match self.next(&format!("`{word}`"))? {
            found if found == word => Ok(()),
            found => Err(format!("{found} stands where `{word}` is expected")),
        }
    }
}

/// A number in digits, which Rust takes a `+` before.
pub(crate) fn number<T: FromStr>(text: &str) -> Option<T> {
    if text.starts_with('+') { None } else { text.parse().ok() }
}

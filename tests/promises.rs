//! What holds the promises is there: each promise of the page in the docs has tests on the page beside this file, and each
//! test that this page names exists.

use std::fs;
use std::path::Path;

/// Where in the repository the promises are, and where the tests that hold them are named.
const PROMISES: &str = "src/guide/promises.rs";
const TESTS: &str = "tests/promises.md";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The headings that begin with `mark`.
fn headings<'a>(page: &'a str, mark: &str) -> Vec<&'a str> {
    page.lines().filter_map(|line| line.strip_prefix(mark)).collect()
}

/// The list items of a page, each with its heading.
fn items(page: &str) -> Vec<(&str, String)> {
    let mut heading = "";
    let mut items: Vec<(&str, String)> = Vec::new();
    for line in page.lines() {
        if let Some(text) = line.strip_prefix("## ") {
            heading = text;
        } else if let Some(item) = line.strip_prefix("- ") {
            items.push((heading, item.to_owned()));
        } else if line.starts_with("  ") {
            items.last_mut().expect("what is indented belongs to an item").1 += line;
        }
    }
    items
}

/// What stands between back quotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Whether `source` has a test of that name.
fn has_test(source: &str, name: &str) -> bool {
    let Some((before, _)) = source.split_once(&format!("fn {name}(")) else { return false };
    // Its attributes stand after the end of whatever comes before it.
    let attributes = before.rsplit(['}', ';']).next().unwrap_or_default();
    attributes.contains("#[test]") || attributes.contains("#[tokio::test")
}

#[test]
fn each_test_that_is_named_for_a_promise_exists() {
    let page = read(TESTS);
    let mut named = 0;
    for (_, item) in items(&page) {
        let mut source: Option<(&str, String)> = None;
        for name in quoted(&item) {
            if !name.ends_with(".rs") {
                let (path, text) = source.as_ref().expect("a file stands before its tests");
                assert!(has_test(text, name), "{path} has no test `{name}`");
                named += 1;
            } else if !name.starts_with("fuzz/") {
                source = Some((name, read(name)));
            } else if root().join("fuzz").exists() {
                // Packages are without it.
                assert!(root().join(name).exists(), "there is no {name}");
            }
        }
        assert!(source.is_some() || item.contains("fuzz/"), "names no file: {item}");
    }
    assert!(named > 50, "only {named} tests were found on the page");
}

#[test]
fn each_promise_has_a_test_and_nothing_else_has() {
    let (promises, tests) = (read(PROMISES), read(TESTS));
    let promised: Vec<_> = headings(&promises, "//! # ")
        .into_iter()
        .filter(|&heading| heading != "What is not promised")
        .collect();
    assert_eq!(promised, headings(&tests, "## "), "the headings of {PROMISES} and of {TESTS}");
    let items = items(&tests);
    for heading in promised {
        assert!(items.iter().any(|&(of, _)| of == heading), "nothing holds: {heading}");
    }
}

#[test]
fn a_test_is_told_from_a_function_that_is_none() {
    let source = "#[test]\n#[should_panic]\nfn a() {}\nfn b() {}\n#[tokio::test(start_paused = true)]\nasync fn c() {}";
    assert_eq!(["a", "b", "c", "d"].map(|name| has_test(source, name)), [true, false, true, false]);
}

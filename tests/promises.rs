//! What the page of promises names is there: each promise has tests, and each test that it names is one.

use std::fs;
use std::path::Path;

/// The page, in paragraphs and list items, each with its heading.
fn items(page: &str) -> Vec<(String, String)> {
    let mut heading = String::new();
    let mut items: Vec<(String, String)> = Vec::new();
    for line in page.lines().filter_map(|line| line.strip_prefix("//!")).map(str::trim_end) {
        if let Some(text) = line.strip_prefix(" # ") {
            heading = text.to_owned();
        } else if line.starts_with("   ") {
            // The item goes on.
            items.last_mut().expect("what is indented belongs to an item").1 += line;
        } else {
            items.push((heading.clone(), line.trim_start().to_owned()));
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
fn each_test_that_the_page_of_promises_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("src/guide/promises.rs")).expect("a readable page");
    let mut named = 0;
    for (_, item) in items(&page).iter().filter(|(_, item)| item.starts_with("- `")) {
        let mut source: Option<(&str, String)> = None;
        for name in quoted(item) {
            if !name.ends_with(".rs") {
                let (path, text) = source.as_ref().expect("a file stands before its tests");
                assert!(has_test(text, name), "{path} has no test `{name}`");
                named += 1;
            } else if !name.starts_with("fuzz/") {
                let text = fs::read_to_string(root.join(name));
                source = Some((name, text.unwrap_or_else(|error| panic!("{name}: {error}"))));
            } else if root.join("fuzz").exists() {
                // Packages are without it.
                assert!(root.join(name).exists(), "there is no {name}");
            }
        }
        assert!(source.is_some() || item.contains("fuzz/"), "names no file: {item}");
    }
    assert!(named > 50, "only {named} tests were found on the page");
}

#[test]
fn each_promise_has_a_test() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/guide/promises.rs"));
    let items = items(&page.expect("a readable page"));
    let mut headings: Vec<&str> = items.iter().map(|(heading, _)| heading.as_str()).collect();
    headings.dedup();
    for heading in headings.into_iter().filter(|heading| !["", "What is not promised"].contains(heading)) {
        let of_this = items.iter().filter(|(of, _)| of == heading);
        assert!(of_this.into_iter().any(|(_, item)| item.starts_with("- `")), "nothing holds: {heading}");
    }
}

#[test]
fn a_test_is_told_from_a_function_that_is_none() {
    let source = "#[test]\n#[should_panic]\nfn a() {}\nfn b() {}\n#[tokio::test(start_paused = true)]\nasync fn c() {}";
    assert_eq!(["a", "b", "c", "d"].map(|name| has_test(source, name)), [true, false, true, false]);
}

//! Each test that the page of promises names is there.

use std::fs;
use std::path::Path;

#[test]
fn each_test_that_the_page_of_promises_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("src/promises.rs")).expect("a readable page");
    // The lists, without the text above them.
    let (mut source, mut named, mut is_list) = (None, 0, false);
    for line in page.lines().filter_map(|line| line.strip_prefix("//!")) {
        is_list = line.starts_with(" - ") || (is_list && line.starts_with("   "));
        if !is_list {
            continue;
        }
        for name in line.split('`').skip(1).step_by(2) {
            if name.ends_with(".rs") {
                let text = fs::read_to_string(root.join(name));
                source = Some((name, text.unwrap_or_else(|error| panic!("{name}: {error}"))));
            } else {
                let (path, text) = source.as_ref().expect("a file stands before its tests");
                let (before, _) =
                    text.split_once(&format!("fn {name}(")).unwrap_or_else(|| panic!("{path}: {name}"));
                let attributes = before.rsplit(['}', ';']).next().unwrap_or_default();
                let is_case = text.contains(&format!("\n    {name}\n"));
                assert!(
                    is_case || attributes.contains("#[test]") || attributes.contains("#[tokio::test"),
                    "{path}: {name}"
                );
                named += 1;
            }
        }
    }
    assert!(named > 35, "only {named} tests were found on the page");
}

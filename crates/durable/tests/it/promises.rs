//! The page `promises` names tests for each promise.

use std::fs;
use std::path::Path;

#[test]
fn each_promise_names_files_of_tests_that_exist() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(package.join("docs/promises.md")).expect("the page");
    for promise in page.split("\n## ").skip(1) {
        let title = promise.lines().next().unwrap_or_default();
        let in_backticks = promise.split('`').skip(1).step_by(2);
        let files: Vec<_> = in_backticks.filter(|text| text.ends_with(".rs")).collect();
        assert!(!files.is_empty(), "`{title}` names no tests");
        for file in files {
            assert!(package.join(file).is_file(), "`{title}` names {file}, which does not exist");
        }
    }
}

//! Each file that a page names exists: pages outlive many a renaming.

use std::fs;
use std::path::{Path, PathBuf};

/// The folders of the repository with sources and pages. A package has some of them only.
const FOLDERS: [&str; 6] = ["src", "tests", "benches", "examples", "crates", "fuzz"];
/// What a page names by its place is one of these.
const NAMED: [&str; 3] = [".rs", ".md", ".sql"];

fn files_below(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the repository") {
        let path = entry.expect("it can be listed").path();
        if !path.is_dir() {
            into.push(path);
        } else if path.file_name().is_some_and(|name| name != "target") {
            files_below(&path, into);
        }
    }
}

/// What stands between back quotes and looks like a file.
fn named(page: &str) -> impl Iterator<Item = &str> {
    let quoted = page.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let is_plain = |name: &&str| name.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    quoted
        .filter(|name| NAMED.iter().any(|end| name.len() > end.len() && name.ends_with(end)))
        .filter(is_plain)
}

#[test]
fn each_file_that_a_page_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    if FOLDERS.iter().any(|folder| !root.join(folder).exists()) {
        // Packages are without some.
        return;
    }
    let mut files = Vec::new();
    for folder in FOLDERS {
        files_below(&root.join(folder), &mut files);
    }
    let top =
        fs::read_dir(root).expect("the repository").map(|entry| entry.expect("it can be listed").path());
    files.extend(top.filter(|path| path.is_file()));
    let mut count = 0;
    for page in files.iter().filter(|file| file.extension().is_some_and(|end| end == "md")) {
        for name in named(&fs::read_to_string(page).expect("text")) {
            let exists = files.iter().any(|file| file.ends_with(name))
                || page.parent().is_some_and(|folder| folder.join(name).exists());
            assert!(exists, "{} names `{name}`, which is not there", page.display());
            count += 1;
        }
    }
    assert!(count > 100, "only {count} names were found");
}

//! Imports between modules go one way: no module, however far round, imports itself.
//!
//! A module is a file directly under `src/`, or a folder there. `lib.rs` only declares and re-exports. Test
//! modules are left out: they may look at anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

type Imports = BTreeMap<String, BTreeSet<String>>;

#[test]
fn imports_between_modules_have_no_cycle() {
    let imports = imports_below(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(imports["sleep"].contains("shard"), "the imports were not found: {imports:?}");
    assert_eq!(cycle(&imports), None);
}

#[test]
fn a_cycle_is_found_and_named() {
    let edges = [("a", "b"), ("b", "c"), ("c", "b")];
    let mut imports = Imports::new();
    for (from, to) in edges {
        imports.entry(from.into()).or_default().insert(to.into());
    }
    assert_eq!(cycle(&imports).as_deref(), Some("b -> c -> b"));
}

#[test]
fn grouped_and_inline_paths_count_as_imports() {
    let source =
        "use crate::{clock::Clock, tick::{Tick, Nanos}};\nfn f() -> crate::error::Error { .. }\n// crate::no";
    assert_eq!(modules_named_in(source), ["clock", "error", "tick"].map(String::from).into());
}

fn imports_below(src: &Path) -> Imports {
    let mut imports = Imports::new();
    for path in rust_files(src) {
        let relative = path.strip_prefix(src).expect("found below it");
        let first = relative.components().next().expect("not empty").as_os_str().to_string_lossy();
        let module = first.trim_end_matches(".rs").to_owned();
        if module == "lib" || module.starts_with("loom_models") {
            continue;
        }
        let mut used = modules_named_in(&fs::read_to_string(&path).expect("a readable source file"));
        used.remove(&module);
        imports.entry(module).or_default().extend(used);
    }
    imports
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a readable folder");
    entries
        .map(|entry| entry.expect("a readable entry").path())
        .flat_map(|path| if path.is_dir() { rust_files(&path) } else { vec![path] })
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .collect()
}

/// The modules after each `crate::`, also those in braces after it.
fn modules_named_in(source: &str) -> BTreeSet<String> {
    let code: String = source.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    code.split("crate::").skip(1).flat_map(first_segments).collect()
}

fn first_segments(path: &str) -> Vec<String> {
    let identifier = |text: &str| {
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        Some(text[..end].to_owned()).filter(|name| name.starts_with(char::is_lowercase))
    };
    let Some(group) = path.strip_prefix('{') else { return identifier(path).into_iter().collect() };
    let mut depth = 0;
    let mut starts = vec![0];
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => starts.push(at + 1),
            _ => {}
        }
    }
    starts.into_iter().filter_map(|start| identifier(group[start..].trim_start())).collect()
}

/// A cycle, written as a path, if there is one.
fn cycle(imports: &Imports) -> Option<String> {
    fn visit(
        module: &str,
        imports: &Imports,
        path: &mut Vec<String>,
        done: &mut BTreeSet<String>,
    ) -> Option<String> {
        if let Some(start) = path.iter().position(|visited| visited == module) {
            return Some(format!("{} -> {module}", path[start..].join(" -> ")));
        }
        if done.contains(module) {
            return None;
        }
        path.push(module.to_owned());
        let found =
            imports.get(module).into_iter().flatten().find_map(|next| visit(next, imports, path, done));
        path.pop();
        done.insert(module.to_owned());
        found
    }
    let mut done = BTreeSet::new();
    imports.keys().find_map(|module| visit(module, imports, &mut Vec::new(), &mut done))
}

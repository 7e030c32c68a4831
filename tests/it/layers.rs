//! Imports go one way: a layer of `src/` names only the layers below it.

use std::fs;
use std::path::Path;

/// Each imports only those after it.
const LAYERS: [&str; 14] = [
    "loom_models",
    "guide",
    "integrations",
    "monitor",
    "time",
    "timers",
    "runtime_wheel",
    "builder",
    "handle",
    "engine",
    "telemetry",
    "platform",
    "error",
    "wheel",
];

/// The layer of a file or folder in `src/`, as its place in the order.
fn place(path: &Path) -> usize {
    let name = path.file_stem().expect("a name").to_str().expect("plain letters");
    LAYERS
        .iter()
        .position(|layer| *layer == name)
        .unwrap_or_else(|| panic!("{name} has no place in the order"))
}

/// The layers that the code of a file names as `crate::layer`, without its comments and its module of tests. A name that
/// `lib.rs` re-exports is not seen.
fn named_in(source: &str) -> Vec<usize> {
    assert!(!source.contains("crate::{"), "one `use` for each layer, so that this test sees it");
    let lines = source.lines().take_while(|line| *line != "mod tests {");
    let code: Vec<&str> = lines.map(|line| line.split("//").next().unwrap_or_default()).collect();
    let code = code.join("\n");
    let is_end = |c: char| !c.is_alphanumeric() && c != '_';
    let names = code.split("crate::").skip(1).filter_map(|rest| rest.split(is_end).next());
    names.filter_map(|name| LAYERS.iter().position(|layer| *layer == name)).collect()
}

/// The names in files of a layer that do not stand below it, and how many names were seen.
fn upwards(path: &Path, layer: usize, found: &mut Vec<String>) -> usize {
    if path.is_dir() {
        let entries = fs::read_dir(path).expect("a readable folder");
        return entries.map(|entry| upwards(&entry.expect("a readable entry").path(), layer, found)).sum();
    }
    if path.extension().is_none_or(|extension| extension != "rs") {
        return 0;
    }
    let named = named_in(&fs::read_to_string(path).expect("a readable file"));
    let wrong = named.iter().filter(|&&other| other < layer);
    found.extend(wrong.map(|&other| format!("{} names {}", path.display(), LAYERS[other])));
    named.len()
}

#[test]
fn each_layer_imports_only_layers_below_it() {
    let mut found = Vec::new();
    let mut seen = 0;
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        if !path.ends_with("lib.rs") {
            seen += upwards(&path, place(&path), &mut found);
        }
    }
    assert!(seen > 50, "only {seen} imports were found");
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn an_import_of_another_layer_is_seen() {
    let source =
        "use crate::wheel::Key;\n// crate::guide\nfn f() -> crate::error::Error {}\nmod tests {\ncrate::time";
    assert_eq!(named_in(source).iter().map(|&layer| LAYERS[layer]).collect::<Vec<_>>(), ["wheel", "error"]);
}

//! Imports go one way.
//!
//! The layers of `src/` stand in an order, and import only what stands below them. Within each folder no file or folder,
//! however far round, imports itself. A name that a folder's `mod.rs` re-exports counts as an import of the file that it
//! comes from. A `mod.rs` itself and `lib.rs` are free to import what they hold, and what they hold may import them.
//! Modules of tests within a file are left out: they may look at anything.

mod cycle;
mod paths;
mod tree;

use std::collections::BTreeSet;
use std::path::Path;

use cycle::cycle;
use tree::{Imports, Tree};

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

/// Of the crate, or of another that is built the same way.
fn imports_below(folder: &str) -> Imports {
    Tree::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).imports()
}

#[test]
fn each_layer_imports_only_layers_below_it() {
    let imports = imports_below("src");
    let of_layers = &imports[""];
    assert!(of_layers["timers"].contains("engine"), "the imports were not found: {of_layers:?}");
    let layers: BTreeSet<String> = LAYERS.map(String::from).into();
    let named: BTreeSet<String> = of_layers.keys().cloned().collect();
    assert_eq!(named, layers, "each layer has its place in the order");
    assert_eq!(upwards(of_layers, &LAYERS), Vec::<String>::new());
}

#[test]
fn no_file_or_folder_imports_itself_by_way_of_others() {
    let imports = imports_below("src");
    assert!(imports["engine"]["turn"].contains("shard"), "the imports were not found: {imports:?}");
    let cycles: Vec<_> = imports.iter().filter_map(|(folder, edges)| Some((folder, cycle(edges)?))).collect();
    assert_eq!(cycles, []);
}

/// The imports that go from a layer to one above it.
fn upwards(imports: &tree::Edges, order: &[&str]) -> Vec<String> {
    let place = |layer: &str| order.iter().position(|&other| other == layer);
    let edges = imports.iter().flat_map(|(from, to)| to.iter().map(move |to| (from, to)));
    edges.filter(|(from, to)| place(to) <= place(from)).map(|(from, to)| format!("{from} -> {to}")).collect()
}

#[test]
fn an_import_of_a_layer_above_is_found() {
    let edges =
        [("low".to_owned(), BTreeSet::from(["high".to_owned()])), ("high".to_owned(), BTreeSet::new())];
    assert_eq!(upwards(&edges.into(), &["high", "low"]), ["low -> high"]);
}

//! Imports go one way.
//!
//! The wings of `src/` stand in an order, and import only what stands below them. Within each folder no file or folder,
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
const WINGS: [&str; 12] = [
    "loom_models",
    "guide",
    "integrations",
    "monitor",
    "time",
    "timers",
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
fn each_wing_imports_only_wings_below_it() {
    let imports = imports_below("src");
    let of_wings = &imports[""];
    assert!(of_wings["timers"].contains("engine"), "the imports were not found: {of_wings:?}");
    let wings: BTreeSet<String> = WINGS.map(String::from).into();
    let named: BTreeSet<String> = of_wings.keys().cloned().collect();
    assert_eq!(named, wings, "each wing has its place in the order");
    assert_eq!(upwards(of_wings, &WINGS), Vec::<String>::new());
}

#[test]
fn the_picture_in_the_design_shows_the_wings_in_their_order() {
    let design = include_str!("../../DESIGN.md");
    let picture = design.split("```").nth(1).expect("a picture");
    let shown = picture.lines().filter_map(|line| line.strip_prefix(" src/")?.split_whitespace().next());
    let shown: Vec<&str> = shown.map(|wing| wing.trim_end_matches(".rs")).collect();
    let wings: Vec<&str> = WINGS.into_iter().filter(|&wing| wing != "loom_models").collect();
    assert_eq!(shown, wings);
}

#[test]
fn no_file_or_folder_imports_itself_by_way_of_others() {
    let imports = imports_below("src");
    assert!(
        imports["engine::shard"]["turn"].is_empty() || imports["engine::driver"]["turner"].contains("shards")
    );
    let cycles: Vec<_> = imports.iter().filter_map(|(folder, edges)| Some((folder, cycle(edges)?))).collect();
    assert_eq!(cycles, []);
}

/// The imports that go from a wing to one above it.
fn upwards(imports: &tree::Edges, order: &[&str]) -> Vec<String> {
    let place = |wing: &str| order.iter().position(|&other| other == wing);
    let edges = imports.iter().flat_map(|(from, to)| to.iter().map(move |to| (from, to)));
    edges.filter(|(from, to)| place(to) <= place(from)).map(|(from, to)| format!("{from} -> {to}")).collect()
}

#[test]
fn an_import_of_a_wing_above_is_found() {
    let edges =
        [("low".to_owned(), BTreeSet::from(["high".to_owned()])), ("high".to_owned(), BTreeSet::new())];
    assert_eq!(upwards(&edges.into(), &["high", "low"]), ["low -> high"]);
}

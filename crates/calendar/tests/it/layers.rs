//! The layers of the crate: each imports only those below it, and only the schedules of jobs read a clock.

use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

/// The layers, the highest first. Files that are in none may import all.
const LAYERS: [&str; 12] = [
    "on_wheel",
    "runs",
    "plan",
    "instants",
    "rules",
    "cron",
    "zone",
    "rule",
    "text",
    "wall",
    "missed",
    "coming_from",
];

#[test]
fn imports_go_down_and_only_the_highest_layer_reads_a_clock() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut imports, mut clocks) = (0, 0);
    for path in sources(&root) {
        let inside = path.strip_prefix(&root).unwrap();
        let layer = inside.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        let Some(rank) = LAYERS.iter().position(|name| *name == layer) else { continue };
        let text = fs::read_to_string(&path).unwrap();
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            for imported in line.split("crate::").skip(1) {
                let name: String =
                    imported.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                let of = LAYERS.iter().position(|layer| *layer == name);
                assert!(of.is_some_and(|of| of >= rank), "{} imports {name}", path.display());
                imports += 1;
            }
            if line.contains("::now()") {
                assert_eq!(layer, "on_wheel", "{} reads a clock", path.display());
                clocks += 1;
            }
        }
    }
    assert!(imports > 20 && clocks > 0, "{imports} imports, {clocks} clocks");
}

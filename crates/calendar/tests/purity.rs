//! The rules are pure: only the schedules of jobs read a clock or know of tokio.

use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

#[test]
fn only_the_schedules_read_a_clock_or_know_of_tokio() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut looked_at = 0;
    for path in sources(&root).iter().filter(|path| !path.starts_with(root.join("on_wheel"))) {
        looked_at += 1;
        // Docs may: what is left is code.
        let text = fs::read_to_string(path).unwrap();
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        for line in code {
            let has_clock = ["tokio", "::now()", "SystemTime", "timingwheel::", "std::time"];
            assert!(!has_clock.iter().any(|word| line.contains(word)), "{}: {line}", path.display());
        }
    }
    assert!(looked_at > 20, "{looked_at} files");
}

/// Which parts of the crate each part may import: those after it.
const ORDER: [&str; 12] = [
    "on_wheel",
    "plan",
    "instants",
    "rules",
    "cron",
    "zone",
    "rule",
    "tokens",
    "zone_name",
    "wall",
    "missed",
    "coming_from",
];

#[test]
fn imports_go_one_way() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for path in sources(&root) {
        let inside = path.strip_prefix(&root).unwrap();
        let part = inside.iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        let Some(rank) = ORDER.iter().position(|name| *name == part) else {
            assert_eq!(part, "lib", "a part that has no rank: {}", path.display());
            continue;
        };
        for line in
            fs::read_to_string(&path).unwrap().lines().filter(|line| !line.trim_start().starts_with("//"))
        {
            for imported in line.split("crate::").skip(1) {
                let name: String =
                    imported.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                let of = ORDER.iter().position(|part| *part == name);
                assert!(of.is_some_and(|of| of >= rank), "{} imports {name}", path.display());
            }
        }
    }
}

//! The page of recipes shows each recipe as it is compiled here.

use std::fs;
use std::path::Path;

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The code blocks of the page, marked as text because the crate does not depend on the libraries.
fn blocks(page: &str) -> Vec<String> {
    page.split("```text\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap_or_default().trim().to_owned())
        .collect()
}

/// A recipe without the line that describes it, and without its tests.
fn recipe(source: &str) -> String {
    let recipe = source.split("#[cfg(test)]").next().unwrap_or_default();
    let (about, code) = recipe.split_once("\n\n").expect("code after the description");
    assert!(about.starts_with("//! ") && !about.contains('\n'), "one line of description: {about}");
    code.trim().to_owned()
}

#[test]
fn the_page_shows_every_recipe_as_it_is_compiled() {
    let shown = blocks(&read("../../docs/recipes.md"));
    let mut names: Vec<_> = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .filter(|name| name != "lib.rs")
        .collect();
    names.sort();
    for name in &names {
        let recipe = recipe(&read(&format!("src/{name}")));
        assert!(shown.contains(&recipe), "the page does not show src/{name} as it is");
    }
    assert_eq!(shown.len(), names.len(), "blocks on the page, and recipes");
}

//! The modules of a crate, and what they import.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path as FilePath;

use crate::paths::{Path, code_of, paths_in};

/// Within one folder: which files and folders each one imports.
pub(crate) type Edges = BTreeMap<String, BTreeSet<String>>;
/// By folder, as a path of modules; the empty one is the crate.
pub(crate) type Imports = BTreeMap<String, Edges>;

#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// The code of each module that is a file.
    modules: BTreeMap<Path, String>,
}

impl Tree {
    pub(crate) fn read(src: &FilePath) -> Self {
        let mut tree = Self::default();
        tree.read_folder(src, &Vec::new());
        tree
    }

    fn read_folder(&mut self, folder: &FilePath, module: &Path) {
        for entry in fs::read_dir(folder).expect("a readable folder") {
            let path = entry.expect("a readable entry").path();
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let child = [module.as_slice(), std::slice::from_ref(&name)].concat();
            if path.is_dir() {
                self.read_folder(&path, &child);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let module = if ["mod", "lib", "main"].contains(&&*name) { module.clone() } else { child };
                let source = fs::read_to_string(&path).expect("a readable source file");
                self.modules.insert(module, code_of(&source));
            }
        }
    }

    pub(crate) fn imports(&self) -> Imports {
        let mut imports = Imports::new();
        for (module, code) in &self.modules {
            if let Some((name, folder)) = module.split_last() {
                imports.entry(folder.join("::")).or_default().entry(name.clone()).or_default();
            }
            for path in paths_in(code) {
                let Some(imported) = self.origin(module, &path, 0) else { continue };
                let shared = module.iter().zip(&imported).take_while(|(a, b)| a == b).count();
                // Otherwise one of the two holds the other.
                if let (Some(from), Some(to)) = (module.get(shared), imported.get(shared)) {
                    let edges = imports.entry(module[..shared].join("::")).or_default();
                    edges.entry(from.clone()).or_default().insert(to.clone());
                }
            }
        }
        imports
    }

    /// The module that `path`, as `module` names it, comes from. `None` for what another crate has.
    fn origin(&self, module: &Path, path: &[String], depth: usize) -> Option<Path> {
        assert!(depth < 16, "{module:?} re-exports {path:?} from itself");
        let mut at = match path.first()?.as_str() {
            "crate" => Vec::new(),
            "self" => module.clone(),
            "super" => module[..module.len().checked_sub(1)?].to_vec(),
            // A child, or else another crate.
            name => {
                let child = [module.as_slice(), &[name.to_owned()]].concat();
                self.is_module(&child).then_some(child)?
            }
        };
        for (number, name) in path.iter().enumerate().skip(1) {
            let next = if name == "super" {
                at[..at.len() - 1].to_vec()
            } else {
                [&*at, std::slice::from_ref(name)].concat()
            };
            if name == "super" || self.is_module(&next) {
                at = next;
                continue;
            }
            // Of the names that the module re-exports, the one that is meant.
            let code = self.modules.get(&at).map_or("", String::as_str);
            let reexported = paths_in(code).into_iter().filter(|other| other.last() == Some(name));
            let by_child =
                |other: &Path| other[0] == "self" || other[0] == "crate" || self.has_child(&at, &other[0]);
            let mut candidates = reexported.filter(|other| other.len() > 1 && by_child(other));
            return match candidates.next() {
                Some(other) if at != *module => {
                    self.origin(&at, &[&other, &path[number + 1..]].concat(), depth + 1)
                }
                _ => Some(at),
            };
        }
        Some(at)
    }

    fn has_child(&self, module: &Path, name: &str) -> bool {
        self.is_module(&[module.as_slice(), &[name.to_owned()]].concat())
    }

    /// A file, or a folder of files.
    fn is_module(&self, path: &[String]) -> bool {
        self.modules.keys().any(|module| module.starts_with(path))
    }
}

#[test]
fn a_name_that_a_folder_re_exports_comes_from_its_file() {
    let path = |text: &str| -> Path { text.split("::").map(String::from).collect() };
    let mut tree = Tree::default();
    tree.modules.insert(Vec::new(), "pub use a::b::Name;".into());
    tree.modules.insert(path("a"), "mod b;\nmod c;\npub(crate) use self::b::Name;".into());
    tree.modules.insert(path("a::b"), "use super::c::f;".into());
    tree.modules.insert(path("a::c"), "use super::Name;\nuse crate::Name;".into());
    let imports = tree.imports();
    assert_eq!(imports["a"]["b"], ["c".to_owned()].into());
    assert_eq!(imports["a"]["c"], ["b".to_owned()].into());
}

//! The paths that a source file names.

use std::collections::BTreeSet;

/// A path, segment by segment.
pub(crate) type Path = Vec<String>;

/// The source without comments and without modules of tests.
pub(crate) fn code_of(source: &str) -> String {
    let lines = source.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.take_while(|line| *line != "mod tests {").collect::<Vec<_>>().join("\n")
}

/// The paths after each `use`, `crate::` and `super::`, each name of a group in braces by itself.
pub(crate) fn paths_in(code: &str) -> BTreeSet<Path> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let mut paths = BTreeSet::new();
    for start in ["crate::", "super::", "self::", "use "] {
        for (at, _) in code.match_indices(start) {
            if code[..at].ends_with(|c: char| is_part(c) || c == ':') {
                continue;
            }
            // What follows `use` is a path of any kind.
            let from = if start == "use " { at + start.len() } else { at };
            expand(&code[from..], &mut Vec::new(), &mut paths);
        }
    }
    paths
}

/// Adds the paths at the beginning of `text`, and returns what follows them.
fn expand<'a>(text: &'a str, before: &mut Path, paths: &mut BTreeSet<Path>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = rest.trim_start();
            if let Some(after) = rest.strip_prefix('}') {
                return after;
            }
            rest = expand(rest, &mut before.clone(), paths);
            // Up to the next name, over `as other`.
            let Some(end) = rest.find([',', '}']) else { return "" };
            rest = rest[end..].strip_prefix(',').unwrap_or(&rest[end..]);
        }
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    if name.is_empty() {
        return rest.strip_prefix('*').unwrap_or(rest);
    }
    before.push(name.to_owned());
    match rest.strip_prefix("::") {
        // A generic argument ends a path.
        Some(after) if !after.starts_with('<') => expand(after, before, paths),
        _ => {
            paths.insert(before.clone());
            rest
        }
    }
}

#[test]
fn grouped_and_inline_paths_count_as_imports() {
    let code = code_of(
        "use crate::{clock::Clock, tick::{Tick as T, Nanos}};\nfn f() -> crate::error::Error { super::g::<u8>() }\n// \
         crate::no\nmod tests {\nuse crate::no;",
    );
    let paths: Vec<String> = paths_in(&code).iter().map(|path| path.join("::")).collect();
    let wanted =
        ["crate::clock::Clock", "crate::error::Error", "crate::tick::Nanos", "crate::tick::Tick", "super::g"];
    assert_eq!(paths, wanted);
}

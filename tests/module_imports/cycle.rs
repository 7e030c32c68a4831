//! Finding a cycle.

use std::collections::BTreeSet;

use crate::tree::Edges;

/// A cycle, written as a path, if there is one.
pub(crate) fn cycle(edges: &Edges) -> Option<String> {
    let mut done = BTreeSet::new();
    edges.keys().find_map(|node| visit(node, edges, &mut Vec::new(), &mut done))
}

fn visit(node: &str, edges: &Edges, path: &mut Vec<String>, done: &mut BTreeSet<String>) -> Option<String> {
    if let Some(start) = path.iter().position(|visited| visited == node) {
        return Some(format!("{} -> {node}", path[start..].join(" -> ")));
    }
    if done.contains(node) {
        return None;
    }
    path.push(node.to_owned());
    let found = edges.get(node).into_iter().flatten().find_map(|next| visit(next, edges, path, done));
    path.pop();
    done.insert(node.to_owned());
    found
}

#[test]
fn a_cycle_is_found_and_named() {
    let mut edges = Edges::new();
    for (from, to) in [("a", "b"), ("b", "c"), ("c", "b")] {
        edges.entry(from.into()).or_default().insert(to.into());
    }
    assert_eq!(cycle(&edges).as_deref(), Some("b -> c -> b"));
}

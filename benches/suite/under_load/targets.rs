//! The table to which all cases here add.

use super::rivals::NAMES;
use crate::rivals::host::ALTERNATIVE;
use crate::support::{Comparison, Table, Unit};

/// A row for each thing measured. A column of ratios follows each rival's.
pub(super) fn targets() -> Table {
    let rivals = NAMES.iter().flat_map(|name| [(*name).to_owned(), ratio_to(name)]);
    let header =
        ["what".to_owned(), "ours".to_owned()].into_iter().chain(rivals).chain(["target".to_owned()]);
    let table = NAMES.iter().fold(Table::new("Targets under load", header), |table, name| {
        table.ratio(&ratio_to(name), "ours", name)
    });
    table
        .note(
            "Target: what the ratio to tokio shall be at most. Where a row has no ratio: what ours shall be.",
        )
        .note(ALTERNATIVE)
}

fn ratio_to(rival: &str) -> String {
    if rival == NAMES[0] { "ratio".into() } else { format!("ratio to {rival}") }
}

/// A row of medians, and of ratios to each rival. `found` is by round and in it by side, ours first. Without a target it
/// is there to be seen.
pub(super) fn row(what: String, unit: Unit, found: &[Vec<f64>], limit: Option<f64>) -> Vec<String> {
    let rivals = found[0].len() - 1;
    let against = |rival: usize| {
        let pairs: Vec<_> = found.iter().map(|sides| (sides[0], sides[rival])).collect();
        Comparison::of("", unit, &pairs)
    };
    let mut cells = vec![what, unit.show(against(1).ours)];
    for rival in 1..=rivals {
        cells.extend(against(rival).cells().split_off(2));
    }
    end(cells, against(1).target(limit))
}

/// A row of values that no ratio makes clearer, ours first. `target` is what ours shall be, as a cell.
pub(super) fn row_of_values(what: String, values: &[String], target: String) -> Vec<String> {
    let (ours, rivals) = values.split_first().expect("ours");
    let mut cells = vec![what, ours.clone()];
    for rival in rivals {
        cells.extend([rival.clone(), String::new()]);
    }
    end(cells, target)
}

/// Leaves those rivals out that are not there, and ends with the target.
fn end(mut cells: Vec<String>, target: String) -> Vec<String> {
    cells.resize(2 + 2 * NAMES.len(), String::new());
    cells.push(target);
    cells
}

//! Zones by their names, and what somebody may have meant.

use jiff::tz::TimeZone;

/// The zone with this name.
pub(crate) fn named(name: &str) -> Result<TimeZone, String> {
    TimeZone::get(name).map_err(|_| {
        let mut problem = format!("{name} is neither a name of the time zone database nor an instant");
        if let Some(meant) = nearest(name) {
            problem.push_str(&format!("; did you mean {meant}?"));
        }
        problem
    })
}

/// The name that takes the fewest changes of letters, if they are few.
fn nearest(name: &str) -> Option<String> {
    let name = name.to_lowercase();
    let by_distance = jiff::tz::db().available().map(|known| {
        let full = known.as_str().to_lowercase();
        let city = full.rsplit('/').next().unwrap_or(&full);
        (distance(&name, &full).min(distance(&name, city)), known.as_str().to_owned())
    });
    let (distance, known) = by_distance.min()?;
    (distance <= 1 + name.len() / 5).then_some(known)
}

/// Levenshtein's.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, of_a) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &of_b) in b.iter().enumerate() {
            let changed = diagonal + usize::from(of_a != of_b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

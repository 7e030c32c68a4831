//! A ratio in words, for closing lines.

/// Differences up to this are noise of one run.
const NOISE: f64 = 0.1;

/// How `ours` compares with another's: "23 % less than", for example.
pub(crate) fn in_words(ours: f64, other: f64) -> String {
    let percent = (ours / other - 1.0) * 100.0;
    if !percent.is_finite() {
        "not to be compared with".into()
    } else if percent.abs() <= NOISE * 100.0 {
        "about as much as".into()
    } else if percent < 0.0 {
        format!("{:.0} % less than", -percent)
    } else {
        format!("{percent:.0} % more than")
    }
}

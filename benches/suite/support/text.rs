//! Numbers as text.

/// What a value is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Shown in ns, µs, ms or s.
    Nanos,
    Bytes,
    /// Operations in a second, shown in millions.
    PerSecond,
    Count,
}

impl Unit {
    pub(crate) fn show(self, value: f64) -> String {
        const STEPS: [(f64, &str); 3] = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")];
        match self {
            Self::Nanos => {
                let step = STEPS.into_iter().find(|(step, _)| value.abs() >= *step);
                let (step, name) = step.unwrap_or((1.0, "ns"));
                format!("{} {name}", number(value / step))
            }
            Self::Bytes => format!("{} B", number(value)),
            Self::PerSecond => format!("{} M/s", number(value / 1e6)),
            Self::Count => number(value),
        }
    }
}

/// At least three significant digits, a whole number as such, and groups of three digits.
pub(crate) fn number(value: f64) -> String {
    let decimals = match value.abs() {
        whole if whole.fract() == 0.0 => 0,
        small if small < 10.0 => 2,
        middle if middle < 100.0 => 1,
        _ => 0,
    };
    let text = format!("{value:.decimals$}");
    let (whole, fraction) = text.split_once('.').map_or((&*text, None), |(whole, rest)| (whole, Some(rest)));
    let digits = whole.trim_start_matches('-').len();
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        let left = whole.len() - place;
        if digit != '-' && left < digits && left % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    match fraction {
        Some(fraction) => format!("{grouped}.{fraction}"),
        None => grouped,
    }
}

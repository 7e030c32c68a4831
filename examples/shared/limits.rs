//! Numbers in settings. `--help` states the limits of each. An error states them too, and the number that was given.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// Takes whole numbers within `limits`.
pub(crate) fn whole<T>(limits: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: FromStr + PartialOrd + Display + Clone,
{
    within(limits, "a whole number")
}

/// Takes numbers of some `kind` within `limits`.
pub(crate) fn within<T>(
    limits: RangeInclusive<T>,
    kind: &'static str,
) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: FromStr + PartialOrd + Display + Clone,
{
    move |text| {
        let number = text.parse().ok().filter(|number| limits.contains(number));
        let (least, most) = (grouped(limits.start()), grouped(limits.end()));
        number.ok_or_else(|| format!("it must be {kind} from {least} to {most}, got {text}"))
    }
}

/// With a comma between thousands.
fn grouped(number: &impl Display) -> String {
    let text = number.to_string();
    let whole = text.find('.').unwrap_or(text.len());
    let is_between = |place: usize| place > 0 && place < whole && (whole - place).is_multiple_of(3);
    let digits = text
        .char_indices()
        .map(|(place, digit)| if is_between(place) { format!(",{digit}") } else { digit.to_string() });
    digits.collect()
}

//! From a text to its fields.

use std::ops::Range;

use super::error::CronError;
use super::field::{CronField, Dialect};
use super::item::Item;
use super::next_on_the_wall::Days;
use super::{Cron, Stars};

/// No expression that means something is longer, even if it lists each number of each field.
const LONGEST: usize = 1_000;
/// How much of a longer one an error quotes.
const QUOTED: usize = 60;

/// An expression, cut into words.
pub(super) struct Words<'a> {
    pub(super) text: &'a str,
    pub(super) dialect: Dialect,
    places: [(usize, usize); MOST_WORDS],
    count: usize,
}

/// One more than Quartz has, to see that there are too many.
const MOST_WORDS: usize = 8;

impl<'a> Words<'a> {
    fn new(text: &'a str, dialect: Dialect) -> Self {
        let mut words = Self { text, dialect, places: [(0, 0); MOST_WORDS], count: 0 };
        let mut start = None;
        for (at, byte) in text.bytes().enumerate() {
            match (byte.is_ascii_whitespace(), start) {
                (true, Some(from)) => {
                    words.add((from, at));
                    start = None;
                }
                (false, None) => start = Some(at),
                _ => {}
            }
        }
        if let Some(from) = start {
            words.add((from, text.len()));
        }
        words
    }

    fn add(&mut self, place: (usize, usize)) {
        // The last place is that of all that are too many.
        let index = self.count.min(MOST_WORDS - 1);
        let from = if self.count < MOST_WORDS { place.0 } else { self.places[index].0 };
        self.places[index] = (from, place.1);
        self.count += 1;
    }

    fn place(&self, index: usize) -> Range<usize> {
        let (from, to) = self.places[index];
        from..to
    }

    pub(super) fn error(
        &self,
        place: Range<usize>,
        field: Option<CronField>,
        problem: impl Into<String>,
    ) -> CronError {
        CronError::new(self.dialect, self.text, place, field, problem)
    }
}

pub(super) fn parse(text: &str, dialect: Dialect) -> Result<Cron, CronError> {
    if text.len() > LONGEST {
        let quoted: String = text.chars().take(QUOTED).collect();
        let problem = format!("an expression of {} bytes, and {LONGEST} are the most", text.len());
        return Err(CronError::new(dialect, &quoted, quoted.len()..quoted.len(), None, problem));
    }
    let words = Words::new(text, dialect);
    if text[words.places[0].0..].starts_with('@') {
        return nickname(&words);
    }
    let end = text.trim_ascii_end().len();
    match (words.count, dialect) {
        (5, Dialect::Vixie) => fields(&words, 1),
        (6, _) => fields(&words, 0),
        (7, Dialect::Quartz) if &text[words.place(6)] == "*" => fields(&words, 0),
        (7, Dialect::Quartz) => Err(words.error(
            words.place(6),
            None,
            "no years are taken: leave the field out, and limit the rule, as by `Combine::between`",
        )),
        (0, Dialect::Quartz) => Err(words.error(0..0, None, "nothing stands here: it takes six fields, as 0 0 9 ? * MON-FRI")),
        (0, Dialect::Vixie) => Err(words.error(0..0, None, "nothing stands here: it takes five fields, as 0 9 * * MON-FRI")),
        (count, Dialect::Quartz) if count < 6 => {
            Err(words.error(end..end, None, format!("{count} fields: Quartz has six or seven, of which the first is the second")))
        }
        (count, _) if count < 5 => Err(words.error(
            end..end,
            None,
            format!("{count} fields: it takes five (minute, hour, day of month, month, day of week), or six with the second first"),
        )),
        (count, _) => {
            let most = if dialect == Dialect::Quartz { 7 } else { 6 };
            Err(words.error(words.place(most).start..end, None, format!("{count} fields: it takes at most {most}")))
        }
    }
}

/// `@daily` and its kin.
fn nickname(words: &Words<'_>) -> Result<Cron, CronError> {
    let place = words.place(0);
    let name = &words.text[place.clone()];
    if words.count > 1 && !name.eq_ignore_ascii_case("@every") {
        return Err(words.error(words.place(1), None, format!("nothing may follow {name}")));
    }
    let known = [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
    ];
    if let Some((_, meaning)) = known.iter().find(|(known, _)| name.eq_ignore_ascii_case(known)) {
        return parse(meaning, Dialect::Vixie);
    }
    let problem = match name.to_ascii_lowercase().as_str() {
        "@reboot" => "@reboot is no time: run it when the program starts".into(),
        "@every" => "@every is no time of the calendar: use `Periodic`, or a fixed rate".into(),
        _ => format!(
            "{name} is no name of a rule: there are @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly"
        ),
    };
    Err(words.error(place, None, problem))
}

/// Five or six words, of which the first is the field with this index.
fn fields(words: &Words<'_>, first: usize) -> Result<Cron, CronError> {
    let mut cron =
        Cron { seconds: 1, minutes: 0, hours: 0, months: 0, days: Days::default(), stars: Stars::default() };
    for (index, &field) in CronField::ALL[first..].iter().enumerate() {
        let place = words.place(index);
        let has_star = words.text[place.clone()].starts_with(['*', '?']);
        cron.stars.set(field, has_star);
        let mut mask = 0;
        each_item(words, field, place, |item| {
            item.add_to(&mut mask, &mut cron.days);
        })?;
        // Bits up to 59, 31, 12 and 7: what is cut off is not set.
        #[allow(clippy::cast_possible_truncation)]
        match field {
            CronField::Second => cron.seconds = mask,
            CronField::Minute => cron.minutes = mask,
            CronField::Hour => cron.hours = mask as u32,
            CronField::DayOfMonth => cron.days.numbers = mask as u32,
            CronField::Month => cron.months = mask as u16,
            // 7 is 0.
            CronField::DayOfWeek => cron.days.weekdays = (mask | mask >> 7) as u8 & 0x7f,
        }
    }
    cron.days.in_both = cron.stars.has(CronField::DayOfMonth) || cron.stars.has(CronField::DayOfWeek);
    Ok(cron)
}

fn each_item(
    words: &Words<'_>,
    field: CronField,
    place: Range<usize>,
    mut use_item: impl FnMut(Item),
) -> Result<(), CronError> {
    let mut from = place.start;
    for part in words.text[place].split(',') {
        let place = from..from + part.len();
        from = place.end + 1;
        use_item(Item::parse(words, field, place)?);
    }
    Ok(())
}

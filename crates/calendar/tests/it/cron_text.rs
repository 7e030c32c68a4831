//! Expressions: how they are read, printed and described, and the errors of texts that are none.

use timingwheel_calendar::{Cron, CronError, CronField};

fn printed(text: &str) -> String {
    Cron::parse(text).unwrap_or_else(|error| panic!("{error}")).to_string()
}

#[test]
fn equal_expressions_print_one_short_text() {
    for (text, short) in [
        ("*/1 0-23 1-31 1-12 0-6", "* 0-23 1-31 * 0-6"),
        ("  0\t9 * * mon-fri ", "0 9 * * 1-5"),
        ("0 9 ? * 1,2,3,4,5", "0 9 * * 1-5"),
        ("0 0 9 * * *", "0 9 * * *"),
        ("*/15 * * * * *", "*/15 * * * * *"),
        ("0,15,30,45 * * * *", "0,15,30,45 * * * *"),
        ("0/15 5/5 * JAN-DEC/3 *", "0,15,30,45 5,10,15,20 * */3 *"),
        ("0 0 L,LW,15W,L-3,1 * *", "0 0 1,15W,L-3,LW,L * *"),
        ("0 0 * * 7,FRI#2,5L,SUN#L", "0 0 * * 0,5#2,0#L,5#L"),
        ("0 0 * * FRI-SUN", "0 0 * * 0,5,6"),
        ("0 0 * * 5-7", "0 0 * * 0,5,6"),
        ("0 0 * * SUN-SUN", "0 0 * * 0"),
        ("0 0 */10,15 * *", "0 0 */10,15 * *"),
        ("@hourly", "0 * * * *"),
        ("@Weekly", "0 0 * * 0"),
        ("@annually", "0 0 1 1 *"),
    ] {
        assert_eq!(printed(text), short, "{text}");
        assert_eq!(printed(short), short);
    }
}

#[test]
fn texts_with_the_same_numbers_and_stars_are_equal_and_others_are_not() {
    let cron = |text| Cron::parse(text).unwrap();
    assert_eq!(cron("@daily"), cron("0 0 0 ? JAN-DEC *"));
    assert_ne!(cron("*/30 * * * *"), cron("0,30 1 * * *"));
    // The same times on ordinary days, and others on those on which clocks change.
    assert_ne!(cron("*/30 1 * * *"), cron("0,30 1 * * *"));
    // The same instants, but a `*` has a meaning of its own there.
    assert_ne!(cron("0 0 * * *"), cron("0 0 1-31 * *"));
    // Either, and both.
    assert_ne!(cron("0 0 */2 * FRI"), cron("0 0 1-31/2 * FRI"));
    assert!(cron("*/30 1 * * *").is_interval() && !cron("0,30 1 * * *").is_interval());
}

#[test]
fn quartz_counts_days_of_the_week_from_one() {
    for (quartz, vixie) in [
        ("0 0 12 ? * 2-6", "0 12 * * MON-FRI"),
        ("0 0 12 ? * 1", "0 12 * * SUN"),
        ("0 0 12 ? * L", "0 12 * * SAT"),
        ("0 0 12 ? * 6L", "0 12 * * FRI#L"),
        ("0 0 12 ? * 6#3", "0 12 * * FRI#3"),
        ("0 0 12 ? * SUN-SAT", "0 12 * * 0-6"),
        ("0 0 12 1/5 * ? *", "0 12 1/5 * *"),
        ("0 15 10 LW * ?", "15 10 LW * *"),
        ("0 0 12 ? * MON-SUN", "0 12 * * 1-7"),
        // Ranges that go over the end of their field.
        ("0 0 12 ? * FRI-MON", "0 12 * * FRI-SUN,MON"),
        ("0 0 12 ? * 6-2", "0 12 * * FRI-SUN,MON"),
        ("0 0 22-2 ? * *", "0 22,23,0-2 * * *"),
        ("0 0 22-3/2 ? * *", "0 22,0,2 * * *"),
        ("0 58-1 9 ? * *", "58,59,0,1 9 * * *"),
        ("50-10/20 0 9 ? * *", "50,10 0 9 * * *"),
        ("0 0 9 1 NOV-FEB ?", "0 9 1 11,12,1,2 *"),
        ("0 0 9 30-2 * ?", "0 9 30,31,1,2 * *"),
    ] {
        assert_eq!(Cron::parse_quartz(quartz).unwrap(), Cron::parse(vixie).unwrap(), "{quartz}");
    }
}

/// The first line of an error, and what the mark is under.
fn told(error: &CronError) -> (String, String) {
    let shown = error.to_string();
    let lines: Vec<&str> = shown.lines().collect();
    let marked: String =
        lines[1].chars().zip(lines[2].chars()).filter(|(_, mark)| *mark == '^').map(|(c, _)| c).collect();
    assert_eq!(error.field().is_some(), lines.len() == 4);
    (lines[0].into(), marked)
}

#[test]
fn an_error_says_what_is_wrong_and_points_at_it() {
    for line in include_str!("cron_errors.tsv").lines().skip(1) {
        let &[form, text, problem, marked] = line.split('\t').collect::<Vec<_>>().as_slice() else {
            panic!("{line}")
        };
        let [text, marked] = [text, marked].map(|quoted| quoted.trim_matches('`'));
        let read = if form == "cron" { Cron::parse } else { Cron::parse_quartz };
        assert_eq!(told(&read(text).unwrap_err()), (problem.into(), marked.into()), "{line}");
    }
    let error = Cron::parse_quartz("0 0 12 ? * 0").unwrap_err().to_string();
    assert!(
        error.contains("\nthe day of the week takes 1 (Sunday) to 7 (Saturday) or SUN to SAT"),
        "{error}"
    );
}

#[test]
fn what_is_advised_instead_of_a_range_that_runs_backwards_is_read() {
    for text in
        ["0 0 * * 7-3", "0 0 * * 7-0", "0 0 * * FRI-MON", "0 7-0 * * *", "0 0 1 NOV-FEB *", "0 0 30-2 * *"]
    {
        let (problem, marked) = told(&Cron::parse(text).unwrap_err());
        let (_, advice) = problem.split_once(": write ").unwrap();
        assert!(Cron::parse(&text.replacen(&marked, advice, 1)).is_ok(), "{problem}");
    }
}

#[test]
fn an_error_names_the_field_and_what_may_stand_there() {
    let error = Cron::parse("0 9 * * FUN").unwrap_err();
    assert_eq!(
        (error.expression(), error.field(), error.place()),
        ("0 9 * * FUN", Some(CronField::DayOfWeek), 8..11)
    );
    let shown = error.to_string();
    assert!(shown.contains("\nthe day of the week takes 0 to 7 (both Sunday) or SUN to SAT"), "{shown}");
}

#[test]
fn a_text_that_is_long_or_has_lines_is_quoted_in_one_line() {
    let long = "1,".repeat(5_000);
    let shown = Cron::parse(&long).unwrap_err().to_string();
    assert!(shown.len() < 300, "{shown}");
    assert!(shown.starts_with("an expression must be at most 1000 bytes long, got 10000\n"), "{shown}");
    let shown = Cron::parse("0 9 *\n* 99").unwrap_err().to_string();
    assert_eq!(shown.lines().nth(1), Some("  0 9 * * 99"));
}

#[test]
fn a_sentence_says_what_an_expression_means() {
    for (text, meaning) in [
        ("0 9 * * *", "at 09:00 every day"),
        ("0 9,17 * * *", "at 09:00 and 17:00 every day"),
        ("* * * * *", "every minute"),
        ("* * * * * *", "every second"),
        ("*/15 * * * *", "every 15 minutes"),
        ("0 * * * *", "on the hour, every hour"),
        ("30 * * * *", "at minute 30, every hour"),
        ("0 */2 * * *", "on the hour, in every 2nd hour"),
        ("*/10 9-17 * * MON-FRI", "every 10 minutes, in hours 9 to 17, on Monday to Friday"),
        ("0 0 1,15 * *", "at 00:00 on the 1st and 15th of the month"),
        ("0 0 15W * *", "at 00:00 on the weekday nearest to the 15th of the month"),
        ("0 0 L,LW * *", "at 00:00 on the last weekday and the last day of the month"),
        ("0 0 L-3 * *", "at 00:00 on the 3rd day before the last of the month"),
        (
            "0 0 */2 * FRI",
            "at 00:00 on the 1st, 3rd, 5th, 7th, 9th, 11th, 13th, 15th, 17th, 19th, 21st, 23rd, 25th, 27th, 29th and 31st of the month if it is Friday",
        ),
        ("0 9 * * SAT,SUN", "at 09:00 on Saturday and Sunday"),
        ("0 9 * * FRI#L", "at 09:00 on the last Friday"),
        ("30 8 * JUN-AUG *", "at 08:30 every day, in June to August"),
        ("10 30 8 * * *", "at 08:30:10 every day"),
        ("30 * * * * *", "at second 30 of every minute"),
        ("10-20 * * * * *", "at seconds 10 to 20 of every minute"),
        ("30 * 9 * * *", "at second 30 of every minute, in hour 9"),
        ("30 * * * * MON", "at second 30 of every minute, on Monday"),
        ("30 */2 * * * *", "at second 30, every 2 minutes"),
        ("*/7 * * * *", "at minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56, every hour"),
    ] {
        assert_eq!(Cron::parse(text).unwrap().describe(), meaning, "{text}");
    }
}

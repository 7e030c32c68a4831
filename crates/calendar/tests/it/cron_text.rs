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

fn complaint(text: &str) -> (String, String) {
    let error = Cron::parse(text).unwrap_err();
    assert_eq!(error.expression(), text);
    told(&error)
}

const A_YEAR: &str = "a year needs Quartz's form of seven fields, see `Cron::parse_quartz`; `Combine::between` limits any rule";
const NAMES: &str = "@yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly";

#[test]
fn an_error_says_what_is_wrong_and_points_at_it() {
    for (text, problem, marked) in [
        ("60 * * * *", "60 is not a minute", "60"),
        ("0 25 * * *", "25 is not an hour", "25"),
        ("0 0 0 * *", "0 is not a day of the month", "0"),
        ("0 0 * 13 *", "13 is not a month", "13"),
        ("0 0 * * 8", "8 is not a day of the week", "8"),
        ("0 0 * * MONDAY", "MONDAY is not a day of the week", "MONDAY"),
        ("0 0 * MON *", "MON is not a month", "MON"),
        ("99 0 0 * * *", "99 is not a second", "99"),
        ("0 9-25 * * *", "25 is not an hour", "25"),
        ("0 17-9 * * *", "17-9 runs backwards: write 17-23,0-9", "17-9"),
        ("0 0 * * 7-3", "7-3 runs backwards: write 0-3", "7-3"),
        ("0 0 * * 7-0", "7-0 runs backwards: write 0", "7-0"),
        ("0 0 * * FRI-MON", "FRI-MON runs backwards: write FRI-6,0-MON", "FRI-MON"),
        ("0 7-0 * * *", "7-0 runs backwards: write 7-23,0-0", "7-0"),
        ("0 0 L-+3 * *", "the days before the last must be 1 to 30, got \"+3\"", "+3"),
        ("0 0 L-31 * *", "the days before the last must be 1 to 30, got \"31\"", "31"),
        ("*/0 * * * *", "a step must be at least 1, got 0", "0"),
        ("*/x * * * *", "x is not a step", "x"),
        ("*/ * * * *", "a step is missing here", " "),
        (
            "*/90 * * * *",
            "a step of 90 is too long for the minute: use `Periodic` for real time, `Calendar` for days, weeks and months",
            "90",
        ),
        ("1,,2 * * * *", "a value is missing here", ","),
        ("0 9- * * *", "the hour is missing here", " "),
        ("-1 * * * *", "the minute is missing here", "-"),
        ("0 0 32W * *", "32 is not a day of the month", "32"),
        ("0 0 * * MON#6", "a month has no sixth Monday", "6"),
        ("0 0 * * FRI#0", "a month has no 0th Friday", "0"),
        ("0 0 * * 5#12", "a month has no 12th Friday", "12"),
        ("0 0 * * FRI#x", "the number of the Friday must be 1 to 5, or L for the last, got \"x\"", "x"),
        ("0 0 * * FRI#", "the number of the Friday must be 1 to 5, or L for the last, got \"\"", ""),
        ("0 0 * * L", "L alone is Saturday in Quartz only: write SAT, or FRI#L for the last Friday", "L"),
        ("? 0 * * *", "? is only for days: write *", "?"),
        ("0 0 ?/2 * *", "? takes no step: write *", "?"),
        ("0 0 ä * *", "ä is not a day of the month", "ä"),
        ("", "the expression is empty: five fields are expected, as in 0 9 * * MON-FRI", ""),
        (" ", "the expression is empty: five fields are expected, as in 0 9 * * MON-FRI", " "),
        (
            "0 9 * *",
            "five fields are expected (minute, hour, day of month, month, day of week), or six with the second first, got 4",
            "",
        ),
        ("1 2 3 4 5 6 7 8 9 10", "at most six fields are expected, got 10", "7 8 9 10"),
        ("0 0 9 * * * 2027", &format!("at most six fields are expected, got 7: {A_YEAR}"), "2027"),
        ("0 9 1 1 * 2027", &format!("2027 is not a day of the week: {A_YEAR}"), "2027"),
        (
            "CRON_TZ=Asia/Tokyo 0 9 * * *",
            "CRON_TZ= is not part of an expression: give the zone to `Cron::in_zone`",
            "CRON_TZ=Asia/Tokyo",
        ),
        ("TZ=UTC @daily", "TZ= is not part of an expression: give the zone to `Cron::in_zone`", "TZ=UTC"),
        ("@dayly", &format!("@dayly is not a name, as these are: {NAMES}"), "@dayly"),
        ("@reboot", "@reboot is not a time: run the work when the program starts", "@reboot"),
        ("@Every 5m", "@every is not a time of the calendar: use `Periodic`", "@Every"),
        ("@daily 5", "nothing may follow @daily", "5"),
    ] {
        assert_eq!(complaint(text), (problem.into(), marked.into()), "{text}");
    }
}

#[test]
fn an_error_in_the_form_of_quartz_says_what_is_wrong_there() {
    for (text, problem, marked) in [
        ("0 0 12 ? * 0", "0 is not a day of the week", "0"),
        ("0 0 12 ? * 8", "8 is not a day of the week", "8"),
        (" ", "the expression is empty: six fields are expected, as in 0 0 9 ? * MON-FRI", " "),
        (
            "0 12 ? * 2",
            "six fields are expected, of which the first is the second, or seven with the year, got 5",
            "",
        ),
        (
            "0 0 12 ? * 2 2027",
            "years are not supported: leave the field out, and limit the rule with `Combine::between`",
            "2027",
        ),
        (
            "0 0 12 ? * 2 * *",
            "six fields are expected, of which the first is the second, or seven with the year, got 8",
            "*",
        ),
    ] {
        let told = told(&Cron::parse_quartz(text).unwrap_err());
        assert_eq!(told, (problem.into(), marked.into()), "{text}");
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
        let (problem, marked) = complaint(text);
        let (_, advice) = problem.split_once(": write ").unwrap();
        assert!(Cron::parse(&text.replacen(&marked, advice, 1)).is_ok(), "{problem}");
    }
}

#[test]
fn an_error_names_the_field_and_what_may_stand_there() {
    let error = Cron::parse("0 9 * * FUN").unwrap_err();
    assert_eq!(error.field(), Some(CronField::DayOfWeek));
    assert_eq!(error.place(), 8..11);
    let shown = error.to_string();
    assert!(
        shown
            .lines()
            .nth(3)
            .unwrap()
            .starts_with("the day of the week takes 0 to 7 (both Sunday) or SUN to SAT")
    );
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
        ("0 0 LW * *", "at 00:00 on the last weekday of the month"),
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

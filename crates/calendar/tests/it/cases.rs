//! The twelve core cases: instants that were found by walking through each second, and compared with three other
//! libraries. `cases.tsv` names them.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use timingwheel_calendar::{Cron, Rule};

#[test]
fn each_case_has_the_instants_that_were_found_by_walking() {
    let table = include_str!("cases.tsv");
    let mut cases = 0;
    for line in table.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        let &[id, _core, kind, rule, zone, start, expected, _agree, note] = columns.as_slice() else {
            panic!("nine columns: {line}");
        };
        assert_eq!(kind, "cron", "{id}");
        let rule = Cron::parse(rule).unwrap().in_zone(TimeZone::get(zone).unwrap());
        let start: Timestamp = start.parse().unwrap();
        let expected: Vec<Timestamp> = expected.split(' ').map(|at| at.parse().unwrap()).collect();
        let found: Vec<Timestamp> = rule.upcoming(start).take(expected.len()).collect();
        assert_eq!(found, expected, "{id}: {note}");
        cases += 1;
    }
    assert_eq!(cases, 12);
}

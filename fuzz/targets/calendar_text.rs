//! Texts: each is an expression, a plan, or an error that points into it. A printed expression or plan reads back as the
//! same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use timingwheel_calendar::{Cron, CronError, Plan};

fn check(text: &str, read: Result<Cron, CronError>) {
    match read {
        Ok(cron) => {
            let printed = cron.to_string();
            assert_eq!(Cron::parse(&printed), Ok(cron), "{text:?} was printed as {printed:?}");
            assert!(!cron.describe().is_empty());
        }
        Err(error) => {
            assert!(error.expression().get(error.place()).is_some(), "{text:?}");
            assert!(error.to_string().lines().count() >= 3, "{error}");
        }
    }
}

fuzz_target!(|text: &str| {
    check(text, Cron::parse(text));
    check(text, Cron::parse_quartz(text));
    match text.parse::<Plan>() {
        Ok(plan) => {
            let printed = plan.to_string();
            assert_eq!(printed.parse().as_ref(), Ok(&plan), "{text:?} was printed as {printed:?}");
        }
        Err(error) => assert!(error.to_string().lines().count() >= 3, "{error}"),
    }
});

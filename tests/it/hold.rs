//! How often a property is tried.

use std::env;
use std::fmt::Debug;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::{FileFailurePersistence, TestRunner};

/// Runs `test` on cases from `strategy`: on 64, on `PROPTEST_CASES`, or for `MODEL_SECONDS` seconds. A case that fails is
/// shrunk, and its seed saved beside `file`.
pub(crate) fn hold<S>(file: &'static str, strategy: S, test: impl Fn(S::Value))
where
    S: Strategy,
    S::Value: Debug,
{
    let seconds = env::var("MODEL_SECONDS").ok().map(|text| text.parse().expect("a number of seconds"));
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(0));
    loop {
        let usual = ProptestConfig::default();
        let config = ProptestConfig {
            cases: if env::var_os("PROPTEST_CASES").is_some() { usual.cases } else { 64 },
            // An operation in a hundred is left out at a time.
            max_shrink_iters: 20_000,
            failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
            source_file: Some(file),
            ..usual
        };
        let mut runner = TestRunner::new(config);
        if let Err(failure) = runner.run(&strategy, |case| {
            test(case);
            Ok(())
        }) {
            panic!("{failure}");
        }
        if Instant::now() >= end {
            return;
        }
    }
}

//! With or without tokio's `test-util`: a program in which a clock can be paused, as tests are, or one as servers are.

use std::process::{Command, Stdio};

use serde_json::Value;
use tokio::runtime::Builder;

use crate::support::{Findings, Scale};

/// In place of the method of that name, which tokio has only with `test-util`.
#[allow(dead_code, reason = "a method of the type itself goes before one of a trait")]
trait StartPaused {
    fn start_paused(&mut self, _: bool) -> NoTestUtil {
        NoTestUtil
    }
}

impl StartPaused for Builder {}

struct NoTestUtil;

/// What [`StartPaused::start_paused`] returns, or tokio's own method.
trait Returned {
    const HAS_TEST_UTIL: bool;
}

impl Returned for NoTestUtil {
    const HAS_TEST_UTIL: bool = false;
}

impl Returned for &mut Builder {
    const HAS_TEST_UTIL: bool = true;
}

/// Whether tokio was built with `test-util`. Cargo turns it on in all packages that it builds at once, so no feature of
/// this package tells. No clock is paused to find it out, because in a process where one ever was, tokio's clock is slower.
pub(super) fn has_test_util() -> bool {
    fn of<T: Returned>(_: T) -> bool {
        T::HAS_TEST_UTIL
    }
    of(Builder::new_current_thread().start_paused(false))
}

/// The name of a build that can pause the clock.
pub(super) const WITH_TEST_UTIL: &str = "with `test-util`";

/// As a title says it.
pub(super) fn build_name() -> &'static str {
    if has_test_util() { WITH_TEST_UTIL } else { "without `test-util`" }
}

/// Runs the case `name`, which is `run`, in a build without `test-util`: in this process, if it is one.
///
/// # Panics
/// If that build fails, or the case in it.
pub(super) fn without_test_util(name: &str, scale: Scale, run: fn(Scale) -> Findings) -> Findings {
    if scale.is_test() || !has_test_util() {
        return run(scale);
    }
    if !cfg!(feature = "test-util") {
        panic!(
            "tokio has `test-util` although this package has not, as another package has turned it on: build with \
             `--package timingwheel-benches`"
        );
    }
    eprintln!("building the suite without tokio's `test-util`");
    let suite = Command::new(built()).args(["--case", name, "--bench"]).stderr(Stdio::inherit()).output();
    let suite = suite.expect("the suite starts");
    assert!(suite.status.success(), "{name} failed without `test-util`: {}", suite.status);
    serde_json::from_slice(&suite.stdout).expect("findings of the same version")
}

/// Builds the suite alone, so that no other package turns `test-util` on, and returns its program.
fn built() -> String {
    let features = if cfg!(feature = "timerfd") { "timerfd" } else { "" };
    let output = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()))
        .args(["bench", "--offline", "--no-run", "--message-format", "json", "--bench", "suite"])
        .args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
        .args(["--package", env!("CARGO_PKG_NAME"), "--no-default-features", "--features", features])
        .stderr(Stdio::inherit())
        .output()
        .expect("Cargo starts");
    assert!(output.status.success(), "building without `test-util` failed: {}", output.status);
    let messages = String::from_utf8(output.stdout).expect("Cargo writes text");
    let mut program = messages.lines().filter_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        (message["target"]["name"] == "suite").then(|| message["executable"].as_str().map(str::to_owned))?
    });
    program.next_back().expect("Cargo names what it built")
}

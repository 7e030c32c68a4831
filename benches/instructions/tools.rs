//! The programs that counting takes.

use std::process::Command;

const VALGRIND: &str = "valgrind";
const RUNNER: &str = "gungraun-runner";

/// Fails with what is missing, and how to get it.
pub(crate) fn look_for() -> Result<(), String> {
    let advice = [
        (VALGRIND, "`apt-get install valgrind`, for one"),
        (RUNNER, "`cargo install gungraun-runner --locked --version` that of `gungraun` in Cargo.lock"),
    ];
    let missing = advice.into_iter().filter(|(program, _)| output(program, "--version").is_none());
    let missing: Vec<String> =
        missing.map(|(program, how)| format!("{program} is missing ({how})")).collect();
    if missing.is_empty() { Ok(()) } else { Err(missing.join(", ")) }
}

/// The compiler's version and target, on which counts depend.
pub(crate) fn compiler() -> String {
    let verbose = output("rustc", "-vV").unwrap_or_default();
    let field = |name| verbose.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("unknown");
    format!("rustc {} for {}", field("release: "), field("host: "))
}

fn output(program: &str, arg: &str) -> Option<String> {
    let output = Command::new(program).arg(arg).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

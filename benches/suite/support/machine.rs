//! On what a report was made, what the kernel counts for this process, and what its limits allow.

use std::error::Error;
use std::fs;
use std::process::Command;
use std::time::{Duration, SystemTime};

use nix::sys::resource::{UsageWho, getrusage};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::table::Table;

// On what a report was made.

/// The machine, how busy it is now, the compiler, the date, and the versions of the crates `compared`.
///
/// # Errors
/// If the compiler or Cargo cannot be asked, or if a crate compared is no dependency.
pub(crate) fn describe(compared: &[&str]) -> Result<Table, Box<dyn Error>> {
    let kernel = rustix::system::uname();
    let cores = std::thread::available_parallelism()?;
    let mut table = Table::new("Made on", ["what", "which"])
        .row(["CPU", &field("/proc/cpuinfo", "model name").unwrap_or_else(unknown)])
        .row(["family, model", &family_and_model().unwrap_or_else(unknown)])
        .row(["cores", &cores.to_string()])
        .row(["memory", &memory().unwrap_or_else(unknown)])
        .row(["kernel", &format!("{} {}", kernel.sysname().to_str()?, kernel.release().to_str()?)])
        .row(["rustc", output(&program("RUSTC", "rustc"), &["--version"])?.trim()])
        .row(["load before", &load().unwrap_or_else(unknown)])
        .row(["date", &humantime::format_rfc3339_seconds(SystemTime::now()).to_string()]);
    for (name, version) in versions(compared)? {
        table = table.row([name, version]);
    }
    Ok(table)
}

/// What stands behind `key` and a colon in one of the kernel's files; nothing where there is no such file.
pub(crate) fn field(file: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let (_, value) =
        text.lines().filter_map(|line| line.split_once(':')).find(|(name, _)| name.trim() == key)?;
    Some(value.trim().to_owned())
}

/// Makers give several generations one name.
fn family_and_model() -> Option<String> {
    let of = |key| field("/proc/cpuinfo", key);
    Some(format!("{}, {}", of("cpu family")?, of("model")?))
}

fn memory() -> Option<String> {
    const KIB_PER_GIB: f64 = 1024.0 * 1024.0;
    let kib: f64 = field("/proc/meminfo", "MemTotal")?.strip_suffix(" kB")?.parse().ok()?;
    Some(format!("{:.1} GiB", kib / KIB_PER_GIB))
}

/// How many threads wanted to run in the last minute.
fn load() -> Option<String> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next().map(str::to_owned)
}

fn unknown() -> String {
    "unknown".into()
}

/// Those of our direct dependencies that are compared, as Cargo resolved them.
fn versions(compared: &[&str]) -> Result<Vec<(String, String)>, Box<dyn Error>> {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    // Offline, Cargo knows only what it has downloaded for this build. `cargo metadata` wants what all members need.
    let of = ["tree", "--offline", "--manifest-path", manifest, "--package", env!("CARGO_PKG_NAME")];
    let lines = ["--depth", "1", "--prefix", "none", "--format", "{p}"];
    let tree = output(&program("CARGO", "cargo"), &[of, lines].concat())?;
    let version = |name: &str| {
        let mut packages = tree.lines().filter_map(|line| line.split_once(" v"));
        let (_, version) = packages.find(|(package, _)| *package == name)?;
        version.split_whitespace().next().map(str::to_owned)
    };
    compared
        .iter()
        .map(|&name| {
            let version = version(name).ok_or_else(|| format!("{name} is no dependency of ours"))?;
            Ok((name.to_owned(), version))
        })
        .collect()
}

/// Cargo tells those that it runs which programs it uses.
fn program(variable: &str, otherwise: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| otherwise.into())
}

fn output(program: &str, args: &[&str]) -> Result<String, Box<dyn Error>> {
    let output = Command::new(program).args(args).output()?;
    if !output.status.success() {
        return Err(format!("{program} {args:?}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

// What the kernel counts for this process.

/// The CPU time of all threads so far.
pub(crate) fn cpu_time() -> Duration {
    time_by(ClockId::ProcessCPUTime)
}

/// The CPU time of the calling thread so far.
pub(crate) fn thread_cpu_time() -> Duration {
    time_by(ClockId::ThreadCPUTime)
}

fn time_by(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).expect("below a second"))
}

/// How often threads of this process have left their core so far, on their own or not. Threads that have ended count.
pub(crate) fn context_switches() -> u64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("the kernel tells a process its own usage");
    let switches = usage.voluntary_context_switches() + usage.involuntary_context_switches();
    u64::try_from(switches).expect("a count")
}

/// The memory that is in use now, in bytes; nothing where the kernel does not tell it as Linux does.
pub(crate) fn resident_bytes() -> Option<f64> {
    const BYTES_PER_KIB: f64 = 1024.0;
    let kib: f64 = field("/proc/self/status", "VmRSS")?.strip_suffix(" kB")?.parse().ok()?;
    Some(kib * BYTES_PER_KIB)
}

/// How often the threads that live now went to sleep so far, without the calling one; nothing where the kernel does not
/// tell it as Linux does.
pub(crate) fn sleeps_of_other_threads() -> Option<f64> {
    let sleeps = |status: &str| field(status, "voluntary_ctxt_switches")?.parse::<f64>().ok();
    let mut sum = -sleeps("/proc/thread-self/status")?;
    for thread in fs::read_dir("/proc/self/task").ok()? {
        // A thread may end meanwhile.
        sum += sleeps(thread.ok()?.path().join("status").to_str()?).unwrap_or(0.0);
    }
    Some(sum)
}

// What the file limit of this process allows.

/// Both ends of a connection are in this process.
const FILES_PER_CONNECTION: u64 = 2;
/// For the runtime and the standard streams.
const RESERVE: u64 = 64;

/// How many connections the file limit allows, at most `wanted`, after it was raised as far as it goes.
pub(crate) fn connections_allowed(wanted: usize) -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum {
        // Where the system refuses, the old limit is still in force.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    }
    let Some(files) = getrlimit(Resource::Nofile).current else { return wanted };
    let connections = files.saturating_sub(RESERVE) / FILES_PER_CONNECTION;
    usize::try_from(connections).map_or(wanted, |allowed| allowed.min(wanted)).max(1)
}

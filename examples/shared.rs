//! What examples share: the closing table, limits of settings, whether the machine was too busy, counts, lateness.

use std::error::Error;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};
use hdrhistogram::Histogram;
use indicatif::HumanCount;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::worker_index;
use tokio::time::Instant;

/// The closing table of an example, and the check that its counts add up.
///
/// ```text
/// | requests       | 1,000 |       |
/// | - done         |   900 |       |   rows with a dash add up to the row above them
/// | - timed out    |   100 |       |
/// |   of these, early | 0  | 0     |   some of the row above
/// ```
#[derive(Debug)]
pub struct Ledger {
    table: Table,
    /// The row that parts have to add up to, and what is left of it.
    total: Option<(String, i128)>,
    has_parts: bool,
    problems: Vec<String>,
    /// The last row is not as expected.
    is_wrong: bool,
}

impl Ledger {
    /// With a column of what was `seen`.
    pub fn new(seen: &str) -> Self {
        let mut table = Table::new();
        table.load_preset(ASCII_MARKDOWN).set_header(["", seen, "expected"]);
        Self { table, total: None, has_parts: false, problems: Vec::new(), is_wrong: false }
    }

    /// A count of its own, which the parts after it add up to.
    pub fn total(&mut self, name: &str, count: u64) -> &mut Self {
        self.close();
        self.total = Some((name.to_owned(), count.into()));
        self.add(name.to_owned(), count, None)
    }

    /// A count of its own that has to be as expected.
    pub fn expect(&mut self, name: &str, count: u64, expected: u64) -> &mut Self {
        self.close();
        self.add(name.to_owned(), count, Some(expected))
    }

    /// A part of the total before it.
    pub fn part(&mut self, name: &str, count: u64) -> &mut Self {
        self.take(count);
        self.add(format!("- {name}"), count, None)
    }

    /// A part that has to be as expected.
    pub fn part_expected(&mut self, name: &str, count: u64, expected: u64) -> &mut Self {
        self.take(count);
        self.add(format!("- {name}"), count, Some(expected))
    }

    /// Some of the row before, which have to be as many as expected, if that is said.
    pub fn of_these(&mut self, name: &str, count: u64, expected: Option<u64>) -> &mut Self {
        self.add(format!("  of these, {name}"), count, expected)
    }

    /// The row before is as expected only where the machine did not hold up the program.
    pub fn unless_too_busy(&mut self) -> &mut Self {
        if std::mem::take(&mut self.is_wrong) {
            self.problems.pop().into_iter().for_each(unless_too_busy);
        }
        self
    }

    /// A figure that is no count.
    pub fn text(&mut self, name: &str, figure: &str) -> &mut Self {
        self.close();
        self.table.add_row([name, figure]);
        self
    }

    /// How late something was, by the shares of it that stayed within.
    pub fn lateness(&mut self, what: &str, quantile: impl Fn(f64) -> Duration) -> &mut Self {
        self.close();
        for (share, quantile_of) in [("half", 0.5), ("99 %", 0.99), ("all", 1.0)] {
            let late = format!("{:.3} ms", quantile(quantile_of).as_secs_f64() * 1e3);
            self.table.add_row([format!("{what}: {share} within"), late]);
        }
        self
    }

    /// Prints the table and, if all adds up, what it `means`. Returns what does not add up.
    pub fn print(mut self, means: &str) -> Vec<String> {
        self.close();
        self.table
            .column_iter_mut()
            .skip(1)
            .for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        let text = self.table.to_string();
        println!("{text}\n\nRows with a dash add up to the row above them.");
        if self.problems.is_empty() {
            println!("{means}");
        }
        self.problems
    }

    fn add(&mut self, name: String, count: u64, expected: Option<u64>) -> &mut Self {
        let text = |count| HumanCount(count).to_string();
        let expected_instead = expected.filter(|&expected| expected != count);
        self.is_wrong = expected_instead.is_some();
        if let Some(expected) = expected_instead {
            let name = name.trim_start_matches(['-', ' ']);
            self.problems.push(format!("{name}: {}, and not {}", text(count), text(expected)));
        }
        self.table.add_row([name, text(count), expected.map(text).unwrap_or_default()]);
        self
    }

    fn take(&mut self, count: u64) {
        self.has_parts = true;
        if let Some((_, left)) = &mut self.total {
            *left -= i128::from(count);
        }
    }

    fn close(&mut self) {
        if let Some((name, left @ (..=-1 | 1..))) = self.total.take()
            && self.has_parts
        {
            let what = if left < 0 { "more" } else { "less" };
            self.problems.push(format!("{name}: the parts add up to {what}, by {}", left.abs()));
        }
        self.has_parts = false;
    }
}

// Numbers in settings. `--help` states the limits of each. An error states them too, and the number that was given.

/// Takes whole numbers within `limits`.
pub fn whole<T>(limits: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: FromStr + PartialOrd + Display + Clone,
{
    within(limits, "a whole number")
}

/// Takes numbers of some `kind` within `limits`.
pub fn within<T>(limits: RangeInclusive<T>, kind: &'static str) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: FromStr + PartialOrd + Display + Clone,
{
    move |text| {
        let number = text.parse().ok().filter(|number| limits.contains(number));
        let (least, most) = (grouped(limits.start()), grouped(limits.end()));
        number.ok_or_else(|| format!("it must be {kind} from {least} to {most}, got {text}"))
    }
}

/// Takes whole seconds.
pub fn seconds(limits: RangeInclusive<u64>) -> impl Fn(&str) -> Result<Duration, String> + Clone {
    move |text| whole(limits.clone())(text).map(Duration::from_secs)
}

/// Takes whole milliseconds.
pub fn millis(limits: RangeInclusive<u64>) -> impl Fn(&str) -> Result<Duration, String> + Clone {
    move |text| whole(limits.clone())(text).map(Duration::from_millis)
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

// Whether the machine was too busy for the figures of an example to mean anything.

/// A thread of a quiet machine wakes up sooner than this after its time, also beside workers that compute.
const TOO_BUSY: Duration = Duration::from_millis(30);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// For how long this process was held up at the most, in milliseconds.
static LONGEST: AtomicU64 = AtomicU64::new(0);
/// Counts that do not add up, and need not if the machine was too busy.
static IF_QUIET: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Runs an example that returns what does not add up, tells it, and watches the machine meanwhile.
pub async fn conclude<E: Display>(run: impl Future<Output = Result<Vec<String>, E>>) -> ExitCode {
    watch();
    verdict(&run.await.unwrap_or_else(|error| vec![error.to_string()]))
}

/// Begins to watch the machine: a thread sleeps, and sees for how much longer than it asked.
pub fn watch() {
    thread::spawn(|| {
        loop {
            let asked = Instant::now();
            thread::sleep(LOOK_EVERY);
            let late = asked.elapsed().saturating_sub(LOOK_EVERY);
            LONGEST.fetch_max(u64::try_from(late.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
    });
}

/// Notes a problem that a busy machine causes too.
pub fn unless_too_busy(problem: String) {
    IF_QUIET.lock().unwrap_or_else(PoisonError::into_inner).push(problem);
}

/// Tells the problems, and whether they are the machine's.
pub fn verdict(problems: &[String]) -> ExitCode {
    let noted = std::mem::take(&mut *IF_QUIET.lock().unwrap_or_else(PoisonError::into_inner));
    let longest = Duration::from_millis(LONGEST.load(Ordering::Relaxed));
    let is_excused = longest >= TOO_BUSY;
    problems.iter().for_each(|problem| eprintln!("error: {problem}"));
    let kind = if is_excused { "note" } else { "error" };
    noted.iter().for_each(|problem| eprintln!("{kind}: {problem}"));
    if !problems.is_empty() || (!noted.is_empty() && !is_excused) {
        return ExitCode::FAILURE;
    }
    if !noted.is_empty() {
        println!(
            "This machine was too busy for this example, which it held up for {longest:?};\n\
             nothing is wrong with the timers. Run it again when the machine is quieter."
        );
    }
    ExitCode::SUCCESS
}

// How many files the process may open.

/// For the runtime, the listener, the standard streams, and connections that are about to be closed.
const RESERVE: u64 = 128;
/// Both ends of a connection are in this process.
const FILES_EACH: u64 = 2;

/// Sees to it that the process may open the files that so many connections take; `whose` they are is said if it may not.
pub fn raise_limit_for(connections: u64, whose: &str) -> Result<(), String> {
    let needed = connections * FILES_EACH + RESERVE;
    if getrlimit(Resource::Nofile).current.is_some_and(|files| files < needed) {
        raise_limit();
    }
    match getrlimit(Resource::Nofile).current {
        Some(files) if files < needed => Err(format!(
            "the file limit allows at most {} {whose}, got {}: raise it with `ulimit -n {needed}`",
            HumanCount(files.saturating_sub(RESERVE) / FILES_EACH),
            HumanCount(connections),
        )),
        _ => Ok(()),
    }
}

/// Raises the limit as far as it goes.
pub fn raise_limit() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    // Where the system refuses, the old limit is still in force.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

// A ratio in words, for closing lines.

/// Differences up to this are noise of one run.
const NOISE: f64 = 0.1;

/// How `ours` compares with another's: "23 % less than", for example.
pub fn in_words(ours: f64, other: f64) -> String {
    let percent = (ours / other - 1.0) * 100.0;
    if !percent.is_finite() {
        "not to be compared with".into()
    } else if percent.abs() <= NOISE * 100.0 {
        "about as much as".into()
    } else if percent < 0.0 {
        format!("{:.0} % less than", -percent)
    } else {
        format!("{percent:.0} % more than")
    }
}

/// Counts up. Relaxed throughout: while the run is on it is for show, and at the end all tasks have been joined.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// One more.
    pub fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// How many so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How late timers fired, as very many tasks note it.
#[derive(Debug)]
pub struct Lateness {
    /// How many fired before their deadline, which are not in the histograms.
    pub early: Count,
    /// One for each processor, so that workers do not wait for each other.
    late: Box<[Mutex<Histogram<u64>>]>,
}

impl Default for Lateness {
    fn default() -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Self {
            early: Count::default(),
            late: (0..processors).map(|_| Mutex::new(Self::histogram())).collect(),
        }
    }
}

impl Lateness {
    /// A greater lateness counts as this.
    const LATEST: Duration = Duration::from_secs(60);
    /// How many digits of a lateness are kept.
    const DIGITS: u8 = 3;

    /// Notes that a timer for `deadline` has fired now.
    pub fn note(&self, deadline: Instant) {
        let Some(late) = Instant::now().checked_duration_since(deadline) else {
            self.early.add();
            return;
        };
        let shard = &self.late[worker_index().unwrap_or_default() % self.late.len()];
        // Saturating because the histogram has a latest anyway.
        let nanos = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
        shard.lock().unwrap_or_else(PoisonError::into_inner).saturating_record(nanos);
    }

    /// How many fired, early ones too.
    pub fn fired(&self) -> u64 {
        self.all().len() + self.early.get()
    }

    /// The lateness that a share of the timers stayed within.
    pub fn quantile(&self, share: f64) -> Duration {
        Duration::from_nanos(self.all().value_at_quantile(share))
    }

    fn all(&self) -> Histogram<u64> {
        let mut all = Self::histogram();
        for shard in &self.late {
            all.add(&*shard.lock().unwrap_or_else(PoisonError::into_inner)).expect("of the same limits");
        }
        all
    }

    fn histogram() -> Histogram<u64> {
        let latest = u64::try_from(Self::LATEST.as_nanos()).expect("a minute in nanoseconds");
        Histogram::new_with_max(latest, Self::DIGITS).expect("a range and digits that it takes")
    }
}

/// The CPU time of this process, in all threads.
///
/// # Errors
/// If the kernel's answer is no time.
pub fn cpu_time() -> Result<Duration, Box<dyn Error>> {
    Ok(Duration::try_from(clock_gettime(ClockId::ProcessCPUTime))?)
}

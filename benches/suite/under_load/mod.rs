//! What timers cost, and how late they are, in a process that is busy or blocked.
//!
//! Each side has a runtime of its own, and the sides run in turn. No timer was early: `sleep` and
//! `ends_within` check each. That our timers reached the wheel is proved by the wheel's own counts.

mod loads;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{io, thread};

use timingwheel::{IdleGuard, Stats, TimingWheel};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use crate::rivals::host::ALTERNATIVE;
#[cfg(tokio_unstable)]
use crate::sides::alternative;
use crate::sides::{Timers, Tokio, multi_thread};
use crate::support::{Case, Comparison, Scale, Table, Unit, context_switches, cpu_time, rounds};

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("busy_runtime", "How late are timers in a runtime whose workers are busy?", loads::busy),
        Case::new(
            "firing_in_a_loop",
            "What CPU time and how many context switches does a timer take that fires among others?",
            loads::firing,
        ),
        Case::new(
            "unix_connections",
            "What CPU time and how many context switches does a request take, with all its timers?",
            loads::connections,
        ),
        Case::new(
            "blocked_poller",
            "How late are timers of other tasks while one task blocks its worker?",
            loads::blocked,
        ),
    ]
}

// The sides of a comparison, each with a runtime of its own.

/// A runtime, and the timers that tasks in it use.
struct Side<T> {
    timers: T,
    /// Last, so that it outlives its timers.
    runtime: Runtime,
}

/// What a side is put under.
trait Load {
    type Found;

    /// Returns how many timers fired too.
    fn run<T: Guards>(&self, side: &Side<T>) -> (Self::Found, u64);
}

struct Sides {
    ours: Side<TimingWheel>,
    rivals: Vec<Side<Tokio>>,
}

impl Side<TimingWheel> {
    fn ours(runtime: Runtime, settings: timingwheel::Builder) -> Self {
        let wheel = runtime.block_on(async { settings.build() }).expect("settings within their limits");
        Self { timers: wheel, runtime }
    }
}

impl<T: Guards> Side<T> {
    /// Puts the side under `load`, and checks that the timers that fired were the wheel's, if there is one.
    fn run<L: Load>(&self, load: &L) -> L::Found {
        let before = self.timers.stats();
        let (found, fired) = load.run(self);
        assert!(fired > 0, "no timer fired");
        self.assert_armed(before, fired);
        found
    }

    /// Checks that the wheel, if there is one, saw as many timers as it should have. One in a hundred may be missing:
    /// a task that loses its core between making a timer and polling it may find it due.
    fn assert_armed(&self, before: Option<Stats>, at_least: u64) {
        if let Some((after, before)) = self.timers.stats().zip(before) {
            let armed = after.armed - before.armed;
            assert!(armed * 100 >= at_least * 99, "only {armed} of {at_least} timers reached the wheel");
        }
    }
}

impl Sides {
    /// With a wheel of the default tick.
    fn new(workers: usize) -> Self {
        Self::with(workers, TimingWheel::builder())
    }

    fn with_tick(workers: usize, tick: Duration) -> Self {
        Self::with(workers, TimingWheel::builder().tick(tick))
    }

    fn with(workers: usize, settings: timingwheel::Builder) -> Self {
        let runtime = multi_thread(workers);
        let rivals = runtimes(workers).into_iter().map(|runtime| Side { timers: Tokio, runtime });
        Self { ours: Side::ours(runtime, settings), rivals: rivals.collect() }
    }

    /// Runtimes of one thread.
    fn current_thread() -> Self {
        let runtime = || Builder::new_current_thread().enable_all().build().expect("a runtime");
        let rival = Side { timers: Tokio, runtime: runtime() };
        Self { ours: Side::ours(runtime(), TimingWheel::builder()), rivals: vec![rival] }
    }

    /// What each found, by round and in it by side, ours first.
    fn rounds<L: Load>(&self, count: usize, load: &L) -> Vec<Vec<L::Found>> {
        let mut ours = || self.ours.run(load);
        let mut rivals: Vec<_> = self.rivals.iter().map(|rival| || rival.run(load)).collect();
        let mut sides: Vec<&mut dyn FnMut() -> L::Found> = vec![&mut ours];
        sides.extend(rivals.iter_mut().map(|rival| rival as &mut dyn FnMut() -> L::Found));
        rounds(count, &mut sides)
    }
}

// The table to which all cases here add.

/// A row for each thing measured. A column of ratios follows each rival's.
fn targets() -> Table {
    let rivals = NAMES.iter().flat_map(|name| [(*name).to_owned(), ratio_to(name)]);
    let header =
        ["what".to_owned(), "ours".to_owned()].into_iter().chain(rivals).chain(["target".to_owned()]);
    let table = NAMES.iter().fold(Table::new("Targets under load", header), |table, name| {
        table.ratio(&ratio_to(name), "ours", name)
    });
    table
        .note(
            "Target: what the ratio to tokio shall be at most. Where a row has no ratio: what ours shall be.",
        )
        .note(ALTERNATIVE)
}

fn ratio_to(rival: &str) -> String {
    if rival == NAMES[0] { "ratio".into() } else { format!("ratio to {rival}") }
}

/// A row of medians, and of ratios to each rival. `found` is by round and in it by side, ours first. Without a target it
/// is there to be seen.
fn row(what: String, unit: Unit, found: &[Vec<f64>], limit: Option<f64>) -> Vec<String> {
    let rivals = found[0].len() - 1;
    let against = |rival: usize| {
        let pairs: Vec<_> = found.iter().map(|sides| (sides[0], sides[rival])).collect();
        Comparison::of("", unit, &pairs)
    };
    let mut cells = vec![what, unit.show(against(1).ours)];
    for rival in 1..=rivals {
        cells.extend(against(rival).cells().split_off(2));
    }
    end(cells, against(1).target(limit))
}

/// A row of values that no ratio makes clearer, ours first. `target` is what ours shall be, as a cell.
fn row_of_values(what: String, values: &[String], target: String) -> Vec<String> {
    let (ours, rivals) = values.split_first().expect("ours");
    let mut cells = vec![what, ours.clone()];
    for rival in rivals {
        cells.extend([rival.clone(), String::new()]);
    }
    end(cells, target)
}

/// Leaves those rivals out that are not there, and ends with the target.
fn end(mut cells: Vec<String>, target: String) -> Vec<String> {
    cells.resize(2 + 2 * NAMES.len(), String::new());
    cells.push(target);
    cells
}

// The rivals, as runtimes. tokio's alternative timer is one of them in a build with `--cfg tokio_unstable`.

/// In the order of [`runtimes`].
const NAMES: &[&str] = &[
    "tokio",
    #[cfg(tokio_unstable)]
    "tokio's alternative timer",
];

/// One for each rival.
fn runtimes(workers: usize) -> Vec<Runtime> {
    vec![
        multi_thread(workers),
        #[cfg(tokio_unstable)]
        alternative(workers),
    ]
}

// Checked timers: none is early.

/// A timer that fired: its deadline, and how much later its task ran.
#[derive(Clone, Copy, Debug)]
struct Fired {
    deadline: Instant,
    late: Duration,
}

impl Fired {
    /// # Panics
    /// If it is early.
    fn now(deadline: Instant) -> Self {
        let late = Instant::now().checked_duration_since(deadline).expect("no timer is early");
        Self { deadline, late }
    }
}

async fn sleep<T: Timers>(timers: &T, duration: Duration) -> Fired {
    let sleep = timers.sleep(duration);
    let deadline = T::deadline(&sleep);
    sleep.await;
    Fired::now(deadline)
}

/// Whether `work` ends within the limit.
async fn ends_within(timers: &impl Timers, limit: Duration, work: impl Future<Output: Send> + Send) -> bool {
    // At most as late as the timeout's own deadline, so a timeout that is early is seen.
    let deadline = Instant::now() + limit;
    let in_time = timers.timeout(limit, work).await.is_ok();
    if !in_time {
        Fired::now(deadline);
    }
    in_time
}

trait Guards: Timers {
    type Guarded: Guarded;

    /// A stream of which no read may wait for longer than the limit.
    fn guard(&self, stream: UnixStream, read_limit: Duration) -> Self::Guarded;
}

trait Guarded: Send + 'static {
    type Stream: AsyncRead + AsyncWrite + Send + Unpin;

    fn stream(&mut self) -> &mut Self::Stream;

    fn read_exact(&mut self, bytes: &mut [u8]) -> impl Future<Output = io::Result<()>> + Send {
        async move { self.stream().read_exact(bytes).await.map(drop) }
    }

    fn write_all(&mut self, bytes: &[u8]) -> impl Future<Output = io::Result<()>> + Send {
        async move { self.stream().write_all(bytes).await }
    }
}

impl Guards for TimingWheel {
    type Guarded = IdleGuard<UnixStream>;

    fn guard(&self, stream: UnixStream, read_limit: Duration) -> Self::Guarded {
        self.idle_guard(stream).with_read_limit(read_limit)
    }
}

impl Guarded for IdleGuard<UnixStream> {
    type Stream = Self;

    fn stream(&mut self) -> &mut Self {
        self
    }
}

/// A stream with a timeout round each read.
struct TimedReads {
    stream: UnixStream,
    limit: Duration,
}

impl Guards for Tokio {
    type Guarded = TimedReads;

    fn guard(&self, stream: UnixStream, read_limit: Duration) -> Self::Guarded {
        TimedReads { stream, limit: read_limit }
    }
}

impl Guarded for TimedReads {
    type Stream = UnixStream;

    fn stream(&mut self) -> &mut UnixStream {
        &mut self.stream
    }

    async fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        tokio::time::timeout(self.limit, self.stream.read_exact(bytes)).await?.map(drop)
    }
}

// What a process takes for each thing that it does again and again.

/// Until all tasks are at it.
const LEAD: Duration = Duration::from_millis(200);
const WATCHED: Duration = Duration::from_millis(600);
/// Longer than a task waits between two things that it does.
const WATCHED_IN_TEST: Duration = Duration::from_millis(300);
/// Many short ones, as a busy machine disturbs some of them.
const ROUNDS: usize = 9;

#[derive(Clone, Copy, Debug)]
struct Spent {
    /// For each, in nanoseconds.
    cpu: f64,
    /// Context switches for a thousand of them, as there may be far fewer than one for each.
    switches: f64,
}

/// How often a thing was done. Relaxed: it is read while the tasks run, and after all have been joined.
#[derive(Debug, Default)]
struct Count(AtomicU64);

impl Count {
    fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// How many rounds are compared.
fn rounds_of(scale: Scale) -> usize {
    if scale.is_test() { 1 } else { ROUNDS }
}

/// Watches tasks that count what they do, from a thread that is none of their runtime's.
fn spent(scale: Scale, done: &Count) -> Spent {
    let look = || (cpu_time(), context_switches(), done.get());
    thread::sleep(scale.length(LEAD));
    let before = look();
    thread::sleep(if scale.is_test() { WATCHED_IN_TEST } else { WATCHED });
    let after = look();
    let done = (after.2 - before.2) as f64;
    let switches = (after.1 - before.1) as f64;
    Spent { cpu: (after.0 - before.0).as_nanos() as f64 / done, switches: switches * 1e3 / done }
}

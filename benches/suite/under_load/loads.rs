//! The loads: busy tasks, timers that fire in a loop, connections, a blocked worker.

use std::hint::spin_loop;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{io, thread};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::task::yield_now;
use tokio::time::Instant;

use super::{
    Count, Fired, Guarded, Guards, Load, Side, Sides, Spent, ends_within, rounds_of, row, row_of_values,
    sleep, spent, targets,
};
use crate::sides::{Timers, join};
use crate::support::{Findings, Scale, Table, Unit, connections_allowed, median, number, target};

// Tasks that sleep among tasks that compute, and give way after each 20 µs.

const WORKERS: usize = 2;
const BUSY: [usize; 4] = [50, 200, 1_000, 5_000];
const BUSY_ON_ONE_THREAD: usize = 1_000;
const SLEEPERS: usize = 300;
/// Of each task that computes, before it gives way.
const COMPUTE: Duration = Duration::from_micros(20);
/// Until all tasks are at it.
const LEAD: Duration = Duration::from_millis(200);
const BUSY_WATCHED: Duration = Duration::from_millis(800);
const BUSY_WATCHED_IN_TEST: Duration = Duration::from_millis(100);
/// Enough for a median that one disturbance does not move.
const BUSY_ROUNDS: usize = 5;
const LATENESS_TARGET: f64 = 1.05;

struct Busy {
    scale: Scale,
    tasks: usize,
}

/// Of all timers of a round, in nanoseconds.
#[derive(Clone, Copy)]
struct Lateness {
    p50: f64,
    p99: f64,
}

pub(super) fn busy(scale: Scale) -> Findings {
    let mut table = targets();
    let sides = Sides::new(WORKERS);
    for tasks in BUSY {
        let found = measure(scale, tasks, &sides);
        let name = |quantile| format!("lateness {quantile} beside {} busy tasks", number(tasks as f64));
        table = table.row(lateness(name("p50"), &found, |lateness| lateness.p50)).row(lateness(
            name("p99"),
            &found,
            |lateness| lateness.p99,
        ));
    }
    let found = measure(scale, BUSY_ON_ONE_THREAD, &Sides::current_thread());
    let name = |quantile| format!("lateness {quantile} beside 1,000 busy tasks, one thread");
    table
        .row(lateness(name("p50"), &found, |lateness| lateness.p50))
        .note(format!(
            "Busy tasks: on {WORKERS} workers, or one thread, tasks compute for 20 µs and give way, in a loop. Beside \
             them {SLEEPERS} tasks sleep for 15 to 35 ms, in a loop."
        ))
        .into()
}

fn measure(scale: Scale, tasks: usize, sides: &Sides) -> Vec<Vec<Lateness>> {
    eprintln!("{tasks} busy tasks");
    let rounds = if scale.is_test() { 1 } else { BUSY_ROUNDS };
    sides.rounds(rounds, &Busy { scale, tasks: scale.of(tasks) })
}

fn lateness(name: String, found: &[Vec<Lateness>], value: fn(&Lateness) -> f64) -> Vec<String> {
    let values: Vec<Vec<f64>> = found.iter().map(|sides| sides.iter().map(value).collect()).collect();
    row(name, Unit::Nanos, &values, Some(LATENESS_TARGET))
}

impl Load for Busy {
    type Found = Lateness;

    fn run<T: Guards>(&self, side: &Side<T>) -> (Lateness, u64) {
        let stop = Arc::new(AtomicBool::new(false));
        let busy: Vec<_> = (0..self.tasks).map(|_| side.runtime.spawn(compute(stop.clone()))).collect();
        let from = Instant::now() + self.scale.length(LEAD);
        let until = from + if self.scale.is_test() { BUSY_WATCHED_IN_TEST } else { BUSY_WATCHED };
        let sleepers: Vec<_> = (0..self.scale.of(SLEEPERS))
            .map(|_| side.runtime.spawn(sleep_again_and_again(side.timers.clone(), from, until)))
            .collect();
        let fired: Vec<Fired> = side.runtime.block_on(async {
            let fired = join(sleepers).await.into_iter().flatten().collect();
            // Not before: the last sleepers too are among busy tasks.
            stop.store(true, Ordering::Relaxed);
            join(busy).await;
            fired
        });
        let watched = fired.iter().filter(|fired| fired.deadline >= from);
        let mut late: Vec<Duration> = watched.map(|fired| fired.late).collect();
        late.sort_unstable();
        let at = |percent: usize| late[(late.len() - 1) * percent / 100].as_nanos() as f64;
        (Lateness { p50: at(50), p99: at(99) }, fired.len() as u64)
    }
}

async fn compute(stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        let begun = Instant::now();
        while begun.elapsed() < COMPUTE {
            spin_loop();
        }
        yield_now().await;
    }
}

/// At least one that fires has its deadline after `from`.
async fn sleep_again_and_again(timers: impl Timers, from: Instant, until: Instant) -> Vec<Fired> {
    let mut all = Vec::new();
    loop {
        let fired = sleep(&timers, Duration::from_micros(fastrand::u64(15_000..35_000))).await;
        all.push(fired);
        if fired.deadline >= from && Instant::now() >= until {
            return all;
        }
    }
}

// Tasks that sleep in a loop, so that few or many timers fire in a millisecond.

/// How many milliseconds a task sleeps, on average.
const AVERAGE: usize = 25;
const SHORT_TICK: Duration = Duration::from_micros(100);
/// With which the wheel is about as late as tokio's timers, also where few fire.
const LONG_TICK: Duration = Duration::from_millis(2);
/// With which a busy wheel is turned once a millisecond.
const HALF_TICK: Duration = Duration::from_micros(500);

/// How many timers fire in a millisecond, and the target for the CPU time of each.
const RATES: [(usize, f64); 3] = [(4, 1.0), (25, 0.9), (250, 0.75)];
/// At the lowest rate with a short tick.
const SHORT_TICK_CPU: f64 = 2.0;

struct Loops {
    scale: Scale,
    tasks: usize,
}

/// What a timer took.
struct Found {
    spent: Spent,
    /// On average, in nanoseconds.
    lateness: f64,
}

pub(super) fn firing(scale: Scale) -> Findings {
    let mut table = targets();
    let sides = Sides::new(WORKERS);
    for (rate, target) in RATES {
        let what = format!("{rate} fire in a ms");
        table = rows(table, scale, &sides, rate, &what, [Some(target), Some(MORE_SWITCHES)]);
    }
    let sides = Sides::with_tick(WORKERS, LONG_TICK);
    table = rows(table, scale, &sides, 4, "4 fire in a ms, tick 2 ms", [Some(1.0), Some(MORE_SWITCHES)]);
    let sides = Sides::with_tick(WORKERS, HALF_TICK);
    for rate in [25, 250] {
        table = rows(table, scale, &sides, rate, &format!("{rate} fire in a ms, tick 500 µs"), [None, None]);
    }
    let sides = Sides::with_tick(WORKERS, SHORT_TICK);
    table = rows(table, scale, &sides, 4, "4 fire in a ms, tick 100 µs", [Some(SHORT_TICK_CPU), None]);
    table
        .note(format!(
            "Timers that fire in a ms: tasks on {WORKERS} workers sleep for 15 to 35 ms in a loop. CPU: for each timer. \
             Switches: context switches of all threads for 1,000 timers, whether they gave up their core or lost it. Lateness: until the task runs, on \
             average. With a tick of 2 ms the wheel is about as late as tokio's timers, and is turned half as often; with one \
             of 500 µs it is turned once a millisecond where it is busy."
        ))
        .into()
}

fn rows(
    table: Table,
    scale: Scale,
    sides: &Sides,
    rate: usize,
    what: &str,
    targets: [Option<f64>; 2],
) -> Table {
    eprintln!("{what}");
    let found = sides.rounds(rounds_of(scale), &Loops { scale, tasks: scale.of(rate * AVERAGE) });
    let of = |value: fn(&Found) -> f64| -> Vec<Vec<f64>> {
        found.iter().map(|sides| sides.iter().map(value).collect()).collect()
    };
    let [cpu, switches] = targets;
    table
        .row(row(format!("CPU, {what}"), Unit::Nanos, &of(|found| found.spent.cpu), cpu))
        .row(row(format!("switches, {what}"), Unit::Count, &of(|found| found.spent.switches), switches))
        .row(row(format!("lateness, {what}"), Unit::Nanos, &of(|found| found.lateness), None))
}

impl Load for Loops {
    type Found = Found;

    fn run<T: Guards>(&self, side: &Side<T>) -> (Found, u64) {
        let stop = Arc::new(AtomicBool::new(false));
        let fired = Arc::<Count>::default();
        let tasks: Vec<_> = (0..self.tasks)
            .map(|_| {
                let (timers, stop, fired) = (side.timers.clone(), stop.clone(), fired.clone());
                side.runtime.spawn(async move {
                    let mut late = Duration::ZERO;
                    while !stop.load(Ordering::Relaxed) {
                        late +=
                            sleep(&timers, Duration::from_micros(fastrand::u64(15_000..35_000))).await.late;
                        fired.add();
                    }
                    late
                })
            })
            .collect();
        let spent = spent(self.scale, &fired);
        stop.store(true, Ordering::Relaxed);
        let late: Duration = side.runtime.block_on(join(tasks)).into_iter().sum();
        let lateness = late.as_nanos() as f64 / fired.get() as f64;
        (Found { spent, lateness }, fired.get())
    }
}

// A server and its clients over Unix sockets, with all the timers that such have.

const CONNECTIONS: usize = 3_000;
/// What a request may take.
const REQUEST_LIMIT: Duration = Duration::from_millis(12);
/// Never comes while a case runs.
const IDLE_LIMIT: Duration = Duration::from_secs(30);
const REQUEST_CPU: f64 = 0.97;
/// The most that may be.
const MORE_SWITCHES: f64 = 1.2;

const DONE: u8 = 1;
const TIMED_OUT: u8 = 2;

struct Connections {
    scale: Scale,
    count: usize,
}

#[derive(Debug, Default)]
struct Books {
    stop: AtomicBool,
    thoughts: Count,
    requests: Count,
    timed_out: Count,
}

pub(super) fn connections(scale: Scale) -> Findings {
    let count = connections_allowed(scale.of(CONNECTIONS));
    let what = format!("{} connections", number(count as f64));
    let found = Sides::new(WORKERS).rounds(rounds_of(scale), &Connections { scale, count });
    let of = |value: fn(&Spent) -> f64| -> Vec<Vec<f64>> {
        found.iter().map(|sides| sides.iter().map(value).collect()).collect()
    };
    let (cpu, switches) = (of(|spent| spent.cpu), of(|spent| spent.switches));
    targets()
        .row(row(format!("CPU for a request, {what}"), Unit::Nanos, &cpu, Some(REQUEST_CPU)))
        .row(row(format!("switches for 1,000 requests, {what}"), Unit::Count, &switches, Some(MORE_SWITCHES)))
        .note(format!(
            "Request: a client thinks for 50 to 200 ms and asks; the server works for 1 to 16 ms, under a timeout of \
             12 ms, and answers. Both wait by the side's timers. Each of the server's reads has an idle limit: of an \
             `IdleGuard`, or by tokio's timeout. {WORKERS} workers."
        ))
        .into()
}

impl Load for Connections {
    type Found = Spent;

    fn run<T: Guards>(&self, side: &Side<T>) -> (Spent, u64) {
        let books = Arc::<Books>::default();
        let within = side.runtime.enter();
        let tasks: Vec<_> = (0..self.count)
            .flat_map(|_| {
                let (near, far) = UnixStream::pair().expect("a pair of sockets");
                let (timers, books) = (side.timers.clone(), books.clone());
                [tokio::spawn(serve(side.timers.clone(), far)), tokio::spawn(ask(timers, near, books))]
            })
            .collect();
        drop(within);
        let spent = spent(self.scale, &books.requests);
        books.stop.store(true, Ordering::Relaxed);
        for ended in side.runtime.block_on(join(tasks)) {
            ended.expect("the connection does not break");
        }
        let Books { thoughts, requests, timed_out, .. } = &*books;
        assert_eq!(thoughts.get(), requests.get(), "every request was answered");
        if !self.scale.is_test() {
            assert!((1..requests.get()).contains(&timed_out.get()), "some are done, some time out");
        }
        // For each request a thought, and the work's timer or the timeout.
        (spent, thoughts.get() + requests.get())
    }
}

/// A client: a request is the time that its work takes, in microseconds.
async fn ask(timers: impl Guards, mut stream: UnixStream, books: Arc<Books>) -> io::Result<()> {
    while !books.stop.load(Ordering::Relaxed) {
        sleep(&timers, Duration::from_micros(fastrand::u64(50_000..200_000))).await;
        books.thoughts.add();
        stream.write_all(&fastrand::u32(1_000..16_000).to_le_bytes()).await?;
        let mut answer = [0];
        stream.read_exact(&mut answer).await?;
        books.requests.add();
        match answer {
            [DONE] => {}
            [TIMED_OUT] => books.timed_out.add(),
            [other] => panic!("an answer of {other}"),
        }
    }
    Ok(())
}

/// A server's connection, until the client leaves.
async fn serve(timers: impl Guards, stream: UnixStream) -> io::Result<()> {
    let mut stream = timers.guard(stream, IDLE_LIMIT);
    loop {
        let mut request = [0; size_of::<u32>()];
        match stream.read_exact(&mut request).await {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            read => read?,
        }
        let work = Duration::from_micros(u32::from_le_bytes(request).into());
        let done = ends_within(&timers, REQUEST_LIMIT, sleep(&timers, work)).await;
        stream.write_all(&[if done { DONE } else { TIMED_OUT }]).await?;
    }
}

// Tasks that wait for timers while another task, whose timer has just fired, blocks its worker.

const BLOCKED_WORKERS: usize = 4;
const OTHERS: usize = 4;
const DELAY: Duration = Duration::from_millis(10);
const BLOCKED: Duration = Duration::from_millis(1_500);
const BLOCKED_IN_TEST: Duration = Duration::from_millis(50);
/// Timers that the blocking task waits for before: at least so many, and at random some more.
const BEFORE: usize = 3;
const REPETITIONS: usize = 10;
/// The target, in nanoseconds.
const LIMIT: f64 = 10e6;

struct Blocked {
    length: Duration,
}

pub(super) fn blocked(scale: Scale) -> Findings {
    let length = if scale.is_test() { BLOCKED_IN_TEST } else { BLOCKED };
    let count = if scale.is_test() { 1 } else { REPETITIONS };
    eprintln!("a worker that is blocked");
    let found = Sides::new(BLOCKED_WORKERS).rounds(count, &Blocked { length });
    let by_side = |value: fn(Vec<f64>) -> f64| -> Vec<f64> {
        let sides = 0..found[0].len();
        sides.map(|side| value(found.iter().map(|sides| sides[side]).collect())).collect()
    };
    let middle = by_side(median);
    let worst = by_side(|late| late.into_iter().fold(0.0, f64::max));
    let missed = by_side(|late| late.into_iter().filter(|late| *late >= LIMIT).count() as f64);
    let limit = Unit::Nanos.show(LIMIT);
    let row = |what: String, unit: Unit, values: &[f64], target: String| {
        let shown: Vec<String> = values.iter().map(|value| unit.show(*value)).collect();
        row_of_values(what, &shown, target)
    };
    let late = |what: &str, values: &[f64]| {
        let what = format!("worst lateness beside a blocked worker, {what} of {count}");
        row(what, Unit::Nanos, values, target(format!("below {limit}"), values[0] < LIMIT))
    };
    let what = format!("the same, how many of {count} were not below {limit}");
    targets()
        .row(late("median", &middle))
        .row(late("worst", &worst))
        .row(row(what, Unit::Count, &missed, target(0, missed[0] == 0.0)))
        .note(format!(
            "Beside a blocked worker: on {BLOCKED_WORKERS} workers {OTHERS} tasks sleep for 10 ms in a loop. Another one's \
             timer fires, and that task blocks its worker for {} s.",
            BLOCKED.as_secs_f64()
        ))
        .into()
}

impl Load for Blocked {
    /// The worst lateness of a timer of the others, in nanoseconds.
    type Found = f64;

    fn run<T: Guards>(&self, side: &Side<T>) -> (f64, u64) {
        let stop = Arc::new(AtomicBool::new(false));
        let others: Vec<_> = (0..OTHERS)
            .map(|_| {
                let (timers, stop) = (side.timers.clone(), stop.clone());
                side.runtime.spawn(async move {
                    let mut all = vec![sleep(&timers, DELAY.mul_f64(fastrand::f64())).await];
                    while !stop.load(Ordering::Relaxed) {
                        all.push(sleep(&timers, DELAY).await);
                    }
                    all
                })
            })
            .collect();
        let (timers, length) = (side.timers.clone(), self.length);
        let before = BEFORE + fastrand::usize(..OTHERS);
        let blocking = side.runtime.spawn(async move {
            for _ in 0..before {
                sleep(&timers, DELAY).await;
            }
            let begun = Instant::now();
            thread::sleep(length);
            (begun, Instant::now())
        });
        side.runtime.block_on(async {
            let (begun, ended) = blocking.await.expect("the task does not panic");
            stop.store(true, Ordering::Relaxed);
            let fired: Vec<Fired> = join(others).await.into_iter().flatten().collect();
            // One that was due just before may be held up by it too.
            let during =
                fired.iter().filter(|fired| fired.deadline + fired.late >= begun && fired.deadline < ended);
            let worst = during.map(|fired| fired.late).max().expect("timers were due meanwhile");
            (worst.as_nanos() as f64, (fired.len() + before) as u64)
        })
    }
}

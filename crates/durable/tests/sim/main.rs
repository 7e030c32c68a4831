//! A simulation of many instances on one database: one thread, a paused clock, and all choices drawn from a seed.
//!
//! `DESIGN.md` beside this says what a world has, what the rules are, and which faults were found by them.
//!
//! | set | and |
//! |---|---|
//! | `DURABLE_SEEDS=0..1000` | these seeds are tried, instead of a few |
//! | `DURABLE_SIM_SECONDS=60` | new seeds are tried for so long |
//! | `DURABLE_WEEKS=10` | so many weeks with eight instances are tried |
//! | `DURABLE_LACKS=300`, `DURABLE_PART` | this part is left out, in so many seeds: see `find_faults` |
//! | `DURABLE_SCRIPT=7`, or a file | the script of a seed, or of a file in `found`, is replayed, and its history printed |

mod db;
mod history;
mod lack;
mod life;
mod network;
mod oracle;
mod payload;
mod row;
mod script;
mod shrink;
mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::{Duration, Instant};

use timingwheel::TimingWheel;

use tokio::runtime::Runtime;

use history::{Event, History};
use lack::Lack;
use oracle::Wrong;
use script::{Action, Script};

/// All worlds of a thread happen one after the other, on one runtime. A wheel counts milliseconds from a moment of the process, and
/// its levels are powers of two of them. Each world begins at a multiple of this power, and is shorter. So levels change at the same
/// moments of each world, and what is due at one moment comes in the same order.
const BLOCK_MS: u128 = 1 << 30;

/// About when wheels began to count, and how long after it that may have been.
static COUNTED_FROM: LazyLock<(Instant, Duration)> = LazyLock::new(|| {
    runtime().block_on(async {
        let before = Instant::now();
        drop(TimingWheel::new().sleep(Duration::ZERO));
        (before, before.elapsed())
    })
});

/// What wheels had counted by then, in nanoseconds.
const COUNTED: u128 = 1 << 63;

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true).on_thread_unpark(network::goes_on).build().expect("a runtime")
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

thread_local! {
    /// Its milliseconds begin in the last part of those of wheels.
    static RUNTIME: Runtime = loop {
        let (runtime, (from, within)) = (runtime(), *COUNTED_FROM);
        let gone = runtime.block_on(async { now() }).duration_since(from).as_nanos() % 1_000_000;
        let fits = within.as_nanos()..1_000_000 - COUNTED % 1_000_000;
        // On a machine that was busy at that moment none may be sure to fit.
        if fits.is_empty() || fits.contains(&gone) {
            break runtime;
        }
    };
}

/// No world takes so long from one statement to the next, on whatever machine.
const ENDLESS: Duration = Duration::from_secs(30);

/// The history of a script. If a task wakes without end, the paused clock stands still: then the process ends.
fn lived(script: &Script) -> History {
    let (_ended, end) = std::sync::mpsc::channel::<()>();
    let (seed, statements) = (script.seed, Arc::new(AtomicU64::new(0)));
    let sent = Arc::clone(&statements);
    std::thread::spawn(move || {
        let mut before = None;
        while end.recv_timeout(ENDLESS) == Err(RecvTimeoutError::Timeout) {
            if before.replace(sent.load(Ordering::Relaxed)) == Some(sent.load(Ordering::Relaxed)) {
                println!("seed {seed}, against the rule \"endless\": its world has no end");
                std::process::exit(1);
            }
        }
    });
    RUNTIME.with(|runtime| {
        runtime.block_on(async {
            let counted = (COUNTED + now().duration_since(COUNTED_FROM.0).as_nanos()) / 1_000_000;
            let left = BLOCK_MS - counted % BLOCK_MS;
            tokio::time::advance(Duration::from_millis(left.try_into().expect("less than a block"))).await;
            life::live(script, statements).await
        })
    })
}

/// The first breach of each rule.
fn wrong(script: &Script) -> Vec<Wrong> {
    let mut wrong = oracle::check(script, &lived(script));
    let mut seen = BTreeSet::new();
    wrong.retain(|wrong| seen.insert(wrong.rule));
    wrong
}

/// Panics with the fewest steps that break the rule.
fn tell(script: &Script, Wrong { rule, at, what }: &Wrong) -> ! {
    let breaks = |script: &Script| wrong(script).iter().any(|wrong| wrong.rule == *rule);
    let least = shrink::shrunk(script, breaks);
    panic!(
        "seed {seed}, at {at}, against the rule {rule:?}: {what}\nDURABLE_SCRIPT={seed} cargo test \
         --package timingwheel-durable --all-features --test sim replayed -- --nocapture # prints its history\n\
         The least that breaks it, for a file in `found`:\n{}",
        least.text(),
        seed = script.seed,
    );
}

/// Tries these on all cores.
fn on_all_cores(seeds: impl Iterator<Item = u64> + Send, tries: impl Fn(u64) + Sync) {
    let seeds = Mutex::new(seeds);
    let next = || seeds.lock().expect("no panic").next();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(|| {
                while let Some(seed) = next() {
                    tries(seed);
                }
            });
        }
    });
}

/// Lets the worlds of these seeds happen. Panics if they break a rule, with the least that breaks the first one.
fn hunt(seeds: impl Iterator<Item = u64> + Send, script: impl Fn(u64) -> Script + Sync) {
    let (begun, worlds) = (Instant::now(), AtomicU32::new(0));
    let broken = Mutex::new(BTreeMap::<u64, Wrong>::new());
    on_all_cores(seeds, |seed| {
        let wrong = wrong(&script(seed));
        worlds.fetch_add(1, Ordering::Relaxed);
        for Wrong { rule, at, what } in &wrong {
            println!("seed {seed}, at {at}, against the rule {rule:?}: {what}");
        }
        broken.lock().expect("no panic").extend(wrong.into_iter().next().map(|first| (seed, first)));
    });
    let (worlds, broken) = (worlds.into_inner(), broken.into_inner().expect("no panic"));
    let took = begun.elapsed().as_secs_f64();
    println!(
        "{worlds} worlds in {took:.1} s, {:.1} a second, {} broken",
        f64::from(worlds) / took,
        broken.len()
    );
    if let Some((seed, wrong)) = broken.into_iter().next() {
        tell(&script(seed), &wrong);
    }
}

#[test]
fn worlds_break_no_rule() {
    if let Ok(seconds) = std::env::var("DURABLE_SIM_SECONDS") {
        let until = Instant::now() + Duration::from_secs(seconds.parse().expect("a number of seconds"));
        let first = fastrand::Rng::new().u64(..u64::MAX / 2);
        println!("worlds of {seconds} s, from seed {first} on");
        return hunt((first..).take_while(|_| Instant::now() < until), Script::of);
    }
    let seeds = std::env::var("DURABLE_SEEDS").unwrap_or_else(|_| "0..6".into());
    let (from, to) = seeds.split_once("..").expect("seeds as 0..100");
    hunt(from.parse().expect("a seed")..to.parse().expect("a seed"), Script::of);
}

/// A part of the simulated store, or of the crate with `faults.patch`, is left out: how many seeds it takes to see it.
#[test]
fn what_is_left_out_is_found() {
    let (Ok(seeds), Ok(part)) = (std::env::var("DURABLE_LACKS"), std::env::var("DURABLE_PART")) else {
        return;
    };
    let lacks: Option<Lack> = serde_json::from_str(&format!("{part:?}")).ok();
    let seeds: u64 = seeds.parse().expect("a number of seeds");
    let found = Mutex::new(None::<(u64, Wrong)>);
    let is_found = || found.lock().expect("no panic").is_some();
    on_all_cores((0..seeds).take_while(|_| !is_found()), |seed| {
        let script = Script { lacks, ..Script::of(seed) };
        if let Some(wrong) = wrong(&script).into_iter().next() {
            let mut found = found.lock().expect("no panic");
            if found.as_ref().is_none_or(|(after, _)| seed < *after) {
                *found = Some((seed + 1, wrong));
            }
        }
    });
    match found.into_inner().expect("no panic") {
        Some((after, Wrong { rule, what, .. })) => println!("{part}: after {after}, by {rule}: {what}"),
        None => println!("{part}: not in {seeds}"),
    }
}

#[test]
fn a_week_with_eight_instances_breaks_no_rule() {
    let Ok(weeks) = std::env::var("DURABLE_WEEKS") else { return };
    hunt(0..weeks.parse().expect("a number of weeks"), Script::week);
}

#[test]
fn the_same_seed_has_the_same_history_to_the_byte() {
    let text = |seed| {
        let mut script = Script::of(seed);
        script.steps.truncate(24);
        lived(&script).text()
    };
    // On another thread, at the same time, with other worlds before it.
    let others = std::thread::spawn(move || (0..20).rev().map(text).collect::<Vec<_>>());
    let ones: Vec<String> = (0..20).map(text).collect();
    for (seed, (one, other)) in ones.iter().zip(others.join().expect("worlds").iter().rev()).enumerate() {
        let differ = one.lines().zip(other.lines()).find(|(one, other)| one != other);
        assert!(one == other, "seed {seed}: {differ:?}");
    }
}

#[test]
fn a_script_is_read_back_as_it_was_written() {
    for seed in 0..50 {
        let script = Script::of(seed);
        assert_eq!(Script::read(&script.text()).expect("a script"), script);
    }
}

#[test]
fn a_script_that_was_found_breaks_no_rule_any_more() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sim/found");
    let mut files: Vec<_> =
        folder.read_dir().expect("a folder").map(|file| file.expect("a file").path()).collect();
    files.sort();
    for file in files {
        let script = Script::read(&std::fs::read_to_string(&file).expect("a text")).expect("a script");
        let wrong = wrong(&script);
        assert!(wrong.is_empty(), "{}: {wrong:?}", file.display());
    }
}

#[test]
fn a_script_is_cut_down_to_what_breaks_a_rule() {
    let script = Script::week(1);
    let is_kill = |step: &script::Step| matches!(step.does, Action::Kill { .. });
    let is_cancel = |step: &script::Step| matches!(step.does, Action::Cancel { .. });
    let breaks = |script: &Script| script.steps.iter().any(is_kill) && script.steps.iter().any(is_cancel);
    assert!(breaks(&script));
    assert_eq!(shrink::shrunk(&script, breaks).steps.len(), 2);
}

/// The rules that are broken if something in a history was otherwise.
fn breaks(
    script: &Script,
    history: &History,
    change: impl Fn(&mut Vec<(i64, Event)>, usize),
) -> BTreeSet<&'static str> {
    let mut broken = BTreeSet::new();
    for place in 0..history.events.len() {
        let mut other = history.clone();
        change(&mut other.events, place);
        broken.extend(oracle::check(script, &other).into_iter().map(|wrong| wrong.rule));
    }
    broken
}

#[test]
fn the_oracle_notices_what_is_left_out_doubled_and_early() {
    let script = Script { steps: Script::of(1).steps.into_iter().take(12).collect(), ..Script::of(1) };
    let history = lived(&script);
    assert!(oracle::check(&script, &history).is_empty());
    let left_out = breaks(&script, &history, |events, place| drop(events.remove(place)));
    assert!(["answer", "fence"].iter().all(|rule| left_out.contains(rule)), "{left_out:?}");
    let doubled = breaks(&script, &history, |events, place| events.insert(place, events[place].clone()));
    assert!(doubled.contains("fence"), "{doubled:?}");
    let early = breaks(&script, &history, |events, place| {
        if let Event::Called { db_ms, .. } = &mut events[place].1 {
            *db_ms -= 60_000;
        }
    });
    assert!(early.contains("early"), "{early:?}");
}

#[test]
fn a_script_is_replayed_by_name() {
    let Ok(name) = std::env::var("DURABLE_SCRIPT") else { return };
    let script = match name.parse() {
        Ok(seed) if std::env::var("DURABLE_WEEKS").is_ok() => Script::week(seed),
        Ok(seed) => Script::of(seed),
        Err(_) => {
            let named = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sim/found").join(&name);
            let file = if named.exists() { named } else { name.into() };
            Script::read(&std::fs::read_to_string(file).expect("a text")).expect("a script")
        }
    };
    println!("{}", script.text());
    let history = lived(&script);
    println!("{}", history.text());
    for Wrong { rule, at, what } in oracle::check(&script, &history) {
        println!("at {at}, against the rule {rule:?}: {what}");
    }
}

//! A simulation of many instances on one database: one thread, a paused clock, and all choices drawn from a seed.
//!
//! `DESIGN.md` beside this says what it has and what it finds.

mod db;
mod history;
mod life;
mod network;
mod oracle;
mod script;
mod shrink;
mod store;

use std::sync::mpsc;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use history::History;
use script::Script;

/// All worlds of this process happen on one thread, one after the other, on one runtime. Its clock goes on by a whole block for
/// each: wheels, and tokio's timers, find each world at the same place of their levels.
const BLOCK_MS: u128 = 1 << 30;

type Job = Box<dyn FnOnce(&tokio::runtime::Runtime) + Send>;

static WORLDS: LazyLock<Mutex<mpsc::Sender<Job>>> = LazyLock::new(|| {
    let (jobs, todo) = mpsc::channel::<Job>();
    std::thread::spawn(move || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build().expect("a runtime");
        for job in todo {
            job(&runtime);
        }
    });
    Mutex::new(jobs)
});

/// The history of a script.
fn lived(script: Script) -> History {
    let (tell, told) = mpsc::channel();
    let job: Job = Box::new(move |runtime| {
        let history = runtime.block_on(async {
            static BEGAN: LazyLock<tokio::time::Instant> = LazyLock::new(tokio::time::Instant::now);
            let gone = BEGAN.elapsed().as_millis();
            let next = (gone / BLOCK_MS + 1) * BLOCK_MS;
            let step = u64::try_from(next - gone).expect("a block");
            tokio::time::advance(Duration::from_millis(step)).await;
            life::live(&script).await
        });
        // Nobody may wait any more.
        let _ = tell.send(history);
    });
    WORLDS.lock().unwrap_or_else(PoisonError::into_inner).send(job).expect("the thread of worlds");
    told.recv().expect("a world ends")
}

#[test]
fn the_same_seed_has_the_same_history_to_the_byte() {
    for seed in 0..20 {
        let (one, two) = (lived(Script::of(seed)), lived(Script::of(seed)));
        if one.text() != two.text() {
            let (one, two) = (one.text(), two.text());
            let differ = one.lines().zip(two.lines()).position(|(one, two)| one != two).unwrap_or(0);
            let around = |text: &str| text.lines().skip(differ.saturating_sub(5)).take(8).collect::<Vec<_>>().join("\n");
            panic!("seed {seed}, line {differ}:\n{}\n---\n{}", around(&one), around(&two));
        }
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
fn show() {
    let Ok(seed) = std::env::var("SEED") else { return };
    let script = match seed.parse() {
        Ok(seed) => Script::of(seed),
        Err(_) => Script::read(&std::fs::read_to_string(seed).expect("a file")).expect("a script"),
    };
    println!("{}\n{}", script.text(), lived(script.clone()).text());
    for wrong in wrong(&script) {
        println!("{} at {}: {}", wrong.rule, wrong.at, wrong.what);
    }
}

/// The rules that a script breaks, each once.
fn wrong(script: &Script) -> Vec<oracle::Wrong> {
    let mut wrong = oracle::check(script, &lived(script.clone()));
    let mut seen = std::collections::BTreeSet::new();
    wrong.retain(|wrong| seen.insert(wrong.rule));
    wrong
}

/// Rules that the crate breaks today: `DESIGN.md` says why.
const OPEN: &[&str] = &["buried", "buried untried", "series over", "due", "early after a clock was set"];

fn is_open(rule: &str) -> bool {
    OPEN.contains(&rule)
}

#[test]
fn hunt() {
    let Ok(seeds) = std::env::var("SEEDS") else { return };
    let (from, to) = seeds.split_once("..").expect("from..to");
    let (from, to): (u64, u64) = (from.parse().expect("a seed"), to.parse().expect("a seed"));
    let mut counts: std::collections::BTreeMap<&str, (u64, u64, String)> = Default::default();
    for seed in from..to {
        for wrong in wrong(&Script::of(seed)) {
            let entry = counts.entry(wrong.rule).or_insert_with(|| (0, seed, format!("at {}: {}", wrong.at, wrong.what)));
            entry.0 += 1;
        }
    }
    for (rule, (count, seed, what)) in counts {
        println!("{rule}: {count} seeds, first {seed}: {what}");
        if is_open(rule) {
            continue;
        }
        let script = shrink::shrunk(&Script::of(seed), |script| wrong(script).iter().any(|wrong| wrong.rule == rule));
        println!("{}", script.text());
    }
}

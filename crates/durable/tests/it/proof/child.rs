//! A process that is killed: it saves, cancels and moves timers, and writes down all that it does.

use std::env;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use redb::StorageBackend;
use redb::backends::FileBackend;
use serde::{Deserialize, Serialize};
use timingwheel::TimingWheel;
use timingwheel_calendar::Periodic;
use timingwheel_durable::{Act, Answer, Durable, Filter, Kind, Missed, RedbOptions, RedbStore, Run};

use super::history::{History, millis};
use super::hooked::{Hook, Hooked, Injected, Step};
use super::user::change_mind;

/// Where the process is to work; without it there is no such process.
pub(crate) const FOLDER: &str = "DURABLE_CHILD";
/// Where it is to end: a step and how many times it is passed before, as `begin-after:3`.
pub(crate) const FAULT: &str = "DURABLE_FAULT";
/// Whether it only waits until all that is stored has ended.
pub(crate) const DRAIN: &str = "DURABLE_DRAIN";

#[derive(Serialize, Deserialize)]
struct Named {
    name: String,
}

impl Kind for Named {
    const KIND: &'static str = "named";
}

#[derive(Serialize, Deserialize)]
struct Second;

impl Kind for Second {
    const KIND: &'static str = "second";
}

/// Ends the process where it was told to, at once: nothing is dropped, flushed or told.
#[derive(Clone, Debug)]
struct Fault {
    step: String,
    left: Arc<AtomicU64>,
}

impl Fault {
    fn from_env() -> Self {
        let text = env::var(FAULT).unwrap_or_default();
        let (step, count) = text.split_once(':').unwrap_or(("", "0"));
        Self { step: step.into(), left: Arc::new(AtomicU64::new(count.parse().expect("a count"))) }
    }

    fn pass(&self, step: &str) {
        if self.step == step && self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            std::process::abort();
        }
    }
}

impl Hook for Fault {
    async fn at(&self, call: &'static str, step: Step) -> Result<(), Injected> {
        self.pass(&format!("{call}-{}", if step == Step::Before { "before" } else { "after" }));
        Ok(())
    }
}

/// A file that ends the process within a commit.
#[derive(Debug)]
struct FaultyFile {
    file: FileBackend,
    fault: Fault,
}

impl StorageBackend for FaultyFile {
    fn len(&self) -> std::io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> std::io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> std::io::Result<()> {
        self.fault.pass("sync-before");
        self.file.sync_data()?;
        self.fault.pass("sync-after");
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.fault.pass("write");
        self.file.write(offset, data)
    }
}

/// Is run by `kills`, and does nothing otherwise.
#[test]
fn a_process_that_is_killed() {
    let Some(folder) = env::var_os(FOLDER) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(work(Path::new(&folder)));
}

async fn work(folder: &Path) {
    let (history, fault) = (History::open(folder), Fault::from_env());
    let mut options = std::fs::OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true);
    let file = options.open(folder.join("timers.redb")).expect("a file");
    let file = FaultyFile { file: FileBackend::new(file).expect("a backend"), fault: fault.clone() };
    let store = RedbStore::with_backend(file, RedbOptions::new()).expect("a store");
    let store = Hooked { store, hook: fault.clone() };
    let (notes, ends) = (history.clone(), fault.clone());
    let handler = move |Named { name }: Named, run: Run| {
        let (notes, ends) = (notes.clone(), ends.clone());
        async move {
            let now = millis(Timestamp::now());
            notes.tell(&format!("call {name} {} {} {} {now}", run.attempt, run.epoch, millis(run.due)));
            ends.pass("in-handler");
            tokio::task::yield_now().await;
            notes.tell(&format!("end {name}"));
            ends.pass("after-effect");
            Ok(Answer::Done)
        }
    };
    let notes = history.clone();
    let second = move |_: Second, run: Run| {
        let notes = notes.clone();
        async move {
            notes.tell(&format!("occurred series {}", millis(run.scheduled())));
            Ok(Answer::Done)
        }
    };
    let wheel = TimingWheel::new();
    let durable = Durable::builder(&wheel, store)
        .horizon(Duration::from_millis(40))
        .in_memory(50)
        .on(handler)
        .on(second)
        .retry::<Named>(timingwheel_durable::Backoff::fixed(Duration::from_millis(1)).tries(1_000))
        .start()
        .await
        .expect("a start");
    let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let seconds = Periodic::seconds(1, start);
    if env::var_os(DRAIN).is_some() {
        durable.cancel("series").await.expect("a cancel");
        // An operator may have been killed in between.
        for kind in [Named::KIND, Second::KIND] {
            durable.resume(kind).await.expect("a resume");
        }
        while durable.count().await.expect("counts") != Default::default() {
            wheel.sleep(Duration::from_millis(5)).await;
        }
        let mut next = Some(Filter::history().kind(Named::KIND).limit(1_000));
        while let Some(filter) = next {
            let page = durable.look(filter).await.expect("a page");
            for past in page.timers {
                history.tell(&format!("past {} {}", past.timer.key.unwrap_or_default(), past.phase));
            }
            next = page.next;
        }
        durable.stop(Duration::from_secs(60)).await;
        history.tell("drained");
        return;
    }
    durable.keep_history(Named::KIND, Duration::from_secs(86_400)).await.expect("a setting");
    durable.every("series", seconds, &Second).missed(Missed::each(1_000_000)).save().await.expect("a series");
    let mut tasks: Vec<_> =
        (0..4).map(|task| tokio::spawn(users(durable.clone(), history.clone(), task))).collect();
    tasks.push(tokio::spawn(operator(durable.clone(), history.clone())));
    for task in tasks {
        task.await.expect("no panic");
    }
    durable.stop(Duration::from_secs(60)).await;
}

/// Somebody who saves, cancels and moves. Names have the process's number in them, so none comes again.
async fn users(durable: Durable, history: History, task: u64) {
    let mut random = fastrand::Rng::new();
    let unique = format!("{}-{task}-{}", std::process::id(), random.u64(..));
    for count in 0..100 {
        let name = format!("{unique}-{count}");
        let now = Timestamp::from_millisecond(millis(Timestamp::now())).unwrap();
        let due = now + SignedDuration::from_millis(random.i64(-5..120));
        history.tell(&format!("ask {name} {}", millis(due)));
        if durable.at(due, &Named { name: name.clone() }).key(&name).save().await.is_err() {
            continue;
        }
        history.tell(&format!("saved {name}"));
        change_mind(&durable, &history, (&name, due), &mut random, 100).await;
    }
}

/// Somebody who acts on three timers at once, and pauses and resumes kinds.
async fn operator(durable: Durable, history: History) {
    let mut random = fastrand::Rng::new();
    let unique = format!("op-{}-{}", std::process::id(), random.u64(..));
    for round in 0..40 {
        let prefix = format!("{unique}-{round}-");
        let names: Vec<String> = (0..3).map(|n| format!("{prefix}{n}")).collect();
        let now = Timestamp::from_millisecond(millis(Timestamp::now())).unwrap();
        for name in &names {
            let due = now + SignedDuration::from_millis(random.i64(5..120));
            history.tell(&format!("ask {name} {}", millis(due)));
            if durable.at(due, &Named { name: name.clone() }).key(name).save().await.is_ok() {
                history.tell(&format!("saved {name}"));
            }
        }
        let at = now + SignedDuration::from_millis(random.i64(0..100));
        let all = Filter::new().key_prefix(prefix);
        let (asked, act, answered) = match random.u8(..4) {
            0 => ("cancelling".to_owned(), Act::Cancel, "removed".to_owned()),
            1 => {
                (format!("moving {{}} {}", millis(at)), Act::MoveTo(at), format!("moved {{}} {}", millis(at)))
            }
            kind => {
                let kind = if kind == 2 { Named::KIND } else { Second::KIND };
                let _ = durable.pause(kind).await;
                tokio::time::sleep(Duration::from_millis(random.u64(..5))).await;
                let _ = durable.resume(kind).await;
                continue;
            }
        };
        let tell = |what: &str| {
            for name in &names {
                let line =
                    if what.contains("{}") { what.replace("{}", name) } else { format!("{what} {name}") };
                history.tell(&line);
            }
        };
        tell(&asked);
        // Which of them were done is not answered, so only all of them can be told.
        if durable.act(all, act).await.is_ok_and(|acted| acted.done == names.len() as u64) {
            tell(&answered);
        }
    }
}

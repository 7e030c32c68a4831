//! Instances as processes on one database: one is killed again and again, one stopped past its lease and continued, one
//! behind a proxy that cuts, holds and delays; the database is restarted; an old transaction is held. One history of all,
//! and one checker.

use std::env;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use timingwheel::TimingWheel;
use timingwheel_durable::tokio_postgres::NoTls;
use timingwheel_durable::{Answer, Backoff, Cancelled, Durable, Moved, PostgresOptions, PostgresStore, Run};

use crate::history::{Found, History, check_shared};
use crate::proxy::Proxy;
use crate::server::Server;
use crate::support::{Tick, client};

/// The folder of the history; without it there is no such process.
const FOLDER: &str = "DURABLE_INSTANCE";
const URL: &str = "DURABLE_URL";
/// Whether the process saves, cancels and moves, too.
const USES: &str = "DURABLE_USES";
const LEASE: Duration = Duration::from_secs(2);

fn setting(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().expect(name))
}

fn millis(at: Timestamp) -> i64 {
    at.as_millisecond()
}

/// Is run by the others, and does nothing otherwise.
#[test]
fn an_instance_that_is_killed_stopped_or_cut_off() {
    let Some(folder) = env::var_os(FOLDER) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(work(Path::new(&folder)));
}

async fn connect(url: &str) -> PostgresStore {
    loop {
        let options = PostgresOptions::new(url).expect("an address").timeout(Duration::from_secs(2));
        match PostgresStore::connect_with(options, NoTls).await {
            Ok(store) => return store,
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn start(url: &str, history: &History, epoch: &Arc<AtomicU64>) -> Durable {
    loop {
        let (store, notes, epoch) = (connect(url).await, history.clone(), Arc::clone(epoch));
        let handler = move |Tick { name }: Tick, run: Run| {
            let notes = notes.clone();
            epoch.store(run.epoch, Ordering::SeqCst);
            async move {
                let now = millis(Timestamp::now());
                notes.tell(&format!("call {name} {} {} {} {now}", run.attempt, run.epoch, millis(run.due)));
                tokio::time::sleep(Duration::from_millis(fastrand::u64(..30))).await;
                notes.tell(&format!("end {name}"));
                Ok(Answer::Done)
            }
        };
        let started = Durable::builder(&TimingWheel::new(), store)
            .horizon(Duration::from_secs(2))
            .window(500)
            .lease(LEASE)
            .on(handler)
            .retry::<Tick>(Backoff::fixed(Duration::from_millis(1)).tries(1_000))
            .start()
            .await;
        match started {
            Ok(durable) => return durable,
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn work(folder: &Path) {
    let history = History::open(folder);
    let url = env::var(URL).expect("an address");
    let epoch = Arc::new(AtomicU64::new(0));
    let durable = start(&url, &history, &epoch).await;
    let tasks: Vec<_> = (0..setting(USES, 0))
        .map(|task| tokio::spawn(uses(durable.clone(), history.clone(), task)))
        .collect();
    // Nothing more is saved when its parent says so, and it ends when its parent closes the pipe, or kills it.
    let (mut stdin, mut told) = (tokio::io::stdin(), [0]);
    let _ = tokio::io::AsyncReadExt::read(&mut stdin, &mut told).await;
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    let _ = tokio::io::AsyncReadExt::read(&mut stdin, &mut told).await;
    let before = durable.stats();
    durable.stop(Duration::from_secs(30)).await;
    let stats = durable.stats();
    if stats.rejoined == 0 && !stats.lost {
        history.tell(&format!("clean {}", epoch.load(Ordering::SeqCst)));
    }
    history.tell(&format!(
        "left {} fenced {} takeovers {} rejoined {} errors {}",
        std::process::id(),
        stats.fenced,
        before.takeovers,
        before.rejoined,
        stats.store_errors
    ));
}

/// Somebody who saves, cancels and moves, wherever the timers are.
async fn uses(durable: Durable, history: History, task: u64) {
    let mut random = fastrand::Rng::new();
    let unique = format!("{}-{task}-{}", std::process::id(), random.u64(..));
    for count in 0.. {
        let name = format!("{unique}-{count}");
        let due = Timestamp::from_millisecond(millis(Timestamp::now())).unwrap()
            + SignedDuration::from_millis(random.i64(-5..4_000));
        history.tell(&format!("ask {name} {}", millis(due)));
        if durable.at(due, &Tick::new(name.clone())).key(&name).save().await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        }
        history.tell(&format!("saved {name}"));
        match random.u8(..4) {
            0 => {
                history.tell(&format!("cancelling {name}"));
                match durable.cancel(name.as_str()).await {
                    Ok(Cancelled::Removed) => history.tell(&format!("removed {name}")),
                    Ok(_) => history.tell(&format!("kept {name}")),
                    Err(_) => {}
                }
            }
            1 => {
                let due = due + SignedDuration::from_millis(random.i64(-50..1_000));
                history.tell(&format!("moving {name} {}", millis(due)));
                if let Ok(Moved::Moved(_)) = durable.reschedule(name.as_str(), due).await {
                    history.tell(&format!("moved {name} {}", millis(due)));
                }
            }
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(random.u64(..10))).await;
    }
}

/// Processes on one server, of which this process has the life.
struct Cluster {
    folder: tempfile::TempDir,
    server: Server,
}

impl Cluster {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder"), server: Server::start() }
    }

    fn url(&self) -> String {
        self.server.url("postgres")
    }

    fn instance(&self, url: &str, users: u64) -> Child {
        let mut command = Command::new(env::current_exe().expect("this program"));
        command.args(["--exact", "proof::an_instance_that_is_killed_stopped_or_cut_off", "--nocapture"]);
        command.env(FOLDER, self.folder.path()).env(URL, url).env(USES, users.to_string());
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("an instance")
    }

    fn history(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("history")).unwrap_or_default()
    }

    /// Waits until so many instances share the timers, and have saved some.
    fn until_it_works(&self, instances: usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(crate::support::until("all instances work", async || {
            let sql = client(&self.url()).await;
            let count = "select count(distinct epoch) from timingwheel.shards";
            // Without tables there is none.
            let count = sql.query_one(count, &[]).await.map_or(0, |row| row.get::<_, i64>(0));
            let saved = self.history().lines().filter(|line| line.starts_with("saved ")).count();
            usize::try_from(count) == Ok(instances) && saved > instances * 10
        }));
    }

    /// Ends one in order.
    fn end(mut child: Child) {
        drop(child.stdin.take());
        let begin = Instant::now();
        while child.try_wait().expect("a child").is_none() {
            if begin.elapsed() > Duration::from_secs(120) {
                let _ = child.kill();
                panic!("a process hangs");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until all that is stored has ended, ends the instances, and checks the history of all.
    fn check(&self, mut instances: Vec<Child>) -> Result<Found, Vec<String>> {
        for child in &mut instances {
            let pipe = child.stdin.as_mut().expect("a pipe");
            std::io::Write::write_all(pipe, b".").expect("it lives");
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let sql = client(&self.url()).await;
            let begin = Instant::now();
            loop {
                let count = "select count(*) from timingwheel.timers";
                let count: i64 = sql.query_one(count, &[]).await.expect("a count").get(0);
                if count == 0 {
                    break;
                }
                assert!(
                    begin.elapsed() < Duration::from_secs(180),
                    "{count} timers are left, and nobody ends them"
                );
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        instances.into_iter().for_each(Self::end);
        let history = self.history();
        let found = check_shared(&history);
        if found.is_err() {
            let kept = env::temp_dir().join("timingwheel-durable-postgres-history");
            std::fs::write(&kept, &history).expect("written");
            eprintln!("the history is in {}", kept.display());
        }
        found
    }
}

fn signal(child: &Child, signal: &str) {
    let sent = Command::new("/bin/sh").args(["-c", &format!("kill -{signal} {}", child.id())]).status();
    assert!(sent.expect("a shell").success());
}

/// How long the faults go on, and how many instances there are.
fn size() -> (Duration, usize) {
    (
        Duration::from_secs(setting("DURABLE_SECONDS", 12)),
        usize::try_from(setting("DURABLE_INSTANCES", 3)).expect("few"),
    )
}

#[test]
fn instances_that_are_killed_stopped_and_cut_off_lose_nothing_and_repeat_nothing_without_cause() {
    let ((time, count), cluster) = (size(), Cluster::new());
    let proxy = Proxy::start(cluster.server.port());
    let through = format!("postgres://postgres@127.0.0.1:{}/postgres", proxy.port());
    // One is killed every few seconds, one is stopped, one is cut off, and the others have no fault.
    let mut killed = cluster.instance(&cluster.url(), 1);
    let stopped = cluster.instance(&cluster.url(), 1);
    let cut = cluster.instance(&through, 1);
    let sound: Vec<Child> =
        (0..count.saturating_sub(2)).map(|_| cluster.instance(&cluster.url(), 2)).collect();
    cluster.until_it_works(sound.len() + 3);
    let begin = Instant::now();
    let (mut kills, mut stops) = (0, 0);
    let mut random = fastrand::Rng::new();
    while begin.elapsed() < time {
        std::thread::sleep(Duration::from_millis(1_500));
        killed.kill().expect("killed");
        killed.wait().expect("it ends");
        kills += 1;
        proxy.fault(["cut", "hold", "delay"][random.usize(..3)]);
        signal(&stopped, "STOP");
        std::thread::sleep(LEASE + Duration::from_millis(random.u64(200..1_200)));
        signal(&stopped, "CONT");
        stops += 1;
        proxy.fault("none");
        killed = cluster.instance(&cluster.url(), 1);
    }
    let all = [killed, stopped, cut].into_iter().chain(sound).collect();
    let found = cluster
        .check(all)
        .unwrap_or_else(|wrong| panic!("{} faults: {:?}", wrong.len(), &wrong[..wrong.len().min(5)]));
    assert!(found.saved > 200 && found.removed > 10 && found.moved > 10, "{found:?}");
    let history = cluster.history();
    let rejoined =
        history.lines().filter(|line| line.starts_with("left ") && !line.contains("rejoined 0")).count();
    assert!(rejoined > 0 && kills > 0 && stops > 0, "one that was stopped past its lease joins again");
}

#[test]
fn a_database_that_is_restarted_and_killed_delays_and_loses_nothing() {
    let mut cluster = Cluster::new();
    let instances: Vec<Child> = (0..2).map(|_| cluster.instance(&cluster.url(), 2)).collect();
    cluster.until_it_works(2);
    for how in ["stop", "kill"] {
        std::thread::sleep(Duration::from_secs(2));
        cluster.server.stop(how);
        // Also longer than the lease.
        std::thread::sleep(if how == "stop" { LEASE * 2 } else { Duration::from_millis(300) });
        cluster.server.run();
    }
    std::thread::sleep(Duration::from_secs(1));
    let found = cluster.check(instances).unwrap_or_else(|wrong| panic!("{wrong:?}"));
    assert!(found.saved > 100, "{found:?}");
}

/// The tables with the fences of load, begin and settle taken out.
fn without_fences() -> String {
    let mut tables = PostgresStore::tables().to_owned();
    for fence in [
        "where s.epoch = p_epoch;",
        "and s.epoch = p_epoch\n        order by s.shard for share",
        "and (t.begun_by is null or t.begun_by <> all(v_alive))",
        "and t.begun_by = p_epoch and t.attempts = a.attempt",
    ] {
        assert_eq!(tables.matches(fence).count(), 1, "{fence}");
        tables = tables.replace(fence, if fence.ends_with(';') { ";" } else { "" });
    }
    tables
}

#[test]
fn without_the_fence_the_checker_sees_faults() {
    let cluster = Cluster::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let sql = client(&cluster.url()).await;
        sql.batch_execute(&without_fences()).await.expect("tables without fences");
    });
    let instances: Vec<Child> = (0..2).map(|_| cluster.instance(&cluster.url(), 2)).collect();
    cluster.until_it_works(2);
    std::thread::sleep(Duration::from_secs(2));
    let wrong = cluster.check(instances).expect_err("without the fence it goes wrong");
    assert!(wrong.iter().any(|fault| fault.contains("twice without cause")), "{wrong:?}");
}

#[test]
fn cancels_and_moves_from_everywhere_are_answered_right() {
    let races = setting("DURABLE_RACES", 1_500);
    let cluster = Cluster::new();
    let history = History::open(cluster.folder.path());
    let others: Vec<Child> = (0..2).map(|_| cluster.instance(&cluster.url(), 0)).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let durable = start(&cluster.url(), &history, &Arc::default()).await;
        let places = Arc::new(tokio::sync::Semaphore::new(32));
        let tasks = (0..races).map(|race| {
            let (durable, history, places) = (durable.clone(), history.clone(), places.clone());
            tokio::spawn(async move {
                let _place = places.acquire().await;
                let mut random = fastrand::Rng::new();
                let (name, due) = (format!("race-{race}"), millis(Timestamp::now()) + random.i64(20..80));
                let at = Timestamp::from_millisecond(due).unwrap();
                history.tell(&format!("ask {name} {due}"));
                durable.at(at, &Tick::new(name.clone())).key(&name).save().await.expect("a save");
                history.tell(&format!("saved {name}"));
                let early = Duration::from_millis(random.u64(..90));
                tokio::time::sleep(early).await;
                if random.bool() {
                    history.tell(&format!("cancelling {name}"));
                    match durable.cancel(name.as_str()).await.expect("a cancel") {
                        Cancelled::Removed => history.tell(&format!("removed {name}")),
                        _ => history.tell(&format!("kept {name}")),
                    }
                } else {
                    let to = due + random.i64(-30..60);
                    history.tell(&format!("moving {name} {to}"));
                    let to_at = Timestamp::from_millisecond(to).unwrap();
                    if let Moved::Moved(_) = durable.reschedule(name.as_str(), to_at).await.expect("a move") {
                        history.tell(&format!("moved {name} {to}"));
                    }
                }
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.expect("no panic");
        }
        crate::support::until("all have ended", async || {
            durable.count().await.is_ok_and(|counts| counts == Default::default())
        })
        .await;
        durable.stop(Duration::from_secs(60)).await;
    });
    let found = cluster
        .check(others)
        .unwrap_or_else(|wrong| panic!("{} faults: {:?}", wrong.len(), &wrong[..wrong.len().min(5)]));
    assert!(found.removed > 20 && found.moved > 20, "{found:?}");
}

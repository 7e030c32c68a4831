//! Processes on one server, one history of all, and the check of it.

use std::env;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::child::{FOLDER, SKEW, URL, USES};
use super::server::Server;
use super::support::client;
use crate::proof::history::{Found, check_shared};

/// Processes on one server, of which this process has the life.
pub(crate) struct Cluster {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) server: Server,
}

impl Cluster {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder"), server: Server::start() }
    }

    pub(crate) fn url(&self) -> String {
        self.server.url("postgres")
    }

    pub(crate) fn instance(&self, url: &str, users: u64) -> Child {
        self.skewed(url, users, None)
    }

    /// One whose clock is ahead by so many milliseconds, and goes faster by so many thousandths.
    pub(crate) fn skewed(&self, url: &str, users: u64, skew: Option<(i64, i64)>) -> Child {
        let mut command = Command::new(env::current_exe().expect("this program"));
        command.args([
            "--exact",
            "postgres::child::an_instance_that_is_killed_stopped_or_cut_off",
            "--nocapture",
        ]);
        command.env(FOLDER, self.folder.path()).env(URL, url).env(USES, users.to_string());
        if let Some((ahead_ms, thousandths)) = skew {
            command.env(SKEW, format!("{ahead_ms} {thousandths}"));
        }
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("an instance")
    }

    pub(crate) fn history(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("history")).unwrap_or_default()
    }

    /// Waits until so many instances share the timers, and have saved some.
    pub(crate) fn until_it_works(&self, instances: usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(super::support::until("all instances work", async || {
            let sql = client(&self.url()).await;
            let count = "select count(distinct epoch) from timingwheel.shards";
            // Without tables there is none.
            let count = sql.query_one(count, &[]).await.map_or(0, |row| row.get::<_, i64>(0));
            let saved = self.history().lines().filter(|line| line.starts_with("saved ")).count();
            usize::try_from(count) == Ok(instances) && saved > instances * 10
        }));
    }

    /// Ends one in order.
    pub(crate) fn end(mut child: Child) {
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
    pub(crate) fn check(&self, mut instances: Vec<Child>) -> Result<Found, Vec<String>> {
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

pub(crate) fn signal(child: &Child, signal: &str) {
    let sent = Command::new("/bin/sh").args(["-c", &format!("kill -{signal} {}", child.id())]).status();
    assert!(sent.expect("a shell").success());
}

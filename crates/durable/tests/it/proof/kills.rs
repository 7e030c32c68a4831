//! Processes that are killed: at each step, and at random moments, one after the other on one file.

use std::env;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use timingwheel_durable::RedbStore;

use super::child::{DRAIN, FAULT, FOLDER};
use super::history::{Found, check};
use crate::folder::folder;

fn child(folder: &TempDir) -> Command {
    let mut command = Command::new(env::current_exe().expect("this program"));
    command
        .args(["--exact", "proof::child::a_process_that_is_killed", "--nocapture"])
        .env(FOLDER, folder.path());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Waits for its end. One that takes so long hangs.
fn wait(mut child: Child) -> std::process::ExitStatus {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child") {
            return status;
        }
        if begin.elapsed() > Duration::from_secs(300) {
            let _ = child.kill();
            panic!("a process hangs");
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Lets one process end all that is stored, and checks the history of all of them.
fn end(folder: &TempDir) -> Found {
    // If it fails, it says why.
    let mut drains = child(folder);
    let status = wait(drains.env(DRAIN, "1").stderr(Stdio::inherit()).spawn().expect("a child"));
    assert!(status.success(), "{status}");
    let history = std::fs::read_to_string(folder.path().join("history")).expect("a history");
    assert!(history.ends_with("drained\n"));
    match check(&history) {
        Ok(found) => found,
        Err(wrong) => {
            let kept = env::temp_dir().join("timingwheel-durable-history");
            std::fs::write(&kept, &history).expect("written");
            panic!("{} faults, as {}; the history is in {}", wrong.len(), wrong[0], kept.display());
        }
    }
}

/// Steps that a process passes once, and steps that it passes again and again.
const ONCE: [&str; 4] = ["join-before", "join-after", "leave-before", "leave-after"];
const AGAIN: [&str; 20] = [
    "save-before",
    "save-after",
    "load-before",
    "load-after",
    "begin-before",
    "begin-after",
    "in-handler",
    "after-effect",
    "settle-before",
    "settle-after",
    "cancel-before",
    "cancel-after",
    "reschedule-after",
    "act-before",
    "act-after",
    "pause-before",
    "pause-after",
    "write",
    "sync-before",
    "sync-after",
];

#[test]
fn after_a_kill_at_each_step_none_is_lost_early_removed_or_doubled() {
    // The first time that it is passed, and the 15th; each on a file of its own, both at a time.
    let kills = [(1, &ONCE[..]), (15, &[])].map(|(count, once)| {
        std::thread::spawn(move || {
            let (folder, mut killed) = (folder(), 0);
            for step in once.iter().chain(&AGAIN) {
                let fault = format!("{step}:{count}");
                let status = wait(child(&folder).env(FAULT, fault).spawn().expect("a child"));
                killed += usize::from(!status.success());
            }
            (killed, end(&folder))
        })
    });
    let all = kills.map(|thread| thread.join().expect("no fault"));
    let killed: usize = all.iter().map(|(killed, _)| killed).sum();
    // Acts and pauses come by chance, and may come less often.
    assert!(killed >= ONCE.len() + AGAIN.len() * 2 - 4, "{killed} were killed");
    let of = |count: fn(&Found) -> usize| all.iter().map(|(_, found)| count(found)).sum::<usize>();
    let found = (
        of(|found| found.saved),
        of(|found| found.removed),
        of(|found| found.moved),
        of(|found| found.repeated),
    );
    assert!(
        found.0 > 100 && found.1 > 10 && found.2 > 10 && found.3 > 3,
        "saved, removed, moved, repeated: {found:?}"
    );
}

#[test]
fn after_kills_at_random_moments_none_is_lost_early_removed_or_doubled() {
    // Fewer than the crashes after which a timer is buried: on a slow machine each kill may hit the same one.
    let kills = env::var("DURABLE_KILLS").map_or(18, |text| text.parse().expect("DURABLE_KILLS"));
    let folder = folder();
    // Children that make the file themselves do so in its place, by a backend of their own: a kill would leave half of a file.
    drop(RedbStore::create(folder.path().join("timers.redb")).expect("a file"));
    let mut random = fastrand::Rng::new();
    for _ in 0..kills {
        let mut child = child(&folder).spawn().expect("a child");
        std::thread::sleep(Duration::from_micros(random.u64(5_000..150_000)));
        child.kill().expect("killed");
        wait(child);
    }
    // On a busy machine few of them come far. This one does.
    assert!(wait(child(&folder).spawn().expect("a child")).success());
    let found = end(&folder);
    assert!(found.saved > kills && found.removed > 0 && found.moved > 0, "{found:?}");
}

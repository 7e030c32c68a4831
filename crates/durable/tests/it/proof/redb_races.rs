//! Cancels and moves at random moments, on the store in a file, by the clock of the machine. One history, and the checker
//! that reads it.
//!
//! `DURABLE_RACES=100000` takes as many.

use std::env;
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use timingwheel::TimingWheel;
use timingwheel_durable::{Answer, Cancelled, Durable, Kind, Moved, RedbStore, Run};

use super::history::{History, check};
use crate::folder::folder;

#[derive(Serialize, Deserialize)]
struct Racer(u64);

impl Kind for Racer {
    const KIND: &'static str = "racer";
}

/// How many race at a time.
const TOGETHER: u64 = 500;

fn millis(millis: i64) -> SignedDuration {
    SignedDuration::from_millis(millis)
}

/// As a store has it: up.
fn due_millis(at: Timestamp) -> i64 {
    at.as_millisecond()
}

fn in_millis(after: i64) -> Timestamp {
    Timestamp::from_millisecond(Timestamp::now().as_millisecond() + 1 + after).unwrap()
}

/// One timer: saved, and then moved or cancelled, once or twice, at about its time.
async fn race(durable: Durable, history: History, number: u64) {
    let mut random = fastrand::Rng::with_seed(number);
    let due = in_millis(random.i64(0..60));
    history.tell(&format!("ask {number} {}", due_millis(due)));
    durable.at(due, &Racer(number)).key(number.to_string()).save().await.expect("saved");
    history.tell(&format!("saved {number}"));
    for _ in 0..random.u8(1..=2) {
        let moment = due + millis(random.i64(-12..12));
        let wait = Duration::try_from(moment.duration_since(Timestamp::now())).unwrap_or_default();
        tokio::time::sleep(wait).await;
        if random.bool() {
            history.tell(&format!("cancelling {number}"));
            match durable.cancel(number.to_string()).await.expect("an answer") {
                Cancelled::Removed => history.tell(&format!("removed {number}")),
                Cancelled::Running(_) => history.tell(&format!("running {number}")),
                Cancelled::NotFound => history.tell(&format!("kept {number}")),
            }
        } else {
            let to = in_millis(random.i64(-5..60));
            history.tell(&format!("moving {number} {}", due_millis(to)));
            match durable.reschedule(number.to_string(), to).await.expect("an answer") {
                Moved::Moved(_) => history.tell(&format!("moved {number} {}", due_millis(to))),
                Moved::Running(_) => history.tell(&format!("running {number}")),
                Moved::NotFound => history.tell(&format!("unmoved {number}")),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_cancels_and_moves_on_a_file_are_answered_right() {
    let races = env::var("DURABLE_RACES").map_or(2_000, |races| races.parse().expect("DURABLE_RACES"));
    let folder = folder();
    let history = History::open(folder.path());
    let store = RedbStore::create(folder.path().join("timers.redb")).expect("a store");
    let told = history.clone();
    let durable = Durable::builder(&TimingWheel::new(), store)
        .on(move |Racer(number), run: Run| {
            let now = due_millis(Timestamp::now());
            let (attempt, epoch, due) = (run.attempt, run.epoch, due_millis(run.due));
            told.tell(&format!("call {number} {attempt} {epoch} {due} {now}"));
            let told = told.clone();
            async move {
                if number % 7 == 0 {
                    tokio::time::sleep(Duration::from_millis(3)).await;
                }
                told.tell(&format!("end {number}"));
                Ok(Answer::Done)
            }
        })
        .start()
        .await
        .expect("a start");
    for from in (0..races).step_by(usize::try_from(TOGETHER).expect("few")) {
        let numbers = from..races.min(from + TOGETHER);
        let racers: Vec<_> =
            numbers.map(|number| tokio::spawn(race(durable.clone(), history.clone(), number))).collect();
        for racer in racers {
            racer.await.expect("no panic");
        }
    }
    let begin = Instant::now();
    while durable.count().await.expect("a count") != Default::default() {
        assert!(begin.elapsed() < Duration::from_secs(300), "{:?}", durable.stats());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let stopped = durable.stop(Duration::from_secs(60)).await;
    assert_eq!((stopped.unsettled, stopped.aborted), (0, 0));
    let text = std::fs::read_to_string(folder.path().join("history")).expect("a history");
    let found = check(&text).unwrap_or_else(|wrong| panic!("{} faults, as {}", wrong.len(), wrong[0]));
    let few = usize::try_from(races / 20).expect("few");
    assert!(found.removed > few && found.moved > few && found.repeated == 0, "{found:?}");
    assert!(text.lines().filter(|line| line.starts_with("call")).count() > few, "{found:?}");
}

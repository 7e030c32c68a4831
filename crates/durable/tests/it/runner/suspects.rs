//! Timers whose process has ended in the middle of several attempts.

use std::future::pending;
use std::sync::{Arc, Mutex};

use timingwheel::TimingWheel;
use timingwheel_durable::{Answer, Durable, MemoryStore, Page, Run, SetClock};
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use super::support::{Note, at, note, secs, start};

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

/// A process without handlers.
async fn bystander(store: &MemoryStore) -> Durable {
    let builder = Durable::builder(&TimingWheel::new(), store.clone());
    builder.clock(SetClock::starting_at(start())).start().await.unwrap()
}

/// Saves timers that are due when a process starts.
fn save(store: &MemoryStore, notes: impl IntoIterator<Item = Note>) {
    runtime().block_on(async {
        let durable = bystander(store).await;
        for (n, note) in (0..).zip(notes) {
            durable.at(at(f64::from(n) - 1_000.0), &note).save().await.unwrap();
        }
    });
}

/// The payloads of the timers that are buried.
fn buried(store: &MemoryStore) -> Vec<String> {
    let page = Page { buried: true, ..Page::default() };
    let buried = runtime().block_on(async { bystander(store).await.list(page).await.unwrap() });
    buried.iter().map(|timer| String::from_utf8_lossy(&timer.payload).into_owned()).collect()
}

fn takes(text: &str, seconds: u64) -> Note {
    Note { takes: seconds, ..note(text) }
}

/// A process whose kind has so many places. A deadly note ends the process after the time that it takes, and one that hangs never
/// ends. The process is killed after `seconds`. Returns which notes were done, and when.
fn process(store: &MemoryStore, places: usize, seconds: u64) -> Vec<(String, f64)> {
    runtime().block_on(async {
        let (began, done, dies) = (Instant::now(), Arc::new(Mutex::new(Vec::new())), Arc::new(Notify::new()));
        let (tells, ends) = (done.clone(), dies.clone());
        let handler = move |note: Note, _: Run| {
            let (tells, ends) = (tells.clone(), ends.clone());
            async move {
                sleep(secs(note.takes)).await;
                if note.text == "deadly" {
                    ends.notify_one();
                }
                if note.text == "deadly" || note.text == "hangs" {
                    pending::<()>().await;
                }
                tells.lock().unwrap().push((note.text, began.elapsed().as_secs_f64()));
                Ok(Answer::Done)
            }
        };
        let builder = Durable::builder(&TimingWheel::new(), store.clone()).on(handler);
        let builder = builder.concurrency_of::<Note>(places).clock(SetClock::starting_at(start()));
        let _durable = builder.start().await.unwrap();
        tokio::select! {
            () = dies.notified() => {}
            () = sleep(secs(seconds)) => {}
        }
        done.lock().unwrap().clone()
    })
}

fn is_about(seconds: f64, expected: f64) -> bool {
    (expected..expected + 1.0).contains(&seconds)
}

#[test]
fn a_long_timer_outlives_one_that_ends_its_process_while_both_run() {
    for (dies_after, is_first) in [(2, true), (2, false), (100, true), (100, false)] {
        let (store, mut notes) = (MemoryStore::new(), [takes("long", 600), takes("deadly", dies_after)]);
        if is_first {
            notes.reverse();
        }
        save(&store, notes);
        let (mut done, mut processes) = (Vec::new(), 0);
        while processes < 50 && buried(&store).is_empty() {
            done.extend(process(&store, 10, 5_000));
            processes += 1;
        }
        done.extend(process(&store, 10, 5_000));
        assert_eq!(done.len(), 1, "{dies_after}, {is_first}: {done:?} in {processes} processes");
        let buried = buried(&store);
        assert!(buried.len() == 1 && buried[0].contains("deadly"), "{buried:?}");
    }
}

#[test]
fn a_suspect_that_never_ends_holds_up_other_suspects_for_an_hour_and_no_other_timer() {
    let store = MemoryStore::new();
    save(&store, [note("hangs")]);
    (0..12).for_each(|_| drop(process(&store, 10, 1)));
    save(&store, [takes("suspect", 5)]);
    (0..3).for_each(|_| drop(process(&store, 10, 1)));
    save(&store, [takes("new", 5)]);
    let done = process(&store, 10, 10_000);
    let [(new, at_once), (suspect, later)] = &done[..] else { panic!("{done:?}") };
    assert_eq!((new.as_str(), suspect.as_str()), ("new", "suspect"));
    assert!(is_about(*at_once, 5.0) && is_about(*later, 3_605.0), "{done:?}");
}

#[test]
fn many_timers_that_were_there_when_their_process_died_three_times_begin_a_second_apart() {
    let store = MemoryStore::new();
    save(&store, (0..100).map(|n| takes(&format!("{n}"), 10)));
    (0..3).for_each(|_| drop(process(&store, 1_000, 1)));
    let done = process(&store, 1_000, 1_000);
    assert_eq!(done.len(), 100);
    assert!(is_about(done[99].1, 99.0 + 10.0), "{done:?}");
}

#[test]
fn suspects_wait_for_a_place_of_their_kind_and_get_one() {
    let store = MemoryStore::new();
    save(&store, [takes("1", 10), takes("2", 10)]);
    (0..3).for_each(|_| drop(process(&store, 2, 1)));
    save(&store, [takes("3", 10), takes("4", 10)]);
    let mut done = process(&store, 1, 1_000);
    assert!(done.len() == 4 && is_about(done[3].1, 40.0), "{done:?}");
    done.sort_by(|one, two| one.0.cmp(&two.0));
    assert!(done.iter().map(|(text, _)| text.as_str()).eq(["1", "2", "3", "4"]), "{done:?}");
}

//! Cancels and moves against load, begin and settle, in all orders: each call of the store waits before it is done, and
//! again before its answer is known, until the schedule lets it go on. Time is one more thing that goes on by choice.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use timingwheel::TimingWheel;
use timingwheel_durable::{Answer, Cancelled, Clock, Durable, Kind, MemoryStore, Moved, Run, SetClock};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, yield_now};

use crate::hooked::{Hook, Hooked, Injected, Step};
use crate::schedules::Schedule;

#[derive(Serialize, Deserialize)]
struct Tick;

impl Kind for Tick {
    const KIND: &'static str = "tick";
}

/// Calls that wait, in the order in which they came.
#[derive(Clone, Default)]
struct Gates(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    are_closed: bool,
    waiting: Vec<oneshot::Sender<()>>,
}

impl Hook for Gates {
    async fn at(&self, call: &'static str, _: Step) -> Result<(), Injected> {
        let waits = {
            let mut state = self.0.lock().unwrap();
            if !state.are_closed || call == "count" {
                return Ok(());
            }
            let (gate, waits) = oneshot::channel();
            state.waiting.push(gate);
            waits
        };
        let _ = waits.await;
        Ok(())
    }
}

impl Gates {
    fn close(&self) {
        self.0.lock().unwrap().are_closed = true;
    }

    fn open(&self) {
        let mut state = self.0.lock().unwrap();
        state.are_closed = false;
        state.waiting.clear();
    }

    fn waiting(&self) -> usize {
        self.0.lock().unwrap().waiting.len()
    }

    fn release(&self, index: usize) {
        let gate = self.0.lock().unwrap().waiting.remove(index);
        let _ = gate.send(());
    }
}

/// When a handler was called, in milliseconds since the start, and for when.
type Calls = Arc<Mutex<Vec<(i64, i64)>>>;

struct Race {
    wheel: TimingWheel,
    clock: Arc<SetClock>,
    gates: Gates,
    calls: Calls,
    durable: Durable,
}

fn start() -> Timestamp {
    "2026-06-01T00:00:00Z".parse().unwrap()
}

fn at(millis: i64) -> Timestamp {
    start() + SignedDuration::from_millis(millis)
}

fn since(at: Timestamp) -> i64 {
    at.as_millisecond() - start().as_millisecond()
}

/// Until all tasks wait. Time stands meanwhile, as this task never does.
async fn settle() {
    for _ in 0..40 {
        yield_now().await;
    }
}

impl Race {
    async fn new() -> Self {
        let (wheel, clock) = (TimingWheel::new(), Arc::new(SetClock::starting_at(start())));
        let (gates, calls) = (Gates::default(), Calls::default());
        let store = Hooked { store: MemoryStore::new(), hook: gates.clone() };
        let (notes, now) = (calls.clone(), clock.clone());
        let durable = Durable::builder(&wheel, store)
            .clock(clock.clone())
            .horizon(Duration::from_secs(1))
            .on(move |_: Tick, run: Run| {
                let mut calls = notes.lock().unwrap();
                calls.push((since(now.now()), since(run.due)));
                let again = run.key.as_deref() == Some("again") && calls.len() == 1;
                async move { Ok(if again { Answer::Retry(Duration::from_secs(5)) } else { Answer::Done }) }
            })
            .start()
            .await
            .unwrap();
        Self { wheel, clock, gates, calls, durable }
    }

    /// Lets begins take so long that the next ones come ahead of their time.
    async fn slow_begins(&self) {
        self.durable.at(at(50), &Tick).save().await.unwrap();
        self.gates.close();
        self.wheel.sleep(Duration::from_millis(60)).await;
        assert_eq!(self.gates.waiting(), 1, "the begin waits");
        self.wheel.sleep(Duration::from_millis(100)).await;
        self.gates.open();
        self.wheel.sleep(Duration::from_millis(100)).await;
        assert!(self.durable.stats().ahead > Duration::from_millis(50), "{:?}", self.durable.stats());
        self.calls.lock().unwrap().clear();
    }

    /// All that waits goes on in the order that is chosen, and time too, by so many steps of so many milliseconds.
    async fn go(&self, schedule: &Mutex<Schedule>, mut steps: usize, step: u64) {
        loop {
            settle().await;
            let waiting = self.gates.waiting();
            let options = waiting + usize::from(steps > 0);
            if options == 0 {
                break;
            }
            let choice = schedule.lock().unwrap().choose(options);
            if choice < waiting {
                self.gates.release(choice);
            } else {
                steps -= 1;
                tokio::time::advance(Duration::from_millis(step)).await;
            }
        }
    }

    /// Lets everything end, and tells what was called.
    async fn end(&self) -> Vec<(i64, i64)> {
        self.gates.open();
        self.wheel.sleep(Duration::from_secs(1_000)).await;
        assert_eq!(self.durable.count().await.unwrap(), Default::default(), "all has ended");
        let stats = self.durable.stats();
        assert_eq!((stats.armed, stats.begun), (0, 0));
        self.calls.lock().unwrap().clone()
    }

    fn task<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        tokio::spawn(work)
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

/// Runs a race in all orders, and tells how many there were.
fn in_all_orders<F: Future<Output = ()>>(race: impl Fn(Arc<Mutex<Schedule>>) -> F) -> usize {
    let schedule = Arc::new(Mutex::new(Schedule::default()));
    let mut runs = 0;
    loop {
        runtime().block_on(race(schedule.clone()));
        runs += 1;
        if !schedule.lock().unwrap().next() {
            return runs;
        }
    }
}

const DUE: i64 = 600;

/// With begins at their time, and with begins ahead of it.
async fn race_of(is_ahead: bool) -> (Race, i64) {
    let race = Race::new().await;
    let now = if is_ahead {
        race.slow_begins().await;
        since(race.clock.now())
    } else {
        0
    };
    // Beyond the window, so that it has to be loaded.
    let due = now + DUE;
    race.durable.at(at(due), &Tick).key("k").save().await.unwrap();
    race.gates.close();
    (race, due)
}

fn steps(is_ahead: bool) -> (usize, u64) {
    if is_ahead { (3, 290) } else { (2, 400) }
}

fn a_cancel(is_ahead: bool) -> (usize, [usize; 3]) {
    let seen = Mutex::new([0; 3]);
    let runs = in_all_orders(async |schedule| {
        let (race, due) = race_of(is_ahead).await;
        let durable = race.durable.clone();
        let cancel = race.task(async move { durable.cancel("k").await.unwrap() });
        let (steps, step) = steps(is_ahead);
        race.go(&schedule, steps, step).await;
        race.gates.open();
        let told = cancel.await.unwrap();
        let calls = race.end().await;
        let mut seen = seen.lock().unwrap();
        match told {
            Cancelled::Removed => {
                assert_eq!(calls, [], "none after it was removed");
                seen[0] += 1;
            }
            Cancelled::Running(attempt) => {
                assert_eq!((calls.len(), attempt), (1, 1));
                seen[1] += 1;
            }
            Cancelled::NotFound => {
                assert_eq!(calls.len(), 1, "it had ended");
                seen[2] += 1;
            }
        }
        assert!(calls.iter().all(|(at, _)| *at >= due), "{calls:?}, due at {due}");
    });
    (runs, seen.into_inner().unwrap())
}

#[test]
fn a_cancel_is_answered_right_in_all_orders_with_load_begin_and_settle() {
    let (runs, seen) = a_cancel(false);
    assert!(runs > 20 && seen.iter().all(|count| *count > 0), "{runs} runs, {seen:?}");
}

#[test]
fn a_cancel_is_answered_right_in_all_orders_where_begin_comes_ahead_of_time() {
    let (runs, seen) = a_cancel(true);
    assert!(runs > 20 && seen.iter().all(|count| *count > 0), "{runs} runs, {seen:?}");
}

fn a_move(is_ahead: bool, by: i64) -> (usize, [usize; 3]) {
    let seen = Mutex::new([0; 3]);
    let runs = in_all_orders(async |schedule| {
        let (race, due) = race_of(is_ahead).await;
        let durable = race.durable.clone();
        let moves = race.task(async move { durable.reschedule("k", at(due + by)).await.unwrap() });
        let (steps, step) = steps(is_ahead);
        race.go(&schedule, steps, step).await;
        race.gates.open();
        let told = moves.await.unwrap();
        let calls = race.end().await;
        assert_eq!(calls.len(), 1, "once, {told:?}");
        let expected = if let Moved::Moved(_) = told { due + by } else { due };
        assert_eq!(calls[0].1, expected, "{told:?}");
        assert!(calls[0].0 >= expected, "never before its time: {calls:?}");
        seen.lock().unwrap()[match told {
            Moved::Moved(_) => 0,
            Moved::Running(_) => 1,
            Moved::NotFound => 2,
        }] += 1;
    });
    (runs, seen.into_inner().unwrap())
}

#[test]
fn a_move_is_answered_right_in_all_orders_and_the_timer_comes_once_at_its_last_time() {
    for by in [5_000, -300] {
        let (runs, seen) = a_move(false, by);
        assert!(runs > 20 && seen.iter().all(|count| *count > 0), "{runs} runs, {seen:?}");
    }
}

#[test]
fn a_move_is_answered_right_in_all_orders_where_begin_comes_ahead_of_time() {
    for by in [5_000, -300] {
        let (runs, seen) = a_move(true, by);
        assert!(runs > 20 && seen.iter().all(|count| *count > 0), "{runs} runs, {seen:?}");
    }
}

#[test]
fn a_save_during_a_load_is_armed_at_once_wherever_it_is_due() {
    for due in [0, 300, 600, 999, 1_000, 1_001, 1_500, 3_000] {
        let runs = in_all_orders(async |schedule| {
            let race = Race::new().await;
            race.durable.at(at(500), &Tick).save().await.unwrap();
            race.gates.close();
            let durable = race.durable.clone();
            let saves = race.task(async move { durable.at(at(due), &Tick).save().await.unwrap() });
            race.go(&schedule, 2, 400).await;
            race.gates.open();
            saves.await.unwrap();
            let saved = since(race.clock.now());
            let mut calls = race.end().await;
            calls.retain(|(_, of)| *of == due);
            assert_eq!(calls.len(), 1 + usize::from(due == 500));
            let latest = due.max(saved) + 5;
            assert!((due..=latest).contains(&calls[0].0), "{calls:?}, due at {due}, saved by {saved}");
        });
        assert!(runs > 20, "{runs} runs");
    }
}

#[test]
fn a_move_between_two_attempts_loses_nothing_in_any_order() {
    let runs = in_all_orders(async |schedule| {
        let race = Race::new().await;
        race.durable.at(at(50), &Tick).key("again").save().await.unwrap();
        race.gates.close();
        let durable = race.durable.clone();
        let moves = race.task(async move { durable.reschedule("again", at(100)).await.unwrap() });
        race.go(&schedule, 2, 60).await;
        race.gates.open();
        moves.await.unwrap();
        let calls = race.end().await;
        assert_eq!(calls.len(), 2, "{calls:?}");
    });
    assert!(runs > 10, "{runs} runs");
}

#[test]
fn two_moves_to_and_fro_lose_nothing_in_any_order() {
    let runs = in_all_orders(async |schedule| {
        let (race, due) = race_of(false).await;
        let moves = [due + 5_000, due].map(|to| {
            let durable = race.durable.clone();
            race.task(async move { durable.reschedule("k", at(to)).await.unwrap() })
        });
        race.go(&schedule, 1, 400).await;
        race.gates.open();
        for told in moves {
            told.await.unwrap();
        }
        let calls = race.end().await;
        assert_eq!(calls.len(), 1, "once");
        let (called, of) = calls[0];
        assert!(called >= of && called <= of + 505, "{calls:?}");
    });
    assert!(runs > 20, "{runs} runs");
}

/// Two at a time, with begins at their time and ahead of it.
fn two_at_a_time<T: Send + 'static, F: Future<Output = T> + Send + 'static>(
    two: impl Fn(&Race, i64) -> [F; 2],
    check: impl Fn([T; 2], &[(i64, i64)], i64),
) {
    for is_ahead in [false, true] {
        let runs = in_all_orders(async |schedule| {
            let (race, due) = race_of(is_ahead).await;
            let [first, second] = two(&race, due).map(|work| race.task(work));
            let (steps, step) = if is_ahead { (2, 450) } else { (1, 700) };
            race.go(&schedule, steps, step).await;
            race.gates.open();
            let told = [first.await.unwrap(), second.await.unwrap()];
            let calls = race.end().await;
            check(told, &calls, due);
        });
        assert!(runs > 20, "{runs} runs");
    }
}

#[test]
fn two_cancels_are_answered_removed_once_at_the_most() {
    let cancel = |race: &Race, _| {
        [(); 2].map(|()| {
            let durable = race.durable.clone();
            async move { durable.cancel("k").await.unwrap() }
        })
    };
    two_at_a_time(cancel, |told, calls, _| {
        let removed = told.iter().filter(|told| **told == Cancelled::Removed).count();
        assert!(removed <= 1 && calls.len() == 1 - removed, "{told:?}, {calls:?}");
        let runs = told.iter().any(|told| matches!(told, Cancelled::Running(_)));
        assert!(!runs || calls.len() == 1, "{told:?} where no handler was called");
    });
}

#[test]
fn two_moves_of_what_may_wait_are_both_answered_right() {
    let moves = |race: &Race, due| {
        [5_000, 9_000].map(|by| {
            let durable = race.durable.clone();
            let clock = race.clock.clone();
            async move {
                let told = durable.reschedule("k", at(due + by)).await.unwrap();
                (by, told, since(clock.now()))
            }
        })
    };
    two_at_a_time(moves, |told, calls, due| {
        let [(called, of)] = calls else { panic!("once: {calls:?}") };
        assert!(called >= of, "{calls:?}");
        let moved = |(by, told, _): &(i64, Moved, i64)| matches!(told, Moved::Moved(_)).then_some(due + by);
        let moved: Vec<i64> = told.iter().filter_map(moved).collect();
        let is_where_moved = if moved.is_empty() { *of == due } else { moved.contains(of) };
        assert!(is_where_moved, "{told:?}, {calls:?}");
        for (_, told, by_then) in told {
            assert!(
                !matches!(told, Moved::Running(_)) || *called <= by_then,
                "{told:?} before it was called"
            );
        }
    });
}

#[test]
fn a_cancel_and_a_move_of_what_may_wait_are_both_answered_right() {
    enum Told {
        Cancel(Cancelled),
        Move(Moved),
    }
    let both = |race: &Race, due| {
        [true, false].map(|is_cancel| {
            let durable = race.durable.clone();
            async move {
                if is_cancel {
                    Told::Cancel(durable.cancel("k").await.unwrap())
                } else {
                    Told::Move(durable.reschedule("k", at(due + 5_000)).await.unwrap())
                }
            }
        })
    };
    two_at_a_time(both, |told, calls, _| {
        let [Told::Cancel(cancel), Told::Move(moved)] = told else { panic!("in order") };
        // Nobody else removes it.
        let expected = usize::from(cancel != Cancelled::Removed);
        assert_eq!(calls.len(), expected, "{cancel:?}, {moved:?}");
        assert!(!matches!(moved, Moved::Running(_)) || calls.len() == 1, "{cancel:?}, {moved:?}");
    });
}

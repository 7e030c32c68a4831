//! A store whose calls wait until a schedule lets them go on, and time, which goes on by choice too.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use timingwheel::TimingWheel;
use timingwheel_durable::{Answer, Clock, Durable, Kind, MemoryStore, Run, SetClock};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, yield_now};

use crate::proof::hooked::{Hook, Hooked, Injected, Step};
use crate::proof::schedules::Schedule;

#[derive(Serialize, Deserialize)]
pub(super) struct Tick;

impl Kind for Tick {
    const KIND: &'static str = "tick";
}

/// Calls that wait, in the order in which they came.
#[derive(Clone, Default)]
pub(super) struct Gates(Arc<Mutex<State>>);

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
    pub(super) fn close(&self) {
        self.0.lock().unwrap().are_closed = true;
    }

    pub(super) fn open(&self) {
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

pub(super) struct Race {
    wheel: TimingWheel,
    pub(super) clock: SetClock,
    pub(super) gates: Gates,
    calls: Calls,
    pub(super) durable: Durable,
}

fn start() -> Timestamp {
    "2026-06-01T00:00:00Z".parse().unwrap()
}

pub(super) fn at(millis: i64) -> Timestamp {
    start() + SignedDuration::from_millis(millis)
}

pub(super) fn since(at: Timestamp) -> i64 {
    at.as_millisecond() - start().as_millisecond()
}

/// Until all tasks wait. Time stands meanwhile, as this task never does.
async fn settle() {
    for _ in 0..40 {
        yield_now().await;
    }
}

impl Race {
    pub(super) async fn new() -> Self {
        let (wheel, clock) = (TimingWheel::new(), SetClock::starting_at(start()));
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

    /// All that waits goes on in the order that is chosen, and time too, by so many steps of so many milliseconds.
    pub(super) async fn go(&self, schedule: &Mutex<Schedule>, mut steps: usize, step: u64) {
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
    pub(super) async fn end(&self) -> Vec<(i64, i64)> {
        self.gates.open();
        self.wheel.sleep(Duration::from_secs(1_000)).await;
        assert_eq!(self.durable.count().await.unwrap(), Default::default(), "all has ended");
        let stats = self.durable.stats();
        assert_eq!((stats.armed, stats.begun), (0, 0));
        self.calls.lock().unwrap().clone()
    }

    pub(super) fn task<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        tokio::spawn(work)
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

/// Runs a race in all orders, and tells how many there were.
pub(super) fn in_all_orders<F: Future<Output = ()>>(race: impl Fn(Arc<Mutex<Schedule>>) -> F) -> usize {
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

pub(super) async fn race_of() -> (Race, i64) {
    let race = Race::new().await;
    // Beyond the window, so that it has to be loaded.
    race.durable.at(at(DUE), &Tick).key("k").save().await.unwrap();
    race.gates.close();
    (race, DUE)
}

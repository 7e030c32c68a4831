//! Random scripts on a purgatory and on a naive list, and after each step the same:
//!
//! 1. A check completes the operations under its key that hold, in the order in which they were watched, and returns
//!    how many. So do the tasks that a check leaves them to.
//! 2. A cancel ends all under its key, and no others, and returns how many.
//! 3. An operation expires at its deadline unless it holds then.
//! 4. Each operation has exactly one outcome, and is told as it comes; an output that a dropped future has not taken is given
//!    back.
//! 5. `watched`, `delayed`, `keys` and `watched_under` count those without one, and no condition of another is kept. Each
//!    future that waits or was not polled since has a timer.
//! 6. A condition is tried twice as it is watched, once by each check, and once at the deadline.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use proptest::prelude::*;
use timingwheel::TimingWheel;
use timingwheel_purgatory::Purgatory;
use timingwheel_purgatory::{Watch, WatchError};
use tokio::time::{Instant, advance};
use tokio_test::task::{Spawn, spawn};

use crate::{DAY, ms};

const KEYS: u8 = 5;
const COUNTERS: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    /// Holds when a counter is as high as it wants.
    Watch {
        keys: Vec<u8>,
        counter: usize,
        wanted: usize,
        /// If there is none, nobody polls it, and it outlives the script.
        delay: Option<Duration>,
    },
    Raise(usize),
    Check(u8),
    CheckInTasks(u8),
    /// And lists the keys of each.
    Cancel(u8),
    /// The future of the nth operation there is, modulo.
    Drop(usize),
    Advance(Duration),
    Shutdown,
}

fn step() -> impl Strategy<Value = Step> {
    let delay = proptest::option::weighted(0.8, (0..30_u64).prop_map(ms));
    let watch = (proptest::collection::vec(0..KEYS, 0..4), 0..COUNTERS, 0..6_usize, delay)
        .prop_map(|(keys, counter, wanted, delay)| Step::Watch { keys, counter, wanted, delay });
    prop_oneof![
        8 => watch,
        3 => (0..COUNTERS).prop_map(Step::Raise),
        6 => (0..KEYS).prop_map(Step::Check),
        2 => (0..KEYS).prop_map(Step::CheckInTasks),
        1 => (0..KEYS).prop_map(Step::Cancel),
        2 => any::<usize>().prop_map(Step::Drop),
        3 => (0..15_u64).prop_map(|millis| Step::Advance(ms(millis))),
    ]
}

/// An operation in the naive list, in the order in which they were watched.
struct Naive {
    keys: BTreeSet<u8>,
    counter: usize,
    wanted: usize,
    /// If somebody polls it.
    deadline: Option<Instant>,
    outcome: Option<Result<usize, WatchError>>,
    watch: Spawn<Watch<usize>>,
}

struct Model {
    wheel: TimingWheel,
    purgatory: Purgatory<u8>,
    /// Conditions look at these; the model reads them too.
    counters: Arc<[AtomicUsize; COUNTERS]>,
    /// The number that the next operation completes with: so the order shows.
    tickets: Arc<AtomicUsize>,
    next_ticket: usize,
    /// How often conditions were tried, and should have been.
    tries: [Arc<AtomicUsize>; 2],
    /// What was given back, and should have been.
    given_back: [Arc<Mutex<Vec<usize>>>; 2],
    list: Vec<Naive>,
    is_shut_down: bool,
}

impl Model {
    fn new() -> Self {
        let wheel = TimingWheel::new();
        Self {
            purgatory: Purgatory::new(&wheel),
            wheel,
            counters: Arc::default(),
            tickets: Arc::default(),
            next_ticket: 0,
            tries: Default::default(),
            given_back: Default::default(),
            list: Vec::new(),
            is_shut_down: false,
        }
    }

    fn holds(&self, naive: &Naive) -> bool {
        self.counters[naive.counter].load(Ordering::Relaxed) >= naive.wanted
    }

    fn ticket(&mut self) -> usize {
        self.next_ticket += 1;
        self.next_ticket - 1
    }

    /// The operations without an outcome, by their places in the list, that are under `key`.
    fn pending(&self, key: Option<u8>) -> Vec<usize> {
        let is_meant =
            |naive: &Naive| naive.outcome.is_none() && key.is_none_or(|key| naive.keys.contains(&key));
        (0..self.list.len()).filter(|&n| is_meant(&self.list[n])).collect()
    }

    /// Completes those of `places` that hold, and returns how many.
    fn complete(&mut self, places: &[usize]) -> usize {
        let mut completed = 0;
        self.tries[1].fetch_add(places.len(), Ordering::Relaxed);
        for &n in places {
            if self.holds(&self.list[n]) {
                self.list[n].outcome = Some(Ok(self.ticket()));
                completed += 1;
            }
        }
        completed
    }

    fn end(&mut self, places: &[usize], why: WatchError) {
        places.iter().for_each(|&n| self.list[n].outcome = Some(Err(why)));
    }

    async fn apply(&mut self, step: Step) {
        match step {
            Step::Watch { keys, counter, wanted, delay } => self.watch(&keys, counter, wanted, delay),
            Step::Raise(counter) => _ = self.counters[counter].fetch_add(1, Ordering::Relaxed),
            Step::Check(key) => {
                let completed = self.purgatory.check(&key);
                let places = self.pending(Some(key));
                assert_eq!(completed, self.complete(&places));
            }
            Step::CheckInTasks(key) => {
                let places = self.pending(Some(key));
                assert_eq!(self.purgatory.check_in_tasks(&key), places.len());
                for n in places {
                    if self.list[n].deadline.is_some() {
                        assert!(self.list[n].watch.is_woken());
                        self.complete(&[n]);
                        self.told(n);
                    }
                }
            }
            Step::Cancel(key) => {
                let places = self.pending(Some(key));
                let cancelled = self.purgatory.cancel_and_list(&key);
                let keys: Vec<BTreeSet<_>> =
                    cancelled.iter().map(|one| one.keys().copied().collect()).collect();
                assert_eq!(keys, places.iter().map(|&n| self.list[n].keys.clone()).collect::<Vec<_>>());
                assert_eq!(self.purgatory.cancel(&key), 0);
                self.end(&places, WatchError::Cancelled);
            }
            Step::Drop(nth) => {
                if !self.list.is_empty() {
                    let dropped = self.list.remove(nth % self.list.len());
                    self.given_back[1].lock().unwrap().extend(dropped.outcome.and_then(Result::ok));
                }
            }
            Step::Advance(time) => {
                advance(time).await;
                let (now, mut due) = (Instant::now(), self.pending(None));
                due.retain(|&n| self.list[n].deadline.is_some_and(|deadline| deadline <= now));
                self.expire(&due);
                self.compare_keys();
            }
            Step::Shutdown => {
                let places = self.pending(None);
                assert_eq!(self.purgatory.shutdown(), places.len());
                self.end(&places, WatchError::Cancelled);
                self.is_shut_down = true;
            }
        }
        self.compare();
    }

    fn watch(&mut self, keys: &[u8], counter: usize, wanted: usize, delay: Option<Duration>) {
        let (counters, tickets, tries) = (self.counters.clone(), self.tickets.clone(), self.tries[0].clone());
        let given_back = self.given_back[0].clone();
        let watch = self.purgatory.watch(keys.iter().copied(), delay.unwrap_or(DAY), move || {
            tries.fetch_add(1, Ordering::Relaxed);
            let holds = counters[counter].load(Ordering::Relaxed) >= wanted;
            holds.then(|| tickets.fetch_add(1, Ordering::Relaxed))
        });
        let keys = keys.iter().copied().collect();
        let deadline = delay.map(|delay| Instant::now() + delay);
        let watch = spawn(watch.give_back(move |ticket| given_back.lock().unwrap().push(ticket)));
        self.list.push(Naive { keys, counter, wanted, deadline, outcome: None, watch });
        let n = self.list.len() - 1;
        if self.complete(&[n]) == 0 {
            self.tries[1].fetch_add(1, Ordering::Relaxed);
            if self.is_shut_down {
                self.end(&[n], WatchError::Cancelled);
            } else if delay.is_some_and(|delay| delay.is_zero()) {
                self.end(&[n], WatchError::Expired);
            }
        }
        if delay.is_some() {
            self.told(n);
        }
    }

    /// In the order of the list, as they are polled.
    fn expire(&mut self, due: &[usize]) {
        for &n in due {
            assert!(self.list[n].watch.is_woken(), "its deadline has come");
            if self.complete(&[n]) == 0 {
                self.end(&[n], WatchError::Expired);
            }
            self.told(n);
        }
    }

    /// Polls an operation, which is told of its outcome if it has one.
    fn told(&mut self, n: usize) {
        let Naive { outcome, watch, .. } = &mut self.list[n];
        match (watch.poll(), *outcome) {
            (Poll::Ready(told), Some(outcome)) => assert_eq!(told, outcome),
            (Poll::Pending, None) => {}
            (told, outcome) => panic!("told {told:?}, and not {outcome:?}"),
        }
    }

    fn compare_keys(&self) {
        let mut keys = HashMap::<u8, usize>::new();
        let pending = self.list.iter().filter(|naive| naive.outcome.is_none());
        pending.flat_map(|naive| &naive.keys).for_each(|&key| *keys.entry(key).or_default() += 1);
        assert_eq!(self.purgatory.keys(), keys);
        for key in 0..KEYS {
            assert_eq!(self.purgatory.watched_under(&key), keys.get(&key).copied().unwrap_or_default());
        }
    }

    fn compare(&mut self) {
        // Those that were told leave the list.
        for n in (0..self.list.len()).rev() {
            let Naive { deadline: Some(_), outcome: Some(_), watch, .. } = &self.list[n] else { continue };
            if !futures::future::FusedFuture::is_terminated(&**watch) {
                assert!(watch.is_woken());
                self.told(n);
            }
            self.list.remove(n);
        }
        let places = self.list.iter().filter(|naive| naive.outcome.is_none());
        let pending = places.clone().count();
        let watched = places.map(|naive| naive.keys.len().max(1)).sum();
        assert_eq!((self.purgatory.watched(), self.purgatory.delayed()), (watched, pending));
        let timers = self.list.iter().filter(|naive| naive.watch.deadline().is_some());
        assert_eq!(self.wheel.pending(), timers.count());
        assert_eq!(*self.given_back[0].lock().unwrap(), *self.given_back[1].lock().unwrap());
        assert_eq!(self.tries[0].load(Ordering::Relaxed), self.tries[1].load(Ordering::Relaxed));
        assert_eq!(Arc::strong_count(&self.counters), 1 + pending, "one for each condition");
        assert_eq!(self.tickets.load(Ordering::Relaxed), self.next_ticket);
    }
}

proptest! {
    #[test]
    fn a_purgatory_does_what_a_naive_list_does(
        steps in proptest::collection::vec(step(), 1..80),
        shutdown in proptest::option::of(0..80_usize),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let mut model = Model::new();
            for (n, step) in steps.into_iter().enumerate() {
                if shutdown == Some(n) {
                    model.apply(Step::Shutdown).await;
                }
                model.apply(step).await;
            }
            model.apply(Step::Advance(ms(30))).await;
            assert!(model.list.iter().all(|naive| naive.deadline.is_none()), "some are late");
            for _ in 0..model.list.len() {
                model.apply(Step::Drop(0)).await;
            }
            assert_eq!(model.wheel.pending(), 0);
        });
    }
}

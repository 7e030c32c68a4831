//! Random scripts on a purgatory and on a naive list, and after each step the same:
//!
//! 1. A check completes the operations under its key that hold, in the order in which they were watched, and returns
//!    how many. A check in tasks tries none, and leaves that to the tasks of all that wait under its key.
//! 2. A cancel ends all under its key, and no others, and returns how many. So does a shutdown, of all.
//! 3. An operation that does not hold expires at its deadline and no sooner, tried in a task of its own, whether or not somebody
//!    polls it. The end of its wheel ends it in the same way.
//! 4. Each operation has exactly one outcome, and is told as it comes; an output that a dropped future has not taken is given
//!    back. A panic of a condition is an outcome, and panics where it is watched, or in the task that awaits it.
//! 5. `watched`, `delayed` and `watched_under` count those without one, and no condition of another is kept. Each
//!    future that waits or was not polled since has a timer until its deadline.
//! 6. A condition is tried twice as it is watched, once by each check, and once at the deadline.

use std::collections::{BTreeSet, HashMap};
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use futures::future::FusedFuture;
use timingwheel::{Error, TimingWheel};
use timingwheel_purgatory::{Purgatory, Watch, WatchError};
use tokio::time::{Instant, advance};
use tokio_test::task::{Spawn, spawn};

use crate::ms;

const KEYS: u8 = 5;
const COUNTERS: usize = 3;

/// Some have the same hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Alike(u8);

impl Hash for Alike {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u8(self.0 % 2);
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    Holds,
    Fails(WatchError),
    Panics,
}

/// An operation in the naive list, in the order in which they were watched.
struct Naive {
    /// With which it completes.
    id: usize,
    keys: BTreeSet<Alike>,
    counter: usize,
    wanted: usize,
    panics_at: Option<usize>,
    deadline: Instant,
    is_polled: bool,
    /// By a check in tasks.
    is_asked: bool,
    /// How often it should have been tried, and was.
    tries: usize,
    tried: Arc<AtomicUsize>,
    outcome: Option<Outcome>,
    watch: Spawn<Watch<usize>>,
}

/// As seen, and as it should be.
type Twice<T> = [Arc<Mutex<Vec<T>>>; 2];

struct Model {
    wheel: TimingWheel,
    purgatory: Purgatory<Alike>,
    /// Conditions look at these; the model reads them too.
    counters: Arc<[AtomicUsize; COUNTERS]>,
    next_id: usize,
    /// Which conditions held, in which order, and whether in tasks.
    held: Twice<(usize, bool)>,
    given_back: Twice<usize>,
    list: Vec<Naive>,
    is_shut_down: bool,
    is_wheel_ended: bool,
}

impl Model {
    fn new() -> Self {
        let wheel = crate::wheel();
        Self {
            purgatory: Purgatory::new(&wheel),
            wheel,
            counters: Arc::default(),
            next_id: 0,
            held: Default::default(),
            given_back: Default::default(),
            list: Vec::new(),
            is_shut_down: false,
            is_wheel_ended: false,
        }
    }

    /// The operations without an outcome, by their places in the list, that are under `key`.
    fn pending(&self, key: Option<Alike>) -> Vec<usize> {
        let is_meant =
            |naive: &Naive| naive.outcome.is_none() && key.is_none_or(|key| naive.keys.contains(&key));
        (0..self.list.len()).filter(|&n| is_meant(&self.list[n])).collect()
    }

    fn is_due(&self, n: usize) -> bool {
        self.list[n].deadline <= Instant::now() || self.is_wheel_ended
    }

    /// Tries an operation, which ends if it is due, and tells whether it holds.
    fn attempt(&mut self, n: usize, is_in_task: bool) -> bool {
        let is_due = self.is_due(n);
        let naive = &mut self.list[n];
        (naive.tries, naive.is_asked) = (naive.tries + 1, false);
        let holds = self.counters[naive.counter].load(Ordering::Relaxed) >= naive.wanted;
        if naive.panics_at == Some(naive.tries) {
            naive.outcome = Some(Outcome::Panics);
            return false;
        }
        if holds {
            naive.outcome = Some(Outcome::Holds);
            self.held[1].lock().unwrap().push((naive.id, is_in_task));
        } else if is_due {
            naive.outcome = Some(Outcome::Fails(WatchError::Expired));
        }
        holds
    }

    fn cancel(&mut self, places: &[usize]) {
        for &n in places {
            self.list[n].outcome = Some(Outcome::Fails(WatchError::Cancelled));
        }
    }

    /// Does something at random.
    async fn act(&mut self, random: &mut fastrand::Rng) {
        let (key, counter) = (Alike(random.u8(0..KEYS)), random.usize(0..COUNTERS));
        let nth = random.usize(0..self.list.len().max(1));
        match random.u8(0..26) {
            0..8 => self.watch(counter, random),
            8..11 => _ = self.counters[counter].fetch_add(1, Ordering::Relaxed),
            11..17 => {
                let (completed, places) = (self.purgatory.check(&key), self.pending(Some(key)));
                assert_eq!(completed, places.into_iter().filter(|&n| self.attempt(n, false)).count());
            }
            17..19 => {
                let places = self.pending(Some(key));
                assert_eq!(self.purgatory.check_in_tasks(&key), places.len());
                self.compare_tries();
                places.iter().for_each(|&n| self.list[n].is_asked = true);
                self.poll_woken(&places);
            }
            19 => {
                let places = self.pending(Some(key));
                assert_eq!((self.purgatory.cancel(&key), self.purgatory.cancel(&key)), (places.len(), 0));
                self.cancel(&places);
            }
            20 if !self.list.is_empty() => self.poll(nth),
            20..23 if !self.list.is_empty() => self.drop(nth),
            // Also through the levels of the wheel.
            23 => self.advance(ms(random.u64(4_980..5_020)), true).await,
            _ => self.advance(ms(random.u64(0..15)), random.bool()).await,
        }
        self.compare();
    }

    fn drop(&mut self, n: usize) {
        let dropped = self.list.remove(n);
        let output = Some(dropped.id).filter(|_| dropped.outcome == Some(Outcome::Holds));
        self.given_back[1].lock().unwrap().extend(output);
    }

    /// And polls those that are due, or leaves that for later.
    async fn advance(&mut self, time: Duration, polls: bool) {
        advance(time).await;
        let mut due = self.pending(None);
        due.retain(|&n| self.is_due(n));
        self.expire(&due).await;
        if polls {
            self.poll_woken(&due);
        }
        self.compare_keys();
    }

    fn shut_down(&mut self) {
        let places = self.pending(None);
        assert_eq!(self.purgatory.shutdown(), places.len());
        self.cancel(&places);
        self.is_shut_down = true;
        self.compare();
    }

    async fn end_wheel(&mut self) {
        assert_eq!(self.wheel.shutdown(), self.timers());
        self.is_wheel_ended = true;
        let places = self.pending(None);
        self.expire(&places).await;
        self.poll_woken(&places);
        self.compare();
    }

    /// An operation that holds when a counter is as high as it wants.
    fn watch(&mut self, counter: usize, random: &mut fastrand::Rng) {
        let delay = ms(if random.u8(0..7) > 0 { random.u64(0..30) } else { random.u64(4_990..5_010) });
        let (wanted, is_polled) = (random.usize(0..6), random.u8(0..5) > 0);
        let panics_at = Some(random.usize(1..5)).filter(|_| random.u8(0..10) == 0);
        let keys: Vec<_> = (0..random.u8(0..4)).map(|_| Alike(random.u8(0..KEYS))).collect();
        let (counters, tried, id) = (self.counters.clone(), Arc::new(AtomicUsize::new(0)), self.next_id);
        let (held, given_back, tries) = (self.held[0].clone(), self.given_back[0].clone(), tried.clone());
        let condition = move || {
            let tries = tries.fetch_add(1, Ordering::Relaxed) + 1;
            assert!(panics_at != Some(tries), "as asked");
            let holds = counters[counter].load(Ordering::Relaxed) >= wanted;
            holds.then(|| {
                held.lock().unwrap().push((id, tokio::task::try_id().is_some()));
                id
            })
        };
        let deadline = Instant::now() + delay;
        let watch = catch_unwind(AssertUnwindSafe(|| match id % 2 {
            0 => self.purgatory.watch(keys.clone(), delay, condition),
            _ => self.purgatory.watch_until(keys.clone(), deadline, condition),
        }));
        self.next_id += 1;
        assert_eq!(
            watch.is_err(),
            panics_at.is_some_and(|nth| nth == 1 || nth == 2 && !self.holds(counter, wanted))
        );
        let Ok(watch) = watch else { return };
        let watch = spawn(watch.give_back(move |output| given_back.lock().unwrap().push(output)));
        let keys = keys.into_iter().collect();
        self.list.push(Naive {
            id,
            keys,
            counter,
            wanted,
            panics_at,
            deadline,
            is_polled,
            is_asked: false,
            tries: 0,
            tried,
            outcome: None,
            watch,
        });
        let n = self.list.len() - 1;
        if !self.attempt(n, false) {
            self.list[n].tries += 1;
            if self.is_shut_down {
                self.cancel(&[n]);
            }
        }
        self.tell(n);
        if is_polled {
            self.poll(n);
        }
    }

    fn holds(&self, counter: usize, wanted: usize) -> bool {
        self.counters[counter].load(Ordering::Relaxed) >= wanted
    }

    /// Operations are due. Each is tried in a task of its own, in no particular order.
    async fn expire(&mut self, due: &[usize]) {
        let before = self.held[1].lock().unwrap().len();
        for &n in due {
            self.attempt(n, true);
        }
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        self.held.iter().for_each(|held| held.lock().unwrap()[before..].sort_unstable());
    }

    fn poll_woken(&mut self, places: &[usize]) {
        for &n in places {
            if self.list[n].is_polled {
                assert!(self.list[n].watch.is_woken());
                self.poll(n);
            }
        }
    }

    /// Polls an operation, which is tried if it is asked for, and is told of its outcome if it has one.
    fn poll(&mut self, n: usize) {
        let poll = catch_unwind(AssertUnwindSafe(|| self.list[n].watch.poll()));
        let Naive { outcome, is_asked, .. } = self.list[n];
        if outcome.is_none() && is_asked {
            self.attempt(n, false);
        }
        self.tell(n);
        let naive = &mut self.list[n];
        naive.is_polled = true;
        match (poll, naive.outcome) {
            (Ok(Poll::Ready(Ok(output))), Some(Outcome::Holds)) => assert_eq!(output, naive.id),
            (Ok(Poll::Ready(Err(error))), Some(Outcome::Fails(why))) => assert_eq!(error, why),
            (Err(panic), Some(Outcome::Panics)) => assert_eq!(panic.downcast_ref(), Some(&"as asked")),
            (Ok(Poll::Pending), None) => {}
            (told, outcome) => panic!("told {told:?}, and not {outcome:?}"),
        }
    }

    /// An operation that expired is told so if its deadline has come by now; else it ended with its wheel.
    fn tell(&mut self, n: usize) {
        let naive = &mut self.list[n];
        if naive.outcome == Some(Outcome::Fails(WatchError::Expired)) && naive.deadline > Instant::now() {
            naive.outcome = Some(Outcome::Fails(WatchError::CouldNotRun(Error::shutdown())));
        }
    }

    fn compare_keys(&self) {
        let mut keys = HashMap::<Alike, usize>::new();
        let pending = self.list.iter().filter(|naive| naive.outcome.is_none());
        pending.flat_map(|naive| &naive.keys).for_each(|&key| *keys.entry(key).or_default() += 1);
        for key in (0..KEYS).map(Alike) {
            assert_eq!(self.purgatory.watched_under(&key), keys.get(&key).copied().unwrap_or_default());
        }
    }

    fn compare_tries(&self) {
        assert!(self.list.iter().all(|naive| naive.tried.load(Ordering::Relaxed) == naive.tries));
    }

    /// How many futures wait for their deadlines.
    fn timers(&self) -> usize {
        let is_later = |deadline| deadline > Instant::now() && !self.is_wheel_ended;
        self.list.iter().filter(|naive| naive.watch.deadline().is_some_and(is_later)).count()
    }

    fn compare(&mut self) {
        // An operation that was told leaves the list.
        for n in (0..self.list.len()).rev() {
            let Naive { is_polled: true, outcome: Some(_), watch, .. } = &self.list[n] else { continue };
            if !watch.is_terminated() {
                assert!(watch.is_woken());
                self.poll(n);
            }
            self.list.remove(n);
        }
        for n in self.pending(None) {
            assert!(!self.is_due(n) && !self.list[n].watch.is_woken());
        }
        let places = self.list.iter().filter(|naive| naive.outcome.is_none());
        let pending = places.clone().count();
        let watched = places.map(|naive| naive.keys.len().max(1)).sum();
        assert_eq!((self.purgatory.watched(), self.purgatory.delayed()), (watched, pending));
        assert_eq!(self.wheel.pending(), self.timers());
        assert_eq!(*self.held[0].lock().unwrap(), *self.held[1].lock().unwrap());
        assert_eq!(*self.given_back[0].lock().unwrap(), *self.given_back[1].lock().unwrap());
        assert_eq!(Arc::strong_count(&self.counters), 1 + pending, "one for each condition");
        self.compare_tries();
    }
}

#[tokio::test(start_paused = true)]
async fn a_purgatory_does_what_a_naive_list_does() {
    for seed in 0..500 {
        println!("seed {seed}");
        let (mut model, random) = (Model::new(), &mut fastrand::Rng::with_seed(seed));
        // Some are shut down, and the wheels of some end.
        let (shutdown, wheel_ends) = (random.usize(0..160), random.usize(0..160));
        for step in 0..random.usize(1..80) {
            if step == shutdown {
                model.shut_down();
            }
            if step == wheel_ends {
                model.end_wheel().await;
            }
            model.act(random).await;
        }
        model.advance(ms(6_000), true).await;
        model.compare();
        assert!(model.pending(None).is_empty(), "some are late");
        while !model.list.is_empty() {
            model.drop(0);
        }
        model.compare();
        assert_eq!(model.wheel.pending(), 0);
    }
}

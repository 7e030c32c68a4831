//! Random scripts on jobs, by keys and by handles, and on a naive list of them, and at each step the same:
//!
//! 1. Each run begins when it is due and ends after its length. After a run the schedule, or the user's last move during the
//!    run, says when the next is due.
//! 2. A job replaces the one with its key. What was pending never runs, and a run that goes on is the last.
//! 3. A reset moves what is pending, or the run after one that goes on, and tells whether there is such a run.
//! 4. `get`, `list` and `len` know exactly the jobs that are not over, with their states and times. So does each handle.
//! 5. A cancel or an abort ends what is pending. During a run, a cancel makes it the last of a job that repeats, and an abort
//!    ends it. Both tell whether they made a difference.
//! 6. Each job ends once, and whoever awaits it learns how, a handle with the output or the number of runs.
//! 7. A shutdown waits for what runs under a key, and hands back what has not begun.
//!
//! Scripts act at odd milliseconds, and jobs at even ones, so nothing depends on who is first.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures::FutureExt;
use futures::future::FusedFuture;
use timingwheel::TimingWheel;
use timingwheel_jobs::{Job, JobState, Jobs, JobsExt, Join, Schedule};
use tokio::time::{Instant, sleep};

use crate::{ms, rate, rest};

const KEYS: u8 = 4;

/// Begins (`true`) and ends of runs, by the number of the job, in milliseconds from the start.
type Log = Vec<(u64, usize, bool)>;

#[derive(Clone, Copy)]
enum Repeats {
    No,
    AtRate(u64),
    AfterDelay(u64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Now {
    Pending(u64),
    /// Until then; and to where the next run was moved.
    Running(u64, Option<u64>),
    Over(JobState),
}

/// A job in the naive list.
struct Naive {
    key: Option<u8>,
    handle: Option<Job<u64>>,
    repeats: Repeats,
    /// Runs that have come to their end.
    runs: u64,
    is_last: bool,
    /// Runs that the schedule has left, and how long each takes.
    left: u64,
    length: u64,
    /// When the last run was due.
    due: u64,
    now: Now,
    join: Option<Join>,
}

impl Naive {
    /// What happens at this millisecond.
    fn step(&mut self, number: usize, at: u64, log: &mut Log) {
        loop {
            match self.now {
                Now::Pending(due) if due <= at => {
                    log.push((at, number, true));
                    (self.due, self.now) = (due, Now::Running(at + self.length, None));
                }
                Now::Running(until, moved) if until == at => {
                    log.push((at, number, false));
                    self.runs += 1;
                    let next = match self.repeats {
                        Repeats::No => None,
                        Repeats::AtRate(period) => Some(self.due + period),
                        Repeats::AfterDelay(delay) => Some(at + delay),
                    };
                    let next = moved.or(next.filter(|_| self.left > 0));
                    self.left = self.left.saturating_sub(1);
                    self.now = match next {
                        _ if self.is_last => Now::Over(JobState::Cancelled),
                        Some(next) => Now::Pending(next),
                        None => Now::Over(JobState::Done),
                    };
                }
                _ => break,
            }
        }
        if matches!(self.now, Now::Over(_)) {
            self.key = None;
        }
    }

    /// Leaves the list, as one that is removed or replaced, or is cancelled. Tells whether that makes a difference.
    fn leave(&mut self) -> bool {
        self.key = None;
        match self.now {
            Now::Pending(_) => self.now = Now::Over(JobState::Cancelled),
            Now::Running(..) if !self.is_last && !matches!(self.repeats, Repeats::No) => self.is_last = true,
            _ => return false,
        }
        true
    }

    fn abort(&mut self) -> bool {
        self.key = None;
        let is_over = matches!(self.now, Now::Over(_));
        if !is_over {
            self.now = Now::Over(JobState::Cancelled);
        }
        !is_over
    }

    fn reset(&mut self, to: u64) -> bool {
        match (&mut self.now, self.repeats) {
            (Now::Pending(due), _) => *due = to,
            (Now::Running(_, moved), Repeats::AtRate(_) | Repeats::AfterDelay(_)) if !self.is_last => {
                *moved = Some(to);
            }
            _ => return false,
        }
        true
    }

    /// Its state, and when it is due if it is pending.
    fn info(&self, start: Instant) -> (JobState, Option<Instant>) {
        match self.now {
            Now::Pending(due) => (JobState::Pending, Some(start + ms(due))),
            Now::Running(..) => (JobState::Running, None),
            Now::Over(state) => (state, None),
        }
    }
}

struct Model {
    wheel: TimingWheel,
    jobs: Jobs<u8>,
    start: Instant,
    now: u64,
    seen: Arc<Mutex<Log>>,
    log: Log,
    all: Vec<Naive>,
}

impl Model {
    fn listed(&mut self, key: u8) -> Option<&mut Naive> {
        self.all.iter_mut().find(|naive| naive.key == Some(key))
    }

    /// Under a key, or by a handle.
    fn add(&mut self, key: Option<u8>, random: &mut fastrand::Rng) {
        let (number, delay, length) = (self.all.len(), 2 * random.u64(0..6) + 1, 2 * random.u64(0..6));
        let (seen, start) = (self.seen.clone(), self.start);
        let note = move |begins| {
            let at = u64::try_from(start.elapsed().as_millis()).unwrap();
            seen.lock().unwrap().push((at, number, begins));
        };
        let run = move || {
            let note = note.clone();
            async move {
                note(true);
                if length > 0 {
                    sleep(ms(length)).await;
                }
                note(false);
            }
        };
        let (times, wait) = (random.u64(1..5), 2 * random.u64(1..6));
        let repeats =
            *random.choice(&[Repeats::No, Repeats::AtRate(wait), Repeats::AfterDelay(wait)]).unwrap();
        let (wheel, jobs, first, at) = (&self.wheel, &self.jobs, ms(delay), Instant::now() + ms(delay));
        let schedule: Option<Box<dyn Schedule>> = match repeats {
            Repeats::No => None,
            Repeats::AtRate(wait) => Some(Box::new(rate(ms(wait)).starting_after(first).times(times))),
            Repeats::AfterDelay(wait) => Some(Box::new(rest(ms(wait)).starting_after(first).times(times))),
        };
        let once = run().map(|()| 1);
        let (handle, join) = match (key, schedule) {
            (None, Some(schedule)) => (Some(wheel.run_by(schedule, run)), None),
            (None, None) if random.bool() => (Some(wheel.run_at(at, once)), None),
            (None, None) => (Some(wheel.run_after(first, once)), None),
            (Some(key), schedule) => {
                let replaced = match schedule {
                    Some(schedule) => jobs.try_run_by(key, schedule, run).unwrap(),
                    None if random.bool() => jobs.try_run_at(key, at, run()).unwrap(),
                    None => jobs.try_run_after(key, first, run()).unwrap(),
                };
                let join = jobs.join(&key).unwrap();
                let before = self.listed(key).map(|naive| (naive.info(start), naive.leave()).0);
                assert_eq!(replaced.map(|info| (info.state, info.due)), before);
                (None, Some(join))
            }
        };
        let (left, due) = (times - 1, self.now + delay);
        let now = Now::Pending(due);
        self.all.push(Naive { key, handle, repeats, runs: 0, is_last: false, left, length, due, now, join });
    }

    fn take(&mut self, key: u8, aborts: bool) {
        let taken = if aborts { self.jobs.abort(&key) } else { self.jobs.remove(&key) };
        let start = self.start;
        let expected = self.listed(key).map(|naive| {
            let before = naive.info(start);
            _ = if aborts { naive.abort() } else { naive.leave() };
            before
        });
        assert_eq!(taken.map(|info| (info.state, info.due)), expected);
    }

    fn reset(&mut self, key: u8, after: u64) {
        let (to, is_moved) = (self.now + after, self.jobs.reset_after(&key, ms(after)));
        assert_eq!(is_moved, self.listed(key).is_some_and(|naive| naive.reset(to)));
    }

    /// Does something by a handle, if there is one.
    fn by_handle(&mut self, random: &mut fastrand::Rng) {
        let to = self.now + 2 * random.u64(0..10) + 1;
        let with_handle = self.all.iter_mut().filter(|naive| naive.handle.is_some());
        let Some(naive) = random.choice(with_handle.collect::<Vec<_>>()) else { return };
        let Some(handle) = &naive.handle else { return };
        let (told, expected) = match random.u8(0..4) {
            0 => (handle.cancel(), naive.leave()),
            1 => (handle.abort(), naive.abort()),
            _ => (handle.reset(self.start + ms(to)), naive.reset(to)),
        };
        assert_eq!(told, expected);
    }

    async fn advance(&mut self, by: u64) {
        sleep(ms(by)).await;
        for at in self.now + 1..=self.now + by {
            (0..).zip(&mut self.all).for_each(|(number, naive)| naive.step(number, at, &mut self.log));
        }
        self.now += by;
    }

    async fn compare(&mut self) {
        // What was aborted ends at its task's next poll.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        let (mut seen, mut log) = (self.seen.lock().unwrap().clone(), self.log.clone());
        // The order among jobs at one time is not told; that of one job is.
        seen.sort_by_key(|&(at, number, _)| (at, number));
        log.sort_by_key(|&(at, number, _)| (at, number));
        assert_eq!(seen, log);
        let listed: BTreeMap<_, _> =
            self.all.iter().filter_map(|naive| Some((naive.key?, naive.info(self.start)))).collect();
        let found: BTreeMap<_, _> =
            self.jobs.list().into_iter().map(|(key, info)| (key, (info.state, info.due))).collect();
        assert_eq!((found, self.jobs.len()), (listed.clone(), listed.len()));
        let waiting = self.all.iter().filter(|naive| matches!(naive.now, Now::Pending(_))).count();
        assert_eq!(self.wheel.pending(), waiting, "one timer each");
        for key in 0..KEYS {
            assert_eq!(self.jobs.get(&key).map(|info| (info.state, info.due)), listed.get(&key).copied());
        }
        let cx = &mut Context::from_waker(Waker::noop());
        for naive in &mut self.all {
            let over = match naive.now {
                Now::Over(state) => Some(state),
                Now::Pending(_) | Now::Running(..) => None,
            };
            if let Some(join) = &mut naive.join {
                let told = Pin::new(join).poll(cx);
                assert_eq!(told, over.map_or(Poll::Pending, Poll::Ready));
            }
            naive.join.take_if(|_| over.is_some());
            let Some(handle) = &mut naive.handle else { continue };
            let (state, due) = match naive.now {
                Now::Pending(due) => (JobState::Pending, Some(self.start + ms(due))),
                Now::Running(..) => (JobState::Running, None),
                Now::Over(state) => (state, None),
            };
            assert_eq!((handle.state(), handle.due(), handle.is_finished()), (state, due, over.is_some()));
            assert_eq!(handle.time_left(), due.map(|due| due - Instant::now()));
            match (Pin::new(&mut *handle).poll(cx), over) {
                (Poll::Pending, None) => {}
                (Poll::Ready(Ok(runs)), Some(JobState::Done)) => assert_eq!(runs, naive.runs),
                (Poll::Ready(Err(error)), Some(JobState::Cancelled)) => assert!(error.is_cancelled()),
                (told, over) => panic!("told {told:?}, and not {over:?}"),
            }
            if over.is_some() {
                assert!(
                    handle.is_terminated()
                        && !handle.cancel()
                        && !handle.abort()
                        && !handle.reset(self.start)
                );
                naive.handle = None;
            }
        }
    }

    async fn shut_down(&mut self) {
        let mut running = 0;
        let mut pending = Vec::new();
        for naive in self.all.iter_mut().filter(|naive| naive.key.is_some()) {
            match naive.now {
                Now::Pending(_) => pending.extend(naive.key),
                _ => running += 1,
            }
            _ = naive.leave();
        }
        let ended = self.jobs.shutdown(ms(1_000)).await;
        let mut not_begun: Vec<_> = ended.not_begun.iter().map(|job| job.key).collect();
        not_begun.sort_unstable();
        pending.sort_unstable();
        assert_eq!((ended.finished, ended.aborted, not_begun), (running, 0, pending));
        assert!(ended.not_begun.iter().all(|job| job.future.is_some()));
        assert!(self.jobs.try_run_after(0, ms(1), async {}).is_err());
        let passed = u64::try_from(self.start.elapsed().as_millis()).unwrap() - self.now;
        for at in self.now + 1..=self.now + passed {
            (0..).zip(&mut self.all).for_each(|(number, naive)| naive.step(number, at, &mut self.log));
        }
        self.now += passed;
        self.compare().await;
    }
}

#[tokio::test(start_paused = true)]
async fn jobs_do_what_a_naive_list_does() {
    for seed in 0..400 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (wheel, start) = (TimingWheel::new(), Instant::now());
        let (seen, log, all) = (Arc::default(), Vec::new(), Vec::new());
        let jobs = Jobs::new(&wheel);
        let mut model = Model { wheel, jobs, start, now: 0, seen, log, all };
        println!("seed {seed}");
        model.advance(1).await;
        for _ in 0..60 {
            let key = random.u8(0..KEYS);
            match random.u8(0..10) {
                0 => model.add(None, &mut random),
                1 | 2 => model.add(Some(key), &mut random),
                3 => model.take(key, random.bool()),
                4 => model.by_handle(&mut random),
                5 | 6 => model.reset(key, 2 * random.u64(0..10) + 1),
                _ => model.advance(2 * random.u64(1..6)).await,
            }
            model.compare().await;
        }
        model.shut_down().await;
    }
}

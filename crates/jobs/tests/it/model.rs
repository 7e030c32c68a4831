//! Random scripts on jobs, by keys and by handles, and on a naive list of them, and at each step the same:
//!
//! 1. Each run begins when it is due, in a task of its own, and ends after its length. A run that is due already begins at
//!    once. The next run is due when the user has said during the run, else when the run has answered, else when the schedule
//!    says.
//! 2. The schedule sees when each run was due, began and ended, and whether it was missed. It may leave out a run that it has
//!    planned itself, and no other.
//! 3. A job replaces the one with its key. A replaced job that was pending never runs, and a run that goes on is its last.
//! 4. A reset moves a pending run, or the one after a run that goes on, and tells whether there is one. A schedule that changes
//!    its answer moves a pending run or ends the job, unless somebody else has said when the run is due.
//! 5. `get`, `list` and `len` know exactly the jobs that are not over, or could not run, with their states and times. So does
//!    each handle. `panicked` counts the jobs by keys that have.
//! 6. A cancel or an abort ends a pending job, as the drop of a handle does if it is asked to. During a run, a cancel makes it
//!    the last of a job that repeats, and an abort ends it. Both tell whether they made a difference.
//! 7. Each job ends once and drops all that it owned. Whoever awaits it learns how it ended, a handle with the output or the
//!    number of runs. After the end of the wheel a run comes to its end, and no other begins.
//! 8. A shutdown waits for the runs under keys, also under keys that were removed, aborts them at its limit, and hands back the
//!    jobs that have not begun.

use std::collections::{BTreeMap, HashSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::FutureExt;
use futures::future::FusedFuture;
use timingwheel::TimingWheel;
use timingwheel_jobs::{
    Job, JobInfo, JobState, Jobs, JobsExt, Join, LastRun, NextRun, PendingRun, Replanned, Schedule,
};
use tokio::time::{Instant, sleep};

use crate::{DAY, ms, rate, rest};

const KEYS: u8 = 4;
/// A run that begins later than that was missed.
const MISSED_AFTER: Duration = ms(5);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    Asked(LastRun),
    AskedToLeaveOut,
    Begins(Instant),
    Ends(Instant),
}

/// What becomes of a job.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<Event>>>);

impl Notes {
    fn note(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }

    /// What has come since the last time.
    fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Notes what it is asked, and may leave out each third run.
struct Planned {
    schedule: Box<dyn Schedule>,
    notes: Notes,
    leaves_out: bool,
    asked: u64,
    run: Arc<Mutex<Option<PendingRun>>>,
}

impl Schedule for Planned {
    fn next(&mut self, last: LastRun) -> Option<Instant> {
        self.notes.note(Event::Asked(last));
        self.schedule.next(last)
    }

    fn admits(&mut self, due: Instant) -> bool {
        self.schedule.admits(due)
    }

    fn leaves_out(&mut self) -> bool {
        self.notes.note(Event::AskedToLeaveOut);
        self.asked += 1;
        self.leaves_out && self.asked.is_multiple_of(3)
    }

    fn attach(&mut self, run: PendingRun) {
        assert_eq!(run.replan(None), Replanned::NotPending, "it is not added yet");
        *self.run.lock().unwrap() = Some(run);
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Now {
    Pending(Instant),
    /// Until then; and to where the next run was moved.
    Running(Instant, Option<Instant>),
    Over(JobState),
}

/// A job in the naive list.
struct Naive {
    key: Option<u8>,
    /// The key that it was made with.
    first_key: Option<u8>,
    handle: Option<Job<u64>>,
    join: Option<Join>,
    run: Arc<Mutex<Option<PendingRun>>>,
    /// Owned by what it runs.
    owned: Weak<()>,
    seen: Notes,
    expected: Notes,
    schedule: Option<Planned>,
    /// How the first runs end: by a panic if there is none. The others have no answer of their own.
    answers: Vec<Option<NextRun>>,
    /// Runs that have come to their end.
    runs: usize,
    is_last: bool,
    /// Somebody else than the schedule has said when it is due.
    is_users: bool,
    /// How long each run takes.
    length: Duration,
    /// When the last run was due, and began.
    due: Instant,
    began: Instant,
    now: Now,
}

/// What is known of a job from outside.
type Known = (JobState, Option<Instant>);

fn known(info: JobInfo) -> Known {
    (info.state, info.due)
}

impl Naive {
    fn answer(&self) -> Option<NextRun> {
        self.answers.get(self.runs).copied().unwrap_or(Some(NextRun::BySchedule))
    }

    /// What happens at this moment.
    fn step(&mut self, at: Instant, is_ended: bool) {
        loop {
            match self.now {
                Now::Pending(due) if due <= at => {
                    (self.due, self.began, self.now) = (due, at, Now::Running(at + self.length, None));
                    let is_asked = !self.is_users;
                    if self.schedule.as_mut().is_some_and(|schedule| is_asked && schedule.leaves_out()) {
                        self.go_on(at, None, NextRun::BySchedule, is_ended);
                    } else {
                        self.expected.note(Event::Begins(at));
                    }
                }
                Now::Running(until, moved) if until == at => {
                    self.expected.note(Event::Ends(at));
                    let answer = self.answer();
                    self.runs += 1;
                    match answer {
                        Some(answer) => self.go_on(at, moved, answer, is_ended),
                        None => self.now = Now::Over(JobState::Panicked),
                    }
                }
                _ => break,
            }
        }
        if matches!(self.now, Now::Over(state) if state != JobState::CouldNotRun) {
            self.key = None;
        }
    }

    fn go_on(&mut self, at: Instant, moved: Option<Instant>, answer: NextRun, is_ended: bool) {
        let mut last = LastRun::at(at);
        (last.due, last.started) = (self.due, self.began);
        last.missed = self.began > self.due + MISSED_AFTER;
        let next = match (answer, &mut self.schedule) {
            (NextRun::BySchedule, Some(schedule)) => schedule.next(last),
            (NextRun::After(delay), Some(schedule)) => Some(at + delay).filter(|due| schedule.admits(*due)),
            (NextRun::At(next), Some(schedule)) => Some(next).filter(|due| schedule.admits(*due)),
            (NextRun::Never, _) | (_, None) => None,
        };
        self.is_users = moved.is_some() || answer != NextRun::BySchedule;
        self.now = match moved.map(|to| to.max(at)).or(next) {
            _ if self.is_last => Now::Over(JobState::Cancelled),
            None => Now::Over(JobState::Done),
            Some(due) if is_ended => {
                self.due = due;
                Now::Over(JobState::CouldNotRun)
            }
            Some(due) => Now::Pending(due),
        };
    }

    /// Leaves the list, as one that is removed or replaced, or is cancelled. Tells whether that makes a difference.
    fn leave(&mut self) -> bool {
        self.key = None;
        match self.now {
            Now::Pending(_) => self.now = Now::Over(JobState::Cancelled),
            Now::Running(..) if !self.is_last && self.schedule.is_some() => self.is_last = true,
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

    fn reset(&mut self, now: Instant, to: Instant) -> bool {
        match &mut self.now {
            // A run that is moved to the past has missed nothing.
            Now::Pending(due) => (*due, self.is_users) = (to.max(now), true),
            Now::Running(_, moved) if self.schedule.is_some() && !self.is_last => *moved = Some(to),
            _ => return false,
        }
        true
    }

    fn replan(&mut self, now: Instant, next: Option<Instant>) -> Replanned {
        match self.now {
            Now::Pending(_) if self.is_users => return Replanned::MovedByUser,
            Now::Pending(_) => {
                self.now = next.map_or(Now::Over(JobState::Done), |to| Now::Pending(to.max(now)));
            }
            _ => return Replanned::NotPending,
        }
        Replanned::Done
    }

    /// Its state, and when it is due if it is pending, or was due if it could not run.
    fn known(&self) -> Known {
        match self.now {
            Now::Pending(due) => (JobState::Pending, Some(due)),
            Now::Running(..) => (JobState::Running, None),
            Now::Over(state) => (state, (state == JobState::CouldNotRun).then_some(self.due)),
        }
    }

    fn runs_until(&self) -> Option<Instant> {
        if let Now::Running(until, _) = self.now { Some(until) } else { None }
    }

    /// Compares what its user learns of it.
    fn compare(&mut self, now: Instant) {
        assert_eq!(self.seen.take(), self.expected.take());
        let (cx, (state, due)) = (&mut Context::from_waker(Waker::noop()), self.known());
        let over = Some(state).filter(|state| state.is_over());
        assert_eq!(self.owned.strong_count() > 0, over.is_none(), "{state:?}");
        if let Some(join) = &mut self.join {
            assert_eq!(Pin::new(join).poll(cx), over.map_or(Poll::Pending, Poll::Ready));
        }
        self.join.take_if(|_| over.is_some());
        let Some(handle) = &mut self.handle else { return };
        assert_eq!(
            (handle.info().state, handle.info().due, handle.info().state.is_over()),
            (state, due, over.is_some())
        );
        assert_eq!(handle.info().time_left(), due.filter(|_| over.is_none()).map(|due| due - now));
        match (Pin::new(&mut *handle).poll(cx), over) {
            (Poll::Pending, None) => return assert!(!handle.is_terminated()),
            (Poll::Ready(Ok(runs)), Some(JobState::Done)) => assert_eq!(runs, self.runs as u64),
            (Poll::Ready(Err(error)), Some(JobState::Cancelled)) => assert!(error.is_cancelled()),
            (Poll::Ready(Err(error)), Some(JobState::Panicked)) => assert!(error.is_panic()),
            (Poll::Ready(Err(error)), Some(JobState::CouldNotRun)) => {
                assert!(error.reason().unwrap().is_shutdown());
            }
            (told, over) => panic!("told {told:?}, and not {over:?}"),
        }
        let (is_cancelled, is_moved) = (handle.cancel() || handle.abort(), handle.reset(now));
        assert!(handle.is_terminated() && !is_cancelled && !is_moved);
        self.handle = None;
    }
}

struct Model {
    wheel: TimingWheel,
    jobs: Jobs<u8>,
    now: Instant,
    is_ended: bool,
    /// Of all runs.
    tasks: Arc<Mutex<HashSet<tokio::task::Id>>>,
    all: Vec<Naive>,
}

impl Model {
    fn listed(&mut self, key: u8) -> Option<&mut Naive> {
        self.all.iter_mut().find(|naive| naive.key == Some(key))
    }

    /// A moment that may have passed.
    fn moment(&self, random: &mut fastrand::Rng) -> Instant {
        self.now + ms(random.u64(0..20)) - ms(6)
    }

    /// Under a key, or by a handle, in one of the forms that there are: once, by a schedule of its own, and every so often.
    fn add(&mut self, key: Option<u8>, random: &mut fastrand::Rng) {
        let form = random.u8(0..10);
        let (is_planned, is_at_once) = ((3..6).contains(&form), matches!(form, 6 | 7));
        let at = if is_at_once { self.now } else { self.moment(random) };
        let length = ms(random.u64(0..9));
        let answer = |_| match random.u8(0..12) {
            0 => Some(NextRun::After(ms(random.u64(0..10)))),
            1 => Some(NextRun::At(self.moment(random) + ms(random.u64(0..40)))),
            2 => Some(NextRun::Never),
            3 => None,
            _ => Some(NextRun::BySchedule),
        };
        let answers: Vec<_> = (0..4).map(answer).collect();
        let (seen, owned) = (Notes::default(), Arc::new(()));
        let mut naive = Naive {
            key,
            first_key: key,
            handle: None,
            join: None,
            run: Arc::default(),
            owned: Arc::downgrade(&owned),
            seen: seen.clone(),
            expected: Notes::default(),
            schedule: None,
            answers: answers.clone(),
            runs: 0,
            is_last: false,
            is_users: false,
            length,
            due: at,
            began: at,
            now: Now::Pending(at),
        };
        let (is_rate, wait) = (random.bool(), ms(random.u64(1..12)));
        let (times, leaves_out) = (random.u64(0..6), is_planned && random.bool());
        let planned = |notes: &Notes| Planned {
            schedule: match (is_planned, is_rate) {
                (true, true) => Box::new(rate(wait).starting_at(at).times(times)),
                (true, false) => Box::new(rest(wait).starting_at(at).times(times)),
                (false, _) => Box::new(rate(wait).starting_at(at)),
            },
            notes: notes.clone(),
            leaves_out,
            asked: 0,
            run: naive.run.clone(),
        };
        // Passed on by others, which change nothing.
        let schedule: Box<dyn Schedule> = Box::new(planned(&seen).until(at + DAY));
        naive.schedule = match form {
            0..3 => None,
            3..6 => Some(planned(&naive.expected)),
            _ => Some(planned(&Notes::default())),
        };
        let first =
            naive.schedule.as_mut().is_none_or(|schedule| schedule.next(LastRun::at(self.now)).is_some());
        if !first {
            (naive.key, naive.now) = (None, Now::Over(JobState::Done));
        }

        let tasks = self.tasks.clone();
        let run = move |answer: Option<NextRun>| {
            let (seen, owned, tasks) = (seen.clone(), owned.clone(), tasks.clone());
            async move {
                let _owned = owned;
                assert!(tasks.lock().unwrap().insert(tokio::task::id()), "it is not a task of its own");
                seen.note(Event::Begins(Instant::now()));
                if length > Duration::ZERO {
                    sleep(length).await;
                }
                seen.note(Event::Ends(Instant::now()));
                answer.expect("as asked")
            }
        };
        let once = run(answers[0]);
        let mut given = answers.into_iter();
        let make = move || run(given.next().unwrap_or(Some(NextRun::BySchedule)));
        let (wheel, jobs, after) = (&self.wheel, &self.jobs, at.saturating_duration_since(self.now));
        if let Some(key) = key {
            let replaced = match form {
                0 => jobs.try_run_at(key, at, once.map(drop)).unwrap(),
                1 | 2 => jobs.try_run_after(key, after, once.map(drop)).unwrap(),
                3..6 => jobs.try_run_by(key, schedule, make).unwrap(),
                6 | 7 => jobs.try_run_every(key, wait, make).unwrap(),
                _ => jobs.try_run_by(key, rate(wait).starting_at(at), make).unwrap(),
            };
            naive.join = jobs.join(&key);
            let before = self.listed(key).map(|naive| (naive.known(), naive.leave()).0);
            assert_eq!(replaced.map(known), before);
        } else {
            naive.handle = Some(match form {
                0 => wheel.run_at(at, once.map(|_| 1)),
                1 => wheel.run_after(after, once.map(|_| 1)),
                2 => wheel.try_run_at(at, once.map(|_| 1)).unwrap(),
                3 => wheel.run_by(schedule, make),
                4 | 5 => wheel.try_run_by(schedule, make).unwrap(),
                6 => wheel.run_every(wait, make),
                7 => wheel.try_run_every(wait, make).unwrap(),
                8 => wheel.run_every_at(at, wait, make),
                _ => wheel.try_run_every_at(at, wait, make).unwrap(),
            });
        }
        assert_eq!(naive.run.lock().unwrap().is_some(), is_planned && first);
        self.all.push(naive);
    }

    fn take(&mut self, key: u8, aborts: bool) {
        let taken = if aborts { self.jobs.abort(&key) } else { self.jobs.remove(&key) };
        let expected = self.listed(key).map(|naive| {
            let before = naive.known();
            _ = if aborts { naive.abort() } else { naive.leave() };
            before
        });
        assert_eq!(taken.map(known), expected);
    }

    fn reset(&mut self, key: u8, after: Duration) {
        let (now, is_moved) = (self.now, self.jobs.reset_after(&key, after));
        assert_eq!(is_moved, self.listed(key).is_some_and(|naive| naive.reset(now, now + after)));
    }

    fn replan(&mut self, random: &mut fastrand::Rng) {
        let (now, next) = (self.now, Some(self.moment(random)).filter(|_| random.u8(0..4) > 0));
        let Some(naive) = random.choice(&mut self.all) else { return };
        let run = naive.run.lock().unwrap().clone();
        let Some(run) = run else { return };
        assert_eq!(run.replan(next), naive.replan(now, next));
    }

    /// Does something by a handle, if there is one.
    fn by_handle(&mut self, random: &mut fastrand::Rng) {
        let (now, to) = (self.now, self.moment(random));
        let with_handle = self.all.iter_mut().filter(|naive| naive.handle.is_some());
        let Some(naive) = random.choice(with_handle.collect::<Vec<_>>()) else { return };
        let Some(handle) = naive.handle.take() else { return };
        let (told, expected) = match random.u8(0..6) {
            0 => return,
            1 => {
                drop(handle.cancel_on_drop());
                naive.leave();
                return;
            }
            2 => (handle.cancel(), naive.leave()),
            3 => (handle.abort(), naive.abort()),
            _ => (handle.reset(to), naive.reset(now, to)),
        };
        assert_eq!(told, expected);
        naive.handle = Some(handle);
    }

    /// Once or more.
    fn end_wheel(&mut self) {
        self.is_ended = true;
        let mut ended = 0;
        for naive in &mut self.all {
            if let Now::Pending(due) = naive.now {
                (naive.due, naive.now) = (due, Now::Over(JobState::CouldNotRun));
                ended += 1;
            }
        }
        assert_eq!(self.wheel.shutdown(), ended);
    }

    fn step(&mut self, to: Instant) {
        loop {
            self.all.iter_mut().for_each(|naive| naive.step(self.now, self.is_ended));
            if self.now >= to {
                return;
            }
            self.now += ms(1);
        }
    }

    async fn advance(&mut self, by: Duration) {
        sleep(by).await;
        self.step(Instant::now());
    }

    async fn compare(&mut self) {
        self.step(self.now);
        // Runs that are due at once begin, and aborted ones end, at the next poll of their task.
        for _ in 0..30 {
            tokio::task::yield_now().await;
        }
        let listed: BTreeMap<_, _> =
            self.all.iter().filter_map(|naive| Some((naive.key?, naive.known()))).collect();
        let found: BTreeMap<_, _> =
            self.jobs.list().into_iter().map(|(key, info)| (key, known(info))).collect();
        assert_eq!((found, self.jobs.len()), (listed.clone(), listed.len()));
        for key in 0..KEYS {
            assert_eq!(self.jobs.get(&key).map(known), listed.get(&key).copied());
        }
        let count =
            |is_meant: &dyn Fn(&Naive) -> bool| self.all.iter().filter(|naive| is_meant(naive)).count();
        let waiting = count(&|naive| matches!(naive.now, Now::Pending(_)));
        let panicked =
            count(&|naive| naive.first_key.is_some() && naive.now == Now::Over(JobState::Panicked));
        // One timer each.
        assert_eq!((self.wheel.pending(), self.jobs.panicked()), (waiting, panicked as u64));
        self.all.iter_mut().for_each(|naive| naive.compare(self.now));
    }

    /// A second shutdown waits for what runs, too.
    async fn shut_down(&mut self, mut limit: Duration) {
        let mut listed: Vec<_> = (0..self.all.len()).filter(|&n| self.all[n].key.is_some()).collect();
        listed.sort_by_key(|&n| self.all[n].key);
        let is_running = |n: &usize| self.all[*n].runs_until().is_some();
        let rest: Vec<_> = listed.iter().copied().filter(|n| !is_running(n)).collect();
        // Those whose keys were removed too.
        let running: Vec<_> =
            (0..self.all.len()).filter(|n| self.all[*n].first_key.is_some() && is_running(n)).collect();
        // No run ends at the very moment of the limit.
        while running.iter().any(|&n| self.all[n].runs_until() == Some(self.now + limit)) {
            limit += ms(1);
        }
        let at = self.now + limit;
        let (aborted, finished): (Vec<usize>, Vec<usize>) =
            running.iter().partition(|&&n| self.all[n].runs_until() > Some(at));
        let not_begun: Vec<_> =
            rest.iter().map(|&n| (self.all[n].key.unwrap(), self.all[n].known())).collect();
        listed.iter().for_each(|&n| _ = self.all[n].leave());
        let (mut ended, mut other) = tokio::join!(self.jobs.shutdown(limit), self.jobs.shutdown(ms(1_000)));
        assert!(aborted.is_empty() || Instant::now() == at);
        self.step(Instant::now());
        aborted.iter().for_each(|&n| _ = self.all[n].abort());
        let [finished, aborted] = [finished, aborted].map(|runs| {
            let mut keys: Vec<_> = runs.iter().map(|&n| self.all[n].first_key.unwrap()).collect();
            keys.sort_unstable();
            keys
        });
        for ended in [&mut ended, &mut other] {
            ended.finished_keys.sort_unstable();
            ended.aborted_keys.sort_unstable();
            assert_eq!((&ended.finished_keys, &ended.aborted_keys), (&finished, &aborted));
            assert_eq!((ended.finished, ended.aborted), (finished.len(), aborted.len()));
        }
        assert!(other.not_begun.is_empty());
        assert!(self.jobs.try_run_after(0, ms(1), async {}).is_err());

        ended.not_begun.sort_by_key(|job| job.key);
        let told: Vec<_> = ended.not_begun.iter().map(|job| (job.key, known(job.info))).collect();
        assert_eq!(told, not_begun);
        for (stopped, n) in ended.not_begun.into_iter().zip(rest) {
            assert_eq!(stopped.future.is_some(), stopped.info.state == JobState::Pending);
            let Some(future) = stopped.future else { continue };
            let ran = tokio::spawn(future).await;
            let (naive, ends) = (&self.all[n], Instant::now());
            assert_eq!((ran.is_err(), ends), (naive.answer().is_none(), self.now + naive.length));
            naive.expected.note(Event::Begins(self.now));
            naive.expected.note(Event::Ends(ends));
            self.step(ends);
        }
        self.compare().await;
    }
}

#[tokio::test(start_paused = true)]
async fn jobs_do_what_a_naive_list_does() {
    for seed in 0..200 {
        let (wheel, random) = (crate::wheel(), &mut fastrand::Rng::with_seed(seed));
        let jobs = Jobs::new(&wheel);
        let mut model = Model {
            wheel,
            jobs,
            now: Instant::now(),
            is_ended: false,
            tasks: Arc::default(),
            all: Vec::new(),
        };
        println!("seed {seed}");
        for step in 0..60 {
            let key = random.u8(0..KEYS);
            match random.u8(0..12) {
                // Of every second script the wheel ends before the script does.
                _ if step == 45 && seed % 2 == 0 => model.end_wheel(),
                0..3 if model.is_ended => {}
                0 => model.add(None, random),
                1 | 2 => model.add(Some(key), random),
                3 => model.take(key, random.bool()),
                4 => model.by_handle(random),
                5 | 6 => model.reset(key, ms(random.u64(0..20))),
                7 => model.replan(random),
                _ => model.advance(ms(random.u64(1..12))).await,
            }
            model.compare().await;
        }
        model.shut_down(ms(*random.choice(&[0, 4, 1_000]).unwrap())).await;
        // Jobs with handles might run for ever.
        model.end_wheel();
        model.compare().await;
    }
}

//! Random scripts on jobs, by keys and by handles, and on a naive list of them, and at each step the same:
//!
//! 1. Each run begins when it is due and ends after its length, also if it is due at once or since long. After a run the
//!    user's last move during it, or its answer, or the schedule says when the next is due. The schedule sees when the run was
//!    due, began and ended, and whether it was missed, and may leave out those that it has planned itself, and no others.
//! 2. A job replaces the one with its key. What was pending never runs, and a run that goes on is the last.
//! 3. A reset moves what is pending, or the run after one that goes on, and tells whether there is such a run. A schedule that
//!    changes its answer moves what is pending, or ends the job, unless somebody else has said when it is due.
//! 4. `get`, `list` and `len` know exactly the jobs that are not over, or could not run, with their states and times. So does
//!    each handle. `panicked` counts the jobs by keys that have.
//! 5. A cancel or an abort ends what is pending, as the drop of a handle does if it is asked to. During a run, a cancel makes
//!    it the last of a job that repeats, and an abort ends it. Both tell whether they made a difference.
//! 6. Each job ends once, and whoever awaits it learns how, a handle with the output or the number of runs. After the end of
//!    the wheel what runs comes to its end, and nothing more could run.
//! 7. A shutdown waits for what runs under a key, aborts it at its limit, and hands back what has not begun.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures::FutureExt;
use futures::future::FusedFuture;
use timingwheel::TimingWheel;
use timingwheel_jobs::{
    Job, JobState, Jobs, JobsExt, Join, NextRun, PendingRun, Previous, Replanned, Schedule,
};
use tokio::time::{Instant, sleep};

use crate::{ms, rate, rest};

const KEYS: u8 = 4;
/// A run that begins later than that was missed.
const MISSED_AFTER: u64 = 5;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    Asked(Previous),
    AskedToLeaveOut,
    Begins,
    Ends,
}

/// By the number of the job, in milliseconds from the start.
type Log = Vec<(u64, usize, Event)>;

#[derive(Clone)]
struct Notes {
    start: Instant,
    number: usize,
    seen: Arc<Mutex<Log>>,
}

impl Notes {
    fn note(&self, event: Event) {
        let at = u64::try_from(self.start.elapsed().as_millis()).unwrap();
        self.seen.lock().unwrap().push((at, self.number, event));
    }
}

#[derive(Clone, Copy)]
enum Repeats {
    No,
    AtRate(u64),
    AfterDelay(u64),
}

/// How a run ends.
#[derive(Clone, Copy)]
enum Answer {
    BySchedule,
    After(u64),
    At(u64),
    Never,
    Panics,
}

/// Tells what it is asked, and may leave out each third run.
struct Planned {
    schedule: Box<dyn Schedule>,
    notes: Notes,
    leaves_out: bool,
    asked: u64,
    run: Arc<Mutex<Option<PendingRun>>>,
}

impl Schedule for Planned {
    fn next(&mut self, previous: Previous) -> Option<Instant> {
        self.notes.note(Event::Asked(previous));
        self.schedule.next(previous)
    }

    fn leaves_out(&mut self) -> bool {
        self.notes.note(Event::AskedToLeaveOut);
        self.asked += 1;
        self.leaves_out && self.asked.is_multiple_of(3)
    }

    fn attach(&mut self, run: PendingRun) {
        *self.run.lock().unwrap() = Some(run);
    }
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
    number: usize,
    start: Instant,
    key: Option<u8>,
    is_keyed: bool,
    handle: Option<Job<u64>>,
    join: Option<Join>,
    run: Arc<Mutex<Option<PendingRun>>>,
    repeats: Repeats,
    leaves_out: bool,
    asked: u64,
    /// How the first runs end; the others do as the schedule says.
    answers: Vec<Answer>,
    /// Runs that have come to their end.
    runs: usize,
    is_last: bool,
    /// Somebody else than the schedule has said when it is due.
    is_users: bool,
    /// Runs that the schedule has left, and how long each takes.
    left: u64,
    length: u64,
    /// When the last run was due, and began.
    due: u64,
    began: u64,
    now: Now,
}

impl Naive {
    fn at(&self, millis: u64) -> Instant {
        self.start + ms(millis)
    }

    fn repeats(&self) -> bool {
        !matches!(self.repeats, Repeats::No)
    }

    fn answer(&self) -> Answer {
        self.answers.get(self.runs).copied().unwrap_or(Answer::BySchedule)
    }

    /// What happens at this millisecond.
    fn step(&mut self, at: u64, is_ended: bool, log: &mut Log) {
        loop {
            match self.now {
                Now::Pending(due) if due <= at => {
                    (self.due, self.began, self.now) = (due, at, Now::Running(at + self.length, None));
                    if self.repeats() && !self.is_users {
                        log.push((at, self.number, Event::AskedToLeaveOut));
                        self.asked += 1;
                        if self.leaves_out && self.asked.is_multiple_of(3) {
                            self.go_on(at, None, Answer::BySchedule, is_ended, log);
                            continue;
                        }
                    }
                    log.push((at, self.number, Event::Begins));
                }
                Now::Running(until, moved) if until == at => {
                    log.push((at, self.number, Event::Ends));
                    let answer = self.answer();
                    self.runs += 1;
                    self.go_on(at, moved, answer, is_ended, log);
                }
                _ => break,
            }
        }
        if matches!(self.now, Now::Over(state) if state != JobState::CouldNotRun) {
            self.key = None;
        }
    }

    fn go_on(&mut self, at: u64, moved: Option<u64>, answer: Answer, is_ended: bool, log: &mut Log) {
        let next = match answer {
            Answer::Panics => return self.now = Now::Over(JobState::Panicked),
            _ if !self.repeats() => None,
            Answer::BySchedule => self.ask(at, log),
            Answer::After(delay) => Some(at + delay),
            Answer::At(next) => Some(next),
            Answer::Never => None,
        };
        self.is_users = moved.is_some() || !matches!(answer, Answer::BySchedule);
        self.now = match moved.or(next) {
            _ if self.is_last => Now::Over(JobState::Cancelled),
            None => Now::Over(JobState::Done),
            Some(due) if is_ended => {
                self.due = due;
                Now::Over(JobState::CouldNotRun)
            }
            Some(due) => Now::Pending(due),
        };
    }

    fn ask(&mut self, at: u64, log: &mut Log) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        let mut previous = Previous::at(self.at(at));
        (previous.due, previous.started) = (self.at(self.due), self.at(self.began));
        previous.missed = self.began > self.due + MISSED_AFTER;
        log.push((at, self.number, Event::Asked(previous)));
        match self.repeats {
            Repeats::No => None,
            Repeats::AtRate(period) => Some(self.due + period),
            Repeats::AfterDelay(delay) => Some(at + delay),
        }
    }

    /// Leaves the list, as one that is removed or replaced, or is cancelled. Tells whether that makes a difference.
    fn leave(&mut self) -> bool {
        self.key = None;
        match self.now {
            Now::Pending(_) => self.now = Now::Over(JobState::Cancelled),
            Now::Running(..) if !self.is_last && self.repeats() => self.is_last = true,
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

    fn reset(&mut self, now: u64, to: u64) -> bool {
        let repeats = self.repeats();
        match &mut self.now {
            // A run that is moved to the past has missed nothing.
            Now::Pending(due) => (*due, self.is_users) = (to.max(now), true),
            Now::Running(_, moved) if repeats && !self.is_last => *moved = Some(to),
            _ => return false,
        }
        true
    }

    fn replan(&mut self, now: u64, next: Option<u64>) -> Replanned {
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
    fn info(&self) -> (JobState, Option<Instant>) {
        match self.now {
            Now::Pending(due) => (JobState::Pending, Some(self.at(due))),
            Now::Running(..) => (JobState::Running, None),
            Now::Over(state) => (state, (state == JobState::CouldNotRun).then(|| self.at(self.due))),
        }
    }
}

struct Model {
    wheel: TimingWheel,
    jobs: Jobs<u8>,
    start: Instant,
    now: u64,
    is_ended: bool,
    seen: Arc<Mutex<Log>>,
    log: Log,
    all: Vec<Naive>,
}

impl Model {
    fn new() -> Self {
        let wheel = TimingWheel::new();
        let jobs = Jobs::new(&wheel);
        let (seen, log, all) = (Arc::default(), Vec::new(), Vec::new());
        Self { wheel, jobs, start: Instant::now(), now: 0, is_ended: false, seen, log, all }
    }

    fn listed(&mut self, key: u8) -> Option<&mut Naive> {
        self.all.iter_mut().find(|naive| naive.key == Some(key))
    }

    /// A moment that may have passed.
    fn moment(&self, random: &mut fastrand::Rng) -> u64 {
        (self.now + random.u64(0..20)).saturating_sub(6)
    }

    /// Under a key, or by a handle.
    fn add(&mut self, key: Option<u8>, random: &mut fastrand::Rng) {
        let (number, start, due, length) =
            (self.all.len(), self.start, self.moment(random), random.u64(0..9));
        let answer = |_| match random.u8(0..12) {
            0 => Answer::After(random.u64(0..10)),
            1 => Answer::At(random.u64(0..200)),
            2 => Answer::Never,
            3 => Answer::Panics,
            _ => Answer::BySchedule,
        };
        let answers: Vec<_> = (0..4).map(answer).collect();
        let notes = Notes { start, number, seen: self.seen.clone() };
        let run = {
            let notes = notes.clone();
            move |answer| {
                let notes = notes.clone();
                async move {
                    notes.note(Event::Begins);
                    if length > 0 {
                        sleep(ms(length)).await;
                    }
                    notes.note(Event::Ends);
                    match answer {
                        Answer::BySchedule => NextRun::BySchedule,
                        Answer::After(delay) => NextRun::After(ms(delay)),
                        Answer::At(at) => NextRun::At(start + ms(at)),
                        Answer::Never => NextRun::Never,
                        Answer::Panics => panic!("as asked"),
                    }
                }
            }
        };
        let once = run(answers[0]);
        let mut given = answers.clone().into_iter();
        let make = move || run(given.next().unwrap_or(Answer::BySchedule));
        let (times, wait, leaves_out) = (random.u64(0..6), random.u64(1..12), random.bool());
        let repeats =
            *random.choice(&[Repeats::No, Repeats::AtRate(wait), Repeats::AfterDelay(wait)]).unwrap();
        let pending = Arc::<Mutex<_>>::default();
        let (wheel, jobs, at, run) = (&self.wheel, &self.jobs, start + ms(due), pending.clone());
        let schedule: Option<Box<dyn Schedule>> = match repeats {
            Repeats::No => None,
            Repeats::AtRate(wait) => Some(Box::new(rate(ms(wait)).starting_at(at))),
            Repeats::AfterDelay(wait) => Some(Box::new(rest(ms(wait)).starting_at(at))),
        };
        let schedule = schedule.map(|schedule| -> Box<dyn Schedule> {
            Box::new(Planned { schedule, notes, leaves_out, asked: 0, run }.times(times))
        });
        let now =
            if schedule.is_some() && times == 0 { Now::Over(JobState::Done) } else { Now::Pending(due) };
        let mut naive = Naive {
            number,
            start,
            key: key.filter(|_| now == Now::Pending(due)),
            is_keyed: key.is_some(),
            handle: None,
            join: None,
            run: pending,
            repeats,
            leaves_out,
            asked: 0,
            answers,
            runs: 0,
            is_last: false,
            is_users: false,
            left: times.saturating_sub(1),
            length,
            due: 0,
            began: 0,
            now,
        };
        if schedule.is_some() && times > 0 {
            self.log.push((self.now, number, Event::Asked(Previous::at(naive.at(self.now)))));
        }
        let after = at.saturating_duration_since(Instant::now());
        match (key, schedule) {
            (None, Some(schedule)) => naive.handle = Some(wheel.run_by(schedule, make)),
            (None, None) if random.bool() => naive.handle = Some(wheel.run_at(at, once.map(|_| 1))),
            (None, None) => naive.handle = Some(wheel.run_after(after, once.map(|_| 1))),
            (Some(key), schedule) => {
                let replaced = match schedule {
                    Some(schedule) => jobs.try_run_by(key, schedule, make).unwrap(),
                    None if random.bool() => jobs.try_run_at(key, at, once.map(drop)).unwrap(),
                    None => jobs.try_run_after(key, after, once.map(drop)).unwrap(),
                };
                naive.join = jobs.join(&key);
                let before = self.listed(key).map(|naive| (naive.info(), naive.leave()).0);
                assert_eq!(replaced.map(|info| (info.state, info.due)), before);
            }
        }
        self.all.push(naive);
    }

    fn take(&mut self, key: u8, aborts: bool) {
        let taken = if aborts { self.jobs.abort(&key) } else { self.jobs.remove(&key) };
        let expected = self.listed(key).map(|naive| {
            let before = naive.info();
            _ = if aborts { naive.abort() } else { naive.leave() };
            before
        });
        assert_eq!(taken.map(|info| (info.state, info.due)), expected);
    }

    fn reset(&mut self, key: u8, after: u64) {
        let (now, is_moved) = (self.now, self.jobs.reset_after(&key, ms(after)));
        assert_eq!(is_moved, self.listed(key).is_some_and(|naive| naive.reset(now, now + after)));
    }

    fn replan(&mut self, random: &mut fastrand::Rng) {
        let (now, next) = (self.now, Some(self.moment(random)).filter(|_| random.u8(0..4) > 0));
        let Some(naive) = random.choice(&mut self.all) else { return };
        let run = naive.run.lock().unwrap().clone();
        let Some(run) = run else { return };
        assert_eq!(run.replan(next.map(|next| naive.at(next))), naive.replan(now, next));
    }

    /// Does something by a handle, if there is one.
    fn by_handle(&mut self, random: &mut fastrand::Rng) {
        let (now, to) = (self.now, self.moment(random));
        let with_handle = self.all.iter_mut().filter(|naive| naive.handle.is_some());
        let Some(naive) = random.choice(with_handle.collect::<Vec<_>>()) else { return };
        let Some(handle) = &naive.handle else { return };
        let (told, expected) = match random.u8(0..6) {
            0 => (handle.cancel(), naive.leave()),
            1 => (handle.abort(), naive.abort()),
            2 => {
                drop(naive.handle.take());
                return;
            }
            3 => {
                drop(naive.handle.take().map(Job::cancel_on_drop));
                naive.leave();
                return;
            }
            _ => (handle.reset(naive.at(to)), naive.reset(now, to)),
        };
        assert_eq!(told, expected);
    }

    fn end_wheel(&mut self) {
        self.is_ended = true;
        let pending = self.all.iter_mut().filter_map(|naive| match naive.now {
            Now::Pending(due) => Some((naive.due, naive.now) = (due, Now::Over(JobState::CouldNotRun))),
            _ => None,
        });
        assert_eq!(self.wheel.shutdown(), pending.count());
    }

    fn step(&mut self, to: u64) {
        for at in self.now..=to {
            self.all.iter_mut().for_each(|naive| naive.step(at, self.is_ended, &mut self.log));
        }
        self.now = to;
    }

    async fn advance(&mut self, by: u64) {
        sleep(ms(by)).await;
        self.step(self.now + by);
    }

    fn elapsed(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap()
    }

    async fn compare(&mut self) {
        self.step(self.now);
        // What is due at once, and what was aborted ends at its task's next poll.
        for _ in 0..30 {
            tokio::task::yield_now().await;
        }
        let (mut seen, mut log) = (self.seen.lock().unwrap().clone(), self.log.clone());
        // The order among jobs at one time is not told; that of one job is.
        seen.sort_by_key(|&(at, number, _)| (at, number));
        log.sort_by_key(|&(at, number, _)| (at, number));
        assert_eq!(seen, log);
        let listed: BTreeMap<_, _> =
            self.all.iter().filter_map(|naive| Some((naive.key?, naive.info()))).collect();
        let found: BTreeMap<_, _> =
            self.jobs.list().into_iter().map(|(key, info)| (key, (info.state, info.due))).collect();
        assert_eq!((found, self.jobs.len()), (listed.clone(), listed.len()));
        let waiting = self.all.iter().filter(|naive| matches!(naive.now, Now::Pending(_))).count();
        assert_eq!(self.wheel.pending(), waiting, "one timer each");
        let panicked =
            self.all.iter().filter(|naive| naive.is_keyed && naive.now == Now::Over(JobState::Panicked));
        assert_eq!(self.jobs.panicked(), panicked.count() as u64);
        for key in 0..KEYS {
            assert_eq!(self.jobs.get(&key).map(|info| (info.state, info.due)), listed.get(&key).copied());
        }
        let cx = &mut Context::from_waker(Waker::noop());
        for naive in &mut self.all {
            let (state, due) = naive.info();
            let over = Some(state).filter(|state| state.is_over());
            if let Some(join) = &mut naive.join {
                let told = Pin::new(join).poll(cx);
                assert_eq!(told, over.map_or(Poll::Pending, Poll::Ready));
            }
            naive.join.take_if(|_| over.is_some());
            let Some(handle) = &mut naive.handle else { continue };
            assert_eq!((handle.state(), handle.due(), handle.is_finished()), (state, due, over.is_some()));
            let left = due.filter(|_| over.is_none()).map(|due| due - Instant::now());
            assert_eq!(handle.time_left(), left);
            match (Pin::new(&mut *handle).poll(cx), over) {
                (Poll::Pending, None) => {}
                (Poll::Ready(Ok(runs)), Some(JobState::Done)) => assert_eq!(runs, naive.runs as u64),
                (Poll::Ready(Err(error)), Some(JobState::Cancelled)) => assert!(error.is_cancelled()),
                (Poll::Ready(Err(error)), Some(JobState::Panicked)) => assert!(error.is_panic()),
                (Poll::Ready(Err(error)), Some(JobState::CouldNotRun)) => {
                    assert!(error.reason().unwrap().is_shutdown());
                }
                (told, over) => panic!("told {told:?}, and not {over:?}"),
            }
            if over.is_some() {
                let (is_cancelled, is_moved) = (handle.cancel() || handle.abort(), handle.reset(self.start));
                assert!(handle.is_terminated() && !is_cancelled && !is_moved);
                naive.handle = None;
            }
        }
    }

    /// A second shutdown waits for what runs, too.
    async fn shut_down(&mut self, mut limit: u64) {
        let mut listed: Vec<_> = self.all.iter_mut().filter(|naive| naive.key.is_some()).collect();
        // No run ends at the very moment of the limit.
        while listed
            .iter()
            .any(|naive| matches!(naive.now, Now::Running(until, _) if until == self.now + limit))
        {
            limit += 1;
        }
        listed.sort_by_key(|naive| naive.key);
        let (running, rest): (Vec<_>, Vec<_>) =
            listed.into_iter().partition(|naive| matches!(naive.now, Now::Running(..)));
        let not_begun: Vec<_> = rest.iter().map(|naive| (naive.key.unwrap(), naive.info())).collect();
        let rest: Vec<_> = rest.into_iter().map(|naive| (naive.leave(), naive.number).1).collect();
        let running: Vec<_> = running.into_iter().map(|naive| (naive.leave(), naive.number).1).collect();

        let (mut ended, other) = tokio::join!(self.jobs.shutdown(ms(limit)), self.jobs.shutdown(ms(1_000)));
        let before = self.now;
        self.step(self.elapsed());
        let over_limit = running.iter().filter(|&&n| matches!(self.all[n].now, Now::Running(..)));
        let over_limit: Vec<_> = over_limit.copied().collect();
        over_limit.iter().for_each(|&n| _ = self.all[n].abort());
        assert_eq!((ended.finished, ended.aborted), (running.len() - over_limit.len(), over_limit.len()));
        assert!(over_limit.is_empty() || self.now == before + limit);
        assert_eq!((other.finished, other.aborted, other.not_begun.len()), (running.len(), 0, 0));
        assert!(self.jobs.try_run_after(0, ms(1), async {}).is_err());
        self.compare().await;

        ended.not_begun.sort_by_key(|job| job.key);
        let told = ended.not_begun.iter().map(|job| (job.key, (job.info.state, job.info.due)));
        assert_eq!(told.collect::<Vec<_>>(), not_begun);
        for (stopped, n) in ended.not_begun.into_iter().zip(rest) {
            assert_eq!(stopped.future.is_some(), stopped.info.state == JobState::Pending);
            let Some(future) = stopped.future else { continue };
            let ran = AssertUnwindSafe(future).catch_unwind().await;
            let naive = &self.all[n];
            assert_eq!(ran.is_err(), matches!(naive.answer(), Answer::Panics));
            let ends = self.now + naive.length;
            self.log.extend([(self.now, n, Event::Begins), (ends, n, Event::Ends)]);
            self.step(ends);
        }
        self.compare().await;
    }
}

#[tokio::test(start_paused = true)]
async fn jobs_do_what_a_naive_list_does() {
    for seed in 0..400 {
        let random = &mut fastrand::Rng::with_seed(seed);
        let mut model = Model::new();
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
                5 | 6 => model.reset(key, random.u64(0..20)),
                7 => model.replan(random),
                _ => model.advance(random.u64(1..12)).await,
            }
            model.compare().await;
        }
        model.shut_down(*random.choice(&[0, 4, 1_000]).unwrap()).await;
    }
}

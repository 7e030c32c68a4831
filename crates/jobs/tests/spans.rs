//! Jobs and the tracing spans in which they are made. In a process of its own: what tracing knows of an event is shared by all
//! threads.

#![cfg(feature = "tracing")]

#[path = "it/limit.rs"]
mod limit;

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_jobs::{FixedRate, JobState, Jobs, JobsExt, Schedule};
use tracing::{Span, info_span};

/// The lines of the log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn each_run_is_in_the_span_in_which_its_job_was_made_and_so_is_the_event_of_its_panic() {
    limit::limit_this_test();
    let log = Log::default();
    let writer = log.clone();
    let _guard = tracing::subscriber::set_default(
        tracing_subscriber::fmt().without_time().with_writer(move || writer.clone()).finish(),
    );
    let (wheel, jobs) = (TimingWheel::new(), Jobs::new(&TimingWheel::new()));
    let [once, again, panicking] = [info_span!("a job"), info_span!("runs"), info_span!("panics")];
    let ran = Arc::new(Mutex::new(Vec::new()));
    let note = ran.clone();
    let made = once.in_scope(|| wheel.run_after(Duration::from_millis(5), async { Span::current().id() }));
    let make = move || {
        let note = note.clone();
        async move { note.lock().unwrap().push(Span::current().id()) }
    };
    let repeats = again.in_scope(|| wheel.run_by(FixedRate::new(Duration::from_millis(10)).times(2), make));
    let panics = async { panic!("as asked") };
    panicking.in_scope(|| jobs.try_run_after(1, Duration::from_millis(50), panics).unwrap());
    jobs.join(&1).unwrap().await;
    assert_eq!((made.await.unwrap(), repeats.await.unwrap()), (once.id(), 2));
    assert_eq!(*ran.lock().unwrap(), [again.id(), again.id()]);
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("ERROR panics: "), "{log}");
    assert_eq!(Span::current().id(), None);
}

/// What writes the log is code of the user's.
#[tokio::test(start_paused = true)]
async fn a_log_that_panics_takes_nobody_the_end_of_a_job() {
    limit::limit_this_test();
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            panic!("the log is full")
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let _guard = tracing::subscriber::set_default(tracing_subscriber::fmt().with_writer(|| Full).finish());
    let wheel = TimingWheel::new();
    let jobs = Jobs::new(&wheel);
    jobs.try_run_after(1, Duration::from_millis(1), async { panic!("as asked") }).unwrap();
    let (join, job) =
        (jobs.join(&1).unwrap(), wheel.run_after(Duration::from_millis(2), async { panic!("as asked") }));
    assert_eq!(join.await, JobState::Panicked);
    assert_eq!(
        (job.await.map(|(): ()| ()).unwrap_err().to_string(), jobs.len()),
        ("the job panicked: as asked".into(), 0)
    );
}

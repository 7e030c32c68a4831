//! A timer whose worker is blocked by a task that does not give way, in a runtime that has another worker.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use super::rig::{Rig, assert_pending};
use super::targets;
use crate::support::{Findings, Scale, Unit, median, rounds, target};

const DELAY: Duration = Duration::from_millis(10);
const BLOCKED: Duration = Duration::from_millis(300);
const REPETITIONS: usize = 10;
const TARGET: Duration = Duration::from_millis(20);
/// The sides of a round.
const OURS: usize = 0;
const TOKIO: usize = 1;

pub(super) fn run(scale: Scale) -> Findings {
    let rig = Rig::new(2);
    let wheel = rig.wheel.clone();
    let before = wheel.stats();
    eprintln!("a blocked worker");
    let count = if scale.is_test() { 1 } else { REPETITIONS };
    let found = rounds(
        count,
        &mut [
            &mut || {
                let wheel = wheel.clone();
                late_by(&rig, move || wheel.sleep(DELAY))
            },
            &mut || late_by(&rig, || sleep(DELAY)),
        ],
    );
    rig.assert_armed(before, count);
    let side = |side: usize| found.iter().map(move |sides| sides[side]);
    let middle = |of: usize| median(side(of));
    let worst = |of: usize| side(of).fold(0.0, f64::max);
    let row = |name: &str, value: &dyn Fn(usize) -> f64| {
        let is_met = value(OURS) < TARGET.as_nanos() as f64;
        let [ours, tokio] = [OURS, TOKIO].map(|side| Unit::Nanos.show(value(side)));
        let target = target(format!("below {} ms", TARGET.as_millis()), is_met);
        [name.to_owned(), ours, tokio, String::new(), target]
    };
    targets()
        .row(row("lateness of a 10 ms timer whose worker is blocked for 300 ms, median of 10", &middle))
        .row(row("the same, worst of 10", &worst))
        .note(
            "Blocked worker: it arms a timer, hands it to a thread that waits for it, and sleeps for 300 ms.",
        )
        .into()
}

/// In nanoseconds.
fn late_by<S: Future<Output = ()> + Send + 'static>(
    rig: &Rig,
    make: impl FnOnce() -> S + Send + 'static,
) -> f64 {
    let (sender, receiver) = oneshot::channel();
    let blocking = rig.runtime.spawn(async move {
        let deadline = Instant::now() + DELAY;
        let mut timer = Box::pin(make());
        // Registered here, by the worker that will be blocked.
        poll_fn(|cx| {
            assert_pending(timer.as_mut(), cx);
            Poll::Ready(())
        })
        .await;
        let handed_over: Result<(), (Instant, Pin<Box<S>>)> = sender.send((deadline, timer));
        assert!(handed_over.is_ok(), "somebody waits for it");
        thread::sleep(BLOCKED);
    });
    rig.runtime.block_on(async {
        let (deadline, timer) = receiver.await.expect("it is sent");
        timer.await;
        let late = Instant::now().checked_duration_since(deadline).expect("no timer is early");
        blocking.await.expect("the task does not panic");
        late.as_nanos() as f64
    })
}

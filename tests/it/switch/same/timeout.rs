//! `timeout`, `timeout_at`, `Timeout`, `error::Elapsed`.

use std::error::Error;
use std::future::{Future, IntoFuture, Ready, pending, poll_fn, ready};
use std::io;
use std::task::{Context, Poll};

use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinSet, coop, yield_now};
use tokio_test::task;

use super::time::error::Elapsed;
use super::time::{Duration, Instant, advance, sleep, timeout, timeout_at};
use crate::ms;
use crate::switch::trace::Trace;

pub(crate) async fn a_future_that_is_ready_is_in_time_whatever_the_time(trace: Trace) {
    for limit in [Duration::ZERO, ms(1), Duration::MAX] {
        trace.note(timeout(limit, ready("ready")).await.is_ok());
    }
    for deadline in [Instant::now() - ms(1), Instant::now(), Instant::now() + ms(1)] {
        trace.note(timeout_at(deadline, ready("ready")).await.is_ok());
    }
}

pub(crate) async fn a_future_that_is_late_is_given_up_at_the_deadline(trace: Trace) {
    for limit in [0, 1, 5, 64, 4_096, 100_000] {
        trace.note(timeout(ms(limit), pending::<()>()).await.is_err());
        trace.note(timeout_at(Instant::now() + ms(limit), sleep(ms(limit + 1))).await.is_err());
    }
    trace.note(timeout_at(Instant::now() - ms(7), pending::<()>()).await.is_err());
}

pub(crate) async fn a_future_that_is_ready_at_the_deadline_is_in_time(trace: Trace) {
    for millis in [0, 1, 64, 5_000] {
        trace.note(timeout(ms(millis), sleep(ms(millis))).await.is_ok());
    }
}

pub(crate) async fn the_longest_timeout_does_not_elapse_where_the_longest_sleep_does(trace: Trace) {
    trace.note(timeout(Duration::MAX, sleep(Duration::MAX)).await.is_ok());
    let fifty_years = Duration::from_secs(50 * 365 * 24 * 60 * 60);
    trace.note(timeout(fifty_years, pending::<()>()).await.is_err());
}

pub(crate) async fn the_error_reads_the_same_and_becomes_the_same_io_error(trace: Trace) {
    let elapsed = timeout(ms(1), pending::<()>()).await.expect_err("never ready");
    trace.note(format_args!("{elapsed}"));
    trace.note(format_args!("[{elapsed:>30}] [{elapsed:<30}] [{elapsed:.8}]"));
    trace.note(elapsed.source().is_none());
    trace.note(elapsed == timeout(ms(2), pending::<()>()).await.expect_err("never ready"));
    let error = io::Error::from(elapsed);
    trace.note(format_args!("{error}, {:?}, {error:?}, {}", error.kind(), error.get_ref().is_none()));
}

async fn question_mark() -> Result<(), Box<dyn Error + Send + Sync>> {
    timeout(ms(3), pending::<()>()).await?;
    Ok(())
}

async fn io_question_mark() -> io::Result<()> {
    timeout(ms(3), pending::<()>()).await?;
    Ok(())
}

pub(crate) async fn the_error_goes_through_question_marks(trace: Trace) {
    let error = question_mark().await.expect_err("elapsed");
    trace.note(format_args!("{error} {}", error.is::<Elapsed>()));
    trace.note(io_question_mark().await.expect_err("elapsed"));
}

pub(crate) async fn the_future_can_be_looked_at_changed_and_taken_out(trace: Trace) {
    let mut timed = timeout(ms(10), ready(1));
    trace.note(format_args!("{:?}", timed.get_ref()));
    *timed.get_mut() = ready(2);
    trace.note(timed.into_inner().await);
    let mut timed = task::spawn(Box::pin(timeout(ms(10), Box::pin(sleep(ms(20))))));
    trace.note(timed.poll().is_pending());
    trace.note(timed.get_ref().is_elapsed());
    let timed = timeout(ms(10), Box::pin(sleep(ms(20))));
    timed.into_inner().await;
    trace.note("taken out it has no deadline");
}

struct Call(u64);

impl IntoFuture for Call {
    type Output = u64;
    type IntoFuture = Ready<u64>;

    fn into_future(self) -> Ready<u64> {
        ready(self.0)
    }
}

pub(crate) async fn what_can_be_turned_into_a_future_can_be_timed(trace: Trace) {
    trace.note(timeout(ms(1), Call(7)).await.expect("ready"));
    trace.note(timeout_at(Instant::now(), Call(8)).await.expect("ready"));
}

pub(crate) async fn polled_after_it_has_elapsed_it_has_elapsed_again(trace: Trace) {
    let mut timed = task::spawn(timeout(ms(10), pending::<()>()));
    trace.note(timed.poll().is_pending());
    advance(ms(10)).await;
    for _ in 0..3 {
        trace.note(format_args!("{} {}", timed.is_woken(), matches!(timed.poll(), Poll::Ready(Err(_)))));
    }
}

fn spend_budget(cx: &mut Context<'_>) -> Poll<()> {
    while let Poll::Ready(unit) = coop::poll_proceed(cx) {
        unit.made_progress();
    }
    Poll::Pending
}

pub(crate) async fn a_future_that_spends_the_whole_budget_does_not_escape_its_deadline(trace: Trace) {
    let timed = timeout(ms(5), poll_fn(spend_budget));
    let clock = async {
        for _ in 0..10 {
            advance(ms(1)).await;
        }
    };
    let (timed, ()) = tokio::join!(timed, clock);
    trace.note(timed.is_err());
}

pub(crate) async fn an_elapsed_timeout_waits_when_the_budget_was_spent_before_it(trace: Trace) {
    let mut timed = Box::pin(timeout(Duration::ZERO, pending::<()>()));
    poll_fn(|cx| {
        let _ = spend_budget(cx);
        trace.note(timed.as_mut().poll(cx).is_pending());
        Poll::Ready(())
    })
    .await;
    yield_now().await;
    trace.note(timed.await.is_err());
}

pub(crate) async fn as_many_elapse_in_a_row_as_the_budget_allows(trace: Trace) {
    let mut elapsed = 0;
    poll_fn(|cx| {
        while Box::pin(timeout(Duration::ZERO, pending::<()>())).as_mut().poll(cx).is_ready() {
            elapsed += 1;
        }
        Poll::Ready(())
    })
    .await;
    trace.note(elapsed);
}

struct NotesItsDrop(Trace);

impl Drop for NotesItsDrop {
    fn drop(&mut self) {
        self.0.note("dropped");
    }
}

pub(crate) async fn a_future_that_is_given_up_is_dropped_with_the_timeout(trace: Trace) {
    let watched = NotesItsDrop(trace.clone());
    let work = async move {
        let _watched = watched;
        sleep(ms(100)).await;
    };
    let mut timed = Box::pin(timeout(ms(30), work));
    trace.note(timed.as_mut().await.is_err());
    sleep(ms(5)).await;
    drop(timed);
    sleep(ms(200)).await;
    trace.note("nothing of it goes on");
}

pub(crate) async fn of_nested_timeouts_the_tightest_counts(trace: Trace) {
    for (outer, middle, inner) in [(10, 20, 30), (30, 20, 10), (20, 10, 30), (64, 64, 64)] {
        let result = timeout(ms(outer), timeout(ms(middle), timeout(ms(inner), pending::<()>()))).await;
        let depth = match result {
            Err(_) => "outer",
            Ok(Err(_)) => "middle",
            Ok(Ok(_)) => "inner",
        };
        trace.note(depth);
    }
}

pub(crate) async fn requests_with_deadlines_are_answered_or_given_up(trace: Trace) {
    let (requests, mut queue) = mpsc::channel::<(u64, oneshot::Sender<u64>)>(4);
    let server = tokio::spawn(async move {
        while let Some((work, reply)) = queue.recv().await {
            sleep(ms(work)).await;
            let _ = reply.send(work);
        }
    });
    let mut clients = JoinSet::new();
    for number in 0..20 {
        let (requests, trace) = (requests.clone(), trace.clone());
        clients.spawn(async move {
            let (reply, answer) = oneshot::channel();
            let call = async {
                requests.send((number * 7 % 13, reply)).await.expect("the server is there");
                answer.await.expect("the server replies")
            };
            match timeout(ms(20 + number * 5), call).await {
                Ok(work) => trace.note(format_args!("{number}: answered, after work of {work} ms")),
                Err(elapsed) => trace.note(format_args!("{number}: {elapsed}")),
            }
        });
    }
    clients.join_all().await;
    drop(requests);
    server.await.expect("no panic");
    trace.note("the server has ended");
}

//! The memory of what watches connections that all wait.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use timingwheel::{IdleGuard, TimingWheel};
use tokio::io::{AsyncRead, ReadBuf};

use super::watch::LIMIT;
use crate::rivals::host::runtime;
use crate::support::{Duel, Findings, Scale, Table, Unit, resident_bytes};

const CONNECTIONS: usize = 1_000_000;

/// Nothing ever arrives.
struct Silent;

impl AsyncRead for Silent {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

/// A task that is never run.
struct Task;

impl Wake for Task {
    fn wake(self: Arc<Self>) {}
}

/// The growth of the process's memory for each of so many, which are all kept.
fn each<T>(connections: usize, make: impl FnMut() -> T) -> (Option<f64>, Vec<T>) {
    let before = resident_bytes();
    let all: Vec<T> = std::iter::repeat_with(make).take(connections).collect();
    let growth = resident_bytes().zip(before).map(|(after, before)| after - before);
    (growth.map(|growth| growth / connections as f64), all)
}

pub(super) fn run(scale: Scale) -> Findings {
    let connections = scale.of(CONNECTIONS);
    let runtime = runtime();
    let _within = runtime.enter();
    let wheel = TimingWheel::new();
    let waker = Waker::from(Arc::new(Task));
    let cx = &mut Context::from_waker(&waker);
    let mut byte = [0];

    let (guard, guards) = each(connections, || {
        let mut guard = wheel.idle_guard(Silent).with_read_limit(LIMIT);
        assert!(Pin::new(&mut guard).poll_read(cx, &mut ReadBuf::new(&mut byte)).is_pending());
        guard
    });
    assert_eq!(wheel.pending(), connections, "one timer for each guard");
    let (ours, our_timeouts) = each(connections, || {
        let mut timeout = Box::pin(wheel.timeout(LIMIT, poll_fn(|_| Poll::<()>::Pending)));
        assert!(timeout.as_mut().poll(cx).is_pending());
        timeout
    });
    assert_eq!(wheel.pending(), 2 * connections, "one timer for each timeout");
    let (tokio, tokio_timeouts) = each(connections, || {
        let mut timeout = Box::pin(tokio::time::timeout(LIMIT, poll_fn(|_| Poll::<()>::Pending)));
        assert!(timeout.as_mut().poll(cx).is_pending());
        timeout
    });
    let show =
        |bytes: Option<f64>| bytes.map_or_else(|| "unknown".to_owned(), |bytes| Unit::Bytes.show(bytes));
    let size = |bytes: usize| Unit::Bytes.show(bytes as f64);
    let table = Table::new("Bytes for each connection that waits", ["watched by", "in all", "of them beside the stream"])
        .row(["`IdleGuard`".to_owned(), show(guard), size(size_of::<IdleGuard<()>>())])
        .row(["timingwheel's timeout".to_owned(), show(ours), size(size_of_val(&*our_timeouts[0]))])
        .row(["tokio's timeout".to_owned(), show(tokio), size(size_of_val(&*tokio_timeouts[0]))])
        .note(
            "In all: the growth of the process's resident memory, timers included. A guard takes its bytes as long as \
             there is a connection, in whatever its task keeps; a timeout while a read waits, here in a box. A guard \
             limits writes as well.",
        );
    let table = [("bytes for a connection, `IdleGuard`", guard), ("bytes for a connection, timeout", ours)]
        .into_iter()
        .fold(table, |table, (what, ours)| match ours.zip(tokio) {
            Some((ours, tokio)) => table.duel(Duel::new(what, Unit::Bytes, ours, ("tokio's timeout", tokio))),
            None => table,
        });
    drop((guards, our_timeouts, tokio_timeouts));
    table.into()
}

//! A stream that is ready when the test says so, and that the test polls by hand.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use timingwheel::IdleGuard;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_test::task::{Spawn, spawn};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Read,
    Write,
    WriteVectored,
    Flush,
    Shutdown,
}

pub(crate) const WRITES: [Op; 4] = [Op::Write, Op::WriteVectored, Op::Flush, Op::Shutdown];

#[derive(Debug, Default)]
struct State {
    /// Operations that will be ready, each once.
    ready: Vec<Op>,
    waiting: Vec<(Op, Waker)>,
}

/// Its clones are the same stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByHand(Arc<Mutex<State>>);

impl ByHand {
    /// Makes the next `op` ready: reads and writes of one byte.
    pub(crate) fn make_ready(&self, op: Op) {
        let mut state = self.0.lock().unwrap();
        state.ready.push(op);
        let (woken, waiting) =
            std::mem::take(&mut state.waiting).into_iter().partition(|(who, _)| *who == op);
        state.waiting = waiting;
        drop(state);
        Vec::into_iter(woken).for_each(|(_, waker)| waker.wake());
    }

    fn poll(&self, op: Op, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut state = self.0.lock().unwrap();
        if let Some(place) = state.ready.iter().position(|ready| *ready == op) {
            state.ready.remove(place);
            return Poll::Ready(Ok(1));
        }
        state.waiting.retain(|(who, _)| *who != op);
        state.waiting.push((op, cx.waker().clone()));
        Poll::Pending
    }
}

impl AsyncRead for ByHand {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.poll(Op::Read, cx).map_ok(|_| buf.put_slice(b"!"))
    }
}

impl AsyncWrite for ByHand {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, _buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll(Op::Write, cx)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(Op::Flush, cx).map_ok(drop)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(Op::Shutdown, cx).map_ok(drop)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        _bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll(Op::WriteVectored, cx)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

/// One poll of an operation on a guard.
pub(crate) fn poll<S: AsyncRead + AsyncWrite + Unpin>(
    guard: &mut IdleGuard<S>,
    op: Op,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    let guard = Pin::new(guard);
    match op {
        Op::Read => guard.poll_read(cx, &mut ReadBuf::new(&mut [0])),
        Op::Write => guard.poll_write(cx, b"!").map_ok(drop),
        Op::WriteVectored => guard.poll_write_vectored(cx, &[IoSlice::new(b"!")]).map_ok(drop),
        Op::Flush => guard.poll_flush(cx),
        Op::Shutdown => guard.poll_shutdown(cx),
    }
}

/// A guard that several tasks may poll, and the test may change meanwhile.
pub(crate) type Shared = Arc<Mutex<IdleGuard<ByHand>>>;

/// An operation in a task of its own, which the test polls.
pub(crate) fn task(guard: &Shared, op: Op) -> Spawn<impl Future<Output = io::Result<()>> + use<>> {
    let guard = guard.clone();
    spawn(poll_fn(move |cx| poll(&mut guard.lock().unwrap(), op, cx)))
}

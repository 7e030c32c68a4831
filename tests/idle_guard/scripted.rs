//! A stream on which bytes arrive, and room for bytes comes, at given instants.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// How many bytes can go through from an instant on.
#[derive(Debug)]
struct Way {
    steps: VecDeque<(Instant, usize)>,
    alarm: Pin<Box<Sleep>>,
}

impl Way {
    /// `steps`: after how long since the step before so many bytes come.
    fn new(steps: &[(Duration, usize)]) -> Self {
        let mut at = Instant::now();
        let step = |&(gap, bytes): &(Duration, usize)| {
            at += gap;
            (at, bytes)
        };
        Self { steps: steps.iter().map(step).collect(), alarm: Box::pin(sleep_until(Instant::now())) }
    }

    /// Takes up to `most` of the bytes that can go through now; none is the end.
    fn poll(&mut self, most: usize, cx: &mut Context<'_>) -> Poll<usize> {
        let Some((at, bytes)) = self.steps.front_mut() else { return Poll::Ready(0) };
        if Instant::now() < *at {
            self.alarm.as_mut().reset(*at);
            ready!(self.alarm.as_mut().poll(cx));
        }
        let taken = most.min(*bytes);
        *bytes -= taken;
        if *bytes == 0 {
            self.steps.pop_front();
        }
        Poll::Ready(taken)
    }
}

#[derive(Debug)]
pub(crate) struct Scripted {
    arrives: Way,
    room: Way,
}

impl Scripted {
    pub(crate) fn new(arrives: &[(Duration, usize)], room: &[(Duration, usize)]) -> Self {
        Self { arrives: Way::new(arrives), room: Way::new(room) }
    }
}

impl AsyncRead for Scripted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let taken = ready!(self.arrives.poll(buf.remaining(), cx));
        buf.put_slice(&vec![b'!'; taken]);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Scripted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.room.poll(buf.len(), cx).map(Ok)
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

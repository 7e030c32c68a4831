//! What passes through a guard. The stream is always asked first: what has arrived comes before a deadline.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, ReadBuf};

use super::IdleGuard;
use super::direction::Operation;
use super::waits::Waits;

/// Ends the wait of an `operation` that is ready, or lets it wait.
#[inline]
fn timed<T>(
    waits: &mut Waits,
    operation: Operation,
    result: Poll<io::Result<T>>,
    cx: &mut Context<'_>,
) -> Poll<io::Result<T>> {
    match result {
        Poll::Ready(result) => {
            waits.end(operation);
            Poll::Ready(result)
        }
        Poll::Pending => waits.poll(operation, cx).map(Err),
    }
}

impl<S: AsyncRead> AsyncRead for IdleGuard<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        let result = this.stream.poll_read(cx, buf);
        timed(this.waits, Operation::Read, result, cx)
    }
}

impl<S: AsyncBufRead> AsyncBufRead for IdleGuard<S> {
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.project();
        let result = this.stream.poll_fill_buf(cx);
        timed(this.waits, Operation::Read, result, cx)
    }

    fn consume(self: Pin<&mut Self>, amount: usize) {
        self.project().stream.consume(amount);
    }
}

impl<S: AsyncWrite> AsyncWrite for IdleGuard<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.project();
        let result = this.stream.poll_write(cx, buf);
        timed(this.waits, Operation::Write, result, cx)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        let result = this.stream.poll_flush(cx);
        timed(this.waits, Operation::Flush, result, cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        let result = this.stream.poll_shutdown(cx);
        timed(this.waits, Operation::Shutdown, result, cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        let result = this.stream.poll_write_vectored(cx, bufs);
        timed(this.waits, Operation::Write, result, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

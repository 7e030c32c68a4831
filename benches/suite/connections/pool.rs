//! Connections that all ways of watching use in turn.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

/// What a peer sends.
pub(super) const BYTE: u8 = b'!';

/// The other end of a connection.
pub(super) trait Peer: Send + 'static {
    /// Sends without waiting: there is room.
    fn send(&mut self, bytes: &[u8]);
}

pub(super) struct Pool<S, P> {
    pub(super) streams: Vec<Counted<S>>,
    pub(super) peers: Vec<P>,
}

impl<S, P> FromIterator<(S, P)> for Pool<S, P> {
    fn from_iter<I: IntoIterator<Item = (S, P)>>(pairs: I) -> Self {
        let (streams, peers) =
            pairs.into_iter().map(|(stream, peer)| (Counted { stream, waits: 0 }, peer)).unzip();
        Self { streams, peers }
    }
}

/// A stream that counts how many times there was nothing to read.
pub(super) struct Counted<S> {
    stream: S,
    waits: usize,
}

impl<S> Counted<S> {
    pub(super) const fn take_waits(&mut self) -> usize {
        std::mem::replace(&mut self.waits, 0)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.waits += usize::from(result.is_pending());
        result
    }
}

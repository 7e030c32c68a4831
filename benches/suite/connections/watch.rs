//! The ways to watch a connection's reads.

use std::io;
use std::time::Duration;

use timingwheel::{IdleGuard, TimingWheel};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Never comes while a case runs.
pub(super) const LIMIT: Duration = Duration::from_secs(30);

pub(super) trait Watch<S>: Send + 'static {
    fn new(stream: S, wheel: &TimingWheel) -> Self;
    fn read(&mut self, byte: &mut [u8; 1]) -> impl Future<Output = io::Result<usize>> + Send;
    fn into_inner(self) -> S;
}

pub(super) struct Bare<S>(S);

impl<S: AsyncRead + Unpin + Send + 'static> Watch<S> for Bare<S> {
    fn new(stream: S, _wheel: &TimingWheel) -> Self {
        Self(stream)
    }

    async fn read(&mut self, byte: &mut [u8; 1]) -> io::Result<usize> {
        self.0.read(byte).await
    }

    fn into_inner(self) -> S {
        self.0
    }
}

impl<S: AsyncRead + Unpin + Send + 'static> Watch<S> for IdleGuard<S> {
    fn new(stream: S, wheel: &TimingWheel) -> Self {
        wheel.idle_guard(stream).with_read_limit(LIMIT)
    }

    async fn read(&mut self, byte: &mut [u8; 1]) -> io::Result<usize> {
        AsyncReadExt::read(self, byte).await
    }

    fn into_inner(self) -> S {
        self.into_inner()
    }
}

pub(super) struct OurTimeouts<S> {
    stream: S,
    wheel: TimingWheel,
}

impl<S: AsyncRead + Unpin + Send + 'static> Watch<S> for OurTimeouts<S> {
    fn new(stream: S, wheel: &TimingWheel) -> Self {
        Self { stream, wheel: wheel.clone() }
    }

    async fn read(&mut self, byte: &mut [u8; 1]) -> io::Result<usize> {
        self.wheel.timeout(LIMIT, self.stream.read(byte)).await?
    }

    fn into_inner(self) -> S {
        self.stream
    }
}

pub(super) struct TokioTimeouts<S>(S);

impl<S: AsyncRead + Unpin + Send + 'static> Watch<S> for TokioTimeouts<S> {
    fn new(stream: S, _wheel: &TimingWheel) -> Self {
        Self(stream)
    }

    async fn read(&mut self, byte: &mut [u8; 1]) -> io::Result<usize> {
        tokio::time::timeout(LIMIT, self.0.read(byte)).await?
    }

    fn into_inner(self) -> S {
        self.0
    }
}

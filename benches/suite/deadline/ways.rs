//! The ways to limit an operation.

use std::io;
use std::pin::Pin;

use timingwheel::{Sleep, TimingWheel};
use timingwheel_deadline::DeadlineExt;
use tokio::select;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::server::{Connection, Stream};
use super::{EACH, OPERATION, get};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    NoLimits,
    Tokio,
    ByName,
    ByHand,
    WithToken,
    Deadline,
}

impl Way {
    pub(crate) const ALL: [Self; 6] =
        [Self::NoLimits, Self::Tokio, Self::ByName, Self::ByHand, Self::WithToken, Self::Deadline];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::NoLimits => "no limits",
            Self::Tokio => "tokio::time::timeout",
            Self::ByName => "timingwheel::time::timeout",
            Self::ByHand => "one timer, moved by hand",
            Self::WithToken => "one timer, and a token each",
            Self::Deadline => "a deadline each",
        }
    }

    /// Makes one operation after the other until `until`, and at least one. Returns how many.
    pub(crate) async fn operate<S: Stream>(
        self,
        wheel: &TimingWheel,
        mut server: Connection<S>,
        until: Instant,
    ) -> io::Result<u64> {
        let mut count = 0;
        let server = &mut server;
        let mut timer = wheel.sleep(OPERATION);
        loop {
            match self {
                Self::NoLimits => without(server).await?,
                Self::Tokio => tokio::time::timeout(OPERATION, on_tokio(server)).await??,
                Self::ByName => timingwheel::time::timeout(OPERATION, by_name(server)).await??,
                Self::ByHand => by_hand(&mut timer, server).await?,
                Self::WithToken => with_token(&mut timer, server).await?,
                Self::Deadline => get(&wheel.deadline_in(OPERATION), server).await?,
            }
            count += 1;
            if Instant::now() >= until {
                return Ok(count);
            }
        }
    }
}

async fn without<S: Stream>(server: &mut Connection<S>) -> io::Result<()> {
    server.write_header().await?;
    server.write_key().await?;
    server.read_header().await?;
    server.read_value().await
}

async fn on_tokio<S: Stream>(server: &mut Connection<S>) -> io::Result<()> {
    use tokio::time::timeout;

    timeout(EACH, server.write_header()).await??;
    timeout(EACH, server.write_key()).await??;
    timeout(EACH, server.read_header()).await??;
    timeout(EACH, server.read_value()).await?
}

async fn by_name<S: Stream>(server: &mut Connection<S>) -> io::Result<()> {
    use timingwheel::time::timeout;

    timeout(EACH, server.write_header()).await??;
    timeout(EACH, server.write_key()).await??;
    timeout(EACH, server.read_header()).await??;
    timeout(EACH, server.read_value()).await?
}

/// Each limit is the earlier of its own and the operation's.
async fn by_hand<S: Stream>(timer: &mut Sleep, server: &mut Connection<S>) -> io::Result<()> {
    let end = Instant::now() + OPERATION;
    limit(timer, end, server.write_header()).await?;
    limit(timer, end, server.write_key()).await?;
    limit(timer, end, server.read_header()).await?;
    limit(timer, end, server.read_value()).await
}

async fn limit(
    timer: &mut Sleep,
    end: Instant,
    work: impl Future<Output = io::Result<()>>,
) -> io::Result<()> {
    Pin::new(&mut *timer).reset(end.min(Instant::now() + EACH));
    select! {
        biased;
        result = work => result,
        () = timer => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// As by hand, and a token can cancel the operation: what a deadline can do.
async fn with_token<S: Stream>(timer: &mut Sleep, server: &mut Connection<S>) -> io::Result<()> {
    let (end, token) = (Instant::now() + OPERATION, CancellationToken::new());
    or_cancelled(&token, limit(timer, end, server.write_header())).await?;
    or_cancelled(&token, limit(timer, end, server.write_key())).await?;
    or_cancelled(&token, limit(timer, end, server.read_header())).await?;
    or_cancelled(&token, limit(timer, end, server.read_value())).await
}

async fn or_cancelled(
    token: &CancellationToken,
    work: impl Future<Output = io::Result<()>>,
) -> io::Result<()> {
    let cancelled = || io::Error::from(io::ErrorKind::ConnectionAborted);
    token.run_until_cancelled(work).await.ok_or_else(cancelled)?
}

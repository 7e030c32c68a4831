//! The ways to limit an operation.

use std::io;
use std::pin::Pin;

use timingwheel::{Sleep, TimingWheel};
use timingwheel_deadline::{Deadline, DeadlineExt, ReusableDeadline};
use tokio::select;
use tokio::time::Instant;

use super::server::{Connection, Stream};
use super::{EACH, OPERATION, get};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    NoLimits,
    Tokio,
    ByName,
    ByHand,
    Deadline,
    Reusable,
}

impl Way {
    pub(crate) const ALL: [Self; 6] =
        [Self::NoLimits, Self::Tokio, Self::ByName, Self::ByHand, Self::Deadline, Self::Reusable];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::NoLimits => "no limits",
            Self::Tokio => "tokio::time::timeout",
            Self::ByName => "timingwheel::time::timeout",
            Self::ByHand => "one timer, moved by hand",
            Self::Deadline => "a deadline each",
            Self::Reusable => "a reusable deadline",
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
        let mut deadline = ReusableDeadline::new(wheel);
        let mut timer = wheel.sleep(OPERATION);
        loop {
            match self {
                Self::NoLimits => without(server).await?,
                Self::Tokio => tokio::time::timeout(OPERATION, on_tokio(server)).await??,
                Self::ByName => timingwheel::time::timeout(OPERATION, by_name(server)).await??,
                Self::ByHand => by_hand(&mut timer, server).await?,
                Self::Deadline => by_deadline(&wheel.deadline_in(OPERATION), server).await?,
                Self::Reusable => get(&mut deadline, server).await?,
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

pub(crate) async fn by_deadline<S: Stream>(
    deadline: &Deadline,
    server: &mut Connection<S>,
) -> io::Result<()> {
    deadline.run_in(EACH, server.write_header()).await??;
    deadline.run_in(EACH, server.write_key()).await??;
    deadline.run_in(EACH, server.read_header()).await??;
    deadline.run_in(EACH, server.read_value()).await??;
    Ok(())
}

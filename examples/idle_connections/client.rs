//! The clients, good and bad, and their books.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Good,
    Slow,
    Silent,
    Deaf,
}

pub(crate) const KINDS: [Kind; 4] = [Kind::Good, Kind::Slow, Kind::Silent, Kind::Deaf];

/// A client's books.
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) kind: Kind,
    /// Bytes that came back.
    pub(crate) echoed: usize,
    /// The longest that it was silent, or took nothing.
    pub(crate) longest_gap: Duration,
}

/// Talks to the server until `end`, in the way of its `kind`. A bad client then waits until the server closes.
pub(crate) async fn live(
    mut stream: TcpStream,
    kind: Kind,
    limit: Duration,
    end: Instant,
) -> io::Result<Client> {
    const MESSAGE: &[u8] = b"Is anybody there?";
    let address = stream.local_addr()?;
    let mut client = Client { address, kind, echoed: 0, longest_gap: Duration::ZERO };
    let pause = if kind == Kind::Slow { limit / 2 } else { limit / 10 };
    let mut last = Instant::now();
    // Not all at the same time.
    sleep(pause.mul_f64(fastrand::f64())).await;
    while client.echoed == 0 || Instant::now() < end {
        if kind == Kind::Deaf {
            // Until the server, whose echo nobody takes, takes no more either and closes.
            while stream.write_all(&[0; 4096]).await.is_ok() {}
            return Ok(client);
        }
        let mut answer = [0; MESSAGE.len()];
        let round = async {
            stream.write_all(MESSAGE).await?;
            stream.read_exact(&mut answer).await
        };
        let is_over = round.await.is_err();
        client.longest_gap = client.longest_gap.max(last.elapsed());
        if is_over || answer != MESSAGE {
            return Ok(client);
        }
        last = Instant::now();
        client.echoed += MESSAGE.len();
        sleep(pause).await;
    }
    if kind == Kind::Silent {
        // Whether this is the end of the stream or an error, the server has closed it.
        let _ = stream.read(&mut [0]).await;
    }
    Ok(client)
}

//! The clients: good, slow and idle ones. They use tokio's timers, so all timers of the wheel are the server's.

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::select;
use tokio::time::{Instant, sleep};
use tower::BoxError;

use crate::Limits;
use crate::books::Books;

/// How long a good client thinks, as a share of the header timeout: so much less that it is not closed for that.
const THINK: Range<f64> = 0.02..0.4;
/// How long work takes, as a multiple of the request timeout: well below it, or well above.
const QUICK_WORK: Range<f64> = 0.0..0.4;
const SLOW_WORK: Range<f64> = 2.0..4.0;
/// The share of requests with slow work.
const SLOW_SHARE: f64 = 0.1;
/// In how many parts a slow client would send its head within the header timeout, if that were all of it.
const PARTS: u32 = 20;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// Asks again and again, on one connection as long as the server keeps that.
    Good,
    /// Sends a head byte by byte.
    Slow,
    /// Asks once, and then says nothing.
    Idle,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Good, Self::Slow, Self::Idle];
}

pub(crate) struct Client {
    pub(crate) server: SocketAddr,
    pub(crate) limits: Limits,
    pub(crate) until: Instant,
    pub(crate) books: Arc<Books>,
}

impl Client {
    /// Does what its kind does, on one connection after the other, until the time is up.
    pub(crate) async fn run(self, kind: Kind, number: u64) -> Result<(), BoxError> {
        let mut random = Rng::with_seed(number);
        // Not all at the same time.
        sleep(self.think(&mut random)).await;
        if let Kind::Good = kind {
            return self.ask_until_the_end(random).await;
        }
        while Instant::now() < self.until {
            let closed = match kind {
                Kind::Slow => &self.books.slow_closed,
                _ => &self.books.idle_closed,
            };
            let before = match kind {
                Kind::Slow => self.be_slow().await?,
                _ => self.be_idle().await?,
            };
            closed.add();
            // The server saw that later, if at all, so its timer cannot be ahead of this.
            if before.elapsed() < self.limits.header_timeout {
                self.books.closed_early.add();
            }
        }
        Ok(())
    }

    fn think(&self, random: &mut Rng) -> Duration {
        self.limits.header_timeout.mul_f64(between(random, THINK))
    }

    async fn ask_until_the_end(self, mut random: Rng) -> Result<(), BoxError> {
        let mut kept: Option<(SendRequest<Empty<Bytes>>, Instant)> = None;
        loop {
            sleep(self.think(&mut random)).await;
            if Instant::now() >= self.until {
                return Ok(());
            }
            let is_slow = random.f64() < SLOW_SHARE;
            let share = between(&mut random, if is_slow { SLOW_WORK } else { QUICK_WORK });
            let path = format!("/{}", self.limits.request_timeout.mul_f64(share).as_micros());
            self.books.requests.add();

            let (status, sender) = loop {
                let is_new = kept.is_none();
                let (mut sender, used) = match kept.take() {
                    Some(kept) => kept,
                    None => (self.connect().await?, Instant::now()),
                };
                match ask(&mut sender, &path).await {
                    Ok(status) => break (status, sender),
                    Err(error) => {
                        let is_held_up = used.elapsed() >= self.limits.header_timeout;
                        if is_held_up {
                            self.books.held_up.add();
                        } else if is_new {
                            return Err(error);
                        }
                        self.books.asked_again.add();
                    }
                }
            };
            let Books { done, timed_out, slow_done, quick_cut_off, .. } = &*self.books;
            match status {
                StatusCode::OK => done.add(),
                StatusCode::GATEWAY_TIMEOUT => timed_out.add(),
                status => return Err(format!("an answer with the status {status}").into()),
            }
            match (status, is_slow) {
                (StatusCode::OK, true) => slow_done.add(),
                (StatusCode::GATEWAY_TIMEOUT, false) => quick_cut_off.add(),
                _ => {}
            }
            kept = Some((sender, Instant::now()));
        }
    }

    async fn connect(&self) -> Result<SendRequest<Empty<Bytes>>, BoxError> {
        let stream = TcpStream::connect(self.server).await?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // It ends with the sender, or when the server closes it: the next request tells.
        tokio::spawn(connection);
        Ok(sender)
    }

    /// Sends a head so slowly that the server closes the connection. Returns when it was opened, at the latest.
    async fn be_slow(&self) -> Result<Instant, BoxError> {
        let begun = Instant::now();
        let mut stream = TcpStream::connect(self.server).await?;
        let (mut read, mut write) = stream.split();
        let drip = async {
            let mut bytes = b"GET /0 HTTP/1.1\r\nhost: here\r\nslow: ".iter().chain(std::iter::repeat(&b'.'));
            while let Some(byte) = bytes.next()
                && write.write_all(&[*byte]).await.is_ok()
            {
                sleep(self.limits.header_timeout / PARTS).await;
            }
            // The server does not read any more, but whether it has closed the connection is for the other half to say.
            std::future::pending().await
        };
        let mut answer = [0];
        let read = select! {
            read = read.read(&mut answer) => until_closed(read)?,
            never = drip => never,
        };
        if read > 0 {
            return Err("a head that was not complete was answered".into());
        }
        Ok(begun)
    }

    /// Asks, and then waits until the server closes the connection. Returns when it asked, at the latest.
    async fn be_idle(&self) -> Result<Instant, BoxError> {
        let begun = Instant::now();
        let mut stream = TcpStream::connect(self.server).await?;
        let asked = Instant::now();
        let is_sent = stream.write_all(b"GET /0 HTTP/1.1\r\nhost: here\r\n\r\n").await.is_ok();
        let mut answer = Vec::new();
        while until_closed(stream.read_buf(&mut answer).await)? > 0 {}
        if answer.starts_with(b"HTTP/1.1 200 ") {
            return Ok(asked);
        }
        if answer.is_empty() && begun.elapsed() >= self.limits.header_timeout {
            // The machine held it up, so the server was right to close the connection.
            return Ok(begun);
        }
        Err(format!("sent: {is_sent}, answered: {:?}", String::from_utf8_lossy(&answer)).into())
    }
}

async fn ask(sender: &mut SendRequest<Empty<Bytes>>, path: &str) -> Result<StatusCode, BoxError> {
    sender.ready().await?;
    let request = Request::get(path).header("host", "here").body(Empty::new())?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    response.into_body().collect().await?;
    Ok(status)
}

/// How many bytes were read. A connection that is closed with bytes on their way to it is reset.
fn until_closed(read: io::Result<usize>) -> io::Result<usize> {
    match read {
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(0),
        read => read,
    }
}

fn between(random: &mut Rng, range: Range<f64>) -> f64 {
    range.start + random.f64() * (range.end - range.start)
}

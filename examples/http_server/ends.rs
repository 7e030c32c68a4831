//! Both ends of the connections, and their counts.

use std::io;
use std::net::SocketAddr;
use std::num::ParseIntError;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use indicatif::HumanCount;
use timingwheel::TimingWheel;
use timingwheel_examples::{Count, Lateness};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::select;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use crate::serve::accept;
use crate::{BoxError, Limits, answer, serve};

// The clients: good, slow and idle ones. They use tokio's timers, so all timers of the wheel are the server's.

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

// The server, and its counts.

#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) wheel: TimingWheel,
    pub(crate) limits: Limits,
    pub(crate) books: Arc<Books>,
}

impl Server {
    /// Serves connections until it is told to stop, and those that are open then to their end.
    pub(crate) async fn run(
        self,
        listener: TcpListener,
        stop: oneshot::Receiver<()>,
    ) -> Result<(), BoxError> {
        let mut connections = accept(listener, stop, |stream| self.clone().serve(stream)).await?;
        while let Some(ended) = connections.join_next().await {
            ended?;
        }
        Ok(())
    }

    async fn serve(self, stream: TcpStream) {
        let Self { wheel, limits, books } = &self;
        books.accepted.add();
        let talk = Arc::new(Talk { requests: Count::default(), waits_since: Mutex::new(Instant::now()) });
        let service = service_fn({
            let (server, talk) = (self.clone(), talk.clone());
            move |request| {
                let (server, talk) = (server.clone(), talk.clone());
                async move {
                    talk.requests.add();
                    let response = server.answer(request).await;
                    *talk.waits_since() = Instant::now();
                    response
                }
            }
        });
        let mut requests_till_old = None;
        let closes = |due| {
            books.keep_alive_ends.note(due);
            requests_till_old = Some(talk.requests.get());
        };
        let served = serve(stream, service, wheel, *limits, closes).await;
        // One whose head was on its way is answered before the connection closes.
        if requests_till_old.is_some_and(|requests| talk.requests.get() > requests + 1) {
            books.outlived.add();
        }
        // Any other error is that of a client that left.
        if served.is_err_and(|error| error.is_timeout()) {
            let deadline = *talk.waits_since() + limits.header_timeout;
            books.head_timeouts.note(deadline);
        }
        books.ended.add();
    }

    /// Does what a request asks for, unless that takes too long.
    async fn answer(self, request: Request<Incoming>) -> io::Result<Response<Empty<Bytes>>> {
        let Self { wheel, limits, books } = &self;
        let asked = Instant::now();
        let answer = answer(self.work(request), wheel, *limits).await.map_err(io::Error::other)?;
        if answer.status() == StatusCode::GATEWAY_TIMEOUT {
            books.request_timeouts.note(asked + limits.request_timeout);
        }
        Ok(answer)
    }

    /// Works for as many microseconds as the path says.
    async fn work(&self, request: Request<Incoming>) -> Result<Response<Empty<Bytes>>, ParseIntError> {
        self.books.work_started.add();
        let mut work = Work { books: &self.books, is_finished: false };
        let micros = request.uri().path().trim_start_matches('/').parse()?;
        self.wheel.sleep(Duration::from_micros(micros)).await;
        work.is_finished = true;
        Ok(Response::new(Empty::new()))
    }
}

/// The exchange on a connection so far.
struct Talk {
    requests: Count,
    /// Since when hyper has waited for a head, or a little earlier.
    waits_since: Mutex<Instant>,
}

impl Talk {
    fn waits_since(&self) -> MutexGuard<'_, Instant> {
        self.waits_since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Work that was started. Dropped before it is finished, it was stopped.
struct Work<'a> {
    books: &'a Books,
    is_finished: bool,
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        let Books { work_finished, work_stopped, .. } = self.books;
        if self.is_finished { work_finished } else { work_stopped }.add();
    }
}

// The counts of server and clients.

#[derive(Debug, Default)]
pub(crate) struct Books {
    // The server's.
    pub(crate) accepted: Count,
    pub(crate) ended: Count,
    pub(crate) head_timeouts: Lateness,
    pub(crate) request_timeouts: Lateness,
    pub(crate) keep_alive_ends: Lateness,
    /// Connections on which requests went on after they were told to close.
    pub(crate) outlived: Count,
    pub(crate) work_started: Count,
    pub(crate) work_finished: Count,
    pub(crate) work_stopped: Count,
    // The clients'.
    pub(crate) requests: Count,
    pub(crate) done: Count,
    pub(crate) timed_out: Count,
    /// The server closed the connection as the request was on its way, so it went over another one.
    pub(crate) asked_again: Count,
    /// Requests that got done though their work takes longer than they may.
    pub(crate) slow_done: Count,
    /// Requests that were cut off though their work takes less.
    pub(crate) quick_cut_off: Count,
    /// Good connections that the machine let wait for longer than a head may take, so the server closed them.
    pub(crate) held_up: Count,
    /// Connections of slow clients that were closed.
    pub(crate) slow_closed: Count,
    /// Connections of idle clients that were closed.
    pub(crate) idle_closed: Count,
    /// Connections of both kinds that were closed before the header timeout.
    pub(crate) closed_early: Count,
}

impl Books {
    pub(crate) fn in_words(&self) -> String {
        format!(
            "{} requests, {} timed out, {} slow, {} idle",
            HumanCount(self.requests.get()),
            HumanCount(self.timed_out.get()),
            HumanCount(self.slow_closed.get()),
            HumanCount(self.idle_closed.get())
        )
    }
}

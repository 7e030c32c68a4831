//! The server: its protocol, its timers, and the work behind a request.

use std::io;
use std::io::ErrorKind;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use timingwheel::{Stats, TimingWheel};
use timingwheel_examples::Lateness;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::select;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::report::{Books, Gauge, Held};
use crate::{Closed, serve};

// The server, and its counts.

#[derive(Clone)]
pub(crate) struct Server<T> {
    pub(crate) request_timeout: Duration,
    pub(crate) idle_timeout: Duration,
    pub(crate) timers: Watched<T>,
    pub(crate) books: Arc<Books>,
    /// Of the connection that this serves.
    pub(crate) current: Current,
}

impl<T: Timers> Server<T> {
    /// Serves connections until it is told to stop, and those that are open then to their end.
    pub(crate) async fn run(
        self,
        listener: TcpListener,
        mut stop: oneshot::Receiver<()>,
    ) -> Result<(), String> {
        let mut connections = JoinSet::new();
        loop {
            select! {
                _ = &mut stop => break,
                accepted = listener.accept() => {
                    let (stream, _) = accepted.map_err(|error| format!("no more connections: {error}"))?;
                    connections.spawn(self.clone().serve(stream));
                }
                Some(ended) = connections.join_next() => served(ended)?,
            }
        }
        while let Some(ended) = connections.join_next().await {
            served(ended)?;
        }
        Ok(())
    }

    async fn serve(mut self, mut stream: TcpStream) -> io::Result<()> {
        self.current = Current::default();
        let Self { idle_timeout, timers, books, .. } = &self;
        let _open = books.connections.hold();
        stream.set_nodelay(true)?;
        write_greeting(&mut stream).await?;
        let (silence, _held) = timers.start(*idle_timeout);
        // A client that leaves without waiting for its answer counts that itself.
        if let Closed::Idle(deadline) = serve(&mut stream, &self, pin!(silence)).await? {
            timers.note(deadline);
            books.idle_closed.add();
        }
        Ok(())
    }

    /// The work behind a request.
    pub(crate) fn work(&self, request: Request) -> impl Future<Output = ()> + Send {
        self.current.set(&request);
        perform(request, self.current.clone(), &self.timers, &self.books)
    }

    /// Nobody waits for the work of the current request any more: if it goes on, that is seen.
    pub(crate) fn is_over(&self) {
        self.current.clear();
    }
}

fn served(ended: Result<io::Result<()>, tokio::task::JoinError>) -> Result<(), String> {
    match ended {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(format!("a connection broke at the server: {error}")),
        Err(error) => Err(format!("a connection's task ended: {error}")),
    }
}

// The protocol: a greeting from the server, then requests one way and answers the other, each a frame of two
// numbers.

/// A request to work for some time. Its frame has the id and the microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) id: u64,
    pub(crate) work: Duration,
}

/// The answer to a request. Its frame has the request's id and the status.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) id: u64,
    pub(crate) status: Status,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Done,
    TimedOut,
}

impl Request {
    /// `None` if the other end has closed the connection.
    pub(crate) async fn read(stream: &mut TcpStream) -> io::Result<Option<Self>> {
        let frame = read(stream).await?;
        Ok(frame.map(|[id, micros]| Self { id, work: Duration::from_micros(micros) }))
    }

    /// `None` if the other end has closed the connection.
    pub(crate) async fn write(self, stream: &mut TcpStream) -> io::Result<Option<()>> {
        let micros = u64::try_from(self.work.as_micros()).map_err(io::Error::other)?;
        write(stream, [self.id, micros]).await
    }
}

impl Answer {
    /// `None` if the other end has closed the connection.
    pub(crate) async fn read(stream: &mut TcpStream) -> io::Result<Option<Self>> {
        match read(stream).await? {
            None => Ok(None),
            Some([id, 0]) => Ok(Some(Self { id, status: Status::Done })),
            Some([id, 1]) => Ok(Some(Self { id, status: Status::TimedOut })),
            Some([_, status]) => Err(io::Error::other(format!("an answer has the unknown status {status}"))),
        }
    }

    /// `None` if the other end has closed the connection.
    pub(crate) async fn write(self, stream: &mut TcpStream) -> io::Result<Option<()>> {
        let status = match self.status {
            Status::Done => 0,
            Status::TimedOut => 1,
        };
        write(stream, [self.id, status]).await
    }
}

const GREETING: u8 = b'!';

/// Tells the client that its connection has been accepted.
pub(crate) async fn write_greeting(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_u8(GREETING).await
}

pub(crate) async fn read_greeting(stream: &mut TcpStream) -> io::Result<()> {
    match stream.read_u8().await? {
        GREETING => Ok(()),
        other => Err(io::Error::other(format!("the server greets with the unknown byte {other}"))),
    }
}

async fn read(stream: &mut TcpStream) -> io::Result<Option<[u64; 2]>> {
    let mut frame = [0; 16];
    if unless_closed(stream.read_exact(&mut frame).await)?.is_none() {
        return Ok(None);
    }
    let [first, second] = [&frame[..8], &frame[8..]]
        .map(|number| u64::from_be_bytes(number.try_into().expect("half of sixteen bytes")));
    Ok(Some([first, second]))
}

async fn write(stream: &mut TcpStream, [first, second]: [u64; 2]) -> io::Result<Option<()>> {
    let mut frame = [0; 16];
    frame[..8].copy_from_slice(&first.to_be_bytes());
    frame[8..].copy_from_slice(&second.to_be_bytes());
    unless_closed(stream.write_all(&frame).await)
}

/// `None` for the errors by which one sees that the other end has closed the connection.
pub(crate) fn unless_closed<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) => match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Ok(None),
            _ => Err(error),
        },
    }
}

// The timers that the program needs: the wheel's and tokio's.

/// The source of all timers of a run.
pub(crate) trait Timers: Clone + Send + Sync + 'static {
    type Sleep: Sleep;

    fn sleep(&self, duration: Duration) -> Self::Sleep;

    /// Runs `work` for at most `limit`: the deadline, and the future of its output, or of `None` if it was cut off.
    fn timeout<F>(
        &self,
        limit: Duration,
        work: F,
    ) -> (Instant, impl Future<Output = Option<F::Output>> + Send)
    where
        F: Future<Output: Send> + Send;

    /// The timers' own counts, if they have any.
    fn stats(&self) -> Option<Stats>;
}

/// A timer that can be moved.
pub(crate) trait Sleep: Future<Output = ()> + Send {
    fn deadline(&self) -> Instant;
    fn reset(self: Pin<&mut Self>, deadline: Instant);
}

impl Timers for TimingWheel {
    type Sleep = timingwheel::Sleep;

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        self.sleep(duration)
    }

    fn timeout<F>(
        &self,
        limit: Duration,
        work: F,
    ) -> (Instant, impl Future<Output = Option<F::Output>> + Send)
    where
        F: Future<Output: Send> + Send,
    {
        let call = self.timeout(limit, work);
        (call.deadline(), async { call.await.ok() })
    }

    fn stats(&self) -> Option<Stats> {
        Some(self.stats())
    }
}

impl Sleep for timingwheel::Sleep {
    fn deadline(&self) -> Instant {
        self.deadline()
    }

    fn reset(self: Pin<&mut Self>, deadline: Instant) {
        self.reset(deadline);
    }
}

/// The timers of `tokio::time`, which are the runtime's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokioTime;

impl Timers for TokioTime {
    type Sleep = tokio::time::Sleep;

    fn sleep(&self, duration: Duration) -> Self::Sleep {
        tokio::time::sleep(duration)
    }

    fn timeout<F>(
        &self,
        limit: Duration,
        work: F,
    ) -> (Instant, impl Future<Output = Option<F::Output>> + Send)
    where
        F: Future<Output: Send> + Send,
    {
        // `timeout_at`, because tokio's timeout does not tell its deadline.
        let deadline = Instant::now() + limit;
        let call = tokio::time::timeout_at(deadline, work);
        (deadline, async { call.await.ok() })
    }

    fn stats(&self) -> Option<Stats> {
        None
    }
}

impl Sleep for tokio::time::Sleep {
    fn deadline(&self) -> Instant {
        self.deadline()
    }

    fn reset(self: Pin<&mut Self>, deadline: Instant) {
        self.reset(deadline);
    }
}

// Timers under observation: how many there are, and how late they fire.

/// Timers that count themselves and note how late they fire.
#[derive(Clone)]
pub(crate) struct Watched<T> {
    timers: T,
    watch: Arc<Watch>,
}

#[derive(Default)]
struct Watch {
    held: Gauge,
    fired: Arc<Lateness>,
}

impl<T: Timers> Watched<T> {
    pub(crate) fn new(timers: T) -> Self {
        Self { timers, watch: Arc::default() }
    }

    /// The timers themselves.
    pub(crate) fn timers(&self) -> &T {
        &self.timers
    }

    /// Timers that the program holds, and has held.
    pub(crate) fn held(&self) -> &Gauge {
        &self.watch.held
    }

    pub(crate) async fn sleep(&self, duration: Duration) {
        let (sleep, _held) = self.start(duration);
        let deadline = sleep.deadline();
        sleep.await;
        self.note(deadline);
    }

    /// The output of `work`, or `None` if it took longer than `limit` and was dropped.
    pub(crate) async fn timeout<F: Future<Output: Send> + Send>(
        &self,
        limit: Duration,
        work: F,
    ) -> Option<F::Output> {
        let (deadline, call) = self.timers.timeout(limit, work);
        let _held = self.watch.held.hold();
        let result = call.await;
        if result.is_none() {
            self.note(deadline);
        }
        result
    }

    /// A timer for the caller to move and to await, with what counts it. The caller has to [`note`](Self::note)
    /// that it fired.
    pub(crate) fn start(&self, duration: Duration) -> (T::Sleep, Held<'_>) {
        (self.timers.sleep(duration), self.watch.held.hold())
    }

    /// Notes that a timer for `deadline` has fired now.
    pub(crate) fn note(&self, deadline: Instant) {
        self.watch.fired.note(deadline);
    }

    /// How late all timers have fired.
    pub(crate) fn lateness(&self) -> Arc<Lateness> {
        self.watch.fired.clone()
    }
}

// The work behind a request. It can be seen to start, to go on, and to stop.

/// How often work looks round. A step of slow work is then shorter than what it takes beyond the request timeout.
const STEPS: u32 = 5;

/// The id of the request that a connection is at, so that work can tell whether it is still wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Current(Arc<AtomicU64>);

impl Current {
    /// Ids of requests are not zero.
    const NONE: u64 = 0;

    pub(crate) fn set(&self, request: &Request) {
        self.0.store(request.id, Ordering::Relaxed);
    }

    pub(crate) fn clear(&self) {
        self.0.store(Self::NONE, Ordering::Relaxed);
    }

    fn is(&self, request: &Request) -> bool {
        self.0.load(Ordering::Relaxed) == request.id
    }
}

/// Does what `request` asks for: waits, in steps.
pub(crate) async fn perform<T: Timers>(
    request: Request,
    current: Current,
    timers: &Watched<T>,
    books: &Books,
) {
    let mut running = Running::start(books);
    for _ in 0..STEPS {
        timers.sleep(request.work / STEPS).await;
        if !current.is(&request) {
            books.steps_after_timeout.add();
        }
    }
    running.is_finished = true;
}

/// Notes how work ends: done, or dropped on the way.
struct Running<'a> {
    books: &'a Books,
    is_finished: bool,
}

impl<'a> Running<'a> {
    fn start(books: &'a Books) -> Self {
        books.work_started.add();
        Self { books, is_finished: false }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let end = if self.is_finished { &self.books.work_finished } else { &self.books.work_stopped };
        end.add();
    }
}

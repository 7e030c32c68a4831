//! A server without clients, for a load from another program: what do timers add to the CPU time of a request?
//!
//! It prints its address, serves until its standard input ends or a signal ends it, and then prints the CPU time that it
//! took. `benches/http_load` reads its output: a name and a value on each line.

use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use std::{io, thread};

use clap::ValueEnum;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::rt::{Sleep, Timer};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use timingwheel::TimingWheel;
use timingwheel_examples::Count;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::select;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::{JoinSet, yield_now};

use crate::{BoxError, Limits};

const WORKERS: usize = 2;
/// How many connections may wait to be accepted: a load begins with all of its connections at once.
const BACKLOG: u32 = 4_096;
const ANSWER: &[u8] = b"hello\n";

/// By which timers a server bounds what its clients take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// A timing wheel
    Wheel,
    /// tokio's timers
    Tokio,
    /// Timers that do nothing and never fire: hyper's own share of the cost
    Never,
    /// No limits at all
    None,
}

/// Serves at `address`, and tells what it took.
pub(crate) fn run(address: SocketAddr, by: By, limits: Limits) -> Result<(), BoxError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build()?;
    runtime.block_on(async {
        match by {
            By::Wheel => Server::new(TimingWheel::new(), limits).run(address).await,
            By::Tokio => Server::new(TokioTimer::new(), limits).run(address).await,
            By::Never => Server::new(Never, limits).run(address).await,
            By::None => Server::new(Unlimited, limits).run(address).await,
        }
    })
}

struct Server<T> {
    timers: T,
    http: http1::Builder,
    limits: Limits,
    requests: Count,
    /// Requests and connections that reached a limit.
    cut_off: Count,
}

impl<T: Timers> Server<T> {
    fn new(timers: T, limits: Limits) -> Arc<Self> {
        let mut http = http1::Builder::new();
        timers.bound_heads(&mut http, limits.header_timeout);
        Arc::new(Self { timers, http, limits, requests: Count::default(), cut_off: Count::default() })
    }

    async fn run(self: Arc<Self>, address: SocketAddr) -> Result<(), BoxError> {
        let listener = listen(address).map_err(|error| format!("cannot listen on {address}: {error}"))?;
        println!("listening {}", listener.local_addr()?);
        let (stop, stopped) = oneshot::channel();
        let server = self.clone();
        let serve = move |stream| server.clone().serve(stream);
        let mut accepting = tokio::spawn(accept(listener, stopped, serve));
        select! {
            failed = &mut accepting => drop(failed??),
            ended = ended() => {
                ended?;
                drop(stop);
                // Those that are open are dropped.
                accepting.await??.shutdown().await;
            }
        }

        let Spent { cpu, user, context_switches } = Spent::so_far()?;
        println!("requests {}", self.requests.get());
        println!("cpu_micros {}", cpu.as_micros());
        println!("user_micros {}", user.as_micros());
        println!("context_switches {context_switches}");
        println!("cut_off {}", self.cut_off.get());
        if let Some(armed) = self.timers.armed() {
            println!("timers_armed {armed}");
        }
        Ok(())
    }

    async fn serve(self: Arc<Self>, stream: TcpStream) {
        let answer = service_fn(|_request| {
            let server = self.clone();
            async move { Ok::<_, Infallible>(server.answer().await) }
        });
        let served = self.http.serve_connection(TokioIo::new(stream), answer).await;
        // Any other error is that of a client that left.
        if served.is_err_and(|error| error.is_timeout()) {
            self.cut_off.add();
        }
    }

    async fn answer(&self) -> Response<Full<Bytes>> {
        self.requests.add();
        // A handler that waits once, as for a database: a timeout round one that never waits arms no timer.
        let answered = self.timers.timeout(self.limits.request_timeout, async {
            yield_now().await;
            ANSWER
        });
        let Some(answer) = answered.await else {
            self.cut_off.add();
            let mut response = Response::default();
            *response.status_mut() = StatusCode::GATEWAY_TIMEOUT;
            return response;
        };
        Response::new(Full::new(Bytes::from_static(answer)))
    }
}

/// Serves connections until it is told to stop, and returns those that are open.
pub(crate) async fn accept<F: Future<Output = ()> + Send + 'static>(
    listener: TcpListener,
    mut stop: oneshot::Receiver<()>,
    serve: impl Fn(TcpStream) -> F,
) -> io::Result<JoinSet<()>> {
    let mut connections = JoinSet::new();
    loop {
        select! {
            _ = &mut stop => return Ok(connections),
            accepted = listener.accept() => {
                let (stream, _) = accepted?;
                connections.spawn(serve(stream));
            }
            Some(ended) = connections.join_next() => ended?,
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Waits for the end of standard input, or for a signal to end.
async fn ended() -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (end, at_end) = oneshot::channel::<()>();
    // A thread of its own, for which nobody waits: a read from a terminal cannot be called off.
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        drop(end);
    });
    select! {
        _ = at_end => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

// The timers that `--serve` needs, on the wheel, on tokio and without.

/// Bounds heads and answers, or does not.
pub(crate) trait Timers: Clone + Send + Sync + 'static {
    /// How long hyper waits for a head.
    fn bound_heads(&self, http: &mut http1::Builder, limit: Duration);

    /// The output of `work`, or `None` if it was cut off.
    fn timeout<F>(&self, limit: Duration, work: F) -> impl Future<Output = Option<F::Output>> + Send
    where
        F: Future<Output: Send> + Send;

    /// How many timers were armed so far; nothing where nobody counts them.
    fn armed(&self) -> Option<u64> {
        None
    }
}

impl Timers for TimingWheel {
    fn bound_heads(&self, http: &mut http1::Builder, limit: Duration) {
        http.timer(self.clone()).header_read_timeout(limit);
    }

    async fn timeout<F>(&self, limit: Duration, work: F) -> Option<F::Output>
    where
        F: Future<Output: Send> + Send,
    {
        self.timeout(limit, work).await.ok()
    }

    fn armed(&self) -> Option<u64> {
        Some(self.stats().armed)
    }
}

impl Timers for TokioTimer {
    fn bound_heads(&self, http: &mut http1::Builder, limit: Duration) {
        http.timer(self.clone()).header_read_timeout(limit);
    }

    async fn timeout<F>(&self, limit: Duration, work: F) -> Option<F::Output>
    where
        F: Future<Output: Send> + Send,
    {
        tokio::time::timeout(limit, work).await.ok()
    }
}

/// Timers that do nothing and never fire: with them hyper does all that a limit of heads takes, but for the timers.
#[derive(Clone, Debug)]
pub(crate) struct Never;

impl Timers for Never {
    fn bound_heads(&self, http: &mut http1::Builder, limit: Duration) {
        http.timer(Self).header_read_timeout(limit);
    }

    async fn timeout<F>(&self, _limit: Duration, work: F) -> Option<F::Output>
    where
        F: Future<Output: Send> + Send,
    {
        Some(work.await)
    }
}

impl Timer for Never {
    fn sleep(&self, _duration: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(Self)
    }

    fn sleep_until(&self, _deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Self)
    }
}

impl Sleep for Never {}

impl Future for Never {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

/// No limits at all.
#[derive(Clone, Debug)]
pub(crate) struct Unlimited;

impl Timers for Unlimited {
    fn bound_heads(&self, http: &mut http1::Builder, _limit: Duration) {
        http.header_read_timeout(None);
    }

    async fn timeout<F>(&self, _limit: Duration, work: F) -> Option<F::Output>
    where
        F: Future<Output: Send> + Send,
    {
        Some(work.await)
    }
}

// CPU time and context switches of this process, as the kernel counts them.

/// All threads together since the process began, ended ones too.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    pub(crate) cpu: Duration,
    /// The part of it outside the kernel, which some kernels only estimate.
    pub(crate) user: Duration,
    /// How often a thread left its core, on its own or not.
    pub(crate) context_switches: u64,
}

impl Spent {
    /// # Errors
    /// If the kernel does not tell.
    pub(crate) fn so_far() -> Result<Self, Box<dyn Error + Send + Sync>> {
        let usage = getrusage(UsageWho::RUSAGE_SELF)?;
        let user = duration(usage.user_time())?;
        let switches = usage.voluntary_context_switches() + usage.involuntary_context_switches();
        Ok(Self { cpu: user + duration(usage.system_time())?, user, context_switches: switches.try_into()? })
    }
}

fn duration(time: TimeVal) -> Result<Duration, std::num::TryFromIntError> {
    Ok(Duration::from_secs(time.tv_sec().try_into()?) + Duration::from_micros(time.tv_usec().try_into()?))
}

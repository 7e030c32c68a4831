//! The server of `benches/http_load`: what do timers add to the CPU time of a request?
//!
//! Its argument names the timers that bound heads and answers: `wheel`, `tokio`, `never` (timers that do nothing: hyper's own
//! share of the cost) or `none`. It prints its address, serves until its standard input ends, and prints what it took: a name
//! and a value on each line.

use std::convert::Infallible;
use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use std::{io, thread};

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::rt::{Sleep, Timer};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use timingwheel::TimingWheel;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{JoinSet, yield_now};

type BoxError = Box<dyn Error + Send + Sync>;

const WORKERS: usize = 2;
/// Of a head and of an answer. None fires.
const LIMIT: Duration = Duration::from_secs(30);
/// How many connections may wait to be accepted: a load begins with all of its connections at once.
const BACKLOG: u32 = 4_096;

fn main() -> Result<(), BoxError> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(WORKERS).enable_all().build()?;
    runtime.block_on(async {
        match std::env::args().nth(1).as_deref() {
            Some("wheel") => run(TimingWheel::new()).await,
            Some("tokio") => run(TokioTimer::new()).await,
            Some("never") => run(Never).await,
            Some("none") => run(Unlimited).await,
            // By cargo, which takes it for a benchmark.
            None | Some("--bench") => {
                println!("`benches/http_load` runs this server");
                Ok(())
            }
            Some(other) => {
                Err(format!("the timers must be wheel, tokio, never or none, got {other:?}").into())
            }
        }
    })
}

async fn run<T: Timers>(timers: T) -> Result<(), BoxError> {
    let mut http = http1::Builder::new();
    timers.bound_heads(&mut http);
    let server = Arc::new(Server { timers, http, requests: AtomicU64::new(0), cut_off: AtomicU64::new(0) });
    let socket = TcpSocket::new_v4()?;
    socket.bind(([127, 0, 0, 1], 0).into())?;
    let listener = socket.listen(BACKLOG)?;
    println!("listening {}", listener.local_addr()?);

    let (end, mut ended) = oneshot::channel::<()>();
    // A thread of its own, for which nobody waits: a read from a terminal cannot be called off.
    thread::spawn(move || {
        _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        drop(end);
    });
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                connections.spawn(server.clone().serve(accepted?.0));
            }
            Some(ended) = connections.join_next() => ended?,
            _ = &mut ended => break,
        }
    }

    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let user = duration(usage.user_time())?;
    println!("requests {}", server.requests.load(Ordering::Relaxed));
    println!("cpu_micros {}", (user + duration(usage.system_time())?).as_micros());
    println!("user_micros {}", user.as_micros());
    println!(
        "context_switches {}",
        usage.voluntary_context_switches() + usage.involuntary_context_switches()
    );
    println!("cut_off {}", server.cut_off.load(Ordering::Relaxed));
    if let Some(armed) = server.timers.armed() {
        println!("timers_armed {armed}");
    }
    Ok(())
}

fn duration(time: TimeVal) -> Result<Duration, std::num::TryFromIntError> {
    Ok(Duration::from_secs(time.tv_sec().try_into()?) + Duration::from_micros(time.tv_usec().try_into()?))
}

struct Server<T> {
    timers: T,
    http: http1::Builder,
    requests: AtomicU64,
    /// Requests and connections that reached a limit.
    cut_off: AtomicU64,
}

impl<T: Timers> Server<T> {
    async fn serve(self: Arc<Self>, stream: TcpStream) {
        let answer = service_fn(|_request| {
            let server = self.clone();
            async move { Ok::<_, Infallible>(server.answer().await) }
        });
        let served = self.http.serve_connection(TokioIo::new(stream), answer).await;
        // Any other error is that of a client that left.
        if served.is_err_and(|error| error.is_timeout()) {
            self.cut_off.fetch_add(1, Ordering::Relaxed);
        }
    }

    async fn answer(&self) -> Response<Full<Bytes>> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        // A handler that waits once, as for a database: a timeout round one that never waits arms no timer.
        let Some(()) = self.timers.timeout(yield_now()).await else {
            self.cut_off.fetch_add(1, Ordering::Relaxed);
            let mut response = Response::default();
            *response.status_mut() = StatusCode::GATEWAY_TIMEOUT;
            return response;
        };
        Response::new(Full::new(Bytes::from_static(b"hello\n")))
    }
}

/// Bounds heads and answers, or does not.
trait Timers: Send + Sync + 'static {
    fn bound_heads(&self, http: &mut http1::Builder);

    /// The output of `work`, or `None` if it was cut off.
    fn timeout<F: Future<Output: Send> + Send>(
        &self,
        work: F,
    ) -> impl Future<Output = Option<F::Output>> + Send;

    /// How many timers were armed so far; nothing where nobody counts them.
    fn armed(&self) -> Option<u64> {
        None
    }
}

impl Timers for TimingWheel {
    fn bound_heads(&self, http: &mut http1::Builder) {
        http.timer(self.clone()).header_read_timeout(LIMIT);
    }

    async fn timeout<F: Future<Output: Send> + Send>(&self, work: F) -> Option<F::Output> {
        self.timeout(LIMIT, work).await.ok()
    }

    fn armed(&self) -> Option<u64> {
        Some(self.stats().armed)
    }
}

impl Timers for TokioTimer {
    fn bound_heads(&self, http: &mut http1::Builder) {
        http.timer(self.clone()).header_read_timeout(LIMIT);
    }

    async fn timeout<F: Future<Output: Send> + Send>(&self, work: F) -> Option<F::Output> {
        tokio::time::timeout(LIMIT, work).await.ok()
    }
}

/// Timers that do nothing and never fire.
struct Never;

impl Timers for Never {
    fn bound_heads(&self, http: &mut http1::Builder) {
        http.timer(Self).header_read_timeout(LIMIT);
    }

    async fn timeout<F: Future<Output: Send> + Send>(&self, work: F) -> Option<F::Output> {
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
struct Unlimited;

impl Timers for Unlimited {
    fn bound_heads(&self, http: &mut http1::Builder) {
        http.header_read_timeout(None);
    }

    async fn timeout<F: Future<Output: Send> + Send>(&self, work: F) -> Option<F::Output> {
        Some(work.await)
    }
}

//! A server without clients, for a load from another program: what do timers add to the CPU time of a request?
//!
//! It prints its address, serves until its standard input ends or a signal ends it, and then prints the CPU time that it
//! took. `benches/http_load` reads its output: a name and a value on each line.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;

use clap::ValueEnum;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use timingwheel::TimingWheel;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::select;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::{JoinSet, yield_now};
use tower::BoxError;

use crate::Limits;
use crate::books::Count;
use crate::spent::Spent;
use crate::timers::{Never, Timers, Unlimited};

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
        let mut accepting = tokio::spawn(self.clone().accept(listener, stopped));
        select! {
            failed = &mut accepting => failed??,
            ended = ended() => {
                ended?;
                drop(stop);
                accepting.await??;
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

    /// Serves connections until it is told to stop, and then drops those that are open.
    async fn accept(
        self: Arc<Self>,
        listener: TcpListener,
        mut stop: oneshot::Receiver<()>,
    ) -> io::Result<()> {
        let mut connections = JoinSet::new();
        loop {
            select! {
                _ = &mut stop => break,
                accepted = listener.accept() => {
                    let (stream, _) = accepted?;
                    connections.spawn(self.clone().serve(stream));
                }
                Some(ended) = connections.join_next() => ended?,
            }
        }
        connections.shutdown().await;
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

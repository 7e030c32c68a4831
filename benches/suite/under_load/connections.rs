//! A server and its clients over Unix sockets, with all the timers that such have.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use super::sides::{Load, Side, Sides};
use super::spent::{Count, Spent, rounds_of, spent};
use super::targets::{row, targets};
use super::timers::{Guarded, Timers};
use crate::support::{Findings, Scale, Unit, connections_allowed, number};

const WORKERS: usize = 2;
const CONNECTIONS: usize = 3_000;
/// What a request may take.
const REQUEST_LIMIT: Duration = Duration::from_millis(12);
/// Never comes while a case runs.
const IDLE_LIMIT: Duration = Duration::from_secs(30);
const CPU: f64 = 0.97;
const SWITCHES: f64 = 1.2;

const DONE: u8 = 1;
const TIMED_OUT: u8 = 2;

struct Connections {
    scale: Scale,
    count: usize,
}

#[derive(Debug, Default)]
struct Books {
    stop: AtomicBool,
    thoughts: Count,
    requests: Count,
    timed_out: Count,
}

pub(super) fn run(scale: Scale) -> Findings {
    let count = connections_allowed(scale.of(CONNECTIONS));
    let what = format!("{} connections", number(count as f64));
    let found = Sides::new(WORKERS).rounds(rounds_of(scale), &Connections { scale, count });
    let of = |value: fn(&Spent) -> f64| -> Vec<Vec<f64>> {
        found.iter().map(|sides| sides.iter().map(value).collect()).collect()
    };
    let (cpu, switches) = (of(|spent| spent.cpu), of(|spent| spent.switches));
    targets()
        .row(row(format!("CPU for a request, {what}"), Unit::Nanos, &cpu, Some(CPU)))
        .row(row(format!("switches for 1,000 requests, {what}"), Unit::Count, &switches, Some(SWITCHES)))
        .note(format!(
            "Request: a client thinks for 50 to 200 ms and asks; the server works for 1 to 16 ms, under a timeout of \
             12 ms, and answers. Both wait by the side's timers. Each of the server's reads has an idle limit: of an \
             `IdleGuard`, or by tokio's timeout. {WORKERS} workers."
        ))
        .into()
}

impl Load for Connections {
    type Found = Spent;

    fn run<T: Timers>(&self, side: &Side<T>) -> (Spent, u64) {
        let books = Arc::<Books>::default();
        let within = side.runtime.enter();
        let tasks: Vec<_> = (0..self.count)
            .flat_map(|_| {
                let (near, far) = UnixStream::pair().expect("a pair of sockets");
                let (timers, books) = (side.timers.clone(), books.clone());
                [tokio::spawn(serve(side.timers.clone(), far)), tokio::spawn(ask(timers, near, books))]
            })
            .collect();
        drop(within);
        let spent = spent(self.scale, &books.requests);
        books.stop.store(true, Ordering::Relaxed);
        side.runtime.block_on(async {
            for task in tasks {
                task.await.expect("the task does not panic").expect("the connection does not break");
            }
        });
        let Books { thoughts, requests, timed_out, .. } = &*books;
        assert_eq!(thoughts.get(), requests.get(), "every request was answered");
        if !self.scale.is_test() {
            assert!((1..requests.get()).contains(&timed_out.get()), "some are done, some time out");
        }
        // For each request a thought, and the work's timer or the timeout.
        (spent, thoughts.get() + requests.get())
    }
}

/// A client: a request is the time that its work takes, in microseconds.
async fn ask(timers: impl Timers, mut stream: UnixStream, books: Arc<Books>) -> io::Result<()> {
    while !books.stop.load(Ordering::Relaxed) {
        timers.sleep(Duration::from_micros(fastrand::u64(50_000..200_000))).await;
        books.thoughts.add();
        stream.write_all(&fastrand::u32(1_000..16_000).to_le_bytes()).await?;
        let mut answer = [0];
        stream.read_exact(&mut answer).await?;
        books.requests.add();
        match answer {
            [DONE] => {}
            [TIMED_OUT] => books.timed_out.add(),
            [other] => panic!("an answer of {other}"),
        }
    }
    Ok(())
}

/// A server's connection, until the client leaves.
async fn serve(timers: impl Timers, stream: UnixStream) -> io::Result<()> {
    let mut stream = timers.guard(stream, IDLE_LIMIT);
    loop {
        let mut request = [0; size_of::<u32>()];
        match stream.read_exact(&mut request).await {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
            read => read?,
        }
        let work = Duration::from_micros(u32::from_le_bytes(request).into());
        let done = timers.timeout(REQUEST_LIMIT, timers.sleep(work)).await;
        stream.write_all(&[if done.is_some() { DONE } else { TIMED_OUT }]).await?;
    }
}

//! The server, and its counts.

use std::io;
use std::num::ParseIntError;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use timingwheel::TimingWheel;
use tokio::net::{TcpListener, TcpStream};
use tokio::select;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tower::BoxError;

use crate::books::{Books, Count};
use crate::{Limits, answer, serve};

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
        mut stop: oneshot::Receiver<()>,
    ) -> Result<(), BoxError> {
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
        let work = tower::service_fn(|request| self.work(request));
        let answer = answer(request, work, wheel, *limits).await.map_err(io::Error::other)?;
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

//! The server: hyper with its timers on the wheel, a tower layer round the handler, and an age for each connection.

use std::io;
use std::num::ParseIntError;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use timingwheel::TimingWheel;
use timingwheel::tower::TimeoutLayer;
use tokio::net::{TcpListener, TcpStream};
use tokio::select;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tower::timeout::error::Elapsed;
use tower::{BoxError, ServiceBuilder, ServiceExt};

use crate::books::{Books, Count};
use crate::settings::Limits;

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
        let answer = service_fn({
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
        let mut connection = pin!(
            http1::Builder::new()
                .timer(wheel.clone())
                .header_read_timeout(limits.header_timeout)
                .serve_connection(TokioIo::new(stream), answer)
        );
        let mut age = pin!(wheel.sleep(limits.keep_alive));
        let served = select! {
            served = connection.as_mut() => served,
            () = age.as_mut() => {
                books.keep_alive_ends.note(age.deadline());
                let requests = talk.requests.get();
                connection.as_mut().graceful_shutdown();
                let served = connection.await;
                // One whose head was on its way is answered before that.
                if talk.requests.get() > requests + 1 {
                    books.outlived.add();
                }
                served
            }
        };
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
        let bounded = ServiceBuilder::new()
            .layer(TimeoutLayer::new(wheel.clone(), limits.request_timeout))
            .service_fn(|request| self.work(request));
        let asked = Instant::now();
        let status = match bounded.oneshot(request).await {
            Ok(()) => StatusCode::OK,
            Err(error) if error.is::<Elapsed>() => {
                books.request_timeouts.note(asked + limits.request_timeout);
                StatusCode::GATEWAY_TIMEOUT
            }
            Err(error) => return Err(io::Error::other(error)),
        };
        let mut response = Response::new(Empty::new());
        *response.status_mut() = status;
        Ok(response)
    }

    /// Works for as many microseconds as the path says.
    async fn work(&self, request: Request<Incoming>) -> Result<(), ParseIntError> {
        self.books.work_started.add();
        let mut work = Work { books: &self.books, is_finished: false };
        let micros = request.uri().path().trim_start_matches('/').parse()?;
        self.wheel.sleep(Duration::from_micros(micros)).await;
        work.is_finished = true;
        Ok(())
    }
}

/// What has been said on a connection.
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

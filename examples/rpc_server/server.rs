//! The server: an idle timer for each connection, and a timeout round each request.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::select;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::books::Books;
use crate::protocol::{self, Answer, Request, Status};
use crate::timers::{Sleep, Timers};
use crate::watched::Watched;
use crate::work::{self, Current};

#[derive(Clone)]
pub(crate) struct Server<T> {
    pub(crate) request_timeout: Duration,
    pub(crate) idle_timeout: Duration,
    pub(crate) timers: Watched<T>,
    pub(crate) books: Arc<Books>,
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

    /// Serves one connection until its client leaves or is silent for too long.
    async fn serve(self, mut stream: TcpStream) -> io::Result<()> {
        let Self { request_timeout, idle_timeout, timers, books } = &self;
        let _open = books.connections.hold();
        stream.set_nodelay(true)?;
        protocol::write_greeting(&mut stream).await?;

        let current = Current::default();
        let (idle, _held) = timers.start(*idle_timeout);
        let mut idle = pin!(idle);
        loop {
            let request = select! {
                // A request that is there when the time is up was in time.
                biased;
                request = Request::read(&mut stream) => request?,
                () = idle.as_mut() => {
                    timers.note(idle.deadline());
                    books.idle_closed.add();
                    return Ok(());
                }
            };
            let Some(request) = request else { return Ok(()) };
            idle.as_mut().reset(Instant::now() + *idle_timeout);

            current.set(&request);
            let work = work::perform(request, current.clone(), timers, books);
            let status = match timers.timeout(*request_timeout, work).await {
                Some(()) => Status::Done,
                None => Status::TimedOut,
            };
            current.clear();
            // A client that left without waiting finds no answer: it is the client who keeps count of that.
            if (Answer { id: request.id, status }).write(&mut stream).await?.is_none() {
                return Ok(());
            }
        }
    }
}

fn served(ended: Result<io::Result<()>, tokio::task::JoinError>) -> Result<(), String> {
    match ended {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(format!("a connection broke at the server: {error}")),
        Err(error) => Err(format!("a connection's task ended: {error}")),
    }
}

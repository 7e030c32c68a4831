//! The server, and its counts.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::select;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::books::Books;
use crate::protocol::{self, Request};
use crate::timers::Timers;
use crate::watched::Watched;
use crate::work::{self, Current};
use crate::{Closed, serve};

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
        protocol::write_greeting(&mut stream).await?;
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
        work::perform(request, self.current.clone(), &self.timers, &self.books)
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

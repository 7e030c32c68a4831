//! A client waits, asks and checks the answer. Now and then it falls silent, to see whether the server hangs up.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::books::Books;
use crate::load::Load;
use crate::protocol::{self, Answer, Request, Status, unless_closed};
use crate::timers::Timers;
use crate::watched::Watched;

pub(crate) struct Client<T> {
    pub(crate) server: SocketAddr,
    /// Bounds how many clients connect at a time.
    pub(crate) connecting: Arc<Semaphore>,
    pub(crate) until: Instant,
    pub(crate) idle_timeout: Duration,
    pub(crate) load: Load,
    pub(crate) timers: Watched<T>,
    pub(crate) books: Arc<Books>,
}

impl<T: Timers> Client<T> {
    /// Makes requests until the time is up, on one connection after the other.
    pub(crate) async fn run(mut self) -> Result<(), String> {
        loop {
            let begun = Instant::now();
            if begun >= self.until {
                return Ok(());
            }
            let stream =
                self.connect().await.map_err(|error| format!("no connection to the server: {error}"))?;
            let talk = self.talk(stream, begun);
            talk.await.map_err(|error| format!("a connection broke at the client: {error}"))?;
        }
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        let _permit = self.connecting.acquire().await.map_err(io::Error::other)?;
        let mut stream = TcpStream::connect(self.server).await?;
        stream.set_nodelay(true)?;
        // Until then the connection may still be in the listener's queue.
        protocol::read_greeting(&mut stream).await?;
        Ok(stream)
    }

    /// Makes requests on a connection, last in use at `used`, until the time is up or the connection is closed.
    async fn talk(&mut self, mut stream: TcpStream, mut used: Instant) -> io::Result<()> {
        for id in 1.. {
            self.timers.sleep(self.load.think()).await;
            // Thought to the end even if the time is up: clients leave one by one, as they came.
            let asked = Instant::now();
            if asked >= self.until {
                break;
            }
            if !self.ask(id, &mut stream).await? {
                self.check_close(used);
                break;
            }
            used = asked;
            if self.load.goes_silent() {
                self.wait_for_close(stream).await?;
                self.check_close(used);
                break;
            }
        }
        Ok(())
    }

    /// Makes a request, and tells whether it was answered: not if the server closed the connection.
    async fn ask(&mut self, id: u64, stream: &mut TcpStream) -> io::Result<bool> {
        let work = self.load.work();
        let Books { requests, done, timed_out, unanswered, slow_done, quick_cut_off, .. } = &*self.books;
        requests.add();
        let answer = match (Request { id, work: work.takes }).write(stream).await? {
            Some(()) => Answer::read(stream).await?,
            None => None,
        };
        let Some(answer) = answer else {
            unanswered.add();
            return Ok(false);
        };
        if answer.id != id {
            return Err(io::Error::other(format!("request {id} got the answer to {}", answer.id)));
        }
        match answer.status {
            Status::Done => done.add(),
            Status::TimedOut => timed_out.add(),
        }
        match (answer.status, work.is_slow) {
            (Status::Done, true) => slow_done.add(),
            (Status::TimedOut, false) => quick_cut_off.add(),
            _ => {}
        }
        Ok(true)
    }

    /// Says nothing until the server closes the connection.
    async fn wait_for_close(&self, mut stream: TcpStream) -> io::Result<()> {
        self.books.went_silent.add();
        let mut nothing = [0];
        if unless_closed(stream.read(&mut nothing).await)?.is_some_and(|bytes| bytes > 0) {
            return Err(io::Error::other("the server sent something that nobody asked for"));
        }
        self.books.close_seen.add();
        Ok(())
    }

    /// Checks that the server waited for as long as it should before it closed a connection last in use at `used`.
    fn check_close(&self, used: Instant) {
        // The server saw that use later, if at all, so its idle timer cannot be ahead of this.
        if used.elapsed() < self.idle_timeout {
            self.books.closed_early.add();
        }
    }
}

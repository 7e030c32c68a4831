//! Connections under an idle guard, and streams under a limit for their gaps.

use std::io::ErrorKind;

use futures::StreamExt;
use futures::channel::mpsc::unbounded;
use timingwheel::stream::StreamTimeExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::time::Instant;

use crate::load::User;

const MESSAGES: u32 = 20;
/// Limits and pauses are up to so many milliseconds.
const LIMIT: u64 = 40;
const PAUSE: u64 = 30;

impl User {
    /// Reads from a peer that pauses until that is silent for too long, or has said all.
    pub(crate) async fn connect(&mut self) {
        let limit = self.up_to(LIMIT);
        let (stream, mut peer) = duplex(64);
        let pauses: Vec<_> = (0..MESSAGES).map(|_| self.up_to(PAUSE)).collect();
        let wheel = self.wheel.clone();
        let peer = tokio::spawn(async move {
            for pause in pauses {
                wheel.sleep(pause).await;
                // Until it is cut off.
                if peer.write_all(b"!").await.is_err() {
                    break;
                }
            }
        });
        let mut stream = self.wheel.idle_guard(stream).with_read_limit(limit);
        loop {
            let start = Instant::now();
            match stream.read_u8().await {
                Ok(_) => self.books.read.add(),
                Err(error) if error.kind() == ErrorKind::TimedOut => {
                    self.books.note(start + limit);
                    self.books.cut_off.add();
                    break;
                }
                Err(_closed) => break,
            }
        }
        drop(stream);
        peer.await.expect("it does not panic");
    }

    /// Takes items from a stream that ends with the first gap that is too long.
    pub(crate) async fn stream(&mut self) {
        let (sender, items) = unbounded();
        let pauses: Vec<_> = (0..MESSAGES).map(|_| self.up_to(PAUSE)).collect();
        let wheel = self.wheel.clone();
        let source = tokio::spawn(async move {
            for pause in pauses {
                wheel.sleep(pause).await;
                if sender.unbounded_send(()).is_err() {
                    break;
                }
            }
        });
        let limit = self.up_to(LIMIT);
        let mut items = Box::pin(items.idle_timeout_on(&self.wheel, limit));
        loop {
            let deadline = items.deadline();
            match items.next().await {
                Some(Ok(())) => self.books.items.add(),
                Some(Err(_elapsed)) => {
                    deadline.into_iter().for_each(|deadline| self.books.note(deadline));
                    self.books.gaps.add();
                }
                None => break,
            }
        }
        drop(items);
        source.await.expect("it does not panic");
    }
}

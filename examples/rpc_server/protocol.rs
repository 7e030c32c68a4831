//! The protocol: a greeting from the server, then requests one way and answers the other, each a frame of two
//! numbers.

use std::io::{self, ErrorKind};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A request to work for some time. Its frame has the id and the microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) id: u64,
    pub(crate) work: Duration,
}

/// The answer to a request. Its frame has the request's id and the status.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) id: u64,
    pub(crate) status: Status,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Done,
    TimedOut,
}

impl Request {
    /// `None` if the other end has closed the connection.
    pub(crate) async fn read(stream: &mut TcpStream) -> io::Result<Option<Self>> {
        let frame = read(stream).await?;
        Ok(frame.map(|[id, micros]| Self { id, work: Duration::from_micros(micros) }))
    }

    /// `None` if the other end has closed the connection.
    pub(crate) async fn write(self, stream: &mut TcpStream) -> io::Result<Option<()>> {
        let micros = u64::try_from(self.work.as_micros()).map_err(io::Error::other)?;
        write(stream, [self.id, micros]).await
    }
}

impl Answer {
    /// `None` if the other end has closed the connection.
    pub(crate) async fn read(stream: &mut TcpStream) -> io::Result<Option<Self>> {
        match read(stream).await? {
            None => Ok(None),
            Some([id, 0]) => Ok(Some(Self { id, status: Status::Done })),
            Some([id, 1]) => Ok(Some(Self { id, status: Status::TimedOut })),
            Some([_, status]) => Err(io::Error::other(format!("an answer has the unknown status {status}"))),
        }
    }

    /// `None` if the other end has closed the connection.
    pub(crate) async fn write(self, stream: &mut TcpStream) -> io::Result<Option<()>> {
        let status = match self.status {
            Status::Done => 0,
            Status::TimedOut => 1,
        };
        write(stream, [self.id, status]).await
    }
}

const GREETING: u8 = b'!';

/// Tells the client that its connection has been accepted.
pub(crate) async fn write_greeting(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_u8(GREETING).await
}

pub(crate) async fn read_greeting(stream: &mut TcpStream) -> io::Result<()> {
    match stream.read_u8().await? {
        GREETING => Ok(()),
        other => Err(io::Error::other(format!("the server greets with the unknown byte {other}"))),
    }
}

async fn read(stream: &mut TcpStream) -> io::Result<Option<[u64; 2]>> {
    let mut frame = [0; 16];
    if unless_closed(stream.read_exact(&mut frame).await)?.is_none() {
        return Ok(None);
    }
    let [first, second] = [&frame[..8], &frame[8..]]
        .map(|number| u64::from_be_bytes(number.try_into().expect("half of sixteen bytes")));
    Ok(Some([first, second]))
}

async fn write(stream: &mut TcpStream, [first, second]: [u64; 2]) -> io::Result<Option<()>> {
    let mut frame = [0; 16];
    frame[..8].copy_from_slice(&first.to_be_bytes());
    frame[8..].copy_from_slice(&second.to_be_bytes());
    unless_closed(stream.write_all(&frame).await)
}

/// `None` for the errors by which one sees that the other end has closed the connection.
pub(crate) fn unless_closed<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) => match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => Ok(None),
            _ => Err(error),
        },
    }
}

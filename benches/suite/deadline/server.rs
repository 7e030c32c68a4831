//! The server, and what a client's connection reads and writes.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex};

const HEADER: usize = 8;
const BODY: usize = 64;

pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {}

/// A client's connection.
pub(crate) struct Connection<S> {
    stream: S,
    buffer: [u8; BODY],
}

impl<S: Stream> Connection<S> {
    pub(crate) async fn write_header(&mut self) -> io::Result<()> {
        self.stream.write_all(&[1; HEADER]).await
    }

    pub(crate) async fn write_key(&mut self) -> io::Result<()> {
        self.stream.write_all(&[2; BODY]).await
    }

    pub(crate) async fn read_header(&mut self) -> io::Result<()> {
        self.stream.read_exact(&mut self.buffer[..HEADER]).await?;
        expect(&self.buffer[..HEADER], 1)
    }

    pub(crate) async fn read_value(&mut self) -> io::Result<()> {
        self.stream.read_exact(&mut self.buffer).await?;
        expect(&self.buffer, 2)
    }
}

fn expect(found: &[u8], byte: u8) -> io::Result<()> {
    if found.iter().all(|&it| it == byte) {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidData, "the server answered something else"))
    }
}

/// Answers each request with what it holds, in two writes.
async fn serve(mut stream: impl Stream) -> io::Result<()> {
    let mut buffer = [0; HEADER + BODY];
    loop {
        match stream.read_exact(&mut buffer).await {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        }
        stream.write_all(&buffer[..HEADER]).await?;
        stream.write_all(&buffer[HEADER..]).await?;
    }
}

/// Connections in memory, each to a task of the current runtime.
pub(crate) fn in_memory(count: usize) -> Vec<Connection<DuplexStream>> {
    let connect = |_| {
        // So small that the client has to wait for the server with each read and write.
        let (stream, server) = duplex(BODY / 2);
        tokio::spawn(serve(server));
        Connection { stream, buffer: [0; BODY] }
    };
    (0..count).map(connect).collect()
}

//! The clients. They have no timers, so all timers are the server's.

use std::error::Error;
use std::io;
use std::net::SocketAddr;

use indicatif::ProgressBar;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::books::{ANSWER, GIVEN_UP, LONG, SHORT};
use crate::run::Settings;

/// Of how many requests one is long.
pub(crate) const LONG_ONE_IN: u64 = 10;

/// Runs all clients to the end.
pub(crate) async fn run(
    server: SocketAddr,
    settings: Settings,
    bar: ProgressBar,
) -> Result<(), Box<dyn Error>> {
    let mut clients = JoinSet::new();
    for _ in 0..settings.clients {
        clients.spawn(one(server, settings.requests));
    }
    while let Some(client) = clients.join_next().await {
        client??;
        bar.inc(1);
    }
    Ok(())
}

/// Asks again and again, then is silent and waits for the server to close the connection.
async fn one(server: SocketAddr, requests: u64) -> io::Result<()> {
    let mut stream = TcpStream::connect(server).await?;
    stream.set_nodelay(true)?;
    for number in 1..=requests {
        let (request, expected) = if number % LONG_ONE_IN == 0 { (LONG, GIVEN_UP) } else { (SHORT, ANSWER) };
        stream.write_u8(request).await?;
        let reply = stream.read_u8().await?;
        if reply != expected {
            let text = format!("request {number} got the reply {:?}", char::from(reply));
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
    }
    match stream.read_u8().await {
        Ok(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "a reply to nothing")),
        Err(_) => Ok(()),
    }
}

//! What changes if a server's `use tokio::time` becomes `use timingwheel::time`?
//!
//! `cargo run --release -p timingwheel-examples --example switch`
//!
//! This is all that changes:
//!
//! ```diff
//! - use tokio::time;
//! + use timingwheel::time;
//! ```
//!
//! `server.rs` is compiled twice: in `on_tokio.rs` and in `on_wheel.rs`, which differ in that line. Both serve the same
//! clients, each in a runtime of its own, and have to do the same.

#![allow(clippy::duplicate_mod, reason = "that the same code runs on both is the point")]

mod on_tokio;
mod on_wheel;

use std::io;
use std::net::SocketAddr;

use timingwheel::Stats;
use timingwheel_examples::cpu_time;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Requests for work that takes longer than its limit, or not.
const LONG: u8 = b'l';
const SHORT: u8 = b's';
const ANSWER: u8 = b'a';
const GIVEN_UP: u8 = b'g';

const CLIENTS: usize = 100;
const REQUESTS: usize = 100;

/// Asks, checks each answer, and then says nothing until the server closes the connection. Every tenth request takes too long.
async fn client(server: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect(server).await?;
    for number in 1..=REQUESTS {
        let (request, expected) = if number % 10 == 0 { (LONG, GIVEN_UP) } else { (SHORT, ANSWER) };
        stream.write_u8(request).await?;
        let answer = stream.read_u8().await?;
        if answer != expected {
            return Err(io::Error::other(format!("request {number} got {:?}", char::from(answer))));
        }
    }
    match stream.read_u8().await {
        Ok(_) => Err(io::Error::other("an answer to nothing")),
        Err(_closed) => Ok(()),
    }
}

async fn run(on_wheel: bool) -> io::Result<(usize, Stats)> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        clients.spawn(client(listener.local_addr()?));
    }
    let idle = match on_wheel {
        true => tokio::spawn(on_wheel::server::serve(listener, CLIENTS)).await??,
        false => tokio::spawn(on_tokio::server::serve(listener, CLIENTS)).await??,
    };
    clients.join_all().await.into_iter().collect::<io::Result<Vec<()>>>()?;
    Ok((idle, if on_wheel { timingwheel::time::wheel().stats() } else { Stats::default() }))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{CLIENTS} clients make {REQUESTS} requests each; every tenth takes too long.\n");
    println!("| on                | answered | closed as idle | wheel's timers | CPU time |");
    println!("|-------------------|---------:|---------------:|---------------:|---------:|");
    for (name, on_wheel) in [("tokio::time", false), ("timingwheel::time", true)] {
        let before = cpu_time()?;
        let runtime = tokio::runtime::Runtime::new()?;
        let (idle, Stats { armed, .. }) = runtime.block_on(run(on_wheel))?;
        drop(runtime);
        let cpu = format!("{:.2} s", (cpu_time()? - before).as_secs_f64());
        let answers = CLIENTS * REQUESTS;
        println!("| {name:<17} | {answers:>8} | {idle:>14} | {armed:>14} | {cpu:>8} |");
        assert_eq!(idle, CLIENTS, "a silent client was not noticed");
        assert!(!on_wheel || armed > 0, "no timer reached the wheel");
    }
    println!("\nWhat it means: with another `use`, the same server did the same.");
    Ok(())
}

//! Reads from sockets, where the kernel costs most.

use std::io::Write;
use std::os::unix::net::UnixStream as Blocking;

use tokio::net::UnixStream;

use super::pool::{Peer, Pool};
use super::reads::{Bench, Load};
use super::report::table;
use crate::support::{Findings, Scale, connections_allowed, number};

const CONNECTIONS: usize = 10_000;
/// Reads of each connection in a run that have to wait.
const WAITS: usize = 2;
const READY_IN_A_ROW: usize = 8;

impl Peer for Blocking {
    fn send(&mut self, bytes: &[u8]) {
        self.write_all(bytes).expect("there is room");
    }
}

fn pair() -> (UnixStream, Blocking) {
    let (stream, peer) = Blocking::pair().expect("a pair of sockets");
    stream.set_nonblocking(true).expect("a socket");
    (UnixStream::from_std(stream).expect("within a runtime"), peer)
}

pub(super) fn run(scale: Scale) -> Findings {
    let connections = connections_allowed(scale.of(CONNECTIONS));
    let mut bench = Bench::new(|| (0..connections).map(|_| pair()).collect::<Pool<_, _>>());
    eprintln!("reads that wait");
    let waiting = bench.run(scale, Load { sweeps: WAITS, in_a_row: 1 });
    eprintln!("reads that are ready");
    let ready = bench.run(scale, Load { sweeps: 1, in_a_row: READY_IN_A_ROW });
    let note = format!("{} connections, by pairs of Unix sockets.", number(connections as f64));
    Findings {
        tables: vec![
            table("Reads of sockets, each of which has to wait", &waiting).note(note.clone()),
            table("Reads of sockets, of which one in 8 has to wait", &ready).note(note),
        ],
        ..Findings::default()
    }
}

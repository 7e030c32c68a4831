//! Reads from memory, where what a timer costs is most of what there is to see.

use std::pin::Pin;
use std::task::{Context, Waker};

use tokio::io::{AsyncWrite, DuplexStream, duplex};

use super::pool::{Peer, Pool};
use super::reads::{BARE, Bench, Load, WAYS};
use super::report::{more, table};
use crate::support::{Axis, Better, Chart, Findings, Scale};

const CONNECTIONS: usize = 10_000;
/// For the chart.
const FEWER: [usize; 2] = [100, 1_000];
/// Reads of each connection in a run that have to wait.
const WAITS: usize = 8;
const READY_IN_A_ROW: usize = 64;

impl Peer for DuplexStream {
    fn send(&mut self, bytes: &[u8]) {
        let mut cx = Context::from_waker(Waker::noop());
        let sent = Pin::new(self).poll_write(&mut cx, bytes);
        assert!(matches!(sent, std::task::Poll::Ready(Ok(sent)) if sent == bytes.len()), "there is room");
    }
}

fn pool(connections: usize) -> Pool<DuplexStream, DuplexStream> {
    (0..connections).map(|_| duplex(READY_IN_A_ROW)).collect()
}

pub(super) fn run(scale: Scale) -> Findings {
    let connections = scale.of(CONNECTIONS);
    let waits = Load { sweeps: WAITS, in_a_row: 1 };
    let mut bench = Bench::new(|| pool(connections));
    eprintln!("reads that wait");
    let waiting = bench.run(scale, waits);
    eprintln!("reads that are ready");
    let ready = bench.run(scale, Load { sweeps: 1, in_a_row: READY_IN_A_ROW });

    let mut by_connections = vec![(connections, waiting.clone())];
    for fewer in FEWER.map(|connections| scale.of(connections)) {
        eprintln!("{fewer} connections");
        // As many reads as with all of them, so that a run is as long.
        let sweeps = WAITS * connections / fewer;
        by_connections.push((fewer, Bench::new(|| pool(fewer)).run(scale, Load { sweeps, in_a_row: 1 })));
    }
    by_connections.sort_by_key(|(connections, _)| *connections);
    let mut chart = Chart::new(
        "connections",
        "What it costs to watch a read that waits",
        Better::Less,
        Axis::log("connections"),
        Axis::linear("ns more than a read that nobody watches"),
    );
    for (way, name) in WAYS.into_iter().enumerate().filter(|(way, _)| *way != BARE) {
        let points =
            by_connections.iter().map(|(connections, found)| (*connections as f64, more(found, way)));
        chart = chart.series(&name.replace('`', ""), points.collect());
    }
    let waiting = table("Reads of 10,000 connections from memory, each of which has to wait", &waiting).note(
        "A peer sends one byte at a time, which a task wakes up for, reads, and waits again. With a guard the wheel has \
         seen one timer for each connection in all; with timeouts, one for each read.",
    );
    let ready = table("Reads of 10,000 connections from memory, of which one in 64 has to wait", &ready);
    Findings { tables: vec![waiting, ready], charts: vec![chart] }
}

//! A proxy on loopback that cuts connections, holds what goes through them, or delays it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

const NONE: u8 = 0;
const CUT: u8 = 1;
const HOLD: u8 = 2;
const DELAY: u8 = 3;

pub(crate) struct Proxy {
    port: u16,
    fault: Arc<AtomicU8>,
    /// How many connections there were, and up to which they are half open: nothing comes through.
    connections: Arc<AtomicU64>,
    half_open: Arc<AtomicU64>,
    _runtime: Runtime,
}

impl Proxy {
    /// One before this port.
    pub(crate) fn start(to: u16) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let fault = Arc::new(AtomicU8::new(NONE));
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let shown = Arc::clone(&fault);
        let (connections, half_open) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let (count, silent) = (Arc::clone(&connections), Arc::clone(&half_open));
        runtime.spawn(async move {
            while let Ok((from, _)) = listener.accept().await {
                if shown.load(Ordering::SeqCst) == CUT {
                    continue;
                }
                let Ok(to) = TcpStream::connect(("127.0.0.1", to)).await else { continue };
                let ((read, write), (to_read, to_write)) = (from.into_split(), to.into_split());
                let number = count.fetch_add(1, Ordering::SeqCst) + 1;
                let faults = Faults { fault: shown.clone(), number, half_open: silent.clone() };
                let (one, two) = (faults.clone(), faults);
                tokio::spawn(async move {
                    // One that ends ends the other.
                    tokio::select! {
                        () = carry(read, to_write, one) => {}
                        () = carry(to_read, write, two) => {}
                    }
                });
            }
        });
        Self { port, fault, connections, half_open, _runtime: runtime }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Nothing comes through the connections that there are any more. They are not closed, and new ones work.
    pub(crate) fn half_open(&self) {
        self.half_open.store(self.connections.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    pub(crate) fn fault(&self, name: &str) {
        let fault = match name {
            "cut" => CUT,
            "hold" => HOLD,
            "delay" => DELAY,
            _ => NONE,
        };
        self.fault.store(fault, Ordering::SeqCst);
    }
}

/// A proxy before a database, and its address through that.
pub(crate) async fn before(url: &str) -> (Proxy, String) {
    let (server, database) = url.rsplit_once('/').expect("an address");
    let port = server.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    // It has a runtime of its own.
    let proxy = tokio::task::spawn_blocking(move || Proxy::start(port)).await.expect("a proxy");
    let through = format!("postgres://postgres@127.0.0.1:{}/{database}", proxy.port());
    (proxy, through)
}

/// The faults of a connection.
#[derive(Clone)]
struct Faults {
    fault: Arc<AtomicU8>,
    number: u64,
    half_open: Arc<AtomicU64>,
}

async fn carry(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    Faults { fault, number, half_open }: Faults,
) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        if fault.load(Ordering::SeqCst) == DELAY {
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        // What is held goes on later, as after a fault of the network.
        while fault.load(Ordering::SeqCst) == HOLD || number <= half_open.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        if fault.load(Ordering::SeqCst) == CUT || to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}

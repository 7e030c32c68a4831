//! Many calls at once over real connections, on processors that have other work too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_deadline::DeadlineExt;
use timingwheel_deadline::wire::{ClientLayer, Header, ServerLayer};
use timingwheel_recipes::tonic::in_time;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::Code;
use tonic::transport::{Endpoint, Server};
use tower::ServiceBuilder;

use crate::hop::hop_client::HopClient;
use crate::hop::hop_server::HopServer;
use crate::{Last, each_kind};

/// Keeps the processors busy until it is dropped.
struct Busy(Arc<AtomicBool>);

impl Busy {
    fn new(threads: usize) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        for _ in 0..threads {
            let is_over = is_over.clone();
            std::thread::spawn(move || while !is_over.load(Ordering::Relaxed) {});
        }
        Self(is_over)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// tonic's own server and channel keep the time of the header too, by tokio's timers. The client's stream and its response end
/// at the same time, each in a task of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tonics_own_server_and_channel_give_one_status_always_the_same() {
    let wheel = TimingWheel::new();
    let (dropped, _drops) = mpsc::unbounded_channel();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    // As in the recipe.
    let served = Server::builder()
        .http2_max_pending_accept_reset_streams(Some(1_000))
        .layer(ServerLayer::new(&wheel, Header::Grpc))
        .add_service(HopServer::new(Last(dropped.clone())))
        .serve_with_incoming(TcpListenerStream::new(listener));
    tokio::spawn(served);
    let channel = || Endpoint::from_shared(url.clone()).expect("a URL").connect_lazy();
    let client = HopClient::new(in_time(channel()));
    // A margin makes the channel's timer the first.
    let layer = ClientLayer::new(Header::Grpc).margin(Duration::from_millis(5));
    let with_margin = HopClient::new(ServiceBuilder::new().layer(layer).service(channel()));
    let _busy = Busy::new(2);
    for kind in 0..4 {
        let mut calls = JoinSet::new();
        for i in 0..200 {
            let deadline = wheel.deadline_in(Duration::from_millis(100 + i % 50));
            calls.spawn(deadline.scope(each_kind(client.clone(), kind)));
            // What the client streams has no end without the recipe.
            if kind == 0 || kind == 2 {
                calls.spawn(deadline.scope(each_kind(with_margin.clone(), kind)));
            }
        }
        for (_, status) in calls.join_all().await {
            assert_eq!(status.code(), Code::DeadlineExceeded, "{kind}: {status:?}");
        }
        // Each handler has a sender, and so have the server and this test.
        let works = async {
            while dropped.strong_count() > 2 {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(Duration::from_secs(30), works).await.expect("all work ends");
    }
}

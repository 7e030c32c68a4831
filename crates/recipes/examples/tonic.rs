//! How does a deadline travel between tonic's servers? A gives B 300 ms, and B calls C, which would work for an hour.
//!
//! `cargo run -p timingwheel-recipes --example tonic`

#[path = "../tests/grpc/text.rs"]
mod text;

/// What tonic generates.
#[allow(clippy::all, clippy::pedantic, unreachable_pub, unused_qualifications, reason = "generated")]
mod work {
    include!(concat!(env!("OUT_DIR"), "/recipes.Work.rs"));
}

use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_deadline::wire::{Header, ServerLayer};
use timingwheel_deadline::{Deadline, DeadlineExt};
use timingwheel_recipes::tonic::in_time;
use tokio::time::sleep;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};
use work::work_client::WorkClient;
use work::work_server::{Work, WorkServer};

/// Calls the next server, or works if there is none.
struct Hop(&'static str, Option<Channel>);

#[tonic::async_trait]
impl Work for Hop {
    async fn run(&self, request: Request<String>) -> Result<Response<String>, Status> {
        let (name, deadline) = (self.0, Deadline::current().expect("the layer makes one current"));
        println!("{name} has {:.0?} left", deadline.remaining());
        tokio::spawn(async move { println!("{name}: {}", deadline.ended().await) });
        if let Some(next) = &self.1 {
            return WorkClient::new(in_time(next.clone())).run(request.into_inner()).await;
        }
        sleep(Duration::from_secs(3600)).await;
        Ok(Response::new("done".to_owned()))
    }
}

/// Serves on a free port, and returns a channel to there.
fn serve(wheel: &TimingWheel, hop: Hop) -> Channel {
    let incoming = TcpIncoming::bind(([127, 0, 0, 1], 0).into()).expect("a free port");
    let url = format!("http://{}", incoming.local_addr().expect("it is bound"));
    let server =
        Server::builder().layer(ServerLayer::new(wheel, Header::Grpc)).add_service(WorkServer::new(hop));
    tokio::spawn(server.serve_with_incoming(incoming));
    Endpoint::from_shared(url).expect("a URL").connect_lazy()
}

#[tokio::main]
async fn main() {
    let wheel = TimingWheel::new();
    let c = serve(&wheel, Hop("C", None));
    let b = serve(&wheel, Hop("B", Some(c)));
    let call = async { WorkClient::new(in_time(b)).run("work".to_owned()).await };
    let status =
        wheel.deadline_in(Duration::from_millis(300)).scope(call).await.expect_err("C works for an hour");
    println!("A is told: {:?}, {}", status.code(), status.message());
    sleep(Duration::from_millis(50)).await;
    assert_eq!(status.code(), tonic::Code::DeadlineExceeded);
    println!("\nWhat it means: A's deadline ended the work of B and of C.");
}

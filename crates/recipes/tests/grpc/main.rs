//! A deadline that travels by clients and servers that tonic generated.

mod chain;
mod load;
mod text;

use std::future::pending;
use std::pin::Pin;
use std::time::Duration;

use timingwheel_deadline::wire::{Error, InTime};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use tokio_stream::{Stream, StreamExt};
use tonic::body::Body;
use tonic::{Request, Response, Status, Streaming};
use tower::BoxError;
use tower::util::BoxCloneSyncService;

#[allow(clippy::all, clippy::pedantic, unreachable_pub, unused_qualifications, reason = "generated")]
mod hop {
    include!(concat!(env!("OUT_DIR"), "/recipes.Hop.rs"));
}

use hop::hop_client::HopClient;
use hop::hop_server::Hop;

type Next = HopClient<BoxCloneSyncService<hyper::Request<Body>, hyper::Response<InTime<Body>>, Error>>;

type Texts = Pin<Box<dyn Stream<Item = Result<String, Status>> + Send>>;

/// C: works for an hour, and tells when its work was dropped.
struct Last(mpsc::UnboundedSender<Duration>);

struct TellsDrop(mpsc::UnboundedSender<Duration>, Instant);

impl Drop for TellsDrop {
    fn drop(&mut self) {
        let _ = self.0.send(self.1.elapsed());
    }
}

const HOUR: Duration = Duration::from_secs(3_600);

#[tonic::async_trait]
impl Hop for Last {
    async fn call(&self, request: Request<String>) -> Result<Response<String>, Status> {
        let _tells = TellsDrop(self.0.clone(), Instant::now());
        sleep(HOUR).await;
        Ok(Response::new(request.into_inner() + " and C"))
    }

    type WatchStream = Texts;

    /// Sends its head and a text, and then nothing.
    async fn watch(&self, request: Request<String>) -> Result<Response<Texts>, Status> {
        let tells = TellsDrop(self.0.clone(), Instant::now());
        let rest = tokio_stream::pending().map(move |text| {
            let _keeps = &tells;
            text
        });
        let first = tokio_stream::once(Ok(request.into_inner() + " and C"));
        Ok(Response::new(Box::pin(first.chain(rest))))
    }

    async fn send(&self, request: Request<Streaming<String>>) -> Result<Response<String>, Status> {
        let _tells = TellsDrop(self.0.clone(), Instant::now());
        let mut texts = request.into_inner();
        while texts.message().await?.is_some() {}
        pending().await
    }

    type ChatStream = Texts;

    async fn chat(&self, request: Request<Streaming<String>>) -> Result<Response<Texts>, Status> {
        let tells = TellsDrop(self.0.clone(), Instant::now());
        let texts = request.into_inner().map(move |text| {
            let _keeps = &tells;
            text.map(|text| text + " and C")
        });
        Ok(Response::new(Box::pin(texts)))
    }
}

/// A call of each kind, until its stream ends. Returns how many texts came, and the status.
async fn each_kind<S>(mut b: HopClient<S>, kind: usize) -> (usize, Status)
where
    S: tonic::client::GrpcService<Body>,
    S::Error: Into<BoxError>,
    S::ResponseBody: tonic::codegen::Body<Data = bytes::Bytes> + Send + 'static,
    <S::ResponseBody as tonic::codegen::Body>::Error: Into<BoxError> + Send,
{
    // The client goes on sending as long as the call lasts.
    let texts = || tokio_stream::once("A".to_owned()).chain(tokio_stream::pending());
    let texts = match kind {
        0 => return (0, b.call("A".to_owned()).await.unwrap_err()),
        1 => b.send(texts()).await.map(|_| unreachable!("C does not answer")),
        2 => b.watch("A".to_owned()).await,
        _ => b.chat(texts()).await,
    };
    let mut texts = match texts {
        Ok(texts) => texts.into_inner(),
        Err(status) => return (0, status),
    };
    let mut count = 0;
    loop {
        match texts.message().await {
            Ok(Some(_)) => count += 1,
            Ok(None) => return (count, Status::ok("it has no end")),
            Err(status) => return (count, status),
        }
    }
}

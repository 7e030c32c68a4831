//! A deadline that travels: real servers of hyper's that call each other.

use std::convert::Infallible;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::header::HeaderName;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use timingwheel::TimingWheel;
use timingwheel_deadline::wire::{ClientLayer, Error, Header, ServerLayer};
use timingwheel_deadline::{Deadline, DeadlineExt, Ended};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, mpsc};
use tower::{Service, ServiceBuilder, ServiceExt, service_fn};

type Body = Empty<Bytes>;

fn millis() -> Header {
    Header::Millis(HeaderName::from_static("x-time-left"))
}

/// Serves `service` on loopback, and returns its address.
async fn serve<S, B>(service: S) -> SocketAddr
where
    S: Service<Request<hyper::body::Incoming>, Response = Response<B>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
    B: hyper::body::Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service.clone()));
            tokio::spawn(connection);
        }
    });
    address
}

/// Calls a server, with the current deadline.
async fn call(address: SocketAddr) -> Result<StatusCode, Box<dyn std::error::Error + Send + Sync>> {
    let stream = TcpStream::connect(address).await?;
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let sender = Arc::new(Mutex::new(sender));
    let send = service_fn(move |request: Request<Body>| {
        let sender = sender.clone();
        async move { sender.lock().await.send_request(request).await }
    });
    let client = ServiceBuilder::new().layer(ClientLayer::new(millis())).service(send);
    let request = Request::builder().uri("/").header("host", "test").body(Body::new())?;
    Ok(client.oneshot(request).await?.status())
}

struct TellsDrop(mpsc::UnboundedSender<&'static str>, &'static str);

impl Drop for TellsDrop {
    fn drop(&mut self) {
        let _ = self.0.send(self.1);
    }
}

/// Two servers: B calls C, and C never answers.
async fn chain(wheel: &TimingWheel) -> (SocketAddr, mpsc::UnboundedReceiver<&'static str>) {
    let (dropped, receiver) = mpsc::unbounded_channel();
    let layer = ServerLayer::new(wheel, millis());
    let at_c = dropped.clone();
    let c = ServiceBuilder::new().layer(layer.clone()).service_fn(move |_| {
        let dropped = at_c.clone();
        // In a task of its own, which ends with the deadline too.
        let work = async move {
            let _tells = TellsDrop(dropped, "C");
            pending::<()>().await;
        };
        let task = tokio::spawn(Deadline::run_current(work));
        async move {
            let _end = task.await;
            Ok(Response::new(Body::new()))
        }
    });
    let c = serve(c).await;
    let b = ServiceBuilder::new().layer(layer).service_fn(move |_| {
        let tells = TellsDrop(dropped.clone(), "B");
        async move {
            let _tells = tells;
            let mut response = Response::new(Body::new());
            *response.status_mut() = call(c).await.unwrap_or(StatusCode::GATEWAY_TIMEOUT);
            Ok(response)
        }
    });
    (serve(b).await, receiver)
}

#[tokio::test]
async fn the_deadline_of_a_ends_the_work_of_c() {
    let wheel = TimingWheel::new();
    let (b, mut dropped) = chain(&wheel).await;
    let deadline = wheel.deadline_in(Duration::from_millis(300));
    // C has less than B, and B less than A, so the callee mostly answers first.
    match deadline.scope(call(b)).await {
        Ok(status) => assert_eq!(status, StatusCode::GATEWAY_TIMEOUT),
        Err(error) => {
            assert!(matches!(error.downcast_ref(), Some(Error::Ended(Ended::Passed))), "{error:?}");
        }
    }
    let mut both = [dropped.recv().await.unwrap(), dropped.recv().await.unwrap()];
    both.sort_unstable();
    assert_eq!(both, ["B", "C"]);
}

#[tokio::test]
async fn nobody_works_for_a_client_that_has_gone() {
    let wheel = TimingWheel::new();
    let (b, mut dropped) = chain(&wheel).await;
    let deadline = wheel.deadline_in(Duration::from_secs(3600));
    let client = tokio::spawn(deadline.scope(call(b)));
    // Until C has its deadline armed, and A and B theirs.
    while wheel.pending() < 3 {
        tokio::task::yield_now().await;
    }
    client.abort();
    let mut both = [dropped.recv().await.unwrap(), dropped.recv().await.unwrap()];
    both.sort_unstable();
    assert_eq!(both, ["B", "C"]);
}

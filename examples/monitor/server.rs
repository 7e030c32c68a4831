//! The server that Prometheus and a load balancer would ask.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use metrics_exporter_prometheus::PrometheusHandle;
use timingwheel::monitor::{Limits, Unhealthy};
use timingwheel::{Stats, TimingWheel, metrics};
use tokio::net::TcpListener;

use crate::BoxError;

/// What this wheel's users would call a fault. So generous that a busy machine keeps to it.
fn limits(tasks: usize) -> Limits {
    Limits::new()
        .pending(2 * tasks)
        .lateness(0.99, Duration::from_millis(500))
        .lock_hold(Duration::from_millis(500))
        .overdue(Duration::from_secs(1))
        .refused(0)
        .wakers_panicked(0)
        .jobs_panicked(0)
}

#[derive(Clone)]
pub(crate) struct Server {
    wheel: TimingWheel,
    exporter: PrometheusHandle,
    limits: Limits,
    /// As they were when the health was last asked for.
    last: Arc<Mutex<Stats>>,
}

impl Server {
    pub(crate) fn new(wheel: TimingWheel, exporter: PrometheusHandle, tasks: usize) -> Self {
        let last = Arc::new(Mutex::new(wheel.stats()));
        Self { wheel, exporter, limits: limits(tasks), last }
    }

    pub(crate) async fn run(self, listener: TcpListener) -> Result<(), BoxError> {
        loop {
            let (stream, _) = listener.accept().await?;
            let server = self.clone();
            tokio::spawn(async move {
                let answer = service_fn(|request| {
                    let answer = server.answer(&request);
                    async move { Ok::<_, Infallible>(answer) }
                });
                // An error is that of a client that left.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
            });
        }
    }

    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let (status, text) = match request.uri().path() {
            "/metrics" => {
                metrics::record(&self.wheel);
                (StatusCode::OK, self.exporter.render())
            }
            "/health" => match self.health() {
                Ok(()) => (StatusCode::OK, "the timing wheel is healthy".to_owned()),
                Err(unhealthy) => (StatusCode::SERVICE_UNAVAILABLE, unhealthy.to_string()),
            },
            path => (StatusCode::NOT_FOUND, format!("there are /metrics and /health, and not {path}")),
        };
        let mut response = Response::new(Full::from(text));
        *response.status_mut() = status;
        response
    }

    /// By what happened since this was asked last.
    fn health(&self) -> Result<(), Unhealthy> {
        let now = self.wheel.stats();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let since = now.since(&last);
        *last = now;
        since.check(&self.limits)
    }
}

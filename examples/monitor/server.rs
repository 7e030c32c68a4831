//! The server that Prometheus, a load balancer and people ask.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use metrics_exporter_prometheus::PrometheusHandle;
use timingwheel::metrics::WheelMetrics;
use timingwheel::{Stats, TimingWheel};
use tokio::net::TcpListener;
use tokio::time::{Instant, interval};

use crate::figures::Figures;
use crate::run::BoxError;
use crate::settings::Bounds;
use crate::{answer_health, answer_prometheus};

/// Health is judged by what happened in so many seconds.
const SECONDS: usize = 10;
const PAGE: &str = include_str!("page.html");

#[derive(Clone)]
pub(crate) struct Server {
    wheel: TimingWheel,
    wheel_size: usize,
    metrics: Arc<WheelMetrics>,
    exporter: PrometheusHandle,
    bounds: Bounds,
    begun: Instant,
    /// As they were in each of the last seconds, the oldest first.
    lately: Arc<Mutex<VecDeque<Stats>>>,
}

impl Server {
    pub(crate) fn new(
        wheel: TimingWheel,
        wheel_size: usize,
        exporter: PrometheusHandle,
        bounds: Bounds,
    ) -> Self {
        let metrics = Arc::new(WheelMetrics::new(&wheel));
        let lately = Arc::new(Mutex::new(VecDeque::from([wheel.stats()])));
        Self { wheel, wheel_size, metrics, exporter, bounds, begun: Instant::now(), lately }
    }

    pub(crate) async fn run(self, listener: TcpListener) -> Result<(), BoxError> {
        // On tokio's timers, so that the wheel has the load's only.
        let mut seconds = interval(Duration::from_secs(1));
        loop {
            let (stream, _) = tokio::select! {
                accepted = listener.accept() => accepted?,
                _ = seconds.tick() => {
                    self.remember();
                    continue;
                }
            };
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

    fn lately(&self) -> MutexGuard<'_, VecDeque<Stats>> {
        self.lately.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self) {
        let mut lately = self.lately();
        if lately.len() == SECONDS {
            lately.pop_front();
        }
        lately.push_back(self.wheel.stats());
    }

    fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let Self { wheel, wheel_size, metrics, exporter, bounds, begun, .. } = self;
        // There is one from the beginning.
        let earlier = self.lately().front().cloned().unwrap_or_default();
        match request.uri().path() {
            "/" => text("text/html; charset=utf-8", PAGE),
            "/metrics" => answer_prometheus(metrics, exporter),
            "/health" => answer_health(wheel, &earlier, &bounds.limits()),
            "/stats.json" => {
                let figures = Figures::of(wheel, begun.elapsed(), *wheel_size, *bounds, &earlier);
                match serde_json::to_vec(&figures) {
                    Ok(json) => text("application/json", json),
                    Err(error) => with_status(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
                }
            }
            path => with_status(
                StatusCode::NOT_FOUND,
                format!("there are /, /metrics, /health and /stats.json, and not {path}"),
            ),
        }
    }
}

fn text(kind: &'static str, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn with_status(status: StatusCode, words: String) -> Response<Full<Bytes>> {
    let mut response = text("text/plain; charset=utf-8", words);
    *response.status_mut() = status;
    response
}

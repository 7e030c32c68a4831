//! The server, and the figures of its page.

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
use indicatif::HumanCount;
use metrics_exporter_prometheus::PrometheusHandle;
use serde::Serialize;
use timingwheel::metrics::WheelMetrics;
use timingwheel::monitor::{Exceeded, Histogram, Unhealthy};
use timingwheel::{Stats, TimingWheel};
use tokio::net::TcpListener;
use tokio::time::{Instant, interval};

use crate::{Bounds, BoxError, answer_health, answer_prometheus};

// The server that Prometheus, a load balancer and people ask.

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

// The figures of the page for people, as JSON.

#[derive(Serialize)]
pub(crate) struct Figures<'a> {
    name: &'a str,
    /// Since the server began. The page makes rates by it.
    at_ms: u64,
    tick_ns: u64,
    wheel_size: usize,
    pending: usize,
    levels: Vec<Level>,
    armed: u64,
    fired: u64,
    cancelled: u64,
    /// Since the wheel was made: the page shows what came in the last minute.
    lateness: Vec<Bucket>,
    ended: bool,
    healthy: bool,
    checks: Vec<Check>,
}

/// A level of the wheel: how long a slot of it is, how far it reaches, and how many timers stand on it.
#[derive(Serialize)]
struct Level {
    slot_ns: u64,
    reaches_ns: u64,
    pending: usize,
}

#[derive(Serialize)]
struct Bucket {
    up_to_ns: u64,
    count: u64,
}

#[derive(Serialize)]
struct Check {
    what: &'static str,
    value: String,
    limit: String,
    ok: bool,
}

/// A time that does not fit is centuries.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl<'a> Figures<'a> {
    pub(crate) fn of(
        wheel: &'a TimingWheel,
        up: Duration,
        wheel_size: usize,
        bounds: Bounds,
        earlier: &Stats,
    ) -> Self {
        let stats = wheel.stats();
        let lately = stats.since(earlier);
        let unhealthy = lately.check(&bounds.limits()).err();
        let tick_ns = nanos(wheel.tick());
        // A slot is as wide as so many of the level below: see `timingwheel::wheel`.
        let bits = wheel_size.ilog2();
        let growth = 1 << (bits / 2).min(bits.saturating_sub(3)).max(1);
        let level = |(level, &pending): (usize, &usize)| {
            let slot_ns = (0..level).fold(tick_ns, |nanos, _| nanos.saturating_mul(growth));
            Level { slot_ns, reaches_ns: slot_ns.saturating_mul(wheel_size as u64), pending }
        };
        Self {
            name: wheel.name(),
            at_ms: u64::try_from(up.as_millis()).unwrap_or(u64::MAX),
            tick_ns,
            wheel_size,
            pending: stats.pending,
            levels: stats.pending_by_level.iter().enumerate().map(level).collect(),
            armed: stats.armed,
            fired: stats.fired,
            cancelled: stats.cancelled,
            lateness: buckets(&stats.lateness),
            ended: stats.ended,
            healthy: unhealthy.is_none(),
            checks: checks(&lately, bounds, unhealthy.as_ref()),
        }
    }
}

fn buckets(histogram: &Histogram) -> Vec<Bucket> {
    histogram
        .buckets()
        .map(|(durations, count)| Bucket { up_to_ns: nanos(*durations.end()), count })
        .collect()
}

fn checks(stats: &Stats, bounds: Bounds, unhealthy: Option<&Unhealthy>) -> Vec<Check> {
    let ok = |limit| !unhealthy.is_some_and(|unhealthy| unhealthy.exceeds(limit));
    let count = |what, value: u64, limit: u64, ok| Check {
        what,
        value: HumanCount(value).to_string(),
        limit: HumanCount(limit).to_string(),
        ok,
    };
    let millis = |time: Duration| format!("{:.3}", time.as_secs_f64() * 1e3);
    let time = |what, value: String, limit: Duration, ok| Check {
        what,
        value,
        limit: format!("{} ms", HumanCount(nanos(limit) / 1_000_000)),
        ok,
    };
    // Histograms count in ranges, so the limit is compared with a range.
    let range = |histogram: &Histogram, value: Option<Duration>| {
        let is_in = |value: Duration| histogram.buckets().find(|(range, _)| range.contains(&value));
        value.and_then(is_in).map_or_else(
            || "–".to_owned(),
            |(range, _)| format!("{} to {} ms", millis(*range.start()), millis(*range.end())),
        )
    };
    vec![
        count("timers pending", stats.pending as u64, bounds.pending as u64, ok(Exceeded::Pending)),
        time(
            "lateness of timers: 99 % are within",
            range(&stats.lateness, stats.lateness.quantile(0.99)),
            bounds.lateness,
            ok(Exceeded::Lateness),
        ),
        time(
            "how far the wheel is behind",
            format!("{} ms", millis(stats.overdue)),
            bounds.overdue,
            ok(Exceeded::Overdue),
        ),
        count("timers refused, the wheel being full", stats.refused, 0, ok(Exceeded::Refused)),
        count("wakers that panicked", stats.wakers_panicked, 0, ok(Exceeded::WakersPanicked)),
        count(
            "watchdogs missing, so that a blocked worker may hold timers up",
            stats.unwatched.into(),
            0,
            ok(Exceeded::Unwatched),
        ),
    ]
}

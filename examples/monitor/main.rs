//! How do I watch a wheel in production?
//!
//! `cargo run --release -p timingwheel-examples --all-features --example monitor`, or with `-- --help` for the settings
//! and `-- --short` for a quick look. To look at the page for people, give it time and a port: `-- --seconds 600 --port
//! 9000`.
//!
//! The functions below are all that a program needs; the rest is a load. Many tasks make calls with timeouts on a wheel with
//! a bound. A hyper server answers `/metrics` for Prometheus, `/health` for a load balancer, and `/`, a page for people. A
//! scraper asks for all three. At the end the wheel is filled until it refuses timers, and its health has to show that. If
//! a scrape does not add up (a counter went back, more or fewer timers were armed than fired, were cancelled and are
//! pending, the tasks counted others, the health is wrong) the program says so and exits with 1.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use timingwheel::metrics::{self, BUCKETS, WheelMetrics};
use timingwheel::monitor::{Limits, Unhealthy};
use timingwheel::{Stats, TimingWheel};

/// Prometheus's exporter, with buckets for the wheel's histograms. Call it once.
fn install_exporter() -> Result<PrometheusHandle, BuildError> {
    let histograms = Matcher::Prefix("timingwheel_".to_owned());
    let exporter =
        PrometheusBuilder::new().set_buckets_for_metric(histograms, &BUCKETS)?.install_recorder()?;
    metrics::describe();
    Ok(exporter)
}

/// The answer to Prometheus, which refuses it without its content type.
fn answer_prometheus(wheel: &WheelMetrics, exporter: &PrometheusHandle) -> Response<Full<Bytes>> {
    wheel.record();
    let mut response = Response::new(Full::from(exporter.render()));
    let text = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, text);
    response
}

/// The answer to a load balancer: whether all went well since `earlier`, some seconds ago.
fn answer_health(wheel: &TimingWheel, earlier: &Stats, limits: &Limits) -> Response<Full<Bytes>> {
    let health = wheel.stats().since(earlier).check(limits);
    let mut response =
        Response::new(Full::from(health.as_ref().map_or_else(Unhealthy::to_string, |()| "healthy".into())));
    *response.status_mut() = if health.is_ok() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    response
}

mod figures;
#[path = "../shared/ledger.rs"]
mod ledger;
#[path = "../shared/limits.rs"]
mod limits;
mod load;
#[path = "../shared/machine.rs"]
mod machine;
mod report;
mod run;
mod scraper;
mod server;
mod settings;

#[tokio::main]
async fn main() -> std::process::ExitCode {
    run::main().await
}

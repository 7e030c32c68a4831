//! How do I watch a wheel in production: Prometheus, a health check, and a page for people?
//!
//! `cargo run --release -p timingwheel-examples --all-features --example monitor`, or with `-- 600` to look at the page for
//! ten minutes.
//!
//! The first functions are the code to copy. The rest is a server, a load, and a look at what the server answers.

use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use timingwheel::metrics::{BUCKETS, WheelMetrics};
use timingwheel::monitor::Limits;
use timingwheel::{Stats, TimingWheel, metrics};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep};

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
    answer("text/plain; version=0.0.4; charset=utf-8", exporter.render())
}

/// What is wrong since `earlier`, some seconds ago, or "healthy".
fn health(wheel: &TimingWheel, earlier: &Stats) -> Result<(), String> {
    let mut limits = Limits::default();
    limits.pending = Some(MOST_PENDING);
    limits.lateness = vec![(0.99, Duration::from_millis(500))];
    limits.overdue = Some(Duration::from_secs(1));
    limits.refused = Some(0);
    limits.wakers_panicked = Some(0);
    wheel.stats().since(earlier).check(&limits).map_err(|unhealthy| unhealthy.to_string())
}

/// The answer to a load balancer.
fn answer_health(wheel: &TimingWheel, earlier: &Stats) -> Response<Full<Bytes>> {
    match health(wheel, earlier) {
        Ok(()) => answer("text/plain; charset=utf-8", "healthy"),
        Err(unhealthy) => {
            let mut response = answer("text/plain; charset=utf-8", unhealthy);
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            response
        }
    }
}

/// The figures of the page for people, as JSON.
fn answer_figures(wheel: &TimingWheel, earlier: &Stats) -> Response<Full<Bytes>> {
    let stats = wheel.stats();
    let late = stats.since(earlier).lateness.quantile(0.99).unwrap_or_default().as_secs_f64() * 1e3;
    let health = health(wheel, earlier).err().unwrap_or_else(|| "healthy".into());
    let Stats { pending, armed, fired, cancelled, .. } = stats;
    let levels = stats.pending_by_level;
    answer(
        "application/json",
        format!(
            r#"{{"health":{health:?},"pending":{pending},"armed":{armed},"fired":{fired},"cancelled":{cancelled},"late_ms":{late},"levels":{levels:?}}}"#
        ),
    )
}

fn answer(kind: &'static str, text: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text.into()));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

// The server, a load, and a look at the answers.

const CLIENTS: usize = 500;
/// Each client has a call with its limit.
const MOST_PENDING: usize = 2 * CLIENTS + 100;

async fn serve(listener: TcpListener, wheel: TimingWheel, exporter: PrometheusHandle) -> std::io::Result<()> {
    let metrics = WheelMetrics::new(&wheel);
    let mut earlier = wheel.stats();
    let mut every = interval(Duration::from_secs(10));
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted?.0,
            _ = every.tick() => {
                earlier = wheel.stats();
                continue;
            }
        };
        let service = service_fn(async |request: Request<Incoming>| {
            Ok::<_, Infallible>(match request.uri().path() {
                "/" => answer("text/html; charset=utf-8", include_str!("page.html")),
                "/metrics" => answer_prometheus(&metrics, &exporter),
                "/health" => answer_health(&wheel, &earlier),
                "/stats.json" => answer_figures(&wheel, &earlier),
                _ => {
                    let mut response =
                        answer("text/plain; charset=utf-8", "there are /, /metrics and /health");
                    *response.status_mut() = StatusCode::NOT_FOUND;
                    response
                }
            })
        });
        // One at a time is enough for whoever watches. An error is that of a client that left.
        let http =
            http1::Builder::new().keep_alive(false).serve_connection(TokioIo::new(stream), service).await;
        drop(http);
    }
}

/// Makes calls with limits; one in four takes too long.
async fn load(wheel: TimingWheel, until: Instant) {
    while Instant::now() < until {
        let takes = Duration::from_micros(fastrand::u64(..40_000));
        _ = wheel.timeout(Duration::from_millis(30), sleep(takes)).await;
    }
}

/// The status and the body of what the server answers.
async fn get(server: std::net::SocketAddr, path: &str) -> std::io::Result<(String, String)> {
    let mut stream = TcpStream::connect(server).await?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
    Ok((head.split(' ').nth(1).unwrap_or_default().into(), body.into()))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let seconds = match std::env::args().nth(1) {
        None => 2,
        Some(given) => {
            given.parse().map_err(|_| format!("the seconds must be a whole number, got {given:?}"))?
        }
    };
    let wheel = TimingWheel::builder().name("calls").max_pending(MOST_PENDING).build()?;
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let server = listener.local_addr()?;
    println!("{CLIENTS} clients make calls for {seconds} s. For people: http://{server}/\n");
    tokio::spawn(serve(listener, wheel.clone(), install_exporter()?));
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut clients = JoinSet::new();
    (0..CLIENTS).for_each(|_| _ = clients.spawn(load(wheel.clone(), until)));
    clients.join_all().await;

    let (_, scraped) = get(server, "/metrics").await?;
    for name in ["armed_total", "fired_total", "cancelled_total", "pending"] {
        let line = scraped.lines().find(|line| line.starts_with(&format!("timingwheel_{name}{{")));
        println!("{}", line.ok_or_else(|| format!("Prometheus finds no {name}"))?);
    }
    let figures = get(server, "/stats.json").await?;
    assert!(figures.1.contains(r#""pending":0,"#), "timers are left: {figures:?}");

    // The bound refuses one timer, and the health check shows it.
    let timers: Vec<_> = std::iter::from_fn(|| wheel.try_sleep(Duration::from_secs(3_600)).ok()).collect();
    let (status, words) = get(server, "/health").await?;
    println!(
        "\nwith {} more timers the wheel is full: {status}\n{}",
        timers.len(),
        words.replace("; ", "\n")
    );
    assert_eq!(status, "503", "a wheel that refuses timers is not healthy");
    println!("\nWhat it means: a health check fails as soon as the wheel refuses timers.");
    Ok(())
}

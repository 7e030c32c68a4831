//! The clients, and a scraper of the metrics.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::CONTENT_TYPE;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use timingwheel::TimingWheel;
use timingwheel_examples::Count;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::BoxError;

// Clients that make calls with timeouts, and count how the calls end.

/// How long a call may take, and how long it takes: one in four takes too long.
const LIMIT: Duration = Duration::from_millis(30);
const LONGEST: Duration = Duration::from_millis(40);
/// How long a client may be silent. It never is, so its timer only moves.
const IDLE: Duration = Duration::from_secs(300);
/// How often a client's session is renewed, at the least and at the most.
const RENEWED: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(60)];

/// How many timers a client has at a time: a call with its limit, its silence, and its session.
pub(crate) const TIMERS_EACH: usize = 4;

/// The clients' counts.
#[derive(Default)]
pub(crate) struct Books {
    pub(crate) answered: Count,
    pub(crate) timed_out: Count,
    pub(crate) renewed: Count,
    pub(crate) clients: Count,
}

impl Books {
    pub(crate) fn calls(&self) -> u64 {
        self.answered.get() + self.timed_out.get()
    }

    /// How many timers they armed at the most: two for each call and two for each client; for each renewal that of the
    /// session again, and two of a call that was made again.
    pub(crate) fn most_timers(&self) -> u64 {
        2 * (self.calls() + self.clients.get()) + 3 * self.renewed.get()
    }
}

pub(crate) struct Load {
    pub(crate) wheel: TimingWheel,
    pub(crate) books: Arc<Books>,
}

impl Load {
    /// Lets so many clients make calls until the time is up.
    pub(crate) async fn run(self, clients: usize, until: Instant) -> Result<(), BoxError> {
        let mut calls = JoinSet::new();
        for number in 0..clients {
            calls.spawn(call_on(self.wheel.clone(), self.books.clone(), number as u64, until));
        }
        while let Some(ended) = calls.join_next().await {
            ended??;
        }
        Ok(())
    }
}

async fn call_on(wheel: TimingWheel, books: Arc<Books>, number: u64, until: Instant) -> Result<(), BoxError> {
    let mut random = Rng::with_seed(number);
    let mut session = pin!(wheel.sleep(between(&mut random, RENEWED)));
    let mut silence = pin!(wheel.sleep(IDLE));
    books.clients.add();
    while Instant::now() < until {
        let takes = between(&mut random, [Duration::ZERO, LONGEST]);
        tokio::select! {
            result = wheel.timeout(LIMIT, wheel.sleep(takes)) => match result {
                Ok(()) => books.answered.add(),
                Err(_) => books.timed_out.add(),
            },
            // The call that was on its way is made again.
            () = session.as_mut() => {
                session.as_mut().reset_after(between(&mut random, RENEWED));
                books.renewed.add();
            }
            () = silence.as_mut() => return Err("a client was silent for too long".into()),
        };
        silence.as_mut().reset_after(IDLE);
    }
    Ok(())
}

fn between(random: &mut Rng, [least, most]: [Duration; 2]) -> Duration {
    least + (most - least).mul_f64(random.f64())
}

// Asks for the metrics as Prometheus does, and reads them.

/// A client with a connection.
pub(crate) struct Scraper {
    requests: SendRequest<Empty<Bytes>>,
    host: String,
}

impl Scraper {
    pub(crate) async fn connect(server: SocketAddr) -> Result<Self, BoxError> {
        let stream = TcpStream::connect(server).await?;
        let (requests, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self { requests, host: server.to_string() })
    }

    pub(crate) async fn get(&mut self, path: &str) -> Result<(StatusCode, String), BoxError> {
        let response = self.ask(path).await?;
        Ok((response.status(), response.into_body()))
    }

    async fn ask(&mut self, path: &str) -> Result<Response<String>, BoxError> {
        self.requests.ready().await?;
        let request = Request::get(path).header("host", &self.host).body(Empty::new())?;
        let (head, body) = self.requests.send_request(request).await?.into_parts();
        let text = String::from_utf8(body.collect().await?.to_bytes().into())?;
        Ok(Response::from_parts(head, text))
    }

    /// As Prometheus 3 does it, which takes nothing without a content type that it knows.
    pub(crate) async fn scrape(&mut self) -> Result<Scrape, BoxError> {
        let response = self.ask("/metrics").await?;
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("none");
        if response.status() != StatusCode::OK {
            return Err(format!("the metrics are answered with {}", response.status()).into());
        }
        if !kind.starts_with("text/plain; version=0.0.4") {
            return Err(
                format!("the content type of metrics must be text/plain; version=0.0.4, got {kind}").into()
            );
        }
        Scrape::read(response.body())
    }
}

/// A summary of all scrapes, however many there are.
pub(crate) struct Scrapes {
    pub(crate) first: Scrape,
    pub(crate) last: Scrape,
    pub(crate) number: u64,
    pub(crate) most_pending: f64,
}

impl Scrapes {
    pub(crate) fn new(first: Scrape) -> Self {
        Self { last: first.clone(), number: 1, most_pending: first.value("pending"), first }
    }

    /// Adds the next, and returns what cannot be after the one before.
    pub(crate) fn add(&mut self, scrape: Scrape) -> Vec<String> {
        let problems = scrape.problems_after(&self.last);
        self.number += 1;
        self.most_pending = self.most_pending.max(scrape.value("pending"));
        self.last = scrape;
        problems
    }
}

/// The histograms of a wheel.
pub(crate) const HISTOGRAMS: [&str; 1] = ["lateness_seconds"];

/// The values of one scrape, by what stands before them in its lines.
#[derive(Clone)]
pub(crate) struct Scrape(BTreeMap<String, f64>);

impl Scrape {
    fn read(text: &str) -> Result<Self, BoxError> {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let values = lines.map(|line| {
            let (series, value) = line.rsplit_once(' ').ok_or_else(|| format!("no value in `{line}`"))?;
            Ok((series.to_owned(), value.parse()?))
        });
        for name in HISTOGRAMS {
            if !text.contains(&format!("# TYPE timingwheel_{name} histogram")) {
                return Err(
                    format!("{name} is no histogram: has the exporter been given its buckets?").into()
                );
            }
        }
        Ok(Self(values.collect::<Result<_, BoxError>>()?))
    }

    /// The value of the metric with the wheel's label only; NaN, which is equal to nothing, if it is not there.
    pub(crate) fn value(&self, name: &str) -> f64 {
        let series = format!("timingwheel_{name}{{wheel=\"calls\"}}");
        self.0.get(&series).copied().unwrap_or(f64::NAN)
    }

    /// All values of a metric that has another label, by that.
    fn by_label(&self, name: &str, label: &str) -> impl Iterator<Item = (&str, f64)> {
        let begin = format!("timingwheel_{name}{{wheel=\"calls\",{label}=\"");
        self.0.iter().filter_map(move |(series, &value)| {
            let label = series.strip_prefix(&begin)?.strip_suffix("\"}")?;
            Some((label, value))
        })
    }

    /// How many timers stand on the levels together.
    pub(crate) fn pending_on_levels(&self) -> f64 {
        self.by_label("pending_by_level", "level").map(|(_, pending)| pending).sum()
    }

    /// The bounds of a histogram in seconds, from low to high, and how many were up to each.
    pub(crate) fn buckets(&self, name: &str) -> Vec<(f64, f64)> {
        let bound = |le: &str| if le == "+Inf" { f64::INFINITY } else { le.parse().unwrap_or(f64::NAN) };
        let mut buckets: Vec<_> =
            self.by_label(&format!("{name}_bucket"), "le").map(|(le, count)| (bound(le), count)).collect();
        buckets.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        buckets
    }

    /// The bound that a share of what came after `earlier` is within, as Prometheus would find it but for its
    /// interpolation.
    pub(crate) fn quantile_since(&self, earlier: &Self, name: &str, quantile: f64) -> Option<f64> {
        let (now, before) = (self.buckets(name), earlier.buckets(name));
        let since: Vec<_> =
            now.iter().zip(&before).map(|((le, now), (_, before))| (le, now - before)).collect();
        let (_, all) = *since.last()?;
        let (le, _) = since.into_iter().find(|&(_, count)| all > 0.0 && count >= quantile * all)?;
        Some(*le)
    }

    /// Impossible values: counters that went back, and histograms that do not rise.
    pub(crate) fn problems_after(&self, earlier: &Self) -> Vec<String> {
        let mut problems = Vec::new();
        for (series, &value) in &self.0 {
            let before = earlier.0.get(series).copied().unwrap_or(0.0);
            let counts = ["_total{", "_bucket{", "_sum{", "_count{"].iter().any(|end| series.contains(end));
            if counts && value < before {
                problems.push(format!("{series} went back from {before} to {value}"));
            }
        }
        for name in HISTOGRAMS {
            let buckets = self.buckets(name);
            let count = self.value(&format!("{name}_count"));
            if !buckets.is_sorted_by(|(_, a), (_, b)| a <= b)
                || buckets.last() != Some(&(f64::INFINITY, count))
            {
                problems
                    .push(format!("the buckets of {name} do not rise to its count, {count}: {buckets:?}"));
            }
        }
        problems
    }
}

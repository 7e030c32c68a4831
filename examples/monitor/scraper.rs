//! What asks for the metrics, as Prometheus does, and reads them.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::BoxError;

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
        self.requests.ready().await?;
        let request = Request::get(path).header("host", &self.host).body(Empty::new())?;
        let response = self.requests.send_request(request).await?;
        let status = response.status();
        let text = response.into_body().collect().await?.to_bytes();
        Ok((status, String::from_utf8(text.into())?))
    }

    pub(crate) async fn scrape(&mut self) -> Result<Scrape, BoxError> {
        let (status, text) = self.get("/metrics").await?;
        if status != StatusCode::OK {
            return Err(format!("the metrics are answered with {status}: {text}").into());
        }
        Scrape::read(&text)
    }
}

/// The values of one scrape, by what stands before them in its lines.
pub(crate) struct Scrape(BTreeMap<String, f64>);

impl Scrape {
    fn read(text: &str) -> Result<Self, BoxError> {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let values = lines.map(|line| {
            let (series, value) = line.rsplit_once(' ').ok_or_else(|| format!("no value in `{line}`"))?;
            Ok((series.to_owned(), value.parse()?))
        });
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

    /// What cannot be: counters that went back, and histograms that do not rise.
    pub(crate) fn problems_after(&self, earlier: &Self) -> Vec<String> {
        let mut problems = Vec::new();
        for (series, &value) in &self.0 {
            let before = earlier.0.get(series).copied().unwrap_or(0.0);
            let counts = series.contains("_total{") || series.contains("_bucket{");
            if counts && value < before {
                problems.push(format!("{series} went back from {before} to {value}"));
            }
        }
        for name in ["lateness_seconds", "lock_hold_seconds"] {
            let buckets = self.buckets(name);
            if buckets.is_empty() || !buckets.is_sorted_by(|(_, a), (_, b)| a <= b) {
                problems.push(format!("the buckets of {name} do not rise: {buckets:?}"));
            }
        }
        problems
    }
}

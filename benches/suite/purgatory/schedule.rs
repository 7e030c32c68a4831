//! What happens when: drawn up before a run, so that the run spends its time on the timers.

use std::f64::consts::TAU;
use std::time::Duration;

use super::TIMEOUT;

/// How long requests take: log-normal, by its median and its third quartile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Latency {
    pub(super) name: &'static str,
    pub(super) file: &'static str,
    median: Duration,
    third_quartile: Duration,
}

/// The two of Kafka's experiment.
pub(super) const LATENCIES: [Latency; 2] = [
    Latency {
        name: "half within 20 ms, 75 % within 60 ms",
        file: "purgatory_20ms",
        median: Duration::from_millis(20),
        third_quartile: Duration::from_millis(60),
    },
    Latency {
        name: "half within 200 ms, 75 % within 400 ms",
        file: "purgatory_200ms",
        median: Duration::from_millis(200),
        third_quartile: Duration::from_millis(400),
    },
];

impl Latency {
    /// Many of them, among which a schedule chooses at random: cheaper than two logarithms for each request.
    fn samples(self, random: &mut fastrand::Rng) -> Vec<Duration> {
        const SAMPLES: usize = 1 << 16;
        /// Of the standard normal distribution.
        const THIRD_QUARTILE: f64 = 0.674_489_75;
        let median = self.median.as_secs_f64();
        let sigma = (self.third_quartile.as_secs_f64() / median).ln() / THIRD_QUARTILE;
        let mut normal = || (-2.0 * (1.0 - random.f64()).ln()).sqrt() * (TAU * random.f64()).cos();
        let mut samples: Vec<Duration> =
            (0..SAMPLES).map(|_| Duration::from_secs_f64(median * (sigma * normal()).exp())).collect();
        samples.sort_unstable();
        for (quantile, expected) in [(SAMPLES / 2, self.median), (SAMPLES / 4 * 3, self.third_quartile)] {
            let ratio = samples[quantile].div_duration_f64(expected);
            assert!((0.95..1.05).contains(&ratio), "a quantile of the latencies is off by {ratio}");
        }
        samples
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// The requests are numbered in the order in which they arrive.
    Arrival,
    Completion(u32),
}

/// An event in eight bytes, as there are millions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Packed {
    nanos: u32,
    /// The number of the request that is complete, or `u32::MAX` for an arrival.
    what: u32,
}

/// Arrivals and completions in order. A completion after the timeout is left out, as nobody waits for it.
pub(super) struct Schedule {
    events: Vec<Packed>,
    pub(super) requests: usize,
}

impl Schedule {
    /// `rate` requests a second, over `duration`, which is less than four seconds.
    pub(super) fn random(latency: Latency, rate: f64, duration: Duration) -> Self {
        let mut random = fastrand::Rng::with_seed(0);
        let samples = latency.samples(&mut random);
        let mut events = Vec::new();
        let mut requests = 0;
        let mut at = Duration::ZERO;
        loop {
            at += Duration::from_secs_f64(-(1.0 - random.f64()).ln() / rate);
            if at >= duration {
                break;
            }
            events.push(Packed { nanos: nanos(at), what: u32::MAX });
            let latency = samples[random.usize(..samples.len())];
            if latency < TIMEOUT {
                events.push(Packed { nanos: nanos(at + latency), what: requests });
            }
            requests += 1;
        }
        events.sort_unstable();
        Self { events, requests: requests as usize }
    }

    pub(super) fn events(&self) -> impl Iterator<Item = (Duration, Event)> {
        self.events.iter().map(|event| {
            let what = if event.what == u32::MAX { Event::Arrival } else { Event::Completion(event.what) };
            (Duration::from_nanos(event.nanos.into()), what)
        })
    }
}

fn nanos(time: Duration) -> u32 {
    u32::try_from(time.as_nanos()).expect("less than four seconds")
}

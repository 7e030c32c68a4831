//! metrics: what became of requests, and how much of their time they used.

use metrics::histogram;
use timingwheel_deadline::Ended;
use timingwheel_deadline::wire::{Outcome, Report};

/// Records a request that is over, as in `ServerLayer::new(&wheel, Header::Grpc).on_end(record)`.
pub fn record(report: &Report) {
    let outcome = match report.outcome {
        Outcome::Answered => "answered",
        Outcome::Failed => "failed",
        Outcome::Ended(Ended::Cancelled) => "cancelled",
        Outcome::Ended(_) => "late",
        Outcome::HungUp => "hung_up",
        _ => "other",
    };
    histogram!("request_seconds", "outcome" => outcome).record(report.used);
    if let Some(limit) = report.limit.filter(|limit| !limit.is_zero()) {
        // 1 at its deadline.
        let share = report.used.div_duration_f64(limit);
        histogram!("request_used_share", "outcome" => outcome).record(share);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use hyper::{Request, Response};
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};
    use timingwheel::TimingWheel;
    use timingwheel_deadline::wire::{Header, ServerLayer};
    use tokio::time::sleep;
    use tower::{Layer, ServiceExt, service_fn};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_late_request_is_recorded_with_the_whole_of_its_time() {
        let recorder = DebuggingRecorder::new();
        let _installed = metrics::set_default_local_recorder(&recorder);
        let slow = service_fn(async |_: Request<String>| {
            sleep(Duration::from_secs(3600)).await;
            Ok::<_, Infallible>(Response::new(String::new()))
        });
        let server = ServerLayer::new(&TimingWheel::new(), Header::Grpc).on_end(record).layer(slow);
        let request = Request::builder().header("grpc-timeout", "500m").body(String::new()).unwrap();
        server.oneshot(request).await.unwrap();
        let mut recorded: Vec<_> = recorder
            .snapshotter()
            .snapshot()
            .into_vec()
            .into_iter()
            .map(|(key, _, _, value)| {
                let labels: Vec<_> = key.key().labels().map(|it| it.value().to_owned()).collect();
                let DebugValue::Histogram(values) = value else { panic!("a histogram") };
                (key.key().name().to_owned(), labels, values.iter().map(|it| it.0).collect::<Vec<_>>())
            })
            .collect();
        recorded.sort_by(|a, b| a.0.cmp(&b.0));
        let late = || vec!["late".to_owned()];
        assert_eq!(
            recorded,
            [
                ("request_seconds".to_owned(), late(), vec![0.5]),
                ("request_used_share".to_owned(), late(), vec![1.0])
            ]
        );
    }
}

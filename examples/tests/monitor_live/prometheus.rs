//! The metrics, as Prometheus reads them.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::http::{get, get_json};
use crate::programs::{Folder, Monitor, Program, free_address};
use crate::{BoxError, until};

/// The value of a query that has one.
async fn query(prometheus: &str, query: &str) -> Result<f64, BoxError> {
    let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let answer = get_json(prometheus, &format!("/api/v1/query?query={encoded}")).await?;
    let value = answer["data"]["result"][0]["value"][1].as_str();
    Ok(value.ok_or_else(|| format!("{query}: no value in {answer}"))?.parse()?)
}

/// The value of a query, once it is as it has to be.
async fn once(prometheus: &str, words: &str, is_right: impl Fn(f64) -> bool) {
    let look = async || match query(prometheus, words).await? {
        value if is_right(value) => Ok(()),
        value => Err(format!("{words} is {value}").into()),
    };
    until(words, look).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs prometheus, and the example built"]
async fn a_real_prometheus_scrapes_counters_levels_and_histograms() {
    let monitor = Monitor::start();
    // Prometheus 3 refuses a scrape without it; older ones guess.
    let metrics = get(&monitor.address, "/metrics").await.expect("metrics");
    let kind = metrics.headers().get("content-type").map(|kind| kind.to_str().expect("text"));
    assert_eq!(kind, Some("text/plain; version=0.0.4; charset=utf-8"));

    let (folder, address) = (Folder::new("prometheus"), free_address());
    let config = folder.0.join("prometheus.yml");
    let target = &monitor.address;
    let jobs = format!("- job_name: monitor\n    static_configs:\n    - targets: ['{target}']");
    fs::write(&config, format!("global:\n  scrape_interval: 1s\nscrape_configs:\n  {jobs}\n"))
        .expect("a file");
    let _prometheus = Program::start(
        Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", folder.0.join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stderr(Stdio::null()),
    );

    let target = until("a scrape", async || {
        let targets = get_json(&address, "/api/v1/targets").await?;
        let target = &targets["data"]["activeTargets"][0];
        // An error stays an error: there is nothing to wait for.
        match target["health"].as_str() {
            Some("up" | "down") => Ok(target.clone()),
            _ => Err(targets.to_string().into()),
        }
    });
    let target = target.await;
    assert_eq!((&target["health"], &target["lastError"]), (&"up".into(), &"".into()), "{target}");

    for (name, kind) in [
        ("timingwheel_fired_total", "counter"),
        ("timingwheel_pending_by_level", "gauge"),
        ("timingwheel_lateness_seconds", "histogram"),
        ("timingwheel_lock_hold_seconds", "histogram"),
    ] {
        let metadata = async || {
            let metadata = get_json(&address, &format!("/api/v1/metadata?metric={name}")).await?;
            match &metadata["data"][name][0]["type"] {
                Value::String(told) => Ok(told.clone()),
                _ => Err(metadata.to_string().into()),
            }
        };
        assert_eq!(until(name, metadata).await, kind, "{name}");
    }
    once(&address, "sum(timingwheel_up)", |up| up == 1.0).await;
    once(&address, "sum(rate(timingwheel_fired_total[10s]))", |rate| rate > 0.0).await;
    let on_levels = "sum(timingwheel_pending_by_level)";
    once(&address, &format!("{on_levels} - sum(timingwheel_pending)"), |left| left == 0.0).await;
    for histogram in ["timingwheel_lateness_seconds", "timingwheel_lock_hold_seconds"] {
        let within = format!("histogram_quantile(0.5, sum by (le) (rate({histogram}_bucket[10s])))");
        once(&address, &within, |seconds| seconds > 0.0 && seconds < 60.0).await;
        let mean = format!("sum(rate({histogram}_sum[10s])) / sum(rate({histogram}_count[10s]))");
        once(&address, &mean, |seconds| seconds > 0.0 && seconds < 60.0).await;
        let all = format!("sum({histogram}_bucket{{le=\"+Inf\"}}) - sum({histogram}_count)");
        once(&address, &all, |left| left == 0.0).await;
    }
    // All that fired are in the histogram but for a few, which their owners found due.
    once(&address, "sum(timingwheel_lateness_seconds_count) / sum(timingwheel_fired_total)", |share| {
        share > 0.9 && share <= 1.0
    })
    .await;
}

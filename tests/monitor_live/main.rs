//! The example `monitor` as others see it: a real Prometheus scrapes it, and a headless Chromium shows its page.
//!
//! They need the programs `prometheus`, `chromium` and `chromedriver`, and the example in the same target folder. So they
//! run only when they are asked for, as `.ci/run` does:
//!
//! ```sh
//! cargo build --release --all-features --example monitor
//! cargo test --release --all-features --test monitor_live -- --ignored
//! ```

mod browser;
mod http;
mod page;
mod programs;
mod prometheus;

use std::time::Duration;

use tokio::time::{Instant, sleep};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How long anything may take before it counts as stuck.
const HANG_GUARD: Duration = Duration::from_secs(60);

/// Looks again and again until `look` finds something.
///
/// # Panics
/// With what it found instead, if that takes too long.
async fn until<T>(what: &str, look: impl AsyncFn() -> Result<T, BoxError>) -> T {
    let start = Instant::now();
    loop {
        match look().await {
            Ok(found) => return found,
            Err(instead) if start.elapsed() > HANG_GUARD => panic!("waiting for {what}: {instead}"),
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
}

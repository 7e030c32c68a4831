//! The rivals, as runtimes. tokio's alternative timer is one of them in a build with `--cfg tokio_unstable`.

use tokio::runtime::{Builder, Runtime};

/// In the order of [`runtimes`].
pub(super) const NAMES: &[&str] = &[
    "tokio",
    #[cfg(tokio_unstable)]
    "tokio's alternative timer",
];

pub(super) fn multi_thread(workers: usize) -> Builder {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(workers).enable_all();
    builder
}

/// One for each rival.
pub(super) fn runtimes(workers: usize) -> Vec<Runtime> {
    let runtimes = [
        multi_thread(workers).build(),
        #[cfg(tokio_unstable)]
        multi_thread(workers).enable_alt_timer().build(),
    ];
    runtimes.into_iter().map(|runtime| runtime.expect("a runtime")).collect()
}

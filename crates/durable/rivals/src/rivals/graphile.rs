//! graphile_worker, the one in Rust.
//!
//! Tuned as in its own benchmark of its local queue: 500 handlers at a time, 5,000 jobs in the queue, a poll of 5 ms, and
//! completions that are gathered for 5 ms.

use std::any::Any;
use std::time::Duration;

use graphile_worker::{IntoTaskHandlerResult, LocalQueueConfig, TaskHandler, WorkerContext, WorkerOptions};

use super::{Job, Setup};
use crate::instance::Calls;

impl TaskHandler for Job {
    const IDENTIFIER: &'static str = "job";

    async fn run(self, context: WorkerContext) -> impl IntoTaskHandlerResult {
        context.get_ext::<Calls>().expect("it was given").note(self.due_ms);
        Ok::<(), String>(())
    }
}

pub(super) async fn start(url: &str, setup: Setup, calls: &Calls) -> Box<dyn Any> {
    let mut options = WorkerOptions::default()
        .database_url(url)
        .add_extension(calls.clone())
        .listen_os_shutdown_signals(false)
        .define_job::<Job>();
    if setup == Setup::Tuned {
        options = options
            .concurrency(500)
            .poll_interval(Duration::from_millis(5))
            .complete_job_batch_delay(Duration::from_millis(5))
            .local_queue(LocalQueueConfig::default().with_size(5_000));
    }
    let worker = options.init().await.expect("a worker");
    Box::new(tokio::spawn(async move { worker.run().await.expect("it runs") }))
}

/// By its function for many jobs.
pub(super) fn store(payload: &str, all: &str) -> String {
    let spec = format!("('job', {payload}, null, due, null, null, null, null)::graphile_worker.job_spec");
    format!("select count(*) from graphile_worker.add_jobs((select array_agg({spec}) from {all}))")
}

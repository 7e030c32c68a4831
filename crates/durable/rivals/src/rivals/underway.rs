//! underway, at the level of its tasks: its jobs of several steps are built on that, and do more.

use std::any::Any;
use std::sync::Arc;

use jiff::ToSpan;
use sqlx::postgres::PgPoolOptions;
use sqlx::{Postgres, Transaction};
use underway::{Queue, Task, Worker, task};

use super::{Job, Setup};
use crate::instance::Calls;

const QUEUE: &str = "jobs";

/// Tasks that each instance works on at a time. Each takes a connection or two.
const CONCURRENCY: usize = 8;

struct Handler(Calls);

impl Task for Handler {
    type Input = Job;
    type Output = ();

    async fn execute(&self, _: Transaction<'_, Postgres>, job: Job) -> task::Result<()> {
        self.0.note(job.due_ms);
        Ok(())
    }
}

pub(super) async fn start(url: &str, setup: Setup, calls: &Calls) -> Box<dyn Any> {
    let connections = u32::try_from(3 * CONCURRENCY).expect("few");
    let pool = PgPoolOptions::new().max_connections(connections).connect(url).await.expect("a pool");
    underway::run_migrations(&pool).await.expect("its tables");
    let queue = Queue::builder().name(QUEUE).pool(pool).build().await.expect("a queue");
    let mut worker = Worker::new(Arc::new(queue), Handler(calls.clone()));
    if setup == Setup::Tuned {
        worker.set_concurrency_limit(CONCURRENCY);
    }
    Box::new(tokio::spawn(async move {
        let ended = match setup {
            Setup::AsShipped => worker.run().await,
            // Each poll sets one more to work, up to that many.
            Setup::Tuned => worker.run_every(10.milliseconds()).await,
        };
        ended.expect("it runs");
    }))
}

/// As its client does, with one statement for many. A delay counts from the moment at which the task is made.
pub(super) fn store(payload: &str, all: &str) -> String {
    format!(
        "insert into underway.task (id, task_queue_name, input, delay) \
         select gen_random_uuid(), '{QUEUE}', {payload}::jsonb, due - now() from {all}"
    )
}

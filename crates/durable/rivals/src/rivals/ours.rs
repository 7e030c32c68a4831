//! `timingwheel-durable`.

use std::any::Any;
use std::future::ready;
use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_durable::{Answer, Durable, Kind, PostgresStore, Run};

use super::Job;
use crate::instance::Calls;

impl Kind for Job {
    const KIND: &'static str = "job";
}

pub(super) async fn start(url: &str, calls: &Calls) -> Box<dyn Any> {
    let store = PostgresStore::connect(url).await.expect("a store");
    let calls = calls.clone();
    let durable = Durable::builder(&TimingWheel::new(), store)
        .lease(Duration::from_secs(30))
        .in_memory(20_000)
        .concurrency(20_000)
        .on(move |job: Job, _: Run| {
            calls.note(job.due_ms);
            ready(Ok(Answer::Done))
        })
        .start()
        .await
        .expect("a start");
    Box::new(durable)
}

/// By the function for other languages.
pub(super) fn store(payload: &str, all: &str) -> String {
    format!("select count(timingwheel.save_timer(due, 'job', {payload})) from {all}")
}

//! Some timers that are done, made again and buried.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use timingwheel::TimingWheel;
use timingwheel_durable::{Answer, Backoff, Durable, Kind, MemoryStore, Run};

#[derive(Serialize, Deserialize)]
pub(crate) struct Tick {
    pub(crate) fails: u32,
}

impl Kind for Tick {
    const KIND: &'static str = "tick";
}

pub(crate) async fn start(store: &MemoryStore) -> (TimingWheel, Durable) {
    let wheel = TimingWheel::builder().name("orders").build().unwrap();
    let durable = Durable::builder(&wheel, store.clone())
        .on(|Tick { fails }, run: Run| async move {
            if run.attempt <= fails { Err("not yet".into()) } else { Ok(Answer::Done) }
        })
        .retry::<Tick>(Backoff::fixed(Duration::from_secs(1)).jitter(0.0).tries(2))
        .start()
        .await
        .unwrap();
    (wheel, durable)
}

pub(crate) async fn work(wheel: &TimingWheel, durable: &Durable) {
    for fails in [0, 1, 9] {
        durable.after(Duration::from_secs(1), &Tick { fails }).save().await.unwrap();
    }
    durable.after(Duration::from_secs(30), &Tick { fails: 0 }).save().await.unwrap();
    wheel.sleep(Duration::from_secs(5)).await;
}

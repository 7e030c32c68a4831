//! Shards of instances without handlers, and the scan of a renewal.

use std::time::Duration;

use timingwheel_durable::store::{NewTimer, Store};
use timingwheel_durable::{Health, Kind, TimerId};

use super::server::database;
use super::support::{Calls, Tick, builder, instance, soon, store, ticks, until};

const LEASE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn an_instance_without_handlers_has_no_shards_and_its_timers_come_elsewhere() {
    let (url, calls) = (database().await, Calls::default());
    let saves = builder(store(&url).await, LEASE).start().await.expect("a start");
    until("it has renewed", async || saves.stats().renewals > 0).await;
    assert_eq!(saves.stats().shards, (0, 0));
    let works = instance(&url, LEASE, &calls).await;
    until("the other one has all shards", async || works.stats().shards == (64, 64)).await;
    for count in 0..70 {
        saves.at(soon(count), &Tick::new(count.to_string())).save().await.expect("a save");
    }
    until("all were called", async || calls.all().len() == 70).await;
    let symptoms = Health::new(LEASE).check(&saves.stats());
    assert_eq!(symptoms, []);
    // While nobody works the shards are nobody's.
    works.stop(Duration::from_secs(60)).await;
    saves.at(soon(0), &Tick::new("later")).save().await.expect("a save");
    let works = instance(&url, LEASE, &calls).await;
    until("it was called", async || calls.all().len() == 71).await;
    works.stop(Duration::from_secs(60)).await;
    saves.stop(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn a_renewal_scans_from_when_it_is_told_and_without_that_not_at_all() {
    let url = database().await;
    let store = store(&url).await;
    let owner = store.join(LEASE, ticks()).await.expect("a join");
    let dues = [soon(-3_600_000), soon(-1_000), soon(60_000)];
    let timer = |(unique, due)| NewTimer::new(TimerId::new(due, unique), Tick::KIND, b"{}");
    store.save((1..).zip(dues).map(timer).collect()).await.expect("a save");
    for (from, first) in [(None, None), (Some(dues[0]), Some(dues[0])), (Some(soon(-60_000)), Some(dues[1]))]
    {
        let renewed = store.renew(owner, from).await.expect("a renewal");
        assert_eq!(renewed.first_due, first.map(|due| TimerId::new(due, 0).first_due()), "{from:?}");
    }
}

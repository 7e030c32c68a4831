//! How many of a kind run at once in all instances.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use timingwheel_durable::{Answer, Run};

use super::server::database;
use super::support::{GUARD, Tick, builder, soon, store, until};

#[tokio::test]
async fn so_many_of_a_kind_run_at_once_in_all_instances() {
    const PLACES: usize = 5;
    let (url, running) = (database().await, Arc::new(Mutex::new((0, 0, 0))));
    let mut instances = Vec::new();
    for _ in 0..3 {
        let noted = running.clone();
        let handler = move |_: Tick, _: Run| {
            let noted = noted.clone();
            async move {
                {
                    let (now, most, all) = &mut *noted.lock().unwrap();
                    (*now, *all) = (*now + 1, *all + 1);
                    *most = (*now).max(*most);
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
                noted.lock().unwrap().0 -= 1;
                Ok(Answer::Done)
            }
        };
        let builder = builder(store(&url).await, GUARD).on(handler).concurrency_in_all::<Tick>(PLACES);
        instances.push(builder.start().await.expect("an instance"));
    }
    until("all have a part", async || instances.iter().all(|one| (21..=22).contains(&one.stats().shards.0)))
        .await;
    let due = soon(0);
    for n in 0..60 {
        instances[n % 3].at(due, &Tick::new("")).save().await.expect("a save");
    }
    until("all have run", async || running.lock().unwrap().2 == 60).await;
    let most = running.lock().unwrap().1;
    assert!((2..=PLACES).contains(&most), "{most} ran at once");
    for instance in instances {
        instance.stop(GUARD).await;
    }
}

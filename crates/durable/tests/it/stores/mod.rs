//! Each store keeps the promises of a store: random calls are compared with the database of the simulation.
//!
//! If the random calls fail, they print a number: set that as `CONFORMANCE_SEED` to make the same calls again. `CONFORMANCE_RUNS`
//! is how many times they start over.

mod model;
mod random;

use std::future::Future;

use jiff::Timestamp;
use timingwheel_durable::MemoryStore;
use timingwheel_durable::store::{Store, Stored, Times};

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).expect("a time")
}

/// A home of timers. A test opens it again and again, each time after it has dropped the former store.
trait Home {
    type Store: Store;

    fn open(&mut self) -> impl Future<Output = Self::Store>;
}

impl<F, O, S> Home for F
where
    F: FnMut() -> O,
    O: Future<Output = S>,
    S: Store,
{
    type Store = S;

    fn open(&mut self) -> impl Future<Output = S> {
        self()
    }
}

#[tokio::test]
async fn random_calls_on_a_store_in_memory_are_answered_as_by_a_plain_model() {
    random::calls_are_answered_as_by_a_plain_model(|| {
        let store = MemoryStore::new();
        move || {
            let opened = store.clone();
            async move { opened }
        }
    })
    .await;
}

#[cfg(feature = "redb")]
#[tokio::test]
async fn random_calls_on_a_file_are_answered_as_by_a_plain_model() {
    use timingwheel_durable::RedbStore;

    random::calls_are_answered_as_by_a_plain_model(|| {
        let folder = crate::folder::folder();
        move || {
            let path = folder.path().join("timers.redb");
            async move { RedbStore::create(path).expect("a store") }
        }
    })
    .await;
}

/// Also in schemas of other names.
#[cfg(feature = "postgres")]
#[tokio::test]
async fn random_calls_on_a_database_are_answered_as_by_a_plain_model() {
    use timingwheel_durable::tokio_postgres::NoTls;
    use timingwheel_durable::{PostgresOptions, PostgresStore};

    let url = crate::postgres::server::database().await;
    let places = std::cell::Cell::new(0);
    random::calls_are_answered_as_by_a_plain_model(|| {
        // A database for each place would take longer to create than to test.
        let options = PostgresOptions::new(&url)
            .and_then(|options| options.schema(format!("place_{}", places.get())))
            .expect("a place");
        places.set(places.get() + 1);
        move || {
            let options = options.clone().sole().connections(2);
            async move { PostgresStore::connect_with(options, NoTls).await.expect("a store") }
        }
    })
    .await;
}

/// Without the times, of which only the database has a clock here.
fn timeless(mut stored: Stored) -> Stored {
    stored.times = Times::default();
    stored.failures.iter_mut().for_each(|failure| failure.at = None);
    stored
}

//! Each store keeps the promises of a store: by hand, and by random calls that are compared with the
//! database of the simulation.
//!
//! If the random calls fail, they print a number: set that as `CONFORMANCE_SEED` to make the same calls again. `CONFORMANCE_RUNS`
//! is how many times they start over.

mod by_hand;
mod model;
mod random;

use std::future::Future;

use jiff::Timestamp;
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

fn run<P: Home>(name: &str, make: impl Fn() -> P) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        if name == "random_calls_are_answered_as_by_a_plain_model" {
            random::random_calls_are_answered_as_by_a_plain_model(make).await;
        } else {
            by_hand::run(name, make()).await;
        }
    });
}

macro_rules! conformance {
    ($make:expr) => {
        conformance! {
            $make;
            random_calls_are_answered_as_by_a_plain_model
            what_is_saved_is_there_after_reopening
            a_load_goes_on_from_its_end_and_looks_ahead
            a_begin_that_is_made_again_is_the_same_attempt
            results_of_a_lost_owner_are_refused
            what_a_dead_owner_had_begun_is_cancelled_moved_and_replaced
            what_is_buried_is_listed_retried_and_deleted
            a_buried_run_of_a_series_is_retried_as_a_timer_of_its_own
        }
    };
    ($make:expr; $($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                super::run(stringify!($name), $make);
            }
        )*
    };
}

mod memory {
    use timingwheel_durable::MemoryStore;

    conformance!(|| {
        let store = MemoryStore::new();
        move || {
            let opened = store.clone();
            async move { opened }
        }
    });
}

#[cfg(feature = "redb")]
mod redb {
    use std::sync::Arc;

    use timingwheel_durable::RedbStore;

    use crate::folder::folder;

    conformance!(|| {
        let folder = Arc::new(folder());
        move || {
            let folder = Arc::clone(&folder);
            async move { RedbStore::create(folder.path().join("timers.redb")).expect("a store") }
        }
    });
}

/// Also in schemas of other names.
#[cfg(feature = "postgres")]
mod postgres {
    use std::sync::atomic::{AtomicU32, Ordering};

    use timingwheel_durable::tokio_postgres::NoTls;
    use timingwheel_durable::{PostgresOptions, PostgresStore};
    use tokio::sync::OnceCell;

    use crate::postgres::server::database;

    static URL: OnceCell<String> = OnceCell::const_new();
    static PLACES: AtomicU32 = AtomicU32::new(0);

    conformance!(|| {
        // A database for each place would take longer to create than to test.
        let schema = format!("place_{}", PLACES.fetch_add(1, Ordering::Relaxed));
        move || {
            let schema = schema.clone();
            async move {
                let url = URL.get_or_init(database).await;
                let options =
                    PostgresOptions::new(url).and_then(|options| options.schema(schema)).expect("a place");
                PostgresStore::connect_with(options.sole().connections(2), NoTls).await.expect("a store")
            }
        }
    });
}

/// Without the times, of which only the database has a clock here.
fn timeless(mut stored: Stored) -> Stored {
    stored.times = Times::default();
    stored.failures.iter_mut().for_each(|failure| failure.at = None);
    stored
}

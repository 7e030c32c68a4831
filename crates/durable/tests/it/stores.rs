//! Each store keeps the promises of a store.

mod memory {
    use timingwheel_durable::MemoryStore;

    timingwheel_durable::conformance!(|| {
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

    timingwheel_durable::conformance!(|| {
        let folder = Arc::new(tempfile::tempdir().expect("a folder"));
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

    timingwheel_durable::conformance!(|| {
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

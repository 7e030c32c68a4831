//! The store in PostgreSQL keeps what a store promises.

use std::sync::Arc;

use timingwheel_durable::tokio_postgres::NoTls;
use timingwheel_durable::{PostgresOptions, PostgresStore};
use tokio::sync::OnceCell;

use crate::server::database;

timingwheel_durable::conformance!(|| {
    let url = Arc::new(OnceCell::new());
    move || {
        let url = Arc::clone(&url);
        async move {
            let url = url.get_or_init(database).await;
            let options = PostgresOptions::new(url).expect("an address").sole().connections(2);
            PostgresStore::connect_with(options, NoTls).await.expect("a store")
        }
    }
});

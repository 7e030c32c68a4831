//! The store in a file keeps what a store promises.

use std::sync::Arc;

use timingwheel_durable::RedbStore;

timingwheel_durable::conformance!(|| {
    let folder = Arc::new(tempfile::tempdir().expect("a folder"));
    move || {
        let folder = Arc::clone(&folder);
        async move { RedbStore::create(folder.path().join("timers.redb")).expect("a store") }
    }
});

//! The store in memory keeps what a store promises.

use timingwheel_durable::MemoryStore;

timingwheel_durable::conformance!(|| {
    let store = MemoryStore::new();
    move || {
        let opened = store.clone();
        async move { opened }
    }
});

//! The limits of a database: a save beyond them is refused alone.

use std::time::Duration;

use timingwheel_durable::{Error, PostgresError};

use super::server::database;
use super::support::{Tick, builder, client, soon, store};

/// Nothing in it repeats, so no compression makes it fit into an index.
fn key(len: usize) -> String {
    let mut random = fastrand::Rng::with_seed(7);
    std::iter::repeat_with(|| random.alphanumeric()).take(len).collect()
}

#[tokio::test]
async fn a_key_that_is_too_long_is_refused_alone() {
    let url = database().await;
    let durable = builder(store(&url).await, Duration::from_secs(30)).start().await.expect("a start");
    let (due, tick) = (soon(86_400_000), Tick::new("far"));
    let keys = [key(10), key(1_024), key(1_025), key(100_000)];
    let saves = keys.iter().map(|key| durable.at(due, &tick).key(key.as_str()).save());
    let told = futures::future::join_all(saves).await;
    assert!(matches!(told[..], [Ok(_), Ok(_), Err(_), Err(_)]), "{told:?}");
    let Err(Error::Key(text)) = &told[2] else { panic!("{told:?}") };
    assert_eq!(text, "a key must have 1 to 1024 bytes, got 1025");

    let (other, mut sql) = (store(&url).await, client(&url).await);
    let transaction = sql.transaction().await.expect("a transaction");
    let refused = other.save_in(&transaction, due, &tick).key(&keys[2]).save().await;
    assert!(matches!(refused, Err(PostgresError::Text(_))), "{refused:?}");
    other.save_in(&transaction, due, &tick).key("k").save().await.expect("the transaction goes on");
    transaction.commit().await.expect("a commit");
    durable.stop(Duration::from_secs(60)).await;
}

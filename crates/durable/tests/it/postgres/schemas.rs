//! Timers in schemas of other names.

use std::time::Duration;

use timingwheel::TimingWheel;
use timingwheel_durable::{
    Answer, Durable, MemoryStore, PostgresError, PostgresOptions, PostgresStore, Run, tokio_postgres::NoTls,
};

use super::server::database;
use super::support::{Calls, Tick, builder, client, soon, until};

/// A word of the language's, so that it has to be quoted.
const NAMES: [&str; 2] = ["timingwheel", "select"];

async fn store(url: &str, schema: &str) -> PostgresStore {
    let options = PostgresOptions::new(url).expect("an address").schema(schema).expect("a name");
    PostgresStore::connect_with(options, NoTls).await.expect("a store")
}

/// An instance whose handler ends its attempts in transactions.
async fn instance(url: &str, schema: &str, calls: &Calls) -> Durable {
    let store = store(url, schema).await;
    let (calls, url, within) = (calls.clone(), url.to_owned(), store.clone());
    builder(store, Duration::from_secs(600))
        .on(move |tick: Tick, run: Run| {
            let ends_by_store = tick.name.starts_with("told in");
            calls.note(tick, &run);
            let (url, within) = (url.clone(), within.clone());
            async move {
                let mut sql = client(&url).await;
                let transaction = sql.transaction().await?;
                if ends_by_store {
                    within.finish_in(&transaction, &run).await?;
                } else {
                    run.finish_in(&transaction).await?;
                }
                transaction.commit().await?;
                Ok(Answer::Done)
            }
        })
        .start()
        .await
        .expect("a start")
}

#[tokio::test]
async fn timers_of_two_schemas_in_one_database_have_nothing_to_do_with_each_other() {
    let url = database().await;
    let (mut instances, calls) = (Vec::new(), [Calls::default(), Calls::default()]);
    for (name, calls) in NAMES.iter().zip(&calls) {
        instances.push(instance(&url, name, calls).await);
    }
    until("each has all of its own", async || {
        instances.iter().all(|instance| instance.stats().shards == (64, 64))
    })
    .await;
    // Both listen before anything is told.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut sql = client(&url).await;
    for (name, instance) in NAMES.iter().zip(&instances) {
        instance.at(soon(20), &Tick::new(format!("saved in {name}"))).save().await.expect("a save");
        let far = soon(86_400_000);
        instance.at(far, &Tick::new("keyed")).key("one key").save().await.expect("the key is free in each");
        let save = format!(
            "select \"{name}\".save_timer(now() + interval '30 ms', 'tick', '{{\"name\": \"told in {name}\"}}')"
        );
        sql.batch_execute(&save).await.expect("a save");
        let transaction = sql.transaction().await.expect("a transaction");
        let within = store(&url, name).await;
        within
            .save_in(&transaction, soon(30), &Tick::new(format!("within {name}")))
            .save()
            .await
            .expect("a save");
        transaction.commit().await.expect("a commit");
    }
    for ((name, instance), calls) in NAMES.iter().zip(&instances).zip(&calls) {
        until("all but one are done", async || {
            let counts = instance.count().await.expect("counts");
            (counts.stored, counts.begun, counts.buried) == (1, 0, 0)
        })
        .await;
        let expected: Vec<String> =
            ["saved in", "told in", "within"].iter().map(|what| format!("{what} {name}")).collect();
        assert_eq!(calls.names(), expected);
    }
    assert!(instances[0].cancel("one key").await.is_ok());
    assert_eq!(instances[0].count().await.expect("counts").stored, 0);
    assert_eq!(instances[1].count().await.expect("counts").stored, 1, "of the same key in the other schema");
    for instance in instances {
        instance.stop(Duration::from_secs(60)).await;
    }
}

#[tokio::test]
async fn a_name_that_is_no_schemas_is_refused_with_what_is_allowed() {
    let url = database().await;
    let error =
        PostgresOptions::new(&url).expect("an address").schema("Timers; drop").expect_err("a refusal");
    assert!(matches!(error, PostgresError::Setting(_)));
    assert_eq!(
        error.to_string(),
        "the name of a schema must be 1 to 63 of a to z, 0 to 9 and _, with no digit first and no pg_, got \
         \"Timers; drop\""
    );
    let by_hand = PostgresOptions::new(&url).expect("an address").schema("by_hand").expect("a name");
    client(&url).await.batch_execute(&by_hand.migrations().concat()).await.expect("tables");
    PostgresStore::connect_with(by_hand.create(false), NoTls).await.expect("they are there");
}

#[tokio::test]
async fn finish_in_for_a_timer_of_another_store_says_what_to_call() {
    let url = database().await;
    let (told, mut answer) = tokio::sync::mpsc::unbounded_channel();
    let durable = Durable::builder(&TimingWheel::new(), MemoryStore::new())
        .on(move |_: Tick, run: Run| {
            let (url, told) = (url.clone(), told.clone());
            async move {
                let mut sql = client(&url).await;
                let transaction = sql.transaction().await?;
                told.send(run.finish_in(&transaction).await)?;
                Ok(Answer::Done)
            }
        })
        .start()
        .await
        .expect("a start");
    durable.at(soon(0), &Tick::new("in memory")).save().await.expect("a save");
    let error = answer.recv().await.expect("an answer").expect_err("it is not in the database");
    assert!(matches!(error, PostgresError::Setting(_)), "{error}");
    assert!(error.to_string().contains("call PostgresStore::finish_in"), "{error}");
    durable.stop(Duration::from_secs(60)).await;
}

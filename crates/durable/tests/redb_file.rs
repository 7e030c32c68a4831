//! What is told of a file: its owner, its format, its size, and what stands in it after an error.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use redb::{Database, TableDefinition};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use timingwheel::TimingWheel;
use timingwheel_durable::{Answer, Durable, Kind, RedbError, RedbStore, Run};

#[derive(Serialize, Deserialize)]
struct Blob(String);

impl Kind for Blob {
    const KIND: &'static str = "blob";
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

#[tokio::test]
async fn a_file_that_is_in_use_is_refused_with_the_name_of_its_owner() {
    let folder = folder();
    let path = folder.path().join("timers.redb");
    let store = RedbStore::open(&path).unwrap();
    let error = RedbStore::open(&path).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&format!("in use by process {} (redb_file", std::process::id())), "{text}");
    assert!(matches!(&error, RedbError::InUse { path: of, .. } if *of == path), "{error:?}");
    drop(store);
    RedbStore::open(&path).unwrap();
    assert!(!folder.path().join("timers.redb.owner").exists());
}

#[tokio::test]
async fn what_cannot_be_opened_is_refused_with_its_path_and_the_reason() {
    let folder = folder();
    let refused = |path: &Path| {
        let error = RedbStore::open(path).unwrap_err();
        assert!(matches!(&error, RedbError::Open { path: of, .. } if of == path), "{error:?}");
        let text = error.to_string();
        assert!(text.starts_with(&format!("{} cannot be opened: ", path.display())), "{text}");
        text
    };
    refused(&folder.path().join("no such folder").join("timers.redb"));
    refused(folder.path());
    let other = folder.path().join("letter.txt");
    std::fs::write(&other, "Dear reader").unwrap();
    assert!(refused(&other).contains("redb"));
    assert_eq!(std::fs::read(&other).unwrap(), b"Dear reader");
}

#[tokio::test]
async fn a_file_of_a_newer_format_is_refused_and_left_as_it_is() {
    let folder = folder();
    let path = folder.path().join("timers.redb");
    drop(RedbStore::open(&path).unwrap());
    let meta: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
    let set = |format: u64| {
        let database = Database::create(&path).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(meta).unwrap().insert("format", format).unwrap();
        transaction.commit().unwrap();
    };
    set(2);
    let before = std::fs::read(&path).unwrap();
    let error = RedbStore::open(&path).unwrap_err();
    assert!(matches!(error, RedbError::Newer { found: 2, known: 1 }), "{error}");
    assert_eq!(std::fs::read(&path).unwrap().len(), before.len());
    set(1);
    RedbStore::open(&path).unwrap();
}

#[tokio::test]
async fn after_stop_the_file_is_free_at_once() {
    let folder = folder();
    let path = folder.path().join("timers.redb");
    for _ in 0..20 {
        let store = RedbStore::open(&path).unwrap();
        let durable = Durable::builder(&TimingWheel::new(), store)
            .on(|_: Blob, _: Run| async { Ok(Answer::Done) })
            .start()
            .await
            .unwrap();
        durable.at(Timestamp::now(), &Blob("a".into())).save().await.unwrap();
        durable.stop(Duration::from_secs(30)).await;
    }
}

#[tokio::test]
async fn a_file_shrinks_when_it_is_compacted_and_keeps_what_is_in_it() {
    let folder = folder();
    let path = folder.path().join("timers.redb");
    let store = RedbStore::open(&path).unwrap();
    let durable = Durable::builder(&TimingWheel::new(), store.clone()).start().await.unwrap();
    let far = "2100-01-01T00:00:00Z".parse().unwrap();
    let large = Blob("x".repeat(50_000));
    let ids = futures::future::join_all((0..200).map(|_| durable.at(far, &large).save())).await;
    let cancels = ids[1..].iter().map(|id| durable.cancel(*id.as_ref().unwrap()));
    assert!(futures::future::join_all(cancels).await.into_iter().all(|told| told.is_ok()));
    let before = std::fs::metadata(&path).unwrap().len();
    store.compact().await.unwrap();
    let after = std::fs::metadata(&path).unwrap().len();
    assert!(after * 2 < before, "{before} bytes, and {after} after it");
    let listed = durable.list(Default::default()).await.unwrap();
    assert_eq!((listed.len(), listed[0].payload.len()), (1, 50_002));
}

#[tokio::test]
async fn a_payload_that_is_too_large_is_refused_with_its_size() {
    let folder = folder();
    let store = RedbStore::open(folder.path().join("timers.redb")).unwrap();
    let durable = Durable::builder(&TimingWheel::new(), store).start().await.unwrap();
    let (small, large) = (Blob("a".into()), Blob("x".repeat(RedbError::LARGEST)));
    let far = "2100-01-01T00:00:00Z".parse().unwrap();
    let saves = [&small, &large, &small].map(|blob| durable.at(far, blob).save());
    let [first, error, last] = futures::future::join_all(saves).await.try_into().unwrap();
    assert!(first.is_ok() && last.is_ok(), "those that come with it are saved");
    let error = error.unwrap_err();
    let expected = "a payload must have 67108864 bytes at the most, got 67108866";
    assert!(error.to_string().ends_with(expected), "{error}");
}

//! The file: its owner, its format, its size, and its contents after an error.

use std::error::Error;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use redb::{Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use timingwheel::TimingWheel;
use timingwheel_durable::store::Page;
use timingwheel_durable::{Answer, Durable, Health, Kind, RedbError, RedbStore, Run, Symptom};

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
    let store = RedbStore::create(&path).unwrap();
    let error = RedbStore::create(&path).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&format!("in use by process {} (it-", std::process::id())), "{text}");
    assert!(matches!(&error, RedbError::InUse { path: of, .. } if *of == path), "{error:?}");
    drop(store);
    RedbStore::create(&path).unwrap();
    assert!(!folder.path().join("timers.redb.owner").exists());
}

#[tokio::test]
async fn what_cannot_be_opened_is_refused_with_its_path_and_the_reason() {
    let folder = folder();
    let refused = |path: &Path| {
        let error = RedbStore::create(path).unwrap_err();
        assert!(matches!(&error, RedbError::Open { path: of, .. } if of == path), "{error:?}");
        assert_eq!(error.to_string(), format!("{} cannot be opened", path.display()));
        assert!(error.source().is_some_and(|why| why.to_string().contains("os error")), "{error:?}");
    };
    refused(&folder.path().join("no such folder").join("timers.redb"));
    refused(folder.path());
    let other = folder.path().join("letter.txt");
    std::fs::write(&other, "Dear reader").unwrap();
    let error = RedbStore::create(&other).unwrap_err();
    assert!(matches!(&error, RedbError::Damaged { path: Some(of), .. } if *of == other), "{error:?}");
    assert!(
        error.to_string().starts_with(&format!("{} is damaged, or is no file of timers: ", other.display())),
        "{error}"
    );
    assert_eq!(std::fs::read(&other).unwrap(), b"Dear reader");
}

#[tokio::test]
async fn a_file_of_a_newer_format_is_refused_and_left_as_it_is() {
    let folder = folder();
    let path = folder.path().join("timers.redb");
    drop(RedbStore::create(&path).unwrap());
    let meta: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
    let set = |format: u64| {
        let database = Database::create(&path).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(meta).unwrap().insert("format", format).unwrap();
        transaction.commit().unwrap();
    };
    set(3);
    let before = std::fs::read(&path).unwrap();
    let error = RedbStore::create(&path).unwrap_err();
    assert!(matches!(error, RedbError::Newer { found: 3, known: 2, .. }), "{error}");
    assert!(error.to_string().contains("timers.redb"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before, "byte for byte");
    set(1);
    RedbStore::create(&path).unwrap();
}

#[tokio::test]
async fn after_stop_the_file_is_free_at_once() {
    let folder = folder();
    let path = folder.path().join("timers.redb");
    for _ in 0..20 {
        let store = RedbStore::create(&path).unwrap();
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
    let store = RedbStore::create(&path).unwrap();
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
async fn a_file_that_is_not_there_or_was_cut_to_nothing_is_no_new_store() {
    let folder = folder();
    let path = folder.path().join("timers.redb");
    let error = RedbStore::open(&path).unwrap_err();
    assert!(matches!(&error, RedbError::Open { path: of, .. } if *of == path), "{error:?}");
    assert!(!path.exists());
    drop(RedbStore::create(&path).unwrap());
    drop(RedbStore::open(&path).unwrap());
    std::fs::write(&path, "").unwrap();
    for open in [RedbStore::open, RedbStore::create] {
        let error = open(&path).unwrap_err();
        assert!(matches!(&error, RedbError::Damaged { path: Some(of), .. } if *of == path), "{error:?}");
        assert!(error.to_string().contains("it is empty"), "{error}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), b"");
    let left: Vec<_> = folder.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["timers.redb"]);
}

/// Changes the rows of a file by hand: by their keys.
fn change_rows(path: &Path, change: impl Fn(usize, &mut Vec<u8>) -> bool) {
    let timers: TableDefinition<'_, u128, &[u8]> = TableDefinition::new("timers");
    let database = Database::open(path).unwrap();
    let transaction = database.begin_write().unwrap();
    {
        let mut timers = transaction.open_table(timers).unwrap();
        let rows: Vec<(u128, Vec<u8>)> = timers
            .iter()
            .unwrap()
            .map(|row| row.map(|(at, bytes)| (at.value(), bytes.value().to_vec())).unwrap())
            .collect();
        for (index, (at, mut bytes)) in rows.into_iter().enumerate() {
            if change(index, &mut bytes) {
                timers.insert(at, bytes.as_slice()).unwrap();
            }
        }
    }
    transaction.commit().unwrap();
}

#[tokio::test]
async fn a_damaged_timer_is_kept_and_all_others_run() {
    let folder = folder();
    let path = folder.path().join("timers.redb");
    let durable =
        Durable::builder(&TimingWheel::new(), RedbStore::create(&path).unwrap()).start().await.unwrap();
    let now = Timestamp::now();
    futures::future::join_all((0..500).map(|number| durable.at(now, &Blob(number.to_string())).save())).await;
    durable.stop(Duration::from_secs(30)).await;
    drop(durable);
    // A turned bit in one payload, a row cut off, and one whose due time would be another.
    change_rows(&path, |index, bytes| {
        match index {
            7 => *bytes.last_mut().unwrap() ^= 1,
            70 => bytes.truncate(9),
            400 => bytes[20] ^= 4,
            _ => return false,
        }
        true
    });
    let durable = Durable::builder(&TimingWheel::new(), RedbStore::open(&path).unwrap())
        .on(|_: Blob, _: Run| async { Ok(Answer::Done) })
        .start()
        .await
        .unwrap();
    let begin = std::time::Instant::now();
    while durable.stats().done < 497 || durable.stats().damaged < 3 {
        assert!(begin.elapsed() < Duration::from_secs(120), "{:?}", durable.stats());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(durable.count().await.unwrap(), Default::default());
    let symptoms = Health::new(Duration::from_secs(90)).check(&durable.stats());
    assert_eq!(symptoms, [Symptom::Damaged(3)]);
    assert_eq!(durable.stats().done, 497);
    durable.stop(Duration::from_secs(30)).await;
    drop(durable);
    let damaged: TableDefinition<'_, (bool, u128), &[u8]> = TableDefinition::new("damaged");
    let database = Database::open(&path).unwrap();
    let damaged = database.begin_read().unwrap().open_table(damaged).unwrap();
    assert_eq!(damaged.len().unwrap(), 3, "with their bytes");
}

#[tokio::test]
async fn damaged_pages_are_told_with_the_name_of_the_file_and_panic_nowhere() {
    let (folder, mut told) = (folder(), 0);
    let path = folder.path().join("timers.redb");
    let store = RedbStore::create(&path).unwrap();
    let durable = Durable::builder(&TimingWheel::new(), store.clone()).start().await.unwrap();
    let far = "2100-01-01T00:00:00Z".parse().unwrap();
    futures::future::join_all((0..300).map(|_| durable.at(far, &Blob("x".repeat(200))).save())).await;
    durable.stop(Duration::from_secs(30)).await;
    drop((store, durable));
    let sound = std::fs::read(&path).unwrap();
    for seed in 0..60 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut bytes = sound.clone();
        let (at, len) = (random.usize(..bytes.len()), random.usize(1..5_000));
        let end = bytes.len().min(at + len);
        bytes[at..end].fill_with(|| random.u8(..));
        std::fs::write(&path, &bytes).unwrap();
        let store = match RedbStore::open(&path) {
            Ok(store) => store,
            Err(error) => {
                assert!(error.to_string().contains("timers.redb"), "{seed}: {error}");
                told += 1;
                continue;
            }
        };
        // In calls too.
        let started = Durable::builder(&TimingWheel::new(), store).start().await;
        let failed = match started {
            Ok(durable) => {
                let listed = durable.list(Page { limit: 1_000, ..Page::default() }).await;
                durable.stop(Duration::from_secs(1)).await;
                listed.err()
            }
            Err(error) => Some(error),
        };
        if let Some(error) = failed {
            assert!(error.to_string().contains("timers.redb"), "{seed}: {error}");
            told += 1;
        }
    }
    assert!(told > 10, "{told} were told");
    std::fs::write(&path, &sound).unwrap();
    drop(RedbStore::open(&path).expect("the crate is usable"));
}

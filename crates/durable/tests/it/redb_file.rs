//! The file: its owner, its format, its size, and its contents after an error.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use redb::{Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition};
use serde::{Deserialize, Serialize};
use timingwheel::TimingWheel;
use timingwheel_durable::store::{Change, Ended, Near, NewTimer, Page, Removal, State, Store, ToBegin};
use timingwheel_durable::{
    Answer, Durable, Filter, Health, Kind, Phase, RedbError, RedbStore, Run, Symptom, TimerId,
};

use crate::folder::folder;

#[derive(Serialize, Deserialize)]
struct Blob(String);

impl Kind for Blob {
    const KIND: &'static str = "blob";
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
        let text = error.to_string();
        assert!(text.starts_with(&format!("{} cannot be opened: ", path.display())), "{text}");
        assert!(text.ends_with(')') && text.contains("(os error ") && error.source().is_none(), "{text}");
    };
    refused(&folder.path().join("no such folder").join("timers.redb"));
    let error = RedbStore::open("").unwrap_err().to_string();
    assert!(error.starts_with("an empty path cannot be opened: "), "{error}");
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

#[test]
fn of_threads_that_create_one_file_at_once_one_has_it_and_the_others_are_told_that_it_is_in_use() {
    for round in 0..20 {
        let folder = folder();
        let path = folder.path().join("timers.redb");
        // As a process has left it that was killed.
        std::fs::write(folder.path().join("timers.redb.0123.new"), "unfinished").unwrap();
        let barrier = std::sync::Barrier::new(3);
        let create = || {
            barrier.wait();
            let store = RedbStore::create(&path);
            barrier.wait();
            store
        };
        let stores: Vec<_> = std::thread::scope(|scope| {
            let threads = [(); 3].map(|()| scope.spawn(create));
            threads.map(|thread| thread.join().unwrap()).into()
        });
        let has_it = stores.iter().filter(|store| store.is_ok()).count();
        assert_eq!(has_it, 1, "round {round}: {stores:?}");
        for error in stores.iter().filter_map(|store| store.as_ref().err()) {
            assert!(matches!(error, RedbError::InUse { .. }), "round {round}: {error}");
        }
        drop(stores);
        let left = folder.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name());
        assert!(left.eq(["timers.redb"]), "round {round}");
    }
}

#[test]
fn saves_that_occupy_all_blocking_threads_of_the_runtime_are_stored() {
    let folder = folder();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().max_blocking_threads(4).build();
    let runtime = runtime.unwrap();
    let saved = runtime.block_on(async {
        let store = RedbStore::create(folder.path().join("timers.redb")).unwrap();
        let durable = Durable::builder(&TimingWheel::new(), store).start().await.unwrap();
        let far = "2100-01-01T00:00:00Z".parse().unwrap();
        let saves = (0..50).map(|number: u32| {
            let durable = durable.clone();
            tokio::task::spawn_blocking(move || {
                let save = durable.at(far, &Blob(number.to_string())).save();
                tokio::runtime::Handle::current().block_on(save).map(drop)
            })
        });
        tokio::time::timeout(Duration::from_secs(60), futures::future::join_all(saves)).await
    });
    // It would wait for its threads for ever.
    runtime.shutdown_background();
    assert!(saved.expect("nothing waits for ever").into_iter().all(|saved| saved.unwrap().is_ok()));
}

#[tokio::test]
async fn a_copy_that_is_put_in_place_of_a_later_file_gives_no_id_again_that_the_lost_life_has_told() {
    let folder = folder();
    let paths = ["timers.redb", "copy"].map(|name| folder.path().join(name));
    drop(RedbStore::create(&paths[0]).unwrap());
    std::fs::copy(&paths[0], &paths[1]).unwrap();
    let (mut told, mut epochs) = (std::collections::HashSet::new(), Vec::new());
    for path in &paths {
        let store = RedbStore::open(path).unwrap();
        let durable = Durable::builder(&TimingWheel::new(), store).start().await.unwrap();
        let due = "2100-01-01T00:00:00Z".parse().unwrap();
        for number in 0..100 {
            let id = durable.at(due, &Blob(number.to_string())).save().await.unwrap();
            assert!(told.insert(id), "{id}");
            epochs.push(id.unique() >> 32);
        }
        durable.stop(Duration::from_secs(60)).await;
    }
    assert!(
        epochs.iter().all(|epoch| *epoch == epochs[0]),
        "the file does not tell the lives apart: {epochs:?}"
    );
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
    set(5);
    let before = std::fs::read(&path).unwrap();
    let error = RedbStore::create(&path).unwrap_err();
    assert!(matches!(error, RedbError::Newer { found: 5, known: 4, .. }), "{error}");
    assert!(error.to_string().contains("timers.redb"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), before, "byte for byte");
    set(1);
    RedbStore::create(&path).unwrap();
}

#[tokio::test]
async fn a_file_of_an_older_format_keeps_its_attempts_and_finds_its_buried_timers_by_their_keys() {
    let folder = folder();
    let path = folder.path().join("timers.redb");
    let (runs, buried) = [1, 2].map(|unique| TimerId::new(Timestamp::from_second(1).unwrap(), unique)).into();
    let kinds = Arc::new([Blob::KIND.to_owned()].into());
    let ended = Ended {
        timer: Near::from(buried),
        attempt: 1,
        version: 0,
        change: Change::Bury { reason: "enough".into(), was_called: true, next: None },
    };
    {
        let store = RedbStore::create(&path).unwrap();
        let owner = store.join(Duration::ZERO, Arc::clone(&kinds)).await.unwrap();
        let timer =
            |id, key: &str| NewTimer { key: Some(key.into()), ..NewTimer::new(id, Blob::KIND, "\"a\"") };
        store.save(vec![timer(runs, "runs"), timer(buried, "buried")]).await.unwrap();
        let timers = vec![Near::from(runs), Near::from(buried)];
        store.begin(owner, ToBegin { timers, kinds }).await.unwrap();
        store.settle(owner, vec![ended]).await.unwrap();
    }
    // As a program of format 2 has left it.
    let database = Database::create(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    {
        let meta: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
        transaction.open_table(meta).unwrap().insert("format", 2).unwrap();
        let (now, before) = (TableDefinition::new("begun at"), TableDefinition::new("begun"));
        let mut begun = transaction.open_table::<u128, (u64, u32)>(before).unwrap();
        for entry in transaction.open_table::<u128, (u64, u32, i64)>(now).unwrap().iter().unwrap() {
            let (at, (epoch, number, _)) = entry.map(|(at, begun)| (at.value(), begun.value())).unwrap();
            begun.insert(at, (epoch, number)).unwrap();
        }
        transaction.delete_table(now).unwrap();
        let keys: TableDefinition<'_, (&str, u128), ()> = TableDefinition::new("buried keys");
        transaction.delete_table(keys).unwrap();
    }
    transaction.commit().unwrap();
    drop(database);
    drop(RedbStore::open(&path).unwrap());
    {
        let database = Database::open(&path).unwrap();
        let meta: TableDefinition<'_, &str, u64> = TableDefinition::new("meta");
        let meta = database.begin_read().unwrap().open_table(meta).unwrap();
        assert_eq!(meta.get("format").unwrap().unwrap().value(), 4, "no older program opens it again");
    }
    let store = RedbStore::open(&path).unwrap();
    let found = store.get("runs".into()).await.unwrap().unwrap();
    assert_eq!((found.state, found.times.begun), (State::Begun { epoch: 1, attempt: 1 }, None));
    assert_eq!(store.cancel("buried".into()).await.unwrap(), Removal::Removed(buried.into()));
    let counts = store.count().await.unwrap();
    assert_eq!((counts.stored, counts.begun, counts.buried), (0, 1, 0));
}

#[tokio::test]
async fn after_stop_the_file_is_free_at_once() {
    let folder = folder();
    let path = folder.path().join("timers.redb");
    for _ in 0..5 {
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

/// Changes the rows of a file by hand, and shows their keys.
fn change_rows(path: &Path, change: impl Fn(usize, &mut Vec<u8>) -> bool, mut show: impl FnMut(u128)) {
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
            show(at);
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
    change_rows(
        &path,
        |index, bytes| {
            match index {
                7 => *bytes.last_mut().unwrap() ^= 1,
                70 => bytes.truncate(9),
                400 => bytes[20] ^= 4,
                _ => return false,
            }
            true
        },
        drop,
    );
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
    let shown = durable.look(Filter::new()).await.unwrap().timers;
    assert!(shown.len() == 3 && shown.iter().all(|shown| shown.phase == Phase::Damaged), "{shown:?}");
    assert!(shown.iter().all(|shown| shown.damage.is_some() && shown.timer.timer.due() >= now), "{shown:?}");
    assert_eq!(durable.look(Filter::new().phase(Phase::Damaged)).await.unwrap().timers, shown);
    durable.stop(Duration::from_secs(30)).await;
    drop(durable);
    let damaged: TableDefinition<'_, (bool, u128), &[u8]> = TableDefinition::new("damaged");
    let database = Database::open(&path).unwrap();
    let damaged = database.begin_read().unwrap().open_table(damaged).unwrap();
    assert_eq!(damaged.len().unwrap(), 3, "with their bytes");
}

/// In leaves, where the key is a timer's own, and above them, where it leads to others.
#[tokio::test]
async fn a_turned_bit_in_any_key_stops_no_other_timer() {
    const TIMERS: u64 = 400;
    let folder = folder();
    let path = folder.path().join("timers.redb");
    let store = RedbStore::create(&path).unwrap();
    let durable = Durable::builder(&TimingWheel::new(), store.clone()).start().await.unwrap();
    let saves = (0..TIMERS).map(|number| {
        let due = Timestamp::from_millisecond(1_700_000_000_000 + i64::try_from(number).unwrap()).unwrap();
        durable.at(due, &Blob("x".repeat(50))).save()
    });
    assert!(futures::future::join_all(saves).await.iter().all(Result::is_ok));
    durable.stop(Duration::from_secs(30)).await;
    store.compact().await.unwrap();
    drop((store, durable));
    let mut keys = Vec::new();
    change_rows(&path, |_, _| false, |key| keys.push(key.to_le_bytes()));
    let sound = std::fs::read(&path).unwrap();
    let places: Vec<usize> =
        (0..sound.len() - 16).filter(|at| keys.iter().any(|key| key == &sound[*at..at + 16])).collect();
    let mut damaged = 0;
    for seed in 0..15 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut bytes = sound.clone();
        let (at, bit) = (places[random.usize(..places.len())], random.usize(..128));
        bytes[at + bit / 8] ^= 1 << (bit % 8);
        std::fs::write(&path, &bytes).unwrap();
        let durable = Durable::builder(&TimingWheel::new(), RedbStore::open(&path).unwrap())
            .on(|_: Blob, _: Run| async { Ok(Answer::Done) })
            .start()
            .await
            .unwrap();
        let begin = std::time::Instant::now();
        while durable.stats().done + durable.stats().damaged < TIMERS {
            assert!(begin.elapsed() < Duration::from_secs(60), "seed {seed}: {:?}", durable.stats());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let stats = durable.stats();
        assert!(stats.done == TIMERS - stats.damaged && stats.damaged <= 1, "seed {seed}: {stats:?}");
        let count = loop {
            if let Ok(count) = durable.count().await
                && count.begun == 0
            {
                break count;
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "seed {seed}: {:?}", durable.stats());
        };
        assert_eq!(count, Default::default(), "seed {seed}");
        damaged += stats.damaged;
        durable.stop(Duration::from_secs(30)).await;
    }
    assert!(damaged > 2, "{damaged} bits were those of a timer");
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
    for seed in 0..30 {
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
    assert!(told > 5, "{told} were told");
    std::fs::write(&path, &sound).unwrap();
    drop(RedbStore::open(&path).expect("the crate is usable"));
}

#[tokio::test(start_paused = true)]
async fn a_paused_clock_does_not_jump_while_the_file_is_written() {
    let folder = folder();
    let store = RedbStore::create(folder.path().join("timers.redb")).unwrap();
    let durable = Durable::builder(&TimingWheel::new(), store).start().await.unwrap();
    // A clock that jumped would jump to this.
    let far = tokio::spawn(tokio::time::sleep(Duration::from_secs(3_600)));
    let start = tokio::time::Instant::now();
    for number in 0..20 {
        durable.after(Duration::from_secs(86_400), &Blob(number.to_string())).save().await.unwrap();
    }
    assert!(start.elapsed() < Duration::from_secs(3_600), "{:?}", start.elapsed());
    far.abort();
    durable.stop(Duration::from_secs(1)).await;
}

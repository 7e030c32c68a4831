//! Power that is lost: of what was not synced any part may be on the disk, in any order, or none of it.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use jiff::Timestamp;
use redb::StorageBackend;
use timingwheel_durable::store::{NewTimer, Page, Saved, Store};
use timingwheel_durable::{RedbOptions, RedbStore, TimerId};

#[derive(Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Len(usize),
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write(offset, data) => {
            if bytes.len() < offset + data.len() {
                bytes.resize(offset + data.len(), 0);
            }
            bytes[*offset..offset + data.len()].copy_from_slice(data);
        }
        Change::Len(len) => bytes.resize(*len, 0),
    }
}

#[derive(Default)]
struct Disk {
    /// As the process sees it.
    seen: Vec<u8>,
    /// As it is surely on the disk.
    synced: Vec<u8>,
    /// What has changed since.
    changes: Vec<Change>,
    /// How many changes and syncs there are still to be before the power is lost.
    left: usize,
    random: fastrand::Rng,
    /// What was left when it was lost, and which saves had been answered then.
    lost: Option<(Vec<u8>, Vec<TimerId>)>,
    answered: Vec<TimerId>,
}

impl Disk {
    fn pass(&mut self) {
        if self.left > 0 {
            self.left -= 1;
            return;
        }
        if self.lost.is_none() {
            let mut bytes = self.synced.clone();
            for change in &self.changes {
                match (self.random.u8(..3), change) {
                    (0, _) => {}
                    // Torn at a sector.
                    (1, Change::Write(offset, data)) if data.len() > 512 => {
                        let sectors = self.random.usize(..data.len() / 512);
                        apply(&mut bytes, &Change::Write(*offset, data[..sectors * 512].to_vec()));
                    }
                    _ => apply(&mut bytes, change),
                }
            }
            self.lost = Some((bytes, self.answered.clone()));
        }
    }
}

#[derive(Clone)]
struct PowerFile(Arc<Mutex<Disk>>);

impl std::fmt::Debug for PowerFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PowerFile")
    }
}

impl PowerFile {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap()
    }
}

impl StorageBackend for PowerFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk().seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).unwrap();
        let disk = self.disk();
        let bytes = disk.seen.get(offset..offset + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut disk = self.disk();
        disk.pass();
        let change = Change::Len(usize::try_from(len).unwrap());
        apply(&mut disk.seen, &change);
        disk.changes.push(change);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut disk = self.disk();
        disk.pass();
        let disk = &mut *disk;
        disk.changes.drain(..).for_each(|change| apply(&mut disk.synced, &change));
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut disk = self.disk();
        disk.pass();
        let change = Change::Write(usize::try_from(offset).unwrap(), data.to_vec());
        apply(&mut disk.seen, &change);
        disk.changes.push(change);
        Ok(())
    }
}

fn timer(unique: u64) -> NewTimer {
    NewTimer {
        key: Some(unique.to_string()),
        ..NewTimer::new(TimerId::new(Timestamp::UNIX_EPOCH, unique), "kind", vec![7; 300])
    }
}

async fn file(disk: Disk) -> (RedbStore, PowerFile) {
    let file = PowerFile(Arc::new(Mutex::new(disk)));
    (RedbStore::with_backend(file.clone(), RedbOptions::new()).expect("a store"), file)
}

/// Saves until the power is lost after so many changes, and tells whether there was a save that was answered before.
async fn lose(seed: u64) -> bool {
    let mut random = fastrand::Rng::with_seed(seed);
    let left = random.usize(..400);
    let disk = Disk { left: usize::MAX, random: random.fork(), ..Disk::default() };
    let (store, file) = file(disk).await;
    file.disk().left = left;
    let mut unique = 0;
    while file.disk().lost.is_none() {
        unique += 1;
        let stored = [Saved::Stored(timer(unique).id)];
        assert_eq!(store.save(vec![timer(unique)]).await.expect("saved"), stored);
        let mut disk = file.disk();
        if disk.lost.is_none() {
            disk.answered.push(timer(unique).id);
        }
    }
    let (bytes, answered) = file.disk().lost.take().expect("lost");
    let disk = Disk { seen: bytes.clone(), synced: bytes, left: usize::MAX, ..Disk::default() };
    let (store, _) = self::file(disk).await;
    let listed = store.list(Page { limit: usize::MAX, ..Page::default() }).await.expect("a list");
    let ids: Vec<TimerId> = listed.iter().map(|timer| timer.timer.id()).collect();
    for id in &answered {
        assert!(ids.contains(id), "seed {seed}: {id} was answered, and is not there");
    }
    assert!(ids.len() <= answered.len() + 1, "seed {seed}");
    assert!(listed.iter().all(|timer| timer.payload == [7; 300]), "seed {seed}");
    !answered.is_empty()
}

#[tokio::test]
async fn what_was_answered_is_there_after_power_was_lost_at_any_change_of_the_file() {
    let mut with_answers = 0;
    for seed in 0..60 {
        with_answers += usize::from(lose(seed).await);
    }
    assert!(with_answers > 30, "{with_answers}");
}

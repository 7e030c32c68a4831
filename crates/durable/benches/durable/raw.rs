//! The engine itself, with the same bytes and the same kind of commit.

use std::path::Path;
use std::time::{Duration, Instant};

use redb::{
    Database, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition, WriteTransaction,
};

use crate::rig::payload;

const TIMERS: TableDefinition<'_, u128, &[u8]> = TableDefinition::new("timers");

pub(crate) struct Raw(Database);

impl Raw {
    pub(crate) fn open(path: &Path) -> Self {
        let database = Database::builder().set_cache_size(32 << 20).create(path).expect("a file");
        Self(database)
    }

    /// A new one.
    pub(crate) fn create(path: &Path) -> Self {
        let raw = Self::open(path);
        raw.write(|transaction| drop(transaction.open_table(TIMERS).expect("a table")));
        raw
    }

    fn write(&self, work: impl FnOnce(&WriteTransaction)) {
        let mut transaction = self.0.begin_write().expect("a transaction");
        transaction.set_quick_repair(true);
        work(&transaction);
        transaction.commit().expect("a commit");
    }

    /// By so many at a time.
    pub(crate) fn insert(&self, keys: std::ops::Range<u128>, batch: usize) -> Duration {
        let bytes = [payload(), vec![0; 24]].concat();
        let begin = Instant::now();
        for from in keys.clone().step_by(batch) {
            self.write(|transaction| {
                let mut table = transaction.open_table(TIMERS).expect("a table");
                for key in from..keys.end.min(from + batch as u128) {
                    // Deadlines lie one after the other, as those do that are saved with one delay.
                    table.insert(key << 64, bytes.as_slice()).expect("inserted");
                }
            });
        }
        begin.elapsed()
    }

    /// Reads the first so many.
    pub(crate) fn load(&self, count: usize) -> Vec<u128> {
        let table = self.0.begin_read().expect("a transaction").open_table(TIMERS).expect("a table");
        let range = ReadableTable::range(&table, 0_u128..).expect("a range");
        range
            .take(count)
            .map(|entry| entry.expect("an entry"))
            .map(|(key, value)| {
                assert!(!value.value().is_empty());
                key.value()
            })
            .collect()
    }

    /// Reads and deletes, by so many at a time, until nothing is left.
    pub(crate) fn drain(&self, batch: usize) -> Duration {
        let begin = Instant::now();
        loop {
            let keys = self.load(batch);
            if keys.is_empty() {
                return begin.elapsed();
            }
            self.write(|transaction| {
                let mut table = transaction.open_table(TIMERS).expect("a table");
                for key in keys {
                    assert!(table.remove(key).expect("removed").is_some());
                }
            });
        }
    }

    pub(crate) fn len(&self) -> u64 {
        self.0
            .begin_read()
            .expect("a transaction")
            .open_table(TIMERS)
            .expect("a table")
            .len()
            .expect("a length")
    }
}

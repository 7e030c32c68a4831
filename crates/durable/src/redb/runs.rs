//! Many entries of a table at a time, by keys that ascend.
//!
//! Finding a leaf of the table and writing it again costs most. If keys stand close together, this is done once for each leaf,
//! instead of once for each key.

use std::ops::{Bound, Range};

use redb::{ReadableTable, Table, Value};

use super::{RedbError, Result};

/// A walk skips up to this many entries between two keys. If there are more, the second key is sought by itself.
const BETWEEN: usize = 4;

/// Fewer than so many keys are removed one by one.
const FEW: usize = 4;

/// The value at each key, and the keys that stand close together.
type Walked<T> = (Vec<Option<T>>, Vec<Range<usize>>);

/// Reads the values at these keys. Also returns which keys stand close together, as ranges of their indexes.
fn walk<V: Value + 'static, T>(
    table: &Table<'_, u128, V>,
    keys: &[u128],
    read: impl Fn(u128, V::SelfType<'_>) -> Result<T>,
) -> Result<Walked<T>> {
    let (mut found, mut runs) = (Vec::with_capacity(keys.len()), Vec::new());
    while found.len() < keys.len() {
        let first = found.len();
        let mut between = 0;
        for entry in table.range(keys[first]..)? {
            let (at, value) = entry?;
            let at = at.value();
            while found.len() < keys.len() && keys[found.len()] < at {
                found.push(None);
            }
            if keys.get(found.len()) == Some(&at) {
                found.push(Some(read(at, value.value())?));
                between = 0;
            } else {
                between += 1;
            }
            if found.len() == keys.len() || between == BETWEEN {
                break;
            }
        }
        if found.len() == first {
            // The table has ended.
            found.resize_with(keys.len(), || None);
        }
        runs.push(first..found.len());
    }
    Ok((found, runs))
}

/// Reads the values at these keys.
pub(super) fn get<V: Value + 'static, T>(
    table: &Table<'_, u128, V>,
    keys: &[u128],
    read: impl Fn(u128, V::SelfType<'_>) -> Result<T>,
) -> Result<Vec<Option<T>>> {
    Ok(walk(table, keys, read)?.0)
}

/// Reads the values at these keys, and removes them, except those for which `read` returns `None`.
///
/// A walk may pass an entry that no look-up finds, because a damaged key is in the way: then this fails.
pub(super) fn take<V: Value + 'static, T>(
    table: &mut Table<'_, u128, V>,
    keys: &[u128],
    read: impl Fn(u128, V::SelfType<'_>) -> Result<Option<T>>,
) -> Result<Vec<Option<T>>> {
    let (found, runs) = walk(table, keys, read)?;
    let found: Vec<Option<T>> = found.into_iter().map(Option::flatten).collect();
    for run in runs {
        let (keys, found) = (&keys[run.clone()], &found[run]);
        if keys.len() < FEW {
            for (key, _) in keys.iter().zip(found).filter(|(_, found)| found.is_some()) {
                if table.remove(key)?.is_none() {
                    return Err(RedbError::Reordered { path: None });
                }
            }
        } else {
            let (first, last) = (keys[0], keys[keys.len() - 1]);
            let mut left = found.iter().flatten().count();
            table.retain_in(first..=last, |key, _| {
                let stays = keys.binary_search(&key).map_or(true, |index| found[index].is_none());
                left = left.saturating_sub(usize::from(!stays));
                stays
            })?;
            if left > 0 {
                return Err(RedbError::Reordered { path: None });
            }
        }
    }
    Ok(found)
}

/// How many neighbours on each side are looked at. One misplaced key shows among two; what was inserted since may stand there too.
const NEIGHBOURS: usize = 8;

/// Fails if entries about this key are not in order. Then a look-up of the key may miss its entry.
///
/// A damaged key misleads a look-up to a place beside it, or to the end of a page beside the right one. So the disorder is there.
pub(super) fn check_order<V: Value + 'static>(table: &impl ReadableTable<u128, V>, key: u128) -> Result<()> {
    let mut last = None;
    let mut before = Vec::with_capacity(NEIGHBOURS);
    for entry in table.range(..key)?.rev().take(NEIGHBOURS) {
        before.push(entry?.0.value());
    }
    let after = table.range((Bound::Excluded(key), Bound::Unbounded))?.take(NEIGHBOURS);
    let after = after.map(|entry| Ok(entry?.0.value())).collect::<Result<Vec<u128>>>()?;
    for key in before.into_iter().rev().chain([key]).chain(after) {
        if last.is_some_and(|last| last >= key) {
            return Err(RedbError::Reordered { path: None });
        }
        last = Some(key);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use redb::backends::InMemoryBackend;
    use redb::{Database, TableDefinition};

    use super::*;

    const TABLE: TableDefinition<'_, u128, (u64, u32)> = TableDefinition::new("table");

    /// Keys that ascend: some dense, some sparse, some of a few runs.
    fn keys(random: &mut fastrand::Rng) -> Vec<u128> {
        let (len, first) = (random.usize(..600), random.u128(..2_000));
        let step = [1, 2, 3, 9, 40][random.usize(..5)];
        let keys: BTreeSet<u128> = (0..len).map(|_| first + random.u128(..len as u128 * step)).collect();
        keys.into_iter().collect()
    }

    #[test]
    fn runs_do_to_a_table_what_single_calls_do_to_a_map() {
        for seed in 0..12 {
            let mut random = fastrand::Rng::with_seed(seed);
            let database = Database::builder().create_with_backend(InMemoryBackend::new()).unwrap();
            let mut map = BTreeMap::new();
            for round in 0..30 {
                let transaction = database.begin_write().unwrap();
                {
                    let mut table = transaction.open_table(TABLE).unwrap();
                    let asked = keys(&mut random);
                    match random.u8(..3) {
                        0 => {
                            for key in asked {
                                map.insert(key, (seed, round));
                                table.insert(key, (seed, round)).unwrap();
                            }
                        }
                        1 => {
                            let taken: Vec<_> = asked.iter().map(|key| map.remove(key)).collect();
                            let read = |_, value| Ok(Some(value));
                            assert_eq!(take(&mut table, &asked, read).unwrap(), taken, "seed {seed}");
                        }
                        _ => {
                            let found: Vec<_> = asked.iter().map(|key| map.get(key).map(|_| *key)).collect();
                            let read = |key, _: (u64, u32)| Ok(key);
                            assert_eq!(get(&table, &asked, read).unwrap(), found, "seed {seed}");
                        }
                    }
                    let left: Vec<_> = table
                        .iter()
                        .unwrap()
                        .map(|entry| entry.map(|(key, value)| (key.value(), value.value())).unwrap())
                        .collect();
                    assert!(left.into_iter().eq(map.clone()), "seed {seed}");
                }
                transaction.commit().unwrap();
            }
        }
    }
}

//! The maps, to be read, as they were at one moment.

use std::ops::Bound::{Excluded, Unbounded};
use std::ops::ControlFlow;

use redb::{ReadOnlyTable, ReadTransaction, ReadableTable, ReadableTableMetadata};

use super::RedbError;
use super::tables::{BEGUN, BURIED, META, TIMERS, corrupt, read_row};
use crate::id::{Place, TimerId};
use crate::store::Counts;
use crate::tables::{Attempt, Head, HeadView, ReadTables, Row, ShowHeads, ShowRows};

pub(super) struct RedbReads {
    meta: ReadOnlyTable<&'static str, u64>,
    timers: ReadOnlyTable<u128, &'static [u8]>,
    begun: ReadOnlyTable<u128, (u64, u32)>,
    buried: ReadOnlyTable<u128, (&'static str, &'static [u8])>,
}

impl RedbReads {
    pub(super) fn open(transaction: &ReadTransaction) -> Result<Self, RedbError> {
        Ok(Self {
            meta: transaction.open_table(META)?,
            timers: transaction.open_table(TIMERS)?,
            begun: transaction.open_table(BEGUN)?,
            buried: transaction.open_table(BURIED)?,
        })
    }

    pub(super) fn counts(&self) -> Result<Counts, RedbError> {
        let begun = self.begun.len()?;
        Ok(Counts { stored: self.timers.len()? - begun, begun, buried: self.buried.len()? })
    }
}

impl ReadTables for RedbReads {
    type Error = RedbError;

    fn epoch(&self) -> Result<u64, RedbError> {
        Ok(ReadableTable::get(&self.meta, "epoch")?.map_or(0, |epoch| epoch.value()))
    }

    fn attempt(&self, at: Place) -> Result<Option<Attempt>, RedbError> {
        let begun = ReadableTable::get(&self.begun, at.to_number())?.map(|begun| begun.value());
        Ok(begun.map(|(epoch, number)| Attempt { epoch, number }))
    }

    fn heads(&self, after: Place, show: ShowHeads<'_, RedbError>) -> Result<(), RedbError> {
        for entry in ReadableTable::range(&self.timers, (Excluded(after.to_number()), Unbounded))? {
            let (at, bytes) = entry?;
            let place = Place::from_number(at.value());
            let head = HeadView::read(bytes.value()).map_err(corrupt("timer", at.value()))?;
            let id = TimerId { due_ms: head.due_ms, unique: place.unique };
            if show(place, Head { id, kind: head.kind })?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn rows(&self, after: Place, show: ShowRows<'_, RedbError>) -> Result<(), RedbError> {
        for entry in ReadableTable::range(&self.timers, (Excluded(after.to_number()), Unbounded))? {
            let (at, bytes) = entry?;
            let row = read_row(at.value(), bytes.value())?;
            if show(Place::from_number(at.value()), row)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn buried(
        &self,
        after: TimerId,
        show: &mut dyn FnMut(Row, String) -> ControlFlow<()>,
    ) -> Result<(), RedbError> {
        for entry in ReadableTable::range(&self.buried, (Excluded(after.place().to_number()), Unbounded))? {
            let (id, buried) = entry?;
            let (reason, bytes) = buried.value();
            if show(read_row(id.value(), bytes)?, reason.to_owned()).is_break() {
                break;
            }
        }
        Ok(())
    }
}

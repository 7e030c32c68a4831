//! Loads, looks and counts: calls that only read.

use super::{Each, Head, Lookup, ended, find_buried, get, standing};
use crate::id::{Place, millis, timestamp};
use crate::store::{
    self, Ask, Counts, Cursor, Filter, Loaded, Looked, Owner, Part, Phase, Shown, Sight, Stored, Tally,
};

/// How many timers of kinds without a handler a load passes for each that it may load.
const PASSED: usize = 4;

pub(crate) fn load<L: Lookup>(tables: &L, owner: Owner, ask: Ask) -> Result<Loaded, L::Error> {
    if tables.about().epoch != owner.epoch {
        return Ok(Loaded::lost());
    }
    let until = Place::last_of(ask.until);
    let limit = ask.limit.max(1);
    let mut loaded = Loaded { timers: Vec::new(), end: ask.after.max(until), next_due: None, lost: false };
    let (mut passed, mut last) = (0, None);
    for head in tables.heads(ask.after, false)? {
        let Head { timer, kind } = head?;
        let at = timer.place();
        if at > until || loaded.timers.len() == limit || passed == limit.saturating_mul(PASSED) {
            if let (Some(last), true) = (last, at <= until) {
                loaded.end = last;
            }
            loaded.next_due = Some(timestamp(at.due_ms));
            break;
        }
        last = Some(at);
        let is_wanted = ask.kinds.contains(&kind)
            && tables.attempt(at)?.is_none_or(|attempt| attempt.epoch != owner.epoch);
        if is_wanted {
            loaded.timers.push(timer);
        } else {
            passed += 1;
        }
    }
    Ok(loaded)
}

pub(crate) fn look<L: Lookup>(tables: &L, filter: Filter, sight: Sight) -> Result<Looked, L::Error> {
    let about = tables.about();
    let show = |row: Stored| {
        let phase = sight.phase(&row, about.epoch, &about.paused);
        Shown::new(row, phase)
    };
    if let Some(which) = &filter.which {
        let found = get(tables, which.clone())?.into_iter().chain(find_buried(tables, which)?).map(show);
        let found = found.chain(ended::last_of(tables, which)?);
        return Ok((found.filter(|shown| filter.wants(shown)).collect(), None));
    }
    let (mut found, mut passed) = (Vec::new(), 0);
    let mut next = Some(filter.start());
    while let Some(Cursor { part, after }) = next.filter(|_| filter.most() > 0) {
        for shown in pass(tables, &filter, part, after, &show)? {
            let (at, shown) = shown?;
            passed += 1;
            found.extend(shown.filter(|shown| filter.wants(shown)));
            if found.len() == filter.most() || passed == store::PASSED {
                return Ok((found, Some(Cursor { part, after: at })));
            }
        }
        next = filter.next_part(part);
    }
    Ok((found, next))
}

/// The places of a part of the store after this one, each with its timer, unless the filter does not want its kind.
fn pass<'a, L: Lookup>(
    tables: &'a L,
    filter: &'a Filter,
    part: Part,
    after: Place,
    show: &'a dyn Fn(Stored) -> Shown,
) -> Each<'a, (Place, Option<Shown>), L::Error> {
    Ok(match part {
        Part::Standing => {
            let from = filter.from.map_or(i64::MIN, millis);
            let after = after.max(Place { due_ms: from.saturating_sub(1), unique: u64::MAX });
            let until = filter.until.map_or(i64::MAX, millis);
            let heads = tables.heads(after, filter.only_series)?;
            let heads =
                heads.take_while(move |head| head.as_ref().map_or(true, |head| head.timer.due_ms < until));
            Box::new(heads.map(move |head| {
                let Head { timer, kind } = head?;
                let at = timer.place();
                let row = if filter.wants_kind(&kind) { tables.row(at)? } else { None };
                Ok((at, row.map(|row| standing(tables, row).map(show)).transpose()?))
            }))
        }
        Part::Buried => {
            let buried = tables.buried(after)?;
            Box::new(buried.map(move |row| row.map(|row| (row.timer.id.place(), Some(show(row))))))
        }
        Part::Damaged => {
            let damaged = tables.damaged(after)?.into_iter();
            Box::new(damaged.map(|shown| Ok((shown.timer.timer.place(), Some(shown)))))
        }
        Part::Ended => ended::pass(tables, filter, after)?,
    })
}

pub(crate) fn count<L: Lookup>(tables: &L) -> Result<Counts, L::Error> {
    tables.counts()
}

/// Up to so many timers are counted one by one.
const COUNTED: usize = 100_000;

/// Counts the first timers, by their due times. The others, if there are more, wait, and are taken for like the ones that were
/// counted and wait.
pub(crate) fn tally<L: Lookup>(tables: &L, sight: Sight) -> Result<Tally, L::Error> {
    let about = tables.about();
    let Counts { stored, begun, buried, .. } = tables.counts()?;
    let (mut tally, mut counted) = (Tally::default(), 0);
    for head in tables.heads(Place::FIRST, false)?.take(COUNTED) {
        let Head { timer, kind } = head?;
        if let Some(row) = tables.row(timer.place())? {
            let phase = sight.phase(&standing(tables, row)?, about.epoch, &about.paused);
            *tally.counts.entry((kind, phase)).or_default() += 1;
        }
        counted += 1;
    }
    let is_ahead = |phase| matches!(phase, Phase::Waiting | Phase::Retrying);
    scale(&mut tally, is_ahead, (stored + begun).saturating_sub(counted));
    let mut dead = 0;
    for row in tables.buried(Place::FIRST)?.take(COUNTED) {
        *tally.counts.entry((row?.kind, Phase::Buried)).or_default() += 1;
        dead += 1;
    }
    scale(&mut tally, |phase| phase == Phase::Buried, buried.saturating_sub(dead));
    Ok(tally)
}

/// So many more are in some phases, of the same kinds.
fn scale(tally: &mut Tally, is_of: impl Fn(Phase) -> bool, more: u64) {
    let all: u64 = tally.counts.iter().filter(|((_, phase), _)| is_of(*phase)).map(|(_, count)| count).sum();
    for ((_, phase), count) in &mut tally.counts {
        *count += if is_of(*phase) { count.saturating_mul(more) / all.max(1) } else { 0 };
    }
    tally.is_estimate |= more > 0;
}

//! The calls that only read.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::connections::{Connections, Parameter};
use super::convert::{get, id, last_number, near, standing, stored};
use super::shards::AllShards;
use super::{Inner, Result, only};
use crate::id::{Place, timestamp};
use crate::store::{Ask, Buried, Counts, Loaded, Near, Overdue, Owner, Page, State, Stored};

/// Timers that are saved after their due time are mostly due within this long before now.
const GRACE_MS: i64 = 60_000;

/// At least this many rows of each shard are asked for, unless the limit is less.
const LEAST: usize = 64;

pub(super) async fn load(inner: &Inner, owner: Owner, ask: &Ask) -> Result<Loaded> {
    let Inner { connections, owned, shards, .. } = inner;
    let limit = ask.limit.max(1);
    let parts = owned.of(owner.epoch).map(|of_owner| of_owner.parts).unwrap_or_default();
    let count = parts.shards.count() + parts.helps.count();
    let count = if count == 0 { shards.count() } else { count };
    // From each shard twice its part of the limit, because some shards have more timers than others.
    let of_each = (limit.saturating_mul(2) / count as usize).max(LEAST).min(limit);
    let token = owned.token(owner.epoch);
    let until = Place::last_of(ask.until).due_ms;
    let (epoch, after, after_number) = (owner.epoch.cast_signed(), ask.after.due_ms, last_number(ask.after));
    // One more of each, to see whether it is all.
    let most = i64::try_from(of_each).unwrap_or(i64::MAX - 1) + 1;
    let kinds: Vec<&str> = ask.kinds.iter().map(String::as_str).collect();
    let rows = connections
        .ask(
            "select l.*, true as alive from timingwheel.load(timingwheel.instance($1, $7), $2, $3, $4, $5, $6) l \
             union all \
             select null, null, null, null, null, null, true from timingwheel.instances \
             where epoch = timingwheel.instance($1, $7)",
            &[
                (&epoch, Type::INT8),
                (&after, Type::INT8),
                (&after_number, Type::INT8),
                (&until, Type::INT8),
                (&most, Type::INT8),
                (&kinds, Type::TEXT_ARRAY),
                (&token, Type::INT8),
            ],
        )
        .await?;
    let (mut found, mut ahead, mut is_alive) = (Vec::with_capacity(rows.len()), Vec::new(), false);
    let (mut of, mut bound) = (std::collections::HashMap::<i16, usize>::new(), None::<Place>);
    for row in &rows {
        let Some(shard) = get::<Option<i16>>(row, "shard")? else {
            is_alive = true;
            continue;
        };
        let timer = near(get(row, "due_ms")?, get(row, "first_ms")?, get(row, "number")?);
        if get(row, "ahead")? {
            ahead.push(timer.place());
            continue;
        }
        let count = of.entry(shard).or_default();
        *count += 1;
        if *count <= of_each {
            found.push((timer, get::<bool>(row, "wanted")?));
        } else {
            // This shard has more timers than were asked for.
            ahead.push(timer.place());
            let last = last_of(&found, *shards, shard);
            bound = Some(bound.map_or(last, |bound: Place| bound.min(last)));
        }
    }
    if !is_alive {
        return Ok(Loaded::lost());
    }
    found.sort_unstable_by_key(|(timer, _)| timer.place());
    if ask.after == Place::FIRST {
        let first = found.iter().find(|(_, is_wanted)| *is_wanted).map(|(timer, _)| timer.due_ms);
        let recent = owned.now_ms(owner.epoch).saturating_sub(GRACE_MS).min(until);
        owned.set_low(owner.epoch, first.map_or(recent, |first| first.min(recent)));
    }
    let mut end = bound.unwrap_or_else(|| ask.after.max(Place::last_of(ask.until)));
    let mut timers = Vec::new();
    let mut looked_at = 0;
    let mut rest = found.into_iter().peekable();
    while let Some((timer, is_wanted)) = rest.next_if(|(timer, _)| timer.place() <= end) {
        looked_at += 1;
        if is_wanted {
            timers.push(timer);
        }
        let is_full = timers.len() == limit || looked_at == limit.saturating_mul(4);
        if is_full && rest.peek().is_some() {
            end = timer.place();
        }
    }
    let next = rest.map(|(timer, _)| timer.place()).chain(ahead).filter(|place| *place > end).min();
    Ok(Loaded { timers, end, next_due: next.map(|place| timestamp(place.due_ms)), lost: false })
}

/// The place of the last timer that was found in a shard.
fn last_of(found: &[(Near, bool)], shards: AllShards, shard: i16) -> Place {
    let of_shard = |timer: &Near| shards.of(timer.id.unique) == u64::from(shard.unsigned_abs());
    let last = found.iter().rev().find(|(timer, _)| of_shard(timer));
    last.map_or(Place::FIRST, |(timer, _)| timer.place())
}

/// The columns of a timer, without what may be large.
const HEAD: &str = "due_ms, number, first_ms, begun_by, attempts, crashes, kind, key, rule, missed, standing, \
    null::int[] as failed, null::text[] as errors, ending, version, ''::bytea as payload";

/// Those in its own shards. Leaves out those that cannot be read, and goes on behind them: they are reported when they are listed
/// or begun.
pub(super) async fn series(
    inner: &Inner,
    owner: Owner,
    mut after: Place,
    limit: usize,
) -> Result<Vec<Stored>> {
    let statement = format!(
        "select t.* from timingwheel.shards s cross join lateral ( \
            select {HEAD} from timingwheel.timers \
            where shard = s.shard and rule is not null and (due_ms, number) > ($2, $3) \
            order by due_ms, number limit $4 \
        ) t where s.epoch = timingwheel.instance($1, $5) order by t.due_ms, t.number limit $4"
    );
    loop {
        let parameters: [Parameter<'_>; 5] = [
            (&owner.epoch.cast_signed(), Type::INT8),
            (&after.due_ms, Type::INT8),
            (&last_number(after), Type::INT8),
            (&i64::try_from(limit).unwrap_or(i64::MAX), Type::INT8),
            (&inner.owned.token(owner.epoch), Type::INT8),
        ];
        let rows = inner.connections.ask(&statement, &parameters).await?;
        let found: Vec<Stored> = rows.iter().filter_map(|row| standing(row).ok()).collect();
        match rows.last() {
            Some(last) if found.is_empty() => {
                let id = id(get(last, "first_ms")?, get(last, "number")?);
                after = Place { due_ms: get(last, "due_ms")?, unique: id.unique };
            }
            _ => return Ok(found),
        }
    }
}

/// How many timers of each shard are looked at, and how many are told, if they are overdue.
const MOST_OVERDUE: i64 = 100;

/// Those in its own shards.
pub(super) async fn overdue(inner: &Inner, owner: Owner, until: i64) -> Result<Vec<Overdue>> {
    // What the owner has begun is looked for in each shard: it may have been another's since.
    let statement = format!(
        "with known as (select timingwheel.instance($1, $4) as me, array( \
                select k from timingwheel.instances i cross join lateral unnest(i.kinds) k \
            ) as handled), \
        found as (select t.*, t.kind = any(h.handled) as is_handled \
            from known h cross join timingwheel.shards s cross join lateral ( \
                select {HEAD} from timingwheel.timers \
                where shard = s.shard and due_ms <= $2 order by due_ms, number limit $3 \
            ) t where t.begun_by = h.me or (s.epoch = h.me and t.begun_by is null)), \
        numbered as (select *, row_number() over (partition by begun_by is null order by due_ms, number) as n \
            from found where rule is not null or not is_handled or begun_by is not null) \
        select * from numbered where n <= $3 order by due_ms, number"
    );
    let parameters: [Parameter<'_>; 4] = [
        (&owner.epoch.cast_signed(), Type::INT8),
        (&until, Type::INT8),
        (&MOST_OVERDUE, Type::INT8),
        (&inner.owned.token(owner.epoch), Type::INT8),
    ];
    let rows = inner.connections.ask(&statement, &parameters).await?;
    let overdue = |row| -> Result<Overdue> {
        let Stored { timer, kind, series, state, .. } = standing(row)?;
        let has_begun = state != State::Stored;
        Ok(Overdue { timer, kind, series, is_handled: get(row, "is_handled")?, has_begun })
    };
    Ok(rows.iter().filter_map(|row| overdue(row).ok()).collect())
}

/// Leaves out timers that cannot be read, and goes on behind them.
pub(super) async fn list(inner: &Inner, mut page: Page) -> Result<Vec<Stored>> {
    let (most, mut found) = (page.limit, Vec::new());
    loop {
        let rows = rows_of(&inner.connections, &page).await?;
        let is_last = rows.len() < page.limit;
        for row in &rows {
            let id = id(get(row, "first_ms")?, get(row, "number")?);
            let read = if page.buried {
                get(row, "reason")
                    .and_then(|reason| stored(row, Near::from(id), State::Buried(Buried { reason })))
            } else {
                standing(row)
            };
            let due_ms = if page.buried { id.due_ms } else { get(row, "due_ms")? };
            page.after = Place { due_ms, unique: id.unique };
            found.extend(inner.readable(id, read));
        }
        page.limit = most - found.len();
        if is_last || page.limit == 0 {
            return Ok(found);
        }
    }
}

async fn rows_of(connections: &Connections, page: &Page) -> Result<Vec<Row>> {
    let limit = i64::try_from(page.limit).unwrap_or(i64::MAX);
    let (after, number) = (page.after.due_ms, last_number(page.after));
    let kind = page.kind.as_deref();
    let parameters: [Parameter<'_>; 4] =
        [(&after, Type::INT8), (&number, Type::INT8), (&kind, Type::TEXT), (&limit, Type::INT8)];
    if page.buried {
        let statement = "select * from timingwheel.buried \
            where (first_ms, number) > ($1, $2) and ($3 is null or kind = $3) and ($5 is false or rule is not null) \
            order by first_ms, number limit $4";
        let mut parameters = parameters.to_vec();
        parameters.push((&page.only_series, Type::BOOL));
        return connections.ask(statement, &parameters).await;
    }
    let statement = if page.only_series {
        "select t.* from timingwheel.shards s cross join lateral ( \
            select * from timingwheel.timers \
            where shard = s.shard and rule is not null and (due_ms, number) > ($1, $2) and ($3 is null or kind = $3) \
            order by due_ms, number limit $4 \
        ) t order by t.due_ms, t.number limit $4"
    } else {
        "select t.* from timingwheel.shards s cross join lateral ( \
            select * from timingwheel.timers \
            where shard = s.shard and (due_ms, number) > ($1, $2) and ($3 is null or kind = $3) \
            order by due_ms, number limit $4 \
        ) t order by t.due_ms, t.number limit $4"
    };
    connections.ask(statement, &parameters).await
}

/// Up to this many pages of a table are counted: half a gigabyte. Of a larger one, about so many are sampled.
const MOST_PAGES: i64 = 65_536;
const SAMPLED: i64 = 16_384;

/// Counts small tables, and estimates large ones from a sample of their pages: to read a table of thirty million rows takes longer
/// than a call may.
pub(super) async fn count(connections: &Connections) -> Result<Counts> {
    let pages = "select pg_relation_size('timingwheel.timers') / current_setting('block_size')::int as timers, \
        pg_relation_size('timingwheel.buried') / current_setting('block_size')::int as buried";
    let rows = connections.ask(pages, &[]).await?;
    let percent = |name| -> Result<f32> {
        let pages: i64 = get(only(&rows)?, name)?;
        #[allow(clippy::cast_precision_loss, reason = "of an estimate")]
        Ok(if pages <= MOST_PAGES { 100.0 } else { SAMPLED as f32 * 100.0 / pages as f32 })
    };
    let (timers, buried) = (percent("timers")?, percent("buried")?);
    let statement = "select (count(*) * 100 / $1)::bigint as timers, (count(begun_by) * 100 / $1)::bigint as begun, \
            (select (count(*) * 100 / $2)::bigint from timingwheel.buried tablesample system ($2)) as buried \
        from timingwheel.timers tablesample system ($1)";
    let rows = connections.ask(statement, &[(&timers, Type::FLOAT4), (&buried, Type::FLOAT4)]).await?;
    let count = |name| get::<i64>(only(&rows)?, name).map(i64::cast_unsigned);
    let (all, begun) = (count("timers")?, count("begun")?);
    let is_estimate = timers.min(buried) < 100.0;
    Ok(Counts { stored: all.saturating_sub(begun), begun, buried: count("buried")?, is_estimate })
}

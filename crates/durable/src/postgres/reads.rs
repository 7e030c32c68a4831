//! The calls that only read.

use std::collections::HashMap;

use jiff::Timestamp;
use tokio_postgres::Row;

use super::changes::name;
use super::connections::{Parameter, Sends};
use super::convert::{get, id, last_number, near, standing};
use super::{Inner, Result};
use crate::id::Place;
use crate::store::{Ask, Counts, Kinds, Loaded, Overdue, Owner, PASSED, Stored, Which};

/// Timers that are saved after their due time are mostly due within this long before now.
const GRACE_MS: i64 = 60_000;

/// At least this many rows of each shard are asked for, unless the limit is less.
const LEAST: usize = 64;

/// The columns of a timer, without what may be large.
const HEAD: &str = "due_ms, number, first_ms, begun_by, attempts, crashes, kind, key, rule, missed, standing, \
    null::int[] as failed, null::text[] as errors, ending, version, ''::bytea as payload";

/// Up to this many pages of a table are counted: half a gigabyte. Of a larger one, about so many are sampled.
const MOST_PAGES: i64 = 65_536;
const SAMPLED: i64 = 16_384;

/// The row of a timer, as the SQL function `locked` finds it, wherever it stands.
pub(super) async fn find(to: &impl Sends, which: &Which) -> Result<Option<Row>> {
    let (first, number, key) = name(which);
    let by_name = "select * from timingwheel.timers where shard = timingwheel.shard_of($2) and number = $2 \
        and first_ms = $1 and (due_ms = $1 or due_ms <> first_ms)";
    let rows = match key {
        Some(key) => to.ask("select * from timingwheel.timers where key = $1", &[&key]).await?,
        None => to.ask(by_name, &[&first, &number]).await?,
    };
    Ok(rows.into_iter().next())
}

impl Inner {
    pub(super) async fn load(&self, owner: Owner, ask: Ask) -> Result<Loaded> {
        let Self { connections, owned, shards, .. } = self;
        let limit = ask.limit.max(1);
        let parts = owned.of(owner.epoch).map(|of_owner| of_owner.parts).unwrap_or_default();
        let count = parts.shards.count() + parts.helps.count();
        let count = if count == 0 { shards.count() } else { count };
        // From each shard twice its part of the limit, because some shards have more timers than others.
        let of_each = (limit.saturating_mul(2) / count as usize).max(LEAST).min(limit);
        let until = Place::last_of(ask.until).due_ms;
        let (epoch, token) = self.identity(owner);
        // One more of each, to see whether it is all.
        let most = i64::try_from(of_each).unwrap_or(i64::MAX - 1) + 1;
        let kinds: Vec<&str> = ask.kinds.iter().map(String::as_str).collect();
        let statement = "select l.*, true as alive \
            from timingwheel.load(timingwheel.instance($1, $2), $3, $4, $5, $6, $7) l \
            union all \
            select null, null, null, null, null, null, true from timingwheel.instances \
            where epoch = timingwheel.instance($1, $2)";
        let parameters: [&dyn Parameter; 7] =
            [&epoch, &token, &ask.after.due_ms, &last_number(ask.after), &until, &most, &kinds];
        let rows = connections.for_runner().ask(statement, &parameters).await?;
        let (mut found, mut is_alive) = (Vec::with_capacity(rows.len()), false);
        let mut end = ask.after.max(Place::last_of(ask.until));
        // How many timers of each shard were found, and the place of the last one.
        let mut of = HashMap::<i16, (usize, Place)>::new();
        for row in &rows {
            let Some(shard) = get::<Option<i16>>(row, "shard")? else {
                is_alive = true;
                continue;
            };
            let timer = near(get(row, "due_ms")?, get(row, "first_ms")?, get(row, "number")?);
            if !get::<bool>(row, "ahead")? {
                let (count, last) = of.entry(shard).or_insert((0, Place::FIRST));
                if *count == of_each {
                    // This shard has more timers than were asked for.
                    end = end.min(*last);
                }
                (*count, *last) = (*count + 1, timer.place());
            }
            found.push((timer, get::<bool>(row, "wanted")?));
        }
        if !is_alive {
            return Ok(Loaded::lost());
        }
        found.sort_unstable_by_key(|(timer, _)| timer.place());
        if ask.after == Place::FIRST {
            let first = found.iter().find(|(_, is_wanted)| *is_wanted).map(|(timer, _)| timer.due_ms);
            let recent = owned.now_ms().saturating_sub(GRACE_MS).min(until);
            let low_ms = first.map_or(recent, |first| first.min(recent));
            owned.change(owner.epoch, |of_owner| of_owner.low_ms = Some(low_ms));
        }
        let mut timers = Vec::new();
        let mut looked_at = 0;
        let mut rest = found.into_iter().peekable();
        while let Some((timer, is_wanted)) = rest.next_if(|(timer, _)| timer.place() <= end) {
            looked_at += 1;
            if is_wanted {
                timers.push(timer);
            }
            let is_full = timers.len() == limit || looked_at == limit.saturating_mul(4);
            if is_full && rest.peek().is_some_and(|(next, _)| next.place() <= end) {
                end = timer.place();
            }
        }
        Ok(Loaded { timers, end, next_due: rest.next().map(|(timer, _)| timer.due()), lost: false })
    }

    pub(super) async fn get(&self, which: Which) -> Result<Option<Stored>> {
        find(&self.connections, &which).await?.as_ref().map(standing).transpose()
    }

    /// Those in its own shards. Leaves out those that cannot be read, and goes on behind them: they are reported when they are
    /// listed or begun.
    pub(super) async fn series(&self, owner: Owner, mut after: Place, limit: usize) -> Result<Vec<Stored>> {
        let statement = format!(
            "select t.* from timingwheel.shards s cross join lateral ( \
                select {HEAD} from timingwheel.timers \
                where shard = s.shard and rule is not null and (due_ms, number) > ($3, $4) \
                order by due_ms, number limit $5 \
            ) t where s.epoch = timingwheel.instance($1, $2) order by t.due_ms, t.number limit $5"
        );
        let (epoch, token) = self.identity(owner);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        loop {
            let parameters: [&dyn Parameter; 5] =
                [&epoch, &token, &after.due_ms, &last_number(after), &limit];
            let rows = self.connections.for_runner().ask(&statement, &parameters).await?;
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

    /// Those in its own shards. What the owner has begun is looked for in each shard: it may have been another's since. Of a shard that
    /// has more, the last one that is passed bounds the answer.
    pub(super) async fn overdue(
        &self,
        owner: Owner,
        after: Place,
        until: Timestamp,
        _: Kinds,
    ) -> Result<(Vec<Overdue>, Option<Place>)> {
        let statement = "with known as (select timingwheel.instance($1, $2) as me, array( \
                    select k from timingwheel.instances i cross join lateral unnest(i.kinds) k \
                ) as handled), \
            passed as materialized (select t.*, t.kind = any(h.handled) as is_handled, \
                    coalesce(t.begun_by = h.me, false) as has_begun, s.epoch = h.me and t.begun_by is null as is_stored \
                from known h cross join timingwheel.shards s cross join lateral ( \
                    select due_ms, number, first_ms, begun_by, kind, rule, \
                        row_number() over (order by due_ms, number) = $6 as is_full \
                    from timingwheel.timers where shard = s.shard and (due_ms, number) > ($3, $4) and due_ms <= $5 \
                    order by shard, due_ms, number limit $6 \
                ) t), \
            bound as (select due_ms, number from passed where is_full order by due_ms, number limit 1) \
            select * from ( \
                select p.*, coalesce((p.due_ms, p.number) = (b.due_ms, b.number), false) as is_bound, \
                    has_begun or (is_stored and (rule is not null or not is_handled)) as is_wanted \
                from passed p left join bound b on true \
                where b.due_ms is null or (p.due_ms, p.number) <= (b.due_ms, b.number) \
            ) x where is_wanted or is_bound order by due_ms, number";
        let (epoch, token) = self.identity(owner);
        let of_each = i64::from((u32::from(PASSED) / self.shards.count()).max(1));
        let parameters: [&dyn Parameter; 6] =
            [&epoch, &token, &after.due_ms, &last_number(after), &until.as_millisecond(), &of_each];
        let (mut found, mut end) = (Vec::new(), None);
        for row in &self.connections.for_runner().ask(statement, &parameters).await? {
            let timer = near(get(row, "due_ms")?, get(row, "first_ms")?, get(row, "number")?);
            if get(row, "is_bound")? {
                end = Some(timer.place());
            }
            if get(row, "is_wanted")? {
                found.push(Overdue {
                    timer,
                    kind: get(row, "kind")?,
                    rule: get(row, "rule")?,
                    is_handled: get(row, "is_handled")?,
                    has_begun: get(row, "has_begun")?,
                });
            }
        }
        Ok((found, end))
    }

    /// How much of a table is read to count its rows: all of up to `most` pages, and otherwise about as many as `sampled`.
    pub(super) async fn percent(&self, table: &str, most: i64, sampled: i64) -> Result<f32> {
        let pages = format!(
            "select pg_relation_size('timingwheel.{table}') / current_setting('block_size')::bigint as pages"
        );
        let pages: i64 = get(&self.connections.ask_one(&pages, &[]).await?, "pages")?;
        #[allow(clippy::cast_precision_loss, reason = "of an estimate")]
        Ok(if pages <= most { 100.0 } else { sampled as f32 * 100.0 / pages as f32 })
    }

    /// Counts small tables, and estimates tables of more than half a gigabyte from a sample of their pages: to read a table of thirty
    /// million rows takes longer than a call may.
    pub(super) async fn count(&self) -> Result<Counts> {
        let timers = self.percent("timers", MOST_PAGES, SAMPLED).await?;
        let buried = self.percent("buried", MOST_PAGES, SAMPLED).await?;
        let statement = "select (count(*) * 100 / $1)::bigint as timers, (count(begun_by) * 100 / $1)::bigint as begun, \
                (select (count(*) * 100 / $2)::bigint from timingwheel.buried tablesample system ($2)) as buried \
            from timingwheel.timers tablesample system ($1)";
        let row = self.connections.ask_one(statement, &[&timers, &buried]).await?;
        let count = |name| get::<i64>(&row, name).map(i64::cast_unsigned);
        let (all, begun) = (count("timers")?, count("begun")?);
        let is_estimate = timers.min(buried) < 100.0;
        Ok(Counts { stored: all.saturating_sub(begun), begun, buried: count("buried")?, is_estimate })
    }
}

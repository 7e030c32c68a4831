//! Looks at timers by a filter, acts on many of them, and pauses. The state of a timer is reckoned by `phase_of` in
//! `sql/migration_3.sql`.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio_postgres::Row;

use super::changes::name;
use super::connections::{Parameter, Sends};
use super::convert::{
    attempts, buried, column, ended, get, id, last_number, named, near, number, readable, standing, unknown,
};
use super::{Inner, Result};
use crate::id::{Place, millis};
use crate::store::{
    Cursor, Effects, Filter, Histories, Looked, NewTimer, PASSED, Part, Paused, Phase, Picked, Shown, Sight,
    Stored, Tally,
};

/// What decides about phases, once for a statement.
const KNOWN: &str = "with known as ( \
        select array(select epoch from timingwheel.instances) as alive, \
            array(select unnest(kinds) from timingwheel.instances where works) as handled, \
            (select paused from timingwheel.format) as paused, timingwheel.now_ms() as now \
    )";

const PHASE_OF: &str =
    "timingwheel.phase_of(begun_by, attempts, due_ms, kind, k.now, k.alive, k.handled, k.paused)";

/// The timers of a page, in a statement. Its parameters are those of `Inner::look`.
///
/// Some timers of each shard are looked at, in the order of the index. Of a shard that has more the last one bounds the page, as
/// others may follow it: `is_bound`.
fn statement(part: Part, by_key: Option<bool>, only_series: bool) -> String {
    let (table, columns, phase, at) = match part {
        Part::Ended => {
            ("ended", "*, ended_ms as due_ms, false as ending, 0 as version", "s.how", "s.ended_ms")
        }
        Part::Buried => {
            let columns = "*, first_ms as due_ms, null::bigint as begun_by";
            ("buried", columns, "'buried'", "coalesce(buried_ms, first_ms)")
        }
        Part::Standing | Part::Damaged => ("timers", "*", PHASE_OF, "s.due_ms"),
    };
    let series = if only_series { "rule is not null and" } else { "" };
    let order = if part == Part::Ended { "order by ended_ms desc limit 100" } else { "" };
    let source = match (by_key, part) {
        (Some(true), _) => {
            format!("select {columns}, false as is_full from timingwheel.{table} where key = $8 {order}")
        }
        (Some(false), Part::Ended | Part::Buried) => format!(
            "select {columns}, false as is_full from timingwheel.{table} where number = $2 and first_ms = $1 {order}"
        ),
        (Some(false), _) => "select *, false as is_full from timingwheel.timers \
            where shard = timingwheel.shard_of($2) and number = $2 and first_ms = $1 \
                and (due_ms = $1 or due_ms <> first_ms)"
            .to_owned(),
        (None, Part::Ended) => format!(
            "select e.* from (select key as kind from timingwheel.format f, jsonb_object_keys(f.histories) key \
                where $5::text is null or key = $5) k cross join lateral ( \
                select {columns}, row_number() over (order by ended_ms, number) = $10 as is_full \
                from timingwheel.ended where kind = k.kind and (ended_ms, number) > ($1, $2) and ended_ms < $4 \
                order by kind, ended_ms, number limit $10) e"
        ),
        (None, Part::Buried) => format!(
            "select {columns}, row_number() over (order by first_ms, number) = $10 as is_full \
                from timingwheel.buried where {series} (first_ms, number) > ($1, $2) order by first_ms, number limit $10"
        ),
        (None, _) => format!(
            "select t.* from timingwheel.shards s cross join lateral ( \
                select *, row_number() over (order by due_ms, number) = $10 as is_full from timingwheel.timers \
                where shard = s.shard and {series} (due_ms, number) > ($1, $2) and due_ms < $4 \
                order by shard, due_ms, number limit $10 \
            ) t"
        ),
    };
    format!(
        "{KNOWN}, scanned as materialized ({source}), bound as ( \
            select due_ms, number from scanned where is_full order by due_ms, number limit 1 \
        ) select x.*, (select name from timingwheel.instances i where i.epoch = begun_by) as instance from ( \
            select s.*, p.phase, coalesce((s.due_ms, s.number) = (b.due_ms, b.number), false) as is_bound, \
                {at} >= $3 and {at} < $4 and ($5::text is null or kind = $5) \
                    and ($6::text is null or coalesce(starts_with(key, $6), false)) \
                    and ($7::text is null or p.phase = $7) as matches \
            from scanned s cross join known k cross join lateral (select {phase} as phase) p left join bound b on true \
            where b.due_ms is null or (s.due_ms, s.number) <= (b.due_ms, b.number) \
        ) x where matches or is_bound order by due_ms, number limit $9"
    )
}

/// Of a table with more than twice as many pages, about so many are counted.
const COUNTED: i64 = 2_000;

impl Inner {
    /// Which timers, as parameters: of a name, or after a place.
    async fn page(&self, filter: &Filter, part: Part, after: Place, limit: usize) -> Result<Vec<Row>> {
        let (mut due, mut number, mut key) = (after.due_ms, last_number(after), None);
        if let Some(which) = &filter.which {
            let (first, of_id, of_key) = name(which);
            (due, number, key) = (first.unwrap_or(0), of_id.unwrap_or(0), of_key);
        }
        let from = filter.from.map_or(i64::MIN, millis);
        let until = filter.until.map_or(i64::MAX, millis);
        if part != Part::Buried && filter.which.is_none() && due < from {
            (due, number) = (from.saturating_sub(1), i64::MAX);
        }
        let (kind, prefix) =
            (filter.kind.as_deref().map(readable), filter.key_prefix.as_deref().map(readable));
        // Which are damaged is not seen there.
        let phase = filter.phase.filter(|phase| *phase != Phase::Damaged).map(Phase::name);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let shards = if part == Part::Buried { 1 } else { i64::from(self.shards.count()) };
        // Where all timers are wanted, the page is mostly full with this.
        let wants_some = kind.is_some() || prefix.is_some() || filter.phase.is_some();
        let least = (limit.saturating_mul(4) / shards + 4).min(i64::from(PASSED) / shards);
        let of_each = match part {
            // Of each kind.
            Part::Ended if kind.is_none() => i64::from(PASSED) / 8,
            Part::Ended => i64::from(PASSED),
            _ if wants_some || part == Part::Buried => i64::from(PASSED) / shards,
            _ => least,
        };
        let parameters: [&dyn Parameter; 10] =
            [&due, &number, &from, &until, &kind, &prefix, &phase, &key, &limit, &of_each];
        let by_key = filter.which.as_ref().map(|_| key.is_some());
        self.connections.ask(&statement(part, by_key, filter.only_series), &parameters).await
    }

    pub(super) async fn look(&self, filter: Filter, _: Sight) -> Result<Looked> {
        let filter = &filter;
        let mut found = Vec::new();
        if filter.which.is_some() {
            // The last time for one that was buried, and is stored again meanwhile.
            for part in [Part::Standing, Part::Buried, Part::Standing] {
                if part == Part::Buried || found.is_empty() {
                    for row in &self.page(filter, part, Place::FIRST, usize::from(PASSED)).await? {
                        found.push(self.shown(row, part)?);
                    }
                }
            }
            for row in self.page(filter, Part::Ended, Place::FIRST, usize::from(PASSED)).await?.iter().rev() {
                found.push(self.shown(row, Part::Ended)?);
            }
            return Ok((found, None));
        }
        let mut start = filter.start();
        if start.part == Part::Damaged {
            start.part = Part::Standing;
        }
        let mut next = Some(start);
        while let Some(Cursor { part, after }) = next.filter(|_| found.len() < filter.most()) {
            // Those that are damaged stand among the others.
            let limit =
                if filter.phase == Some(Phase::Damaged) { usize::MAX } else { filter.most() - found.len() };
            let limit = limit.min(PASSED.into());
            let rows = self.page(filter, part, after, limit).await?;
            let mut ends_at = (rows.len() == limit).then_some(after);
            for row in &rows {
                let at =
                    Place { due_ms: get(row, "due_ms")?, unique: get::<i64>(row, "number")?.cast_unsigned() };
                if ends_at.is_some() || get(row, "is_bound")? {
                    ends_at = Some(at);
                }
                if get(row, "matches")? {
                    let shown = self.shown(row, part)?;
                    found.extend(Some(shown).filter(|shown| filter.wants(shown)));
                }
            }
            next = match (ends_at, part, filter.phase) {
                (Some(after), ..) => return Ok((found, Some(Cursor { part, after }))),
                (None, Part::Standing, None | Some(Phase::Damaged))
                    if filter.part != Some(Part::Standing) =>
                {
                    Some(Cursor { part: Part::Buried, after: Place::FIRST })
                }
                _ => None,
            };
        }
        Ok((found, next))
    }

    /// A row that cannot be read is shown as far as it can be.
    fn shown(&self, row: &Row, part: Part) -> Result<Shown> {
        let id = id(get(row, "first_ms")?, get(row, "number")?);
        let read = match part {
            Part::Buried => buried(row),
            Part::Ended => ended(row),
            _ => standing(row),
        };
        let damage = read.as_ref().err().map(ToString::to_string);
        let phase = get::<String>(row, "phase")?.parse().unwrap_or(Phase::Damaged);
        let (timer, phase) = match self.readable(id, read) {
            Some(timer) => (timer, phase),
            None => {
                let mut timer = Stored::from(NewTimer::new(
                    id,
                    get::<String>(row, "kind")?,
                    get::<Vec<u8>>(row, "payload")?,
                ));
                timer.key = get(row, "key")?;
                timer.timer = near(get(row, "due_ms")?, id.due_ms, number(id));
                timer.attempts = attempts(get(row, "attempts")?);
                (timer, Phase::Damaged)
            }
        };
        let mut shown = Shown::new(timer, phase);
        (shown.instance, shown.damage) =
            (get(row, if part == Part::Ended { "run_by" } else { "instance" })?, damage);
        Ok(shown)
    }

    /// Counts the rows of some pages that the server picks at random.
    pub(super) async fn tally(&self, _: Sight) -> Result<Tally> {
        let mut tally = Tally::default();
        for (table, phase) in [("timers", PHASE_OF), ("buried", "'buried'")] {
            let percent = self.percent(table, 2 * COUNTED, COUNTED).await?;
            tally.is_estimate |= percent < 100.0;
            let statement = format!(
                "{KNOWN} select kind, {phase} as phase, (count(*) * 100 / $1)::bigint as count \
                from timingwheel.{table} tablesample system ($1), known k group by 1, 2"
            );
            for row in &self.connections.ask(&statement, &[&percent]).await? {
                let phase = get::<String>(row, "phase")?.parse().unwrap_or(Phase::Damaged);
                let count = get::<i64>(row, "count")?.unsigned_abs();
                tally.counts.insert((get(row, "kind")?, phase), count);
            }
        }
        Ok(tally)
    }

    pub(super) async fn act(
        self: &Arc<Self>,
        picked: Vec<Picked>,
        due: Option<Timestamp>,
    ) -> Result<Effects> {
        let due_ms = due.map(millis);
        let parameters: [&dyn Parameter; 4] = [
            &column(&picked, |picked| picked.id.due_ms),
            &column(&picked, |picked| number(picked.id)),
            &column(&picked, |picked| picked.number.cast_signed()),
            &due_ms,
        ];
        let mut effects = Effects::default();
        let statement = "select * from timingwheel.act($1, $2, $3, $4)";
        for row in &self.connections.ask(statement, &parameters).await? {
            match get::<i32>(row, "answer")? {
                0 => {}
                1 if due_ms.is_none() => effects.gone.push(named(row)?),
                1 => effects.stored.push(named(row)?),
                2 => effects.running += 1,
                3 => effects.key_taken += 1,
                4 => effects.locked += 1,
                other => return Err(unknown("act", other)),
            }
        }
        effects.stored.iter().for_each(|near| self.note(*near));
        self.send_what_came_late().await;
        Ok(effects)
    }

    pub(super) async fn pause(&self, change: Option<(String, bool)>) -> Result<Paused> {
        let row = match change {
            None => self.connections.ask_one("select paused from timingwheel.format", &[]).await?,
            Some((kind, is_paused)) => {
                let call = if is_paused { "pause_kind" } else { "resume_kind" };
                let statement = format!("select timingwheel.{call}($1) as paused");
                self.connections.ask_one(&statement, &[&readable(&kind)]).await?
            }
        };
        Ok(get::<Vec<String>>(&row, "paused")?.into_iter().collect())
    }

    pub(super) async fn keep_history(&self, kind: String, age: Duration) -> Result<()> {
        let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        let statement = "update timingwheel.format f set histories = f.histories || jsonb_build_object($1::text, $2::bigint)";
        self.connections.ask(statement, &[&readable(&kind), &age]).await.map(drop)
    }

    pub(super) async fn histories(&self) -> Result<Histories> {
        let statement =
            "select key, value::bigint as age from timingwheel.format f, jsonb_each_text(f.histories)";
        let rows = self.connections.ask(statement, &[]).await?;
        rows.iter()
            .map(|row| Ok((get(row, "key")?, Duration::from_millis(get::<i64>(row, "age")?.unsigned_abs()))))
            .collect()
    }

    pub(super) async fn prune(&self, most: usize) -> Result<usize> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let statement = "select timingwheel.prune_history($1) as pruned";
        let row = self.connections.for_runner().ask_one(statement, &[&most]).await?;
        Ok(usize::try_from(get::<i64>(&row, "pruned")?).unwrap_or(0))
    }
}

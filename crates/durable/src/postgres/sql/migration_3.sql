-- Format 3 of timingwheel-durable on PostgreSQL: instances tell their kinds, the number of shards is chosen, people see times and
-- pause kinds.
--
-- Programs of format 2 stop: their statements are refused, and others take their timers over when their leases end.

-- Kinds, shards and marks ----------------------------------------------------------------------------------------------

-- The kinds that the instance has handlers for, sorted. Null for an instance of an older format, which begins nothing more.
alter table timingwheel.instances add column kinds text[];

-- Of these kinds there are series whose rules it cannot read: it is too old, or lacks data of zones.
alter table timingwheel.instances add column unread text[] not null default '{}';

-- When a timer of this shard was first due, as far as its owners have seen. A start loads from here, and then what is before.
alter table timingwheel.shards add column low_ms bigint;

-- More shards, where `PostgresOptions::shards` asks for them and no timer has a shard yet.
insert into timingwheel.shards (shard)
    select generate_series(64, 64 - 1) where not exists (select from timingwheel.timers);

-- Series are read shard by shard.
drop index timingwheel.timers_series;
create index timers_series on timingwheel.timers (shard, due_ms, number) where rule is not null;

-- Seeing and acting ------------------------------------------------------------------------------------------------------

-- When a timer was saved, when its attempt began, and when each of its attempts failed. Null for what happened before.
alter table timingwheel.timers add column made_ms bigint, add column begun_ms bigint, add column failed_ms bigint[];
alter table timingwheel.timers
    alter column made_ms set default (extract(epoch from clock_timestamp()) * 1000)::bigint;
alter table timingwheel.buried add column made_ms bigint, add column buried_ms bigint, add column failed_ms bigint[];
alter table timingwheel.buried
    alter column buried_ms set default (extract(epoch from clock_timestamp()) * 1000)::bigint;
update timingwheel.timers set failed_ms = array_fill(null::bigint, array[cardinality(failed)])
where cardinality(failed) > 0;
update timingwheel.buried set failed_ms = array_fill(null::bigint, array[cardinality(failed)])
where cardinality(failed) > 0;
create index buried_key on timingwheel.buried (key) where key is not null;

-- The kinds of which nothing begins.
alter table timingwheel.format add column paused text[] not null default '{}';

-- What the view below needs. It stays from format to format, so that views of yours may stand on it.

-- Where a timer is on its way that is not buried.
create or replace function timingwheel.phase_of(
    p_begun_by bigint, p_attempts int, p_due bigint, p_kind text,
    p_now bigint, p_alive bigint[], p_handled text[], p_paused text[]
) returns text language sql immutable as $$
    select case
        when p_begun_by = any(p_alive) then 'running'
        when p_due > p_now then case when p_attempts > 0 then 'retrying' else 'waiting' end
        when p_kind = any(p_paused) then 'paused'
        when p_kind <> all(p_handled) then 'unhandled'
        else 'due'
    end
$$;

-- A payload as JSON; null if it is none.
create or replace function timingwheel.json_of(p_payload bytea) returns jsonb language plpgsql immutable as $$
begin
    return convert_from(p_payload, 'UTF8')::jsonb;
exception when others then
    return null;
end $$;

create or replace function timingwheel.time_of(p_ms bigint) returns timestamptz language sql immutable as $$
    select to_timestamp(p_ms / 1000.0)
$$;

create or replace function timingwheel.failures_of(p_failed int[], p_failed_ms bigint[], p_errors text[])
returns jsonb language sql stable as $$
    select jsonb_agg(
        jsonb_build_object('attempt', f.attempt, 'at', timingwheel.time_of(f.at), 'error', f.error) order by f.n
    )
    from unnest(p_failed, p_failed_ms, p_errors) with ordinality as f (attempt, at, error, n)
$$;

-- All timers, for people. Its columns stay; a view with others will have the next number.
create view timingwheel.inspect_v1 as
    with known as (
        select
            array(select epoch from timingwheel.instances) as alive,
            array(select unnest(kinds) from timingwheel.instances where works) as handled,
            (select paused from timingwheel.format) as paused,
            (extract(epoch from clock_timestamp()) * 1000)::bigint as now
    )
    select
        lpad(to_hex(first_ms # (-9223372036854775808)), 16, '0') || '-' || lpad(to_hex(number), 16, '0') as id,
        timingwheel.phase_of(begun_by, attempts, due_ms, kind, k.now, k.alive, k.handled, k.paused) as phase,
        kind, key, timingwheel.time_of(due_ms) as due, timingwheel.json_of(payload) as payload, rule, attempts, crashes,
        (select name from timingwheel.instances i where i.epoch = begun_by) as instance,
        timingwheel.time_of(made_ms) as made,
        case when begun_by = any(k.alive) then timingwheel.time_of(begun_ms) end as begun,
        null::timestamptz as buried, null::text as reason,
        timingwheel.failures_of(failed, failed_ms, errors) as failures
    from timingwheel.timers, known k
    union all
    select
        lpad(to_hex(first_ms # (-9223372036854775808)), 16, '0') || '-' || lpad(to_hex(number), 16, '0'),
        'buried', kind, key, timingwheel.time_of(first_ms), timingwheel.json_of(payload), rule, attempts, crashes,
        null, timingwheel.time_of(made_ms), null, timingwheel.time_of(buried_ms), reason,
        timingwheel.failures_of(failed, failed_ms, errors)
    from timingwheel.buried;

update timingwheel.format set version = 3, oldest = 3;

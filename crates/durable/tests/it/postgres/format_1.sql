-- The whole schema of format 1, as a database has it that was never migrated: `second_day.rs` migrates it. It never changes.
-- The tables are those of `migration_1.sql`; the functions are no longer in the crate, because those of the newest format replace them.
--
-- Times are milliseconds since 1970, UTC. A timer is named by the time at which it was first due and its number. The last
-- six bits of the number say in which of 64 shards it is. Each shard belongs to one instance: a running program, named by
-- its epoch, which comes from a sequence and is never used again.

create schema timingwheel;

-- Programs look here first. `oldest` is the oldest program, by the format that it knows, that works with these tables. So
-- format n + 1 says `oldest = n` as long as programs of both run side by side.
create table timingwheel.format (
    version int not null,
    oldest int not null
);
insert into timingwheel.format values (1, 1);

create sequence timingwheel.epochs as bigint maxvalue 67108863;
create sequence timingwheel.numbers as bigint maxvalue 72057594037927935 cache 32;

-- The instances that run. Each writes its row again before it expires, by the clock of the database.
create table timingwheel.instances (
    epoch bigint primary key,
    name text not null,
    expires_at timestamptz not null,
    -- It has handlers. One that only saves, cancels and moves has no shards.
    works boolean not null default true
) with (fillfactor = 10);

create table timingwheel.shards (
    shard smallint primary key,
    epoch bigint
) with (fillfactor = 10);
insert into timingwheel.shards select generate_series(0, 63);

-- Timers that are stored or have begun.
create table timingwheel.timers (
    shard smallint not null,
    due_ms bigint not null,
    number bigint not null,
    first_ms bigint not null,
    -- The instance that has begun the present attempt; null if the timer is stored.
    begun_by bigint,
    -- How many attempts have begun, the present one included.
    attempts int not null default 0,
    -- It was cancelled after it had begun: nothing follows the present attempt. If it is stored, it was given back before
    -- its handler was called: the next cancel or begin deletes it.
    ending boolean not null default false,
    -- Counts the changes by others: by cancels, and by saves under the key.
    version int not null default 0,
    kind text not null,
    key text,
    -- A series: its rule, its policy for missed runs, and where it stands.
    rule text,
    missed text,
    standing text,
    -- The last attempts that failed, and their errors.
    failed int[],
    errors text[],
    -- JSON, kept as bytes also if it is none.
    payload bytea not null,
    primary key (shard, due_ms, number)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create unique index timers_key on timingwheel.timers (key) where key is not null;
-- Those that are not due when they were first due. All others are found by their names alone.
create index timers_moved on timingwheel.timers (number) where due_ms <> first_ms;
create index timers_series on timingwheel.timers (due_ms, number) where rule is not null;

-- Buried timers, for people to look at.
create table timingwheel.buried (
    first_ms bigint not null,
    number bigint not null,
    attempts int not null,
    kind text not null,
    key text,
    rule text,
    missed text,
    standing text,
    failed int[],
    errors text[],
    payload bytea not null,
    reason text not null,
    primary key (first_ms, number)
);

-- What people look at.
create view timingwheel.pending as
    select
        to_timestamp(due_ms / 1000.0) as due, kind, key, rule, missed, attempts, begun_by, failed, errors,
        lpad(to_hex(first_ms # (-9223372036854775808)), 16, '0') || '-' || lpad(to_hex(number), 16, '0') as id
    from timingwheel.timers;

-- Instances ------------------------------------------------------------------------------------------------------------

-- Shares the shards evenly among the instances that work, and moves as few as possible. The caller has locked the row of
-- `format`. All of these functions run without JIT: to compile this statement takes 0.6 seconds, and to run it a millisecond.
create function timingwheel.share_out() returns int language plpgsql set jit = off as $$
declare
    v_change record;
    v_changes int := 0;
begin
    for v_change in
        with alive as (
            select
                i.epoch,
                64 / count(*) over ()
                    + (row_number() over (order by count(s.shard) desc, i.epoch) <= 64 % count(*) over ())::int as quota
            from timingwheel.instances i left join timingwheel.shards s on s.epoch = i.epoch
            where i.works
            group by i.epoch
        ), ranked as (
            select shard, epoch, row_number() over (partition by epoch order by shard) as n
            from timingwheel.shards
        ), kept as (
            select r.shard, r.epoch from ranked r join alive a on a.epoch = r.epoch where r.n <= a.quota
        ), free as (
            select shard, row_number() over (order by shard) as n
            from timingwheel.shards s where not exists (select from kept k where k.shard = s.shard)
        ), wants as (
            select a.epoch, row_number() over (order by g, a.epoch) as n
            from alive a
            cross join lateral generate_series(
                1, a.quota - (select count(*) from kept k where k.epoch = a.epoch)
            ) g
        )
        select s.shard, w.epoch
        from free f join timingwheel.shards s on s.shard = f.shard left join wants w on w.n = f.n
        where s.epoch is distinct from w.epoch
        order by s.shard
    loop
        update timingwheel.shards set epoch = v_change.epoch where shard = v_change.shard;
        v_changes := v_changes + 1;
    end loop;
    if v_changes > 0 then
        perform pg_notify('timingwheel', 'shares');
    end if;
    return v_changes;
end $$;

-- Deletes the instances that were silent for longer than their lease, and tells how many shards they had.
create function timingwheel.remove_the_dead() returns int language plpgsql as $$
declare
    v_gone bigint[];
begin
    with dead as (
        select epoch from timingwheel.instances where expires_at < clock_timestamp() for update skip locked
    ), gone as (
        delete from timingwheel.instances i using dead d where i.epoch = d.epoch returning i.epoch
    )
    select array_agg(epoch) into v_gone from gone;
    return (select count(*) from timingwheel.shards where epoch = any(v_gone));
end $$;

-- A new instance, which gets its share at once. `p_sole`: all others are instances no more.
create function timingwheel.join_instance(
    p_lease_ms bigint, p_name text, p_sole boolean, p_works boolean
) returns bigint language plpgsql set jit = off as $$
declare
    v_epoch bigint;
begin
    perform from timingwheel.format for update;
    v_epoch := nextval('timingwheel.epochs');
    if p_sole then
        delete from timingwheel.instances;
    end if;
    perform timingwheel.remove_the_dead();
    insert into timingwheel.instances
    values (v_epoch, p_name, clock_timestamp() + p_lease_ms * interval '1 millisecond', p_works);
    perform timingwheel.share_out();
    return v_epoch;
end $$;

-- Renews the lease of an instance, and removes instances that were silent for too long. With `p_from`, `first_due` is the first
-- due time from then on. It does not scan from the beginning: while an old transaction is open, that would read all dead rows,
-- and the lease would wait.
create function timingwheel.renew(
    p_epoch bigint, p_lease_ms bigint, p_from bigint,
    out alive boolean, out now_us bigint, out shards smallint[], out others_ms bigint, out taken int,
    out first_due bigint
) language plpgsql set jit = off set enable_seqscan = off as $$
begin
    taken := 0;
    update timingwheel.instances set expires_at = clock_timestamp() + p_lease_ms * interval '1 millisecond'
    where epoch = p_epoch;
    alive := found;
    if not alive then
        return;
    end if;
    if exists (select from timingwheel.instances where expires_at < clock_timestamp())
        or (
            exists (select from timingwheel.shards where epoch is null)
            and exists (select from timingwheel.instances where works)
        )
    then
        perform from timingwheel.format for update;
        taken := timingwheel.remove_the_dead();
        perform timingwheel.share_out();
    end if;
    shards := array(select s.shard from timingwheel.shards s where s.epoch = p_epoch order by s.shard);
    -- When the first of the others would be found to be silent.
    others_ms := (
        select (extract(epoch from min(expires_at) - clock_timestamp()) * 1000)::bigint
        from timingwheel.instances where epoch <> p_epoch
    );
    if p_from is not null then
        first_due := (
            select min(t.due_ms)
            from unnest(shards) s cross join lateral (
                select due_ms from timingwheel.timers
                where shard = s and due_ms >= p_from and (begun_by is null or begun_by <> p_epoch)
                order by shard, due_ms, number limit 1
            ) t
        );
    end if;
    now_us := (extract(epoch from clock_timestamp()) * 1000000)::bigint;
end $$;

-- The instance begins nothing more. Timers that it has begun are stored again, and cancelled ones are deleted. Locked rows are
-- left as they are: once the instance has left, they count as stored. This looks through each shard in the order of the primary
-- key, up to a minute from now: timers begin only a moment before their time.
create function timingwheel.give_back(p_epoch bigint) returns bigint
language plpgsql set jit = off set enable_seqscan = off set enable_sort = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_custom_plan as $$
declare
    v_until bigint := (extract(epoch from clock_timestamp()) * 1000)::bigint + 60000;
    v_given_back bigint;
begin
    if not exists (select from timingwheel.instances where epoch = p_epoch) then
        return 0;
    end if;
    with begun as (
        select t.place, t.ending
        from generate_series(0, 63) s cross join lateral (
            select m.ctid as place, m.ending from timingwheel.timers m
            where m.shard = s::smallint and m.due_ms <= v_until and m.begun_by = p_epoch
            for update skip locked
        ) t
    ), ended as (
        delete from timingwheel.timers t using begun b where t.ctid = b.place and b.ending returning 1
    ), stored as (
        update timingwheel.timers t set begun_by = null
        from begun b where t.ctid = b.place and not b.ending
        returning 1
    )
    select (select count(*) from ended) + (select count(*) from stored) into v_given_back;
    return v_given_back;
end $$;

-- Its shards are the others'. This waits for no row of a timer: joins and renewals wait for this.
create function timingwheel.leave(p_epoch bigint) returns void language plpgsql set jit = off as $$
begin
    perform from timingwheel.format for update;
    delete from timingwheel.instances where epoch = p_epoch;
    if found then
        perform timingwheel.share_out();
    end if;
end $$;

-- Plans are made for each call, by the present size of the table. A connection would keep a plan that was made while the table
-- was empty, and that plan takes minutes once the table is full.
-- Each timer of a batch is looked up in the primary key. Before the table has statistics, the planner would compare each timer
-- of the batch with all rows of its shard instead. So the methods that it needs for that are turned off.

-- Timers ---------------------------------------------------------------------------------------------------------------

-- Whether an attempt is under way. If its instance is gone, the attempt is over.
create function timingwheel.runs(p_begun_by bigint) returns boolean language sql stable as $$
    select p_begun_by is not null and exists (select from timingwheel.instances where epoch = p_begun_by)
$$;

-- Returns the epoch, unless it is later than `p_until_us` by the clock of the database. So if a statement was held on its way
-- and its sender has given it up, it does nothing when it arrives. After the clock was set, or the sender's machine was
-- suspended, the sender may still wait: by this code it knows, reads the clock, and sends the statement again.
create function timingwheel.in_time(p_epoch bigint, p_until_us bigint) returns bigint language plpgsql volatile as $$
begin
    if extract(epoch from clock_timestamp()) * 1000000 > p_until_us then
        raise exception using errcode = 'TW001', message = 'the statement came after the time that was set for it';
    end if;
    return p_epoch;
end $$;

-- Timers without keys.
create function timingwheel.save(
    p_dues bigint[], p_numbers bigint[], p_kinds text[], p_payloads bytea[],
    p_rules text[], p_missed text[], p_standings text[]
) returns void language sql as $$
    insert into timingwheel.timers (shard, due_ms, number, first_ms, kind, payload, rule, missed, standing)
    select (number & 63)::smallint, due, number, due, kind, payload, rule, missed, standing
    from unnest(p_dues, p_numbers, p_kinds, p_payloads, p_rules, p_missed, p_standings)
        as t (due, number, kind, payload, rule, missed, standing)
$$;

-- One timer under a key. `p_over`: the rule of its series is over, so only a series that has the key is changed. Answers,
-- and names the timer that had the key:
--   0 stored
--   1 the key is taken by it
--   2 stored in place of it
--   3 it is this series
--   4 it is this series, and was updated; it has begun or keeps its place
--   5 stored under its key, as it has begun
--   6 over, and nothing was stored
--   7 over, and it was dropped
create function timingwheel.save_one(
    p_due bigint, p_number bigint, p_kind text, p_payload bytea, p_key text,
    p_rule text, p_missed text, p_standing text, p_replaces boolean, p_over boolean,
    out answer int, out due bigint, out first bigint, out num bigint
) language plpgsql set jit = off set enable_seqscan = off as $$
declare
    v_old timingwheel.timers;
    v_is_same boolean;
    v_runs boolean;
begin
    loop
        if not p_over then
            insert into timingwheel.timers
                (shard, due_ms, number, first_ms, kind, payload, key, rule, missed, standing)
            values (
                (p_number & 63)::smallint, p_due, p_number, p_due, p_kind, p_payload, p_key,
                p_rule, p_missed, p_standing
            )
            on conflict (key) where key is not null do nothing;
            if found then
                answer := coalesce(answer, 0);
                return;
            end if;
        end if;
        if p_replaces then
            select * into v_old from timingwheel.timers where key = p_key for update;
        else
            select * into v_old from timingwheel.timers where key = p_key;
        end if;
        if not found then
            -- It has ended meanwhile.
            continue when not p_over;
            answer := coalesce(answer, 6);
            return;
        end if;
        if v_old.ending and v_old.begun_by is null then
            delete from timingwheel.timers where key = p_key and ending and begun_by is null;
            continue;
        end if;
        due := v_old.due_ms;
        first := v_old.first_ms;
        num := v_old.number;
        if not p_replaces then
            answer := 1;
            return;
        end if;
        v_is_same := not v_old.ending and coalesce(v_old.rule = p_rule, false);
        if v_is_same and v_old.missed = p_missed and v_old.payload = p_payload and v_old.kind = p_kind then
            answer := 3;
            return;
        end if;
        v_runs := timingwheel.runs(v_old.begun_by);
        if v_is_same or (v_runs and v_old.rule is not null and p_rule is not null) then
            answer := 4;
            update timingwheel.timers
            set kind = p_kind, payload = p_payload, rule = p_rule, missed = p_missed,
                standing = case when v_is_same then standing else p_standing end,
                begun_by = case when v_runs then begun_by end,
                ending = false, version = version + 1
            where key = p_key;
            return;
        end if;
        if v_runs and p_over then
            answer := 6;
            return;
        elsif v_runs then
            answer := 5;
            update timingwheel.timers set key = null, ending = true, version = version + 1 where key = p_key;
        else
            answer := case when p_over then 7 else 2 end;
            delete from timingwheel.timers where key = p_key;
        end if;
    end loop;
end $$;

-- The timers to arm in the instance's shards: up to `p_limit` rows of each shard, and the first later one of each. `wanted`: its
-- kind has a handler, and no living instance has begun it. `ahead`: it only tells when the next one is due.
create function timingwheel.load(
    p_epoch bigint, p_after_due bigint, p_after_number bigint, p_until bigint, p_limit bigint, p_kinds text[]
) returns table (shard smallint, due_ms bigint, number bigint, first_ms bigint, wanted boolean, ahead boolean)
language plpgsql stable set jit = off set enable_seqscan = off set enable_sort = off set enable_bitmapscan = off
    set plan_cache_mode = force_custom_plan as $$
#variable_conflict use_column
declare
    v_alive bigint[] := array(select epoch from timingwheel.instances);
begin
    return query
    select s.shard, t.due_ms, t.number, t.first_ms, t.wanted, t.ahead
    from timingwheel.shards s cross join lateral (
        (
            select
                m.due_ms, m.number, m.first_ms,
                m.kind = any(p_kinds) and (m.begun_by is null or m.begun_by <> all(v_alive)) as wanted,
                false as ahead
            from timingwheel.timers m
            where m.shard = s.shard and (m.due_ms, m.number) > (p_after_due, p_after_number)
                and m.due_ms <= p_until
            order by m.shard, m.due_ms, m.number limit p_limit
        )
        union all
        (
            select m.due_ms, m.number, m.first_ms, false, true
            from timingwheel.timers m
            where m.shard = s.shard and (m.due_ms, m.number) > (p_after_due, p_after_number)
                and m.due_ms > p_until
            order by m.shard, m.due_ms, m.number limit 1
        )
    ) t
    where s.epoch = p_epoch;
end $$;

-- Begins timers at the places where they were loaded. A timer that was cancelled and given back is deleted. The shards are
-- locked, so that no other instance gets them before this is done. Locked timers are left out. If the instance has begun a
-- timer already, the answer has the same attempt again, even if another instance has the shard now: the first answer may have
-- been lost.
create function timingwheel.begin_timers(
    p_epoch bigint, p_dues bigint[], p_numbers bigint[], p_firsts bigint[], p_kinds text[]
) returns table (
    n bigint, kind text, payload bytea, key text, rule text, missed text, standing text, attempts int, failed int[],
    errors text[], ending boolean, version int
)
language plpgsql set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
    set enable_bitmapscan = off set enable_material = off set plan_cache_mode = force_custom_plan as $$
#variable_conflict use_column
declare
    v_shards smallint[] := array(select distinct (number & 63)::smallint from unnest(p_numbers) as number);
    v_mine smallint[];
    v_alive bigint[];
    v_is_one boolean := false;
begin
    v_mine := array(
        select s.shard from timingwheel.shards s
        where s.shard = any(v_shards) and s.epoch = p_epoch
        order by s.shard for share
    );
    if cardinality(v_mine) < cardinality(v_shards) then
        -- Of the other shards the row of the instance is the fence: nobody takes it for dead before this is done.
        perform from timingwheel.instances where epoch = p_epoch for key share;
        v_is_one := found;
    end if;
    v_alive := array(select i.epoch from timingwheel.instances i where i.epoch <> p_epoch);
    return query
    with free as (
        select a.n, t.place, t.is_cancelled
        from unnest(p_dues, p_numbers, p_firsts) with ordinality as a (due, number, first, n)
        cross join lateral (
            select m.ctid as place, m.ending and m.begun_by is null as is_cancelled from timingwheel.timers m
            where m.shard = (a.number & 63)::smallint and m.due_ms = a.due and m.number = a.number
                and m.first_ms = a.first and m.kind = any(p_kinds)
                and (m.begun_by is null or m.begun_by <> all(v_alive))
                and (m.shard = any(v_mine) or (v_is_one and m.begun_by = p_epoch))
            for update skip locked
        ) t
    ), cancelled as (
        delete from timingwheel.timers t using free f where t.ctid = f.place and f.is_cancelled
    )
    update timingwheel.timers t
    set begun_by = p_epoch, attempts = t.attempts + (t.begun_by is distinct from p_epoch)::int
    from free f
    where t.ctid = f.place and not f.is_cancelled
    returning
        f.n, t.kind, t.payload, t.key, t.rule, t.missed, t.standing, t.attempts, t.failed, t.errors, t.ending,
        t.version;
end $$;

-- For an instance that could not begin all timers: whether it is alive, and which of the timers are there all the same, for it
-- to begin or begun by it. Somebody had locked these.
create function timingwheel.why_not(
    p_epoch bigint, p_dues bigint[], p_numbers bigint[], p_firsts bigint[], p_kinds text[],
    out alive boolean, out standing bigint[]
) language plpgsql set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
    set enable_bitmapscan = off set enable_material = off set plan_cache_mode = force_custom_plan as $$
declare
    v_others bigint[] := array(select epoch from timingwheel.instances where epoch <> p_epoch);
begin
    alive := exists (select from timingwheel.instances where epoch = p_epoch);
    standing := array(
        select a.n
        from unnest(p_dues, p_numbers, p_firsts) with ordinality as a (due, number, first, n)
        join timingwheel.timers t
            on t.shard = (a.number & 63)::smallint and t.due_ms = a.due and t.number = a.number
        join timingwheel.shards s on s.shard = t.shard
        where t.first_ms = a.first and t.kind = any(p_kinds)
            and (t.begun_by = p_epoch or (s.epoch = p_epoch and (t.begun_by is null or t.begun_by <> all(v_others))))
    );
end $$;

-- Deletes timers that are over, and answers which. The fence: name, instance, attempt and version. A timer that was changed
-- since it began is left out, and so is a locked one. The caller asks `settle_one` about these.
create function timingwheel.settle_done(
    p_epoch bigint, p_dues bigint[], p_numbers bigint[], p_firsts bigint[], p_attempts int[], p_versions int[]
) returns setof bigint
language plpgsql set jit = off set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
    set enable_bitmapscan = off set enable_material = off set plan_cache_mode = force_custom_plan as $$
#variable_conflict use_column
begin
    if not exists (select from timingwheel.instances where epoch = p_epoch) then
        return;
    end if;
    return query
    -- Each is looked up by its name. If statistics say that no timer has begun, the planner would instead read the whole table
    -- for timers of this instance, and compare them with each timer of the batch.
    with ours as (
        select a.n, t.place
        from unnest(p_dues, p_numbers, p_firsts, p_attempts, p_versions) with ordinality
            as a (due, number, first, attempt, version, n)
        cross join lateral (
            select m.ctid as place from timingwheel.timers m
            where m.shard = (a.number & 63)::smallint and m.due_ms = a.due and m.number = a.number
                and m.first_ms = a.first and m.begun_by = p_epoch and m.attempts = a.attempt
                and m.version = a.version
            for update skip locked
        ) t
    )
    delete from timingwheel.timers t using ours o where t.ctid = o.place returning o.n;
end $$;

-- Ends one attempt, or plans a run anew that has not begun (`p_attempt` 0). `p_change`: 0 delete, 1 put, 2 bury, and put the
-- next one if there is one. Answers: 0 the instance is none any more; 1 done; 2 the timer is not as it began, and so was
-- settled before; 3 it was changed; 4 somebody has locked the timer, and nothing was done. `p_waits`: it waits instead.
create function timingwheel.settle_one(
    p_epoch bigint, p_due bigint, p_number bigint, p_first bigint, p_attempt int, p_version int, p_change int,
    p_error text, p_put_due bigint, p_put_first bigint, p_put_attempts int, p_rule text, p_missed text,
    p_standing text, p_waits boolean
) returns int language plpgsql set jit = off set enable_seqscan = off as $$
declare
    v_old timingwheel.timers;
    v_shard smallint := (p_number & 63)::smallint;
    v_failed int[];
    v_errors text[];
begin
    if p_waits then
        perform from timingwheel.timers
        where shard = v_shard and due_ms = p_due and number = p_number and first_ms = p_first
        for update;
    end if;
    if not exists (select from timingwheel.instances where epoch = p_epoch) then
        return 0;
    end if;
    select * into v_old from timingwheel.timers
    where shard = v_shard and due_ms = p_due and number = p_number and first_ms = p_first
        and case when p_attempt = 0 then begun_by is null else begun_by = p_epoch end and attempts = p_attempt
    for update skip locked;
    if not found then
        return case when exists (
            select from timingwheel.timers
            where shard = v_shard and due_ms = p_due and number = p_number and first_ms = p_first
                and case when p_attempt = 0 then begun_by is null else begun_by = p_epoch end and attempts = p_attempt
        ) then 4 else 2 end;
    end if;
    if v_old.version <> p_version then
        return 3;
    end if;
    if p_error is not null then
        v_failed := v_old.failed || p_attempt;
        v_errors := v_old.errors || p_error;
        -- The last ten.
        v_failed := v_failed[greatest(cardinality(v_failed) - 9, 1):];
        v_errors := v_errors[greatest(cardinality(v_errors) - 9, 1):];
    else
        v_failed := v_old.failed;
        v_errors := v_old.errors;
    end if;
    if p_change = 2 then
        -- Nothing follows what was cancelled, also if it is retried.
        if v_old.ending then
            v_old.rule := null;
            v_old.missed := null;
            v_old.standing := null;
        end if;
        insert into timingwheel.buried
        values (
            v_old.first_ms, v_old.number, v_old.attempts, v_old.kind, v_old.key, v_old.rule, v_old.missed,
            v_old.standing, v_failed, v_errors, v_old.payload, p_error
        )
        on conflict (first_ms, number) do update set
            attempts = excluded.attempts, kind = excluded.kind, key = excluded.key, rule = excluded.rule,
            missed = excluded.missed, standing = excluded.standing, failed = excluded.failed,
            errors = excluded.errors, payload = excluded.payload, reason = excluded.reason;
    end if;
    if p_put_due is null then
        delete from timingwheel.timers where shard = v_shard and due_ms = p_due and number = p_number;
    else
        -- The next occurrence has another name, and no failures.
        update timingwheel.timers
        set due_ms = p_put_due, first_ms = p_put_first, begun_by = null, attempts = p_put_attempts,
            failed = case when p_put_first = p_first then v_failed end,
            errors = case when p_put_first = p_first then v_errors end,
            rule = p_rule, missed = p_missed, standing = p_standing
        where shard = v_shard and due_ms = p_due and number = p_number;
    end if;
    return 1;
end $$;

-- Removes one timer, by its name or its key. Answers: 0 there is none; 1 removed; 2 it has begun, and nothing follows.
create function timingwheel.cancel_one(
    p_first bigint, p_number bigint, p_key text,
    out answer int, out due bigint, out first bigint, out num bigint, out attempt int
) language plpgsql set jit = off set enable_seqscan = off as $$
declare
    v_old timingwheel.timers;
begin
    v_old := timingwheel.locked(p_first, p_number, p_key);
    answer := 0;
    if v_old.shard is null then
        return;
    end if;
    due := v_old.due_ms;
    first := v_old.first_ms;
    num := v_old.number;
    attempt := v_old.attempts;
    if not timingwheel.runs(v_old.begun_by) then
        answer := 1;
        delete from timingwheel.timers
        where shard = v_old.shard and due_ms = v_old.due_ms and number = v_old.number;
    else
        answer := 2;
        update timingwheel.timers set ending = true, version = version + 1
        where shard = v_old.shard and due_ms = v_old.due_ms and number = v_old.number and not ending;
    end if;
end $$;

-- A timer, by its name or its key, wherever it stands, locked.
create function timingwheel.locked(p_first bigint, p_number bigint, p_key text) returns timingwheel.timers
language plpgsql set jit = off set enable_seqscan = off as $$
declare
    v_found timingwheel.timers;
begin
    if p_key is not null then
        loop
            select * into v_found from timingwheel.timers where key = p_key for update;
            -- While the row was waited for, a save may have put another one in its place.
            exit when found or not exists (select from timingwheel.timers where key = p_key);
        end loop;
    else
        -- The last condition is always true: it leads to the two indices, and holds also for a row that moves meanwhile.
        select * into v_found from timingwheel.timers
        where shard = (p_number & 63)::smallint and number = p_number and first_ms = p_first
            and (due_ms = p_first or due_ms <> first_ms)
        for update;
    end if;
    return v_found;
end $$;

-- Moves one timer. Answers: 0 there is none, or it was cancelled and runs no more; 1 moved, `was` being where it stood; 2 it
-- has begun.
create function timingwheel.move_one(
    p_first bigint, p_number bigint, p_key text, p_due bigint,
    out answer int, out was bigint, out first bigint, out num bigint, out attempt int
) language plpgsql set jit = off set enable_seqscan = off as $$
declare
    v_old timingwheel.timers;
begin
    v_old := timingwheel.locked(p_first, p_number, p_key);
    answer := 0;
    if v_old.shard is null then
        return;
    end if;
    was := v_old.due_ms;
    first := v_old.first_ms;
    num := v_old.number;
    attempt := v_old.attempts;
    if not timingwheel.runs(v_old.begun_by) then
        if v_old.ending then
            return;
        end if;
        answer := 1;
        update timingwheel.timers set due_ms = p_due, begun_by = null
        where shard = v_old.shard and due_ms = v_old.due_ms and number = v_old.number;
    else
        answer := 2;
    end if;
end $$;

-- Takes a timer out of the buried ones. Answers: 0 there is none; 1 stored; 2 deleted; 3 another one has its key.
create function timingwheel.unbury_one(
    p_first bigint, p_number bigint, p_due bigint, out answer int, out first bigint, out num bigint
) language plpgsql set jit = off set enable_seqscan = off as $$
declare
    v_old timingwheel.buried;
begin
    answer := 0;
    select * into v_old from timingwheel.buried where first_ms = p_first and number = p_number for update;
    if not found then
        return;
    end if;
    if p_due is null then
        answer := 2;
    else
        loop
            insert into timingwheel.timers
                (
                    shard, due_ms, number, first_ms, kind, key, rule, missed, standing, failed, errors, payload
                )
            values (
                (p_number & 63)::smallint, p_due, p_number, p_first, v_old.kind, v_old.key, v_old.rule,
                v_old.missed, v_old.standing, v_old.failed, v_old.errors, v_old.payload
            )
            on conflict (key) where key is not null do nothing;
            exit when found;
            select first_ms, number into first, num from timingwheel.timers where key = v_old.key;
            if found then
                answer := 3;
                return;
            end if;
        end loop;
        answer := 1;
    end if;
    delete from timingwheel.buried where first_ms = p_first and number = p_number;
end $$;

-- For programs in any language, in transactions of theirs -----------------------------------------------------------------

-- Saves a timer, and answers its id. Without `replace`, a key that is taken is an error (unique_violation).
--
--     begin;
--     insert into orders (id) values (42);
--     select timingwheel.save_timer(now() + '30 days', 'cancel-order', '{"order": 42}', 'order-42');
--     commit;
create function timingwheel.save_timer(
    due timestamptz, kind text, payload json, key text default null, replace boolean default false
) returns text language plpgsql as $$
declare
    v_due bigint := ceil(extract(epoch from due) * 1000);
    v_number bigint :=
        (1::bigint << 62) | (nextval('timingwheel.numbers') << 6) | floor(random() * 64)::bigint;
    v_told record;
begin
    v_told := timingwheel.save_one(
        v_due, v_number, kind, convert_to(payload::text, 'UTF8'), key, null, null, null, replace, false
    );
    if v_told.answer = 1 then
        raise unique_violation using message = format(
            'the key %L belongs to the timer %s', key, timingwheel.id_text(v_told.first, v_told.num)
        );
    end if;
    perform timingwheel.hint(v_number, v_due);
    return timingwheel.id_text(v_due, v_number);
end $$;

-- Cancels the timer of a key. Answers 'removed', 'running' or 'not found'. Running: its handler has been called or is about
-- to be, and nothing follows this attempt.
create function timingwheel.cancel_timer(key text) returns text language plpgsql as $$
begin
    return (array['not found', 'removed', 'running'])[(timingwheel.cancel_one(null, null, key)).answer + 1];
end $$;

-- Moves the timer of a key. Answers 'moved', 'running' or 'not found'.
create function timingwheel.move_timer(key text, due timestamptz) returns text language plpgsql as $$
declare
    v_due bigint := ceil(extract(epoch from due) * 1000);
    v_told record := timingwheel.move_one(null, null, key, v_due);
begin
    if v_told.answer = 1 then
        perform timingwheel.hint(v_told.num, v_due);
    end if;
    return (array['not found', 'moved', 'running'])[v_told.answer + 1];
end $$;

create function timingwheel.id_text(p_first bigint, p_number bigint) returns text language sql immutable as $$
    select lpad(to_hex(p_first # (-9223372036854775808)), 16, '0') || '-' || lpad(to_hex(p_number), 16, '0')
$$;

-- Tells the instances of a timer that is due soon. A commit that notifies holds a lock of the whole server until it is on
-- disk. So one transaction at a time does, and the others leave it to the scan that each instance makes a second after any
-- hint, for all that is due within two minutes.
create function timingwheel.hint(p_number bigint, p_due bigint) returns void language plpgsql as $$
begin
    if p_due < (extract(epoch from clock_timestamp()) * 1000)::bigint + 120000
        and pg_try_advisory_xact_lock(hashtext('timingwheel'), hashtext('hint'))
    then
        perform pg_notify('timingwheel', (p_number & 63) || ' ' || p_due);
    end if;
end $$;

-- The functions of timingwheel-durable on PostgreSQL, of the newest format.
--
-- The last migration ends with this file. It drops our functions, of whatever format they are, and creates them anew. Functions
-- of yours in the schema stay.

do $$
declare
    v_function regprocedure;
begin
    for v_function in
        select p.oid::regprocedure from pg_catalog.pg_proc p
        join pg_catalog.pg_namespace n on n.oid = p.pronamespace
        where n.nspname = 'timingwheel' and p.proname in (
            'act', 'act_on', 'begin_timers', 'cancel_one', 'cancel_timer', 'cancel_timers', 'crash',
            'finish_by', 'finish_timer', 'first_of', 'give_back', 'helps', 'hint', 'id_text', 'in_time',
            'instance', 'is_held', 'join_instance', 'keep_history', 'lacks', 'last_ten', 'leave', 'lives',
            'load', 'lock_shares', 'locked', 'move_one', 'move_timer', 'ms_of', 'next_number', 'note_crash',
            'note_deleted', 'note_ended', 'now_ms', 'number_of', 'pause_kind', 'prune_history',
            'remove_the_dead', 'renew', 'resume_kind', 'run_timers', 'runs', 'save',
            'save_among_others', 'save_one', 'save_or_fail', 'save_series', 'save_timer', 'set_paused',
            'settle_done', 'settle_one', 'shard_of', 'share_out', 'unbury_one', 'why_not'
        )
    loop
        execute format('drop function %s', v_function);
    end loop;
end $$;

-- Numbers --------------------------------------------------------------------------------------------------------------

-- The last bits of a timer's number are its shard. How many shards there are is written into these functions, so that a plan
-- knows it: a power of two, from 64 to 1,024, chosen when the schema is made.
do $$
declare
    v_shards bigint := (select count(*) from timingwheel.shards);
begin
    execute format(
        'create function timingwheel.shard_of(p_number bigint) returns smallint language sql immutable as '
            '$f$ select (p_number & %s)::smallint $f$',
        v_shards - 1
    );
    -- For programs that have no number of their own.
    execute format(
        'create function timingwheel.next_number() returns bigint language sql as '
            '$f$ select (1::bigint << 62) | nextval(''timingwheel.numbers'') * %1$s '
            '| floor(random() * %1$s)::bigint $f$',
        v_shards
    );
end $$;

create function timingwheel.now_ms() returns bigint language sql volatile as $$
    select (extract(epoch from clock_timestamp()) * 1000)::bigint
$$;

-- Instances ------------------------------------------------------------------------------------------------------------

-- One transaction at a time shares the shards out. It waits for no row: a person who pauses a kind may leave their
-- transaction open.
create function timingwheel.lock_shares() returns void language sql as $$
    select pg_advisory_xact_lock(hashtext('timingwheel'), hashtext('shares'))
$$;

-- Shares the shards evenly among the instances that work, and moves as few as possible. The caller has called `lock_shares`.
-- `p_tells`: instances are told even if no shard moves, because an instance with handlers has come or gone. All of these
-- functions run without JIT: to compile this statement takes 0.6 seconds, and to run it a millisecond.
create function timingwheel.share_out(p_tells boolean) returns void
language plpgsql set jit = off set max_parallel_workers_per_gather = 0 as $$
declare
    v_change record;
    v_all bigint := (select count(*) from timingwheel.shards);
begin
    for v_change in
        with alive as (
            select
                i.epoch, count(s.shard) as had,
                v_all / count(*) over ()
                    + (row_number() over (order by count(s.shard) desc, i.epoch) <= v_all % count(*) over ())::int as quota
            from timingwheel.instances i left join timingwheel.shards s on s.epoch = i.epoch
            where i.works
            group by i.epoch
        ), ranked as (
            select shard, epoch, row_number() over (partition by epoch order by shard) as n
            from timingwheel.shards
        ), free as (
            select r.shard, r.epoch, row_number() over (order by r.shard) as n
            from ranked r left join alive a on a.epoch = r.epoch
            where r.n > coalesce(a.quota, 0)
        ), wants as (
            select a.epoch, row_number() over (order by g, a.epoch) as n
            from alive a cross join lateral generate_series(1, a.quota - a.had) g
        )
        select f.shard, w.epoch
        from free f left join wants w on w.n = f.n
        where f.epoch is distinct from w.epoch
        order by f.shard
    loop
        update timingwheel.shards set epoch = v_change.epoch where shard = v_change.shard;
    end loop;
    if found or p_tells then
        perform pg_notify('timingwheel', 'shares');
    end if;
end $$;

-- Deletes the instances that were silent for longer than their lease, and tells how many shards they had.
create function timingwheel.remove_the_dead() returns bigint language sql as $$
    with dead as (
        select epoch from timingwheel.instances where expires_at < clock_timestamp() for update skip locked
    ), gone as (
        delete from timingwheel.instances i using dead d where i.epoch = d.epoch returning i.epoch
    )
    select count(*) from gone g join timingwheel.shards s on s.epoch = g.epoch
$$;

-- The epoch, if the instance of this token has it; -1, which no instance has, if another one does. So after a restore nothing is
-- done for an instance that joined before, although another one may have been given its epoch. Without a token it is not asked.
create function timingwheel.instance(p_epoch bigint, p_token bigint) returns bigint language sql stable
set enable_seqscan = off as $$
    select case
        when exists (select from timingwheel.instances where epoch = p_epoch and token <> p_token) then -1
        else p_epoch
    end
$$;

-- Whether the owner of a shard has no handler for a kind, or cannot read rules of its series. Then a helper begins these timers:
-- see `helps`.
create function timingwheel.lacks(p_shard smallint, p_kind text, p_is_series boolean) returns boolean language sql stable
set enable_seqscan = off as $$
    select exists (
        select from timingwheel.shards s join timingwheel.instances o on o.epoch = s.epoch
        where s.shard = p_shard
            and (p_kind <> all(coalesce(o.kinds, '{}')) or (p_is_series and p_kind = any(o.unread)))
    )
$$;

-- The shards of other instances in which this one helps: their owners have no handler for these kinds, or cannot read rules of
-- these kinds of series. Of the instances that can, this is the one whose turn it is. Two may take it for theirs for a moment;
-- then the begin decides.
create function timingwheel.helps(p_epoch bigint) returns table (shard smallint, kinds text[], of_series text[])
language sql stable
set jit = off set max_parallel_workers_per_gather = 0 as $$
    with lacking as (
        select o.epoch, k.kind, k.kind = any(coalesce(o.kinds, '{}')) as is_series
        from timingwheel.instances me
        -- Mostly all are alike, and this ends here.
        join timingwheel.instances o
            on o.works and o.epoch <> p_epoch and (o.kinds is distinct from me.kinds or o.unread <> '{}')
        cross join lateral unnest(me.kinds) as k (kind)
        where me.epoch = p_epoch
            and (k.kind <> all(coalesce(o.kinds, '{}')) or (k.kind = any(o.unread) and k.kind <> all(me.unread)))
    ), able as (
        select l.kind, l.is_series, count(*) as total, count(*) filter (where i.epoch < p_epoch) as rank
        from (select distinct kind, is_series from lacking) l
        join timingwheel.instances i
            on l.kind = any(i.kinds) and not (l.is_series and l.kind = any(i.unread))
        group by l.kind, l.is_series
    )
    select
        s.shard, coalesce(array_agg(l.kind) filter (where not l.is_series), '{}'),
        coalesce(array_agg(l.kind) filter (where l.is_series), '{}')
    from lacking l
    join able a on a.kind = l.kind and a.is_series = l.is_series
    join timingwheel.shards s on s.epoch = l.epoch
    where s.shard % a.total = a.rank
    group by s.shard
$$;

-- A new instance, which gets its share at once. `p_sole`: all others are instances no more. The sequence may be behind the
-- rows: a restore and a replica leave it where it was.
create function timingwheel.join_instance(
    p_lease_ms bigint, p_name text, p_sole boolean, p_kinds text[], p_token bigint,
    out epoch bigint, out now_us bigint
) language plpgsql set jit = off set max_parallel_workers_per_gather = 0 as $$
declare
    v_least bigint;
    v_works boolean := cardinality(p_kinds) > 0;
begin
    perform timingwheel.lock_shares();
    v_least := 1 + greatest(
        (select max(i.epoch) from timingwheel.instances i), (select max(s.epoch) from timingwheel.shards s), 0
    );
    epoch := nextval('timingwheel.epochs');
    if epoch < v_least then
        epoch := setval('timingwheel.epochs', v_least);
    end if;
    if p_sole then
        delete from timingwheel.instances;
    end if;
    perform timingwheel.remove_the_dead();
    insert into timingwheel.instances (epoch, name, expires_at, works, token, kinds)
    values (epoch, p_name, clock_timestamp() + p_lease_ms * interval '1 millisecond', v_works, p_token, p_kinds);
    perform timingwheel.share_out(v_works);
    now_us := (extract(epoch from clock_timestamp()) * 1000000)::bigint;
end $$;

-- Renews the lease of an instance, and removes instances that were silent for too long. `helps`: the shards in which it
-- helps; `is_helped`: others have handlers for kinds for which it has none, or may read what it cannot, which are series of
-- `p_unread`. With `p_from`, `first_due` is the first due time from then on. It does not scan from the beginning: while an
-- old transaction is open, that would read all dead rows, and the lease would wait. `p_low`: no timer of its shards is due
-- before; `low` is the least that was noted for the shards that it has now.
create function timingwheel.renew(
    p_epoch bigint, p_token bigint, p_lease_ms bigint, p_from bigint, p_low bigint, p_unread text[],
    out oldest int, out alive boolean, out now_us bigint, out shards smallint[], out others_ms bigint, out taken int,
    out first_due bigint, out helps smallint[], out is_helped boolean, out low bigint
) language plpgsql set jit = off set max_parallel_workers_per_gather = 0 set enable_seqscan = off as $$
begin
    taken := 0;
    oldest := (select f.oldest from timingwheel.format f);
    update timingwheel.instances set expires_at = clock_timestamp() + p_lease_ms * interval '1 millisecond'
    where epoch = p_epoch and token = p_token;
    alive := found;
    if not alive then
        return;
    end if;
    update timingwheel.instances set unread = p_unread where epoch = p_epoch and unread <> p_unread;
    if found then
        perform pg_notify('timingwheel', 'shares');
    end if;
    if exists (select from timingwheel.instances where expires_at < clock_timestamp())
        or (
            exists (select from timingwheel.shards where epoch is null)
            and exists (select from timingwheel.instances where works)
        )
    then
        perform timingwheel.lock_shares();
        taken := timingwheel.remove_the_dead();
        perform timingwheel.share_out(true);
    end if;
    shards := array(select s.shard from timingwheel.shards s where s.epoch = p_epoch order by s.shard);
    helps := array(select h.shard from timingwheel.helps(p_epoch) h order by h.shard);
    is_helped := cardinality(p_unread) > 0 or exists (
        select from timingwheel.instances me join timingwheel.instances i on i.works and i.kinds is distinct from me.kinds
        where me.epoch = p_epoch and not i.kinds <@ me.kinds
    );
    -- When the first of the others would be found to be silent.
    others_ms := (
        select (extract(epoch from min(expires_at) - clock_timestamp()) * 1000)::bigint
        from timingwheel.instances where epoch <> p_epoch
    );
    -- Noted once a minute, and never waited for.
    with noted as (
        select s.shard from timingwheel.shards s
        where s.epoch = p_epoch and p_low is not null
            and (s.low_ms is null or s.low_ms not between p_low - 60000 and p_low)
        for no key update skip locked
    )
    update timingwheel.shards s set low_ms = p_low from noted n where s.shard = n.shard;
    low := (
        select case when count(s.low_ms) = count(*) then min(s.low_ms) end
        from timingwheel.shards s where s.shard = any(shards || helps)
    );
    if p_from is not null then
        first_due := (
            select min(t.due_ms)
            from unnest(shards || helps) s cross join lateral (
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
create function timingwheel.give_back(p_epoch bigint, p_token bigint) returns bigint
language plpgsql set jit = off set max_parallel_workers_per_gather = 0
    set enable_seqscan = off set enable_sort = off set enable_bitmapscan = off
    set enable_hashjoin = off set enable_mergejoin = off set plan_cache_mode = force_custom_plan as $$
declare
    v_until bigint := timingwheel.now_ms() + 60000;
    v_given_back bigint;
begin
    if not exists (select from timingwheel.instances where epoch = timingwheel.instance(p_epoch, p_token)) then
        return 0;
    end if;
    with begun as (
        select t.place, t.ending
        from timingwheel.shards s cross join lateral (
            select m.ctid as place, m.ending from timingwheel.timers m
            where m.shard = s.shard and m.due_ms <= v_until and m.begun_by = p_epoch
            for update skip locked
        ) t
    ), ended as (
        delete from timingwheel.timers t using begun b where t.ctid = b.place and b.ending returning t as old
    ), stored as (
        update timingwheel.timers t
        set begun_by = null, crashes = t.crashes + 1,
            failed = timingwheel.last_ten(t.failed || t.attempts),
            failed_ms = timingwheel.last_ten(t.failed_ms || t.begun_ms),
            errors = timingwheel.last_ten(t.errors || timingwheel.crash())
        from begun b where t.ctid = b.place and not b.ending
        returning 1
    )
    select (select count(*) from ended e where timingwheel.note_ended(e.old, 'cancelled')) + (select count(*) from stored)
    into v_given_back;
    return v_given_back;
end $$;

-- Its shards are the others'. This waits for no row of a timer: joins and renewals wait for this.
create function timingwheel.leave(p_epoch bigint, p_token bigint) returns void
language plpgsql set jit = off set max_parallel_workers_per_gather = 0 as $$
begin
    perform timingwheel.lock_shares();
    delete from timingwheel.instances where epoch = timingwheel.instance(p_epoch, p_token);
    if found then
        perform timingwheel.share_out(true);
    end if;
end $$;

-- Plans are made for each call, by the present size of the table. A connection would keep a plan that was made while the table
-- was empty, and that plan takes minutes once the table is full.
-- Each timer of a batch is looked up in the primary key. Before the table has statistics, the planner would compare each timer
-- of the batch with all rows of its shard instead. So the methods that it needs for that are turned off.

-- Timers ---------------------------------------------------------------------------------------------------------------

-- Whether an instance lives, and so whether its attempt is under way; false for null. Now, and not as of the calling statement's
-- snapshot: a timer that the statement waited for may have been begun by an instance that has joined since.
create function timingwheel.lives(p_epoch bigint) returns boolean language plpgsql volatile set enable_seqscan = off as $$
begin
    return exists (select from timingwheel.instances where epoch = p_epoch);
end $$;

-- The error of an attempt whose instance died or stopped before it had answered.
create function timingwheel.crash() returns text language sql immutable as $$
    select 'its process ended before it answered'
$$;

create function timingwheel.last_ten(p_all anyarray) returns anyarray language sql immutable as $$
    select p_all[greatest(cardinality(p_all) - 9, 1):]
$$;

-- The instance that had begun this timer is gone: the attempt counts, and the timer is stored.
create function timingwheel.note_crash(p_old timingwheel.timers) returns void language sql
set enable_seqscan = off as $$
    update timingwheel.timers
    set begun_by = null, crashes = crashes + 1, failed = timingwheel.last_ten(failed || attempts),
        failed_ms = timingwheel.last_ten(failed_ms || begun_ms),
        errors = timingwheel.last_ten(errors || timingwheel.crash())
    where shard = p_old.shard and due_ms = p_old.due_ms and number = p_old.number and begun_by is not null
$$;

-- Notes how a timer has ended, if that is kept of its kind, in the statement that ends it. Always true. Who may not write the
-- history notes nothing. `settle_done` does the same for many.
create function timingwheel.note_ended(
    p_old timingwheel.timers, p_how text, p_reason text default null, p_buried bigint default null
) returns boolean language plpgsql as $$
begin
    if has_table_privilege('timingwheel.ended', 'insert') then
        insert into timingwheel.ended (
            kind, ended_ms, number, first_ms, was_due_ms, how, key, attempts, crashes, rule, missed, standing, failed,
            failed_ms, errors, made_ms, begun_ms, begun_by, run_by, buried_ms, reason, payload
        )
        select
            t.kind, timingwheel.now_ms(), t.number, t.first_ms, coalesce(t.due_ms, t.first_ms), p_how, t.key, t.attempts,
            t.crashes, t.rule, t.missed, t.standing, t.failed, t.failed_ms, t.errors, t.made_ms,
            case when t.begun_by is not null then t.begun_ms end, t.begun_by,
            (select i.name from timingwheel.instances i where i.epoch = t.begun_by), p_buried, p_reason, t.payload
        from timingwheel.format f cross join (select p_old.*) t
        where (f.histories ->> t.kind)::bigint > 0;
    end if;
    return true;
end $$;

-- The same of a buried timer, which somebody deletes.
create function timingwheel.note_deleted(p_old timingwheel.buried) returns boolean language sql as $$
    select timingwheel.note_ended(
        jsonb_populate_record(null::timingwheel.timers, to_jsonb(p_old)), 'failed', p_old.reason, p_old.buried_ms
    )
$$;

-- Deletes ended timers that are older than is kept of their kind: so many at the most. Answers how many.
create function timingwheel.prune_history(p_most bigint) returns bigint language sql
set jit = off set max_parallel_workers_per_gather = 0 set enable_seqscan = off as $$
    with old as (
        select e.place
        from (
            select h.key as kind, timingwheel.now_ms() - h.value::bigint as until
            from timingwheel.format f cross join lateral jsonb_each_text(f.histories) h
        ) k cross join lateral (
            select ctid as place from timingwheel.ended
            where kind = k.kind and ended_ms < k.until
            order by kind, ended_ms, number limit p_most for update skip locked
        ) e
        limit p_most
    ), gone as (
        delete from timingwheel.ended e using old where e.ctid = old.place returning 1
    )
    select count(*) from gone
$$;

-- Returns the epoch as `instance` does, unless it is later than `p_until_us` by the clock of the database. So if a statement
-- was held on its way and its sender has given it up, it does nothing when it arrives. After the clock was set, or the
-- sender's machine was suspended, the sender may still wait: by this code it knows, reads the clock, and sends the statement
-- again.
create function timingwheel.in_time(p_epoch bigint, p_token bigint, p_until_us bigint) returns bigint language plpgsql volatile as $$
begin
    if extract(epoch from clock_timestamp()) * 1000000 > p_until_us then
        raise exception using errcode = 'TW001', message = 'the statement came after the time that was set for it';
    end if;
    return timingwheel.instance(p_epoch, p_token);
end $$;

-- Timers without keys.
create function timingwheel.save(
    p_dues bigint[], p_numbers bigint[], p_kinds text[], p_payloads bytea[],
    p_rules text[], p_missed text[], p_standings text[]
) returns void language sql as $$
    insert into timingwheel.timers (shard, due_ms, number, first_ms, kind, payload, rule, missed, standing)
    select timingwheel.shard_of(number), due, number, due, kind, payload, rule, missed, standing
    from unnest(p_dues, p_numbers, p_kinds, p_payloads, p_rules, p_missed, p_standings)
        as t (due, number, kind, payload, rule, missed, standing)
$$;

-- One timer under a key. `p_over`: the rule of its series is over, so only a series that has the key is changed. Answers,
-- and names the timer that had the key:
--   0 stored
--   1 the key is taken by it: nothing may replace it, or a series would replace a timer that is none
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
) language plpgsql set jit = off set max_parallel_workers_per_gather = 0 set enable_seqscan = off as $$
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
                timingwheel.shard_of(p_number), p_due, p_number, p_due, p_kind, p_payload, p_key,
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
        -- It was cancelled while it ran, and its instance is gone.
        if v_old.ending and not timingwheel.lives(v_old.begun_by) then
            delete from timingwheel.timers where key = p_key and ending and not timingwheel.lives(begun_by);
            if found then
                perform timingwheel.note_ended(v_old, 'cancelled');
            end if;
            continue;
        end if;
        due := v_old.due_ms;
        first := v_old.first_ms;
        num := v_old.number;
        if not p_replaces or (p_rule is not null and v_old.rule is null and not v_old.ending) then
            answer := 1;
            return;
        end if;
        v_is_same := not v_old.ending and coalesce(v_old.rule = p_rule, false);
        if v_is_same and v_old.missed = p_missed and v_old.payload = p_payload and v_old.kind = p_kind then
            answer := 3;
            return;
        end if;
        v_runs := timingwheel.lives(v_old.begun_by);
        if v_is_same or (v_runs and v_old.rule is not null and p_rule is not null) then
            answer := 4;
            if not v_runs then
                perform timingwheel.note_crash(v_old);
            end if;
            update timingwheel.timers
            set kind = p_kind, payload = p_payload, rule = p_rule, missed = p_missed,
                standing = case when v_is_same then standing else p_standing end,
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
            v_old.begun_by := null;
            perform timingwheel.note_ended(v_old, 'replaced');
        end if;
    end loop;
end $$;

-- The same among others in one statement: if somebody holds its key for longer, the statement fails, and each is saved alone.
create function timingwheel.save_among_others(
    p_due bigint, p_number bigint, p_kind text, p_payload bytea, p_key text,
    p_rule text, p_missed text, p_standing text, p_replaces boolean, p_over boolean,
    out answer int, out due bigint, out first bigint, out num bigint
) language plpgsql set lock_timeout = '1s' as $$
begin
    select s.* into answer, due, first, num from timingwheel.save_one(
        p_due, p_number, p_kind, p_payload, p_key, p_rule, p_missed, p_standing, p_replaces, p_over
    ) s;
end $$;

-- The timers to arm in the instance's shards, and in those where it helps: up to `p_limit` rows of each shard, and the first
-- later one of each. `wanted`: it is of a kind that this instance begins there, and no living instance has begun it. `ahead`: it
-- only tells when the next one is due.
create function timingwheel.load(
    p_epoch bigint, p_after_due bigint, p_after_number bigint, p_until bigint, p_limit bigint, p_kinds text[]
) returns table (shard smallint, due_ms bigint, number bigint, first_ms bigint, wanted boolean, ahead boolean)
language plpgsql stable set jit = off set max_parallel_workers_per_gather = 0
    set enable_seqscan = off set enable_sort = off set enable_bitmapscan = off
    set plan_cache_mode = force_custom_plan as $$
#variable_conflict use_column
declare
    v_alive bigint[] := array(select epoch from timingwheel.instances);
begin
    return query
    select s.shard, t.due_ms, t.number, t.first_ms, t.wanted, t.ahead
    from (
        select o.shard, null::text[] as kinds, null::text[] as of_series
        from timingwheel.shards o where o.epoch = p_epoch
        union all
        select h.shard, h.kinds, h.of_series from timingwheel.helps(p_epoch) h
    ) s cross join lateral (
        (
            select
                m.due_ms, m.number, m.first_ms,
                m.kind = any(p_kinds)
                    and (
                        s.kinds is null or m.kind = any(s.kinds)
                        or (m.rule is not null and m.kind = any(s.of_series))
                    )
                    and (m.begun_by is null or m.begun_by <> all(v_alive)) as wanted,
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
    ) t;
end $$;

-- Begins timers at the places where they were loaded. A timer that was cancelled while it ran, and whose instance is gone, is
-- deleted, and answered without a kind. The shards are locked, so that no other instance gets them before this is done. Of a
-- shard of another instance, it begins the timers whose kinds that one lacks. Locked timers are left out. If the instance has
-- begun a timer already, the answer has the same attempt again, even if another instance has the shard now: the first answer
-- may have been lost.
-- Their payloads come to 4 MiB and the last one at the most, whatever was asked for: a slow network could not carry thousands of
-- large ones in time, and the same ones would be asked for again. `why_not` tells that the others are there.
create function timingwheel.begin_timers(
    p_epoch bigint, p_dues bigint[], p_numbers bigint[], p_firsts bigint[], p_kinds text[]
) returns table (
    n bigint, kind text, payload bytea, key text, rule text, missed text, standing text, attempts int, failed int[],
    errors text[], ending boolean, version int, crashes int
)
language plpgsql set jit = off set max_parallel_workers_per_gather = 0
    set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
    set enable_bitmapscan = off set enable_material = off set plan_cache_mode = force_custom_plan as $$
#variable_conflict use_column
declare
    v_shards smallint[] := array(select distinct timingwheel.shard_of(number) from unnest(p_numbers) as number);
    v_mine smallint[];
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
    return query
    with found as (
        select a.n, t.place, t.is_cancelled, t.has_crashed, t.size
        from unnest(p_dues, p_numbers, p_firsts) with ordinality as a (due, number, first, n)
        cross join lateral (
            select m.ctid as place, m.ending and m.begun_by is distinct from p_epoch as is_cancelled,
                coalesce(m.begun_by <> p_epoch, false) as has_crashed, octet_length(m.payload) as size
            from timingwheel.timers m
            where m.shard = timingwheel.shard_of(a.number) and m.due_ms = a.due and m.number = a.number
                and m.first_ms = a.first and m.kind = any(p_kinds)
                and (
                    m.shard = any(v_mine)
                    or (v_is_one and (m.begun_by = p_epoch or timingwheel.lacks(m.shard, m.kind, m.rule is not null)))
                )
                and (m.begun_by is null or m.begun_by = p_epoch or not timingwheel.lives(m.begun_by))
            for update skip locked
        ) t
    ), free as (
        select f.n, f.place, f.is_cancelled, f.has_crashed
        from (select *, sum(size) over (order by n) - size as before from found) f
        where f.before < 4194304
    ), cancelled as (
        delete from timingwheel.timers t using free f where t.ctid = f.place and f.is_cancelled
        returning f.n, t as old
    ), begun as (
        update timingwheel.timers t
        set begun_by = p_epoch, attempts = t.attempts + (t.begun_by is distinct from p_epoch)::int,
            crashes = t.crashes + f.has_crashed::int,
            failed = case when f.has_crashed then timingwheel.last_ten(t.failed || t.attempts) else t.failed end,
            failed_ms = case
                when f.has_crashed then timingwheel.last_ten(t.failed_ms || t.begun_ms) else t.failed_ms
            end,
            begun_ms = case when t.begun_by = p_epoch then t.begun_ms else timingwheel.now_ms() end,
            errors = case
                when f.has_crashed then timingwheel.last_ten(t.errors || timingwheel.crash()) else t.errors
            end
        from free f
        where t.ctid = f.place and not f.is_cancelled
        returning
            f.n, t.kind, t.payload, t.key, t.rule, t.missed, t.standing, t.attempts, t.failed, t.errors, t.ending,
            t.version, t.crashes
    )
    select * from begun
    union all
    select c.n, null, null, null, null, null, null, null, null, null, null, null, null from cancelled c
    where timingwheel.note_ended(c.old, 'cancelled');
end $$;

-- For an instance that could not begin all timers: whether it is alive, and which of the timers are there all the same, for it
-- to begin or begun by it. Somebody had locked these, or their payloads were too much for one answer.
create function timingwheel.why_not(
    p_epoch bigint, p_dues bigint[], p_numbers bigint[], p_firsts bigint[], p_kinds text[],
    out alive boolean, out standing bigint[]
) language plpgsql set jit = off set max_parallel_workers_per_gather = 0
    set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
    set enable_bitmapscan = off set enable_material = off set plan_cache_mode = force_custom_plan as $$
declare
    v_others bigint[] := array(select epoch from timingwheel.instances where epoch <> p_epoch);
begin
    alive := exists (select from timingwheel.instances where epoch = p_epoch);
    standing := array(
        select a.n
        from unnest(p_dues, p_numbers, p_firsts) with ordinality as a (due, number, first, n)
        join timingwheel.timers t
            on t.shard = timingwheel.shard_of(a.number) and t.due_ms = a.due and t.number = a.number
        join timingwheel.shards s on s.shard = t.shard
        where t.first_ms = a.first and t.kind = any(p_kinds)
            and (
                t.begun_by = p_epoch
                or (
                    (s.epoch = p_epoch or timingwheel.lacks(t.shard, t.kind, t.rule is not null))
                    and (t.begun_by is null or t.begun_by <> all(v_others))
                )
            )
    );
end $$;

-- Deletes timers that are over, and answers which. The fence: name, instance, attempt and version. A timer that was changed
-- since it began is left out, and so is a locked one. The caller asks `settle_one` about these.
create function timingwheel.settle_done(
    p_epoch bigint, p_dues bigint[], p_numbers bigint[], p_firsts bigint[], p_attempts int[], p_versions int[]
) returns setof bigint
language plpgsql set jit = off set max_parallel_workers_per_gather = 0
    set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
    set enable_bitmapscan = off set enable_material = off set plan_cache_mode = force_custom_plan as $$
#variable_conflict use_column
declare
    v_histories jsonb := (select histories from timingwheel.format);
begin
    if not exists (select from timingwheel.instances where epoch = p_epoch) then
        return;
    end if;
    -- Each is looked up by its name. If statistics say that no timer has begun, the planner would instead read the whole table
    -- for timers of this instance, and compare them with each timer of the batch.
    if v_histories = '{}' then
        return query
        with ours as (
            select a.n, t.place
            from unnest(p_dues, p_numbers, p_firsts, p_attempts, p_versions) with ordinality
                as a (due, number, first, attempt, version, n)
            cross join lateral (
                select m.ctid as place from timingwheel.timers m
                where m.shard = timingwheel.shard_of(a.number) and m.due_ms = a.due and m.number = a.number
                    and m.first_ms = a.first and m.begun_by = p_epoch and m.attempts = a.attempt
                    and m.version = a.version
                for update skip locked
            ) t
        )
        delete from timingwheel.timers t using ours o where t.ctid = o.place returning o.n;
        return;
    end if;
    return query
    with ours as (
        select a.n, t.place
        from unnest(p_dues, p_numbers, p_firsts, p_attempts, p_versions) with ordinality
            as a (due, number, first, attempt, version, n)
        cross join lateral (
            select m.ctid as place from timingwheel.timers m
            where m.shard = timingwheel.shard_of(a.number) and m.due_ms = a.due and m.number = a.number
                and m.first_ms = a.first and m.begun_by = p_epoch and m.attempts = a.attempt
                and m.version = a.version
            for update skip locked
        ) t
    ), gone as (
        delete from timingwheel.timers t using ours o where t.ctid = o.place returning o.n, t.*
    ), noted as (
        insert into timingwheel.ended (
            kind, ended_ms, number, first_ms, was_due_ms, how, key, attempts, crashes, rule, missed, standing, failed,
            failed_ms, errors, made_ms, begun_ms, begun_by, run_by, payload
        )
        select
            kind, timingwheel.now_ms(), number, first_ms, due_ms, case when ending then 'cancelled' else 'done' end, key,
            attempts, crashes, rule, missed, standing, failed, failed_ms, errors, made_ms, begun_ms, begun_by,
            (select i.name from timingwheel.instances i where i.epoch = p_epoch), payload
        from gone where (v_histories ->> kind)::bigint > 0
    )
    select n from gone;
end $$;

-- Ends one attempt, or plans a run anew that has not begun (`p_attempt` 0). `p_change`: 0 delete, 1 put, 2 bury, 3 bury one
-- whose handler was not called; and the next one is put, if there is one. Answers: 0 the instance is none any more, or another
-- one has begun the timer; 1 done; 2 the timer is not as it began, and so was settled before; 3 it was changed; 4 somebody has
-- locked the timer, and nothing was done. `p_waits` is never set: it stays for programs that pass it.
create function timingwheel.settle_one(
    p_epoch bigint, p_due bigint, p_number bigint, p_first bigint, p_attempt int, p_version int, p_change int,
    p_error text, p_put_due bigint, p_put_first bigint, p_put_number bigint, p_put_attempts int, p_rule text,
    p_missed text, p_standing text, p_waits boolean
) returns int language plpgsql set jit = off set max_parallel_workers_per_gather = 0 set enable_seqscan = off as $$
declare
    v_old timingwheel.timers;
    v_shard smallint := timingwheel.shard_of(p_number);
    v_is_locked boolean;
    v_is_same boolean := coalesce(p_put_first = p_first and p_put_number = p_number, false);
begin
    select * into v_old from timingwheel.timers
    where shard = v_shard and due_ms = p_due and number = p_number and first_ms = p_first
    for update skip locked;
    v_is_locked := not found;
    if v_is_locked then
        select * into v_old from timingwheel.timers
        where shard = v_shard and due_ms = p_due and number = p_number and first_ms = p_first;
    end if;
    -- Asked now: whoever has begun the timer since has removed this instance before.
    if not exists (select from timingwheel.instances where epoch = p_epoch) then
        return 0;
    elsif v_old.attempts is distinct from p_attempt
        or v_old.begun_by is distinct from (case when p_attempt > 0 then p_epoch end)
    then
        return case when p_attempt > 0 and v_old.begun_by <> p_epoch and timingwheel.lives(v_old.begun_by) then 0 else 2 end;
    elsif v_is_locked then
        return 4;
    elsif v_old.version <> p_version then
        return 3;
    end if;
    if p_change < 2 and p_attempt > 0 and not v_is_same then
        perform timingwheel.note_ended(v_old, case
            when p_put_due is null and v_old.ending then 'cancelled' when p_error is not null then 'skipped' else 'done'
        end);
    end if;
    if p_error is not null and p_change <> 3 then
        v_old.failed := timingwheel.last_ten(v_old.failed || p_attempt);
        v_old.failed_ms := timingwheel.last_ten(v_old.failed_ms || timingwheel.now_ms());
        v_old.errors := timingwheel.last_ten(v_old.errors || p_error);
    end if;
    if p_change >= 2 then
        delete from timingwheel.buried where first_ms = v_old.first_ms and number = v_old.number;
        insert into timingwheel.buried (
            first_ms, number, attempts, crashes, kind, key, rule, missed, standing, failed, errors, payload, reason,
            failed_ms, made_ms
        )
        values (
            v_old.first_ms, v_old.number, v_old.attempts - (p_change = 3)::int, v_old.crashes, v_old.kind, v_old.key,
            v_old.rule, v_old.missed, v_old.standing, v_old.failed, v_old.errors, v_old.payload, p_error, v_old.failed_ms,
            v_old.made_ms
        );
    end if;
    if p_put_due is null then
        delete from timingwheel.timers where shard = v_shard and due_ms = p_due and number = p_number;
    else
        -- The next occurrence has another name, and no failures.
        update timingwheel.timers
        set shard = timingwheel.shard_of(p_put_number), due_ms = p_put_due, number = p_put_number,
            first_ms = p_put_first, begun_by = null, attempts = p_put_attempts,
            crashes = case when v_is_same then crashes else 0 end,
            failed = case when v_is_same then v_old.failed end,
            failed_ms = case when v_is_same then v_old.failed_ms end,
            errors = case when v_is_same then v_old.errors end,
            rule = p_rule, missed = p_missed, standing = p_standing
        where shard = v_shard and due_ms = p_due and number = p_number;
    end if;
    return 1;
end $$;

-- Removes one timer, by its name or its key; if there is none, the buried ones. Answers: 0 there is none; 1 removed; 2 it has
-- begun, and nothing follows. Who may not see buried timers removes none.
create function timingwheel.cancel_one(
    p_first bigint, p_number bigint, p_key text,
    out answer int, out due bigint, out first bigint, out num bigint, out attempt int
) language plpgsql set jit = off set max_parallel_workers_per_gather = 0 set enable_seqscan = off as $$
declare
    v_old timingwheel.timers;
begin
    v_old := timingwheel.locked(p_first, p_number, p_key);
    answer := 0;
    if v_old.shard is null then
        if has_table_privilege('timingwheel.buried', 'select') and has_table_privilege('timingwheel.buried', 'delete') then
            with gone as (
                delete from timingwheel.buried b
                where b.key = p_key or (b.first_ms = p_first and b.number = p_number)
                returning b as old, b.first_ms, b.number
            )
            select g.first_ms, g.first_ms, g.number into due, first, num
            from gone g where timingwheel.note_deleted(g.old)
            order by g.first_ms, g.number limit 1;
            answer := found::int;
        end if;
        return;
    end if;
    due := v_old.due_ms;
    first := v_old.first_ms;
    num := v_old.number;
    attempt := v_old.attempts;
    if not timingwheel.lives(v_old.begun_by) then
        answer := 1;
        delete from timingwheel.timers
        where shard = v_old.shard and due_ms = v_old.due_ms and number = v_old.number;
        v_old.begun_by := null;
        perform timingwheel.note_ended(v_old, 'cancelled');
    else
        answer := 2;
        update timingwheel.timers set ending = true, version = version + 1
        where shard = v_old.shard and due_ms = v_old.due_ms and number = v_old.number and not ending;
        -- Its handler hears of it.
        perform pg_notify('timingwheel', 'cancelled ' || v_old.first_ms || ' ' || v_old.number);
    end if;
end $$;

-- A timer, by its name or its key, wherever it stands, locked.
create function timingwheel.locked(p_first bigint, p_number bigint, p_key text) returns timingwheel.timers
language plpgsql set jit = off set max_parallel_workers_per_gather = 0 set enable_seqscan = off as $$
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
        where shard = timingwheel.shard_of(p_number) and number = p_number and first_ms = p_first
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
) language plpgsql set jit = off set max_parallel_workers_per_gather = 0 set enable_seqscan = off as $$
declare
    v_old timingwheel.timers;
begin
    v_old := timingwheel.locked(p_first, p_number, p_key);
    was := v_old.due_ms;
    first := v_old.first_ms;
    num := v_old.number;
    attempt := v_old.attempts;
    if timingwheel.lives(v_old.begun_by) then
        answer := 2;
    elsif v_old.shard is null or v_old.ending then
        answer := 0;
    else
        answer := 1;
        perform timingwheel.note_crash(v_old);
        update timingwheel.timers set due_ms = p_due
        where shard = v_old.shard and due_ms = v_old.due_ms and number = v_old.number;
    end if;
end $$;

-- Takes a timer out of the buried ones. A run of a series is stored under another number, without its rule and its key. Answers:
-- 0 there is none; 1 stored; 2 deleted; 3 another one has its key.
create function timingwheel.unbury_one(
    p_first bigint, p_number bigint, p_due bigint, p_new_number bigint, out answer int, out first bigint, out num bigint
) language plpgsql set jit = off set max_parallel_workers_per_gather = 0 set enable_seqscan = off as $$
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
        perform timingwheel.note_deleted(v_old);
    else
        num := p_number;
        if v_old.rule is not null then
            num := p_new_number;
            v_old.key := null;
        end if;
        loop
            insert into timingwheel.timers
                (
                    shard, due_ms, number, first_ms, kind, key, failed, errors, payload, failed_ms, made_ms
                )
            values (
                timingwheel.shard_of(num), p_due, num, p_first, v_old.kind, v_old.key, v_old.failed, v_old.errors,
                v_old.payload, v_old.failed_ms, v_old.made_ms
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

-- Whether somebody else holds the row of a timer, or of a buried one. If nobody does, it is locked for this transaction, as
-- far as the caller may.
create function timingwheel.is_held(p_first bigint, p_number bigint) returns boolean language plpgsql set enable_seqscan = off as $$
declare
    v_shard smallint := timingwheel.shard_of(p_number);
begin
    -- As in `locked`.
    perform from timingwheel.timers
    where shard = v_shard and number = p_number and first_ms = p_first and (due_ms = p_first or due_ms <> first_ms)
    for update skip locked;
    if found then
        return false;
    elsif exists (
        select from timingwheel.timers
        where shard = v_shard and number = p_number and first_ms = p_first and (due_ms = p_first or due_ms <> first_ms)
    ) then
        return true;
    elsif not has_table_privilege('timingwheel.buried', 'update') then
        return false;
    end if;
    perform from timingwheel.buried where first_ms = p_first and number = p_number for update skip locked;
    return not found and exists (select from timingwheel.buried where first_ms = p_first and number = p_number);
end $$;

-- Acts on many timers: makes them due then, buried ones too; without a time cancels them, and deletes buried ones. A buried
-- run of a series gets its new number. This waits for nobody: one open transaction that holds some of them holds up none of
-- the others. Answers: 0 there is none; 1 done, and its present name; 2 it has begun; 3 another one has its key; 4 nothing was
-- done, because somebody holds it or saves another one under its key.
create function timingwheel.act(p_firsts bigint[], p_numbers bigint[], p_new_numbers bigint[], p_due bigint)
returns table (answer int, due bigint, first bigint, num bigint) language plpgsql as $$
declare
    v_told record;
    v_limit text := current_setting('lock_timeout');
begin
    for v_n in 1 .. coalesce(cardinality(p_firsts), 0) loop
        first := p_firsts[v_n];
        num := p_numbers[v_n];
        due := p_due;
        if timingwheel.is_held(first, num) then
            answer := 4;
        elsif p_due is null then
            v_told := timingwheel.cancel_one(first, num, null);
            answer := v_told.answer;
            due := v_told.due;
        else
            answer := (timingwheel.move_one(first, num, null, p_due)).answer;
        end if;
        if answer = 0 and p_due is not null then
            begin
                -- Only an insert shows whether a save under its key is under way.
                perform set_config('lock_timeout', '10ms', true);
                v_told := timingwheel.unbury_one(first, num, p_due, p_new_numbers[v_n]);
                answer := v_told.answer;
                num := case when answer = 1 then v_told.num else num end;
                perform set_config('lock_timeout', v_limit, true);
            exception when lock_not_available then
                answer := 4;
            end;
        end if;
        return next;
    end loop;
end $$;

create function timingwheel.set_paused(p_kind text, p_is_paused boolean) returns text[] language plpgsql as $$
declare
    v_paused text[];
begin
    update timingwheel.format f
    set paused = array(
        select p from unnest(f.paused) p where p <> p_kind union select p_kind where p_is_paused order by 1
    )
    returning f.paused into v_paused;
    -- Each instance renews its lease, and is told.
    perform pg_notify('timingwheel', 'shares');
    return v_paused;
end $$;

-- Tells the instances of a timer that is due soon. A commit that notifies holds a lock of the whole server until it is on
-- disk. So one transaction in each second does, and the others leave it to the scan that each instance makes a second after any
-- hint, for all that is due within two minutes. A transaction that stays open silences the others for its own second only.
create function timingwheel.hint(p_number bigint, p_due bigint) returns void language plpgsql as $$
begin
    if p_due < timingwheel.now_ms() + 120000
        and pg_try_advisory_xact_lock(
            hashtext('timingwheel'), hashtext('hint ' || floor(extract(epoch from clock_timestamp())))
        )
    then
        perform pg_notify('timingwheel', timingwheel.shard_of(p_number) || ' ' || p_due);
    end if;
end $$;

-- For people ---------------------------------------------------------------------------------------------------------------

-- The first millisecond that is not before a time; at the most the last one of the year 9999 that programs know.
create function timingwheel.ms_of(at timestamptz) returns bigint language sql stable as $$
    select case when at is not null then least(ceil(extract(epoch from at) * 1000), 253402207200000)::bigint end
$$;

-- Nothing of this kind begins any more, on any instance. What runs goes on. Answers all kinds that are paused.
create function timingwheel.pause_kind(kind text) returns text[] language sql as $$
    select timingwheel.set_paused(kind, true)
$$;

create function timingwheel.resume_kind(kind text) returns text[] language sql as $$
    select timingwheel.set_paused(kind, false)
$$;

-- Keeps ended timers of a kind for so long. Null or no time: no longer. Answers the milliseconds for all kinds.
create function timingwheel.keep_history(kind text, age interval) returns jsonb language sql as $$
    update timingwheel.format f
    set histories = f.histories || jsonb_build_object(kind, greatest(floor(coalesce(extract(epoch from age), 0) * 1000), 0)::bigint)
    returning f.histories
$$;

-- As `act`, for timers of these ids.
create function timingwheel.act_on(p_ids text[], p_due bigint)
returns table (answer int, due bigint, first bigint, num bigint) language sql as $$
    select a.* from timingwheel.act(
        array(select ('x' || split_part(id, '-', 1))::bit(64)::bigint # (-9223372036854775808) from unnest(p_ids) id),
        array(select ('x' || split_part(id, '-', 2))::bit(64)::bigint from unnest(p_ids) id),
        case when p_due is not null then array(select timingwheel.next_number() from unnest(p_ids)) end, p_due
    ) a
$$;

-- Makes the timers of these ids due, buried ones too, and answers how many. Those that somebody else holds are left out: call it
-- again for them.
--
--     select timingwheel.run_timers(array(
--         select id from timingwheel.inspect_v1 where phase = 'buried' and kind = 'cancel-order' limit 1000
--     ));
create function timingwheel.run_timers(ids text[], due timestamptz default now()) returns bigint language sql as $$
    -- Without a time `act` cancels.
    select count(timingwheel.hint(a.num, a.due))
    from timingwheel.act_on(ids, timingwheel.ms_of(coalesce(due, now()))) a where a.answer = 1
$$;

-- Cancels the timers of these ids, deletes buried ones, and answers how many. Those that somebody else holds are left out,
-- as above.
create function timingwheel.cancel_timers(ids text[]) returns bigint language sql as $$
    select count(*) from timingwheel.act_on(ids, null) a where a.answer in (1, 2)
$$;

-- For programs in any language, in transactions of theirs -----------------------------------------------------------------

-- Saves one, and tells of it if it is due soon. A key that is taken is an error (unique_violation). Answers as `save_one`.
create function timingwheel.save_or_fail(
    p_due bigint, p_number bigint, p_kind text, p_payload json, p_key text,
    p_rule text, p_missed text, p_standing text, p_replaces boolean
) returns int language plpgsql as $$
declare
    v_told record;
begin
    v_told := timingwheel.save_one(
        p_due, p_number, p_kind, convert_to(p_payload::text, 'UTF8'), p_key, p_rule, p_missed, p_standing, p_replaces, false
    );
    if v_told.answer = 1 then
        raise unique_violation using message = format(
            'the key %L belongs to the timer %s', p_key, timingwheel.id_text(v_told.first, v_told.num)
        );
    elsif v_told.answer in (0, 2, 5) then
        perform timingwheel.hint(p_number, p_due);
    end if;
    return v_told.answer;
end $$;

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
    v_due bigint := timingwheel.ms_of(due);
    v_number bigint := timingwheel.next_number();
begin
    perform timingwheel.save_or_fail(v_due, v_number, kind, payload, key, null, null, null, replace);
    return timingwheel.id_text(v_due, v_number);
end $$;

-- Saves a series under a name, by a rule as the calendar prints it, such as 'cron 0 9 * * MON-FRI in Europe/Berlin'.
-- `missed`: how many missed runs are made up for, and of which age at the most: 'each 3', 'each 3 of 60000 ms'. Answers
-- 'stored', 'replaced', 'kept' or 'updated', as a save in Rust. If the name belongs to a timer that is none, this is an
-- error (unique_violation).
--
-- The database cannot read the rule: it stores a run that is skipped, after which an instance plans the first run after now. If
-- no instance can read the rule, the series waits, and `Stats::unhandled` tells why.
create function timingwheel.save_series(name text, rule text, kind text, payload json, missed text default 'each 1')
returns text language plpgsql as $$
declare
    v_now bigint := timingwheel.now_ms();
    v_answer int;
begin
    if missed is null or missed !~ '^each [0-9]{1,9}( of [0-9]{1,18} ms)?$' then
        raise invalid_parameter_value using message = format(
            'a policy for missed runs must be as `each 3` or `each 3 of 60000 ms`, got %L', missed
        );
    end if;
    -- Such a run is late, and none is left that may be made up for.
    v_answer := timingwheel.save_or_fail(
        v_now - 1000, timingwheel.next_number(), kind, payload, name, rule, missed, '0 more up to ' || v_now, true
    );
    return (array['stored', null, 'replaced', 'kept', 'updated', 'stored'])[v_answer + 1];
end $$;

-- Ends an attempt by a ticket: the timer is done, or its series goes on. Answers: 1 done; 2 the attempt no longer has the timer;
-- 3 its series was saved by another rule since, and nothing was done.
create function timingwheel.finish_by(ticket json) returns int language plpgsql as $$
declare
    v_epoch bigint := timingwheel.instance((ticket ->> 'epoch')::bigint, (ticket ->> 'token')::bigint);
    v_number bigint := ticket ->> 'number';
    v_due bigint := ticket ->> 'due';
    v_attempt int := ticket ->> 'attempt';
    v_next json := ticket -> 'next';
    v_row timingwheel.timers;
begin
    -- From here on it changes no more.
    select * into v_row from timingwheel.timers
    where shard = timingwheel.shard_of(v_number) and due_ms = v_due and number = v_number
        and begun_by = v_epoch and attempts = v_attempt
    for update;
    if v_row.version <> (ticket ->> 'version')::int then
        if v_row.ending then
            v_next := null;
        elsif (v_row.rule, v_row.missed) is distinct from (ticket ->> 'rule', ticket ->> 'missed') then
            return 3;
        end if;
    end if;
    return case timingwheel.settle_one(
        v_epoch, v_due, v_number, (ticket ->> 'first')::bigint, v_attempt, v_row.version,
        ((v_next ->> 'due') is not null)::int, null, (v_next ->> 'due')::bigint, (v_next ->> 'due')::bigint, v_number, 0,
        ticket ->> 'rule', ticket ->> 'missed', v_next ->> 'standing', false
    ) when 1 then 1 else 2 end;
end $$;

-- The same by the ticket that `Run::finish_ticket` gives its handler. It fails with TW002 where that answers 2, and with TW003
-- where it answers 3. Then the transaction has to be rolled back.
create function timingwheel.finish_timer(ticket json) returns void language plpgsql as $$
declare
    v_answer int := timingwheel.finish_by(ticket);
begin
    if v_answer = 2 then
        raise exception using errcode = 'TW002', message = 'this attempt no longer has the timer';
    elsif v_answer = 3 then
        raise exception using errcode = 'TW003', message = 'the series was saved by another rule since this attempt began';
    end if;
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
    v_due bigint := timingwheel.ms_of(due);
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

-- Rights ---------------------------------------------------------------------------------------------------------------
--
-- An instance:
--     grant usage on schema timingwheel to app;
--     grant select, insert, update, delete on all tables in schema timingwheel to app;
--     grant usage on all sequences in schema timingwheel to app;
-- A program that only saves, cancels and moves:
--     grant usage on schema timingwheel to app;
--     grant select, insert, update, delete on timingwheel.timers to app;
--     grant select, delete on timingwheel.buried to app; -- so that a cancel deletes a buried timer too
--     grant insert on timingwheel.ended to app; -- so that its cancels and replacements are in the history
--     grant select on timingwheel.instances, timingwheel.format to app;
--     grant usage on sequence timingwheel.numbers to app;
-- Functions may be called by everybody who may use the schema, and have the rights of who calls them.

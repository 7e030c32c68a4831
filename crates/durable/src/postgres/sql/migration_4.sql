-- Format 4 of timingwheel-durable on PostgreSQL: the history of timers that have ended.
--
-- Programs of format 3 go on: they call the same functions.

-- For how many milliseconds ended timers of a kind are kept: {"cancel-order": 86400000}. 0: they are no longer.
alter table timingwheel.format add column histories jsonb not null default '{}';

-- Timers that have ended, for people to look at. `how`: done, cancelled, replaced, skipped, failed.
create table timingwheel.ended (
    kind text not null,
    ended_ms bigint not null,
    number bigint not null,
    first_ms bigint not null,
    -- When its last attempt was due.
    was_due_ms bigint not null,
    how text not null,
    key text,
    attempts int not null,
    crashes int not null,
    rule text,
    missed text,
    standing text,
    failed int[],
    failed_ms bigint[],
    errors text[],
    made_ms bigint,
    -- If an attempt was under way: when it began, and by whom.
    begun_ms bigint,
    begun_by bigint,
    run_by text,
    -- If it was buried: when, and why.
    buried_ms bigint,
    reason text,
    payload bytea not null
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);

create index ended_order on timingwheel.ended (kind, ended_ms, number);
create index ended_id on timingwheel.ended (number);
create index ended_key on timingwheel.ended (key) where key is not null;

-- Who has rights on the buried timers has the same on these.
do $$
declare
    v_right record;
begin
    for v_right in
        select a.privilege_type, case when a.grantee = 0 then 'public' else a.grantee::regrole::text end as grantee
        from pg_catalog.pg_class c cross join lateral aclexplode(c.relacl) a
        where c.oid = 'timingwheel.buried'::regclass and a.grantee <> c.relowner
    loop
        execute format('grant %s on timingwheel.ended to %s', v_right.privilege_type, v_right.grantee);
    end loop;
end $$;

-- Ended timers, for people. Its columns stay; a view with others will have the next number.
create view timingwheel.history_v1 as
    select
        lpad(to_hex(first_ms # (-9223372036854775808)), 16, '0') || '-' || lpad(to_hex(number), 16, '0') as id,
        how, kind, key, timingwheel.time_of(ended_ms) as ended, timingwheel.time_of(was_due_ms) as due,
        timingwheel.json_of(payload) as payload, rule, attempts, crashes, run_by as instance,
        timingwheel.time_of(made_ms) as made, timingwheel.time_of(begun_ms) as begun,
        timingwheel.time_of(buried_ms) as buried, reason,
        timingwheel.failures_of(failed, failed_ms, errors) as failures
    from timingwheel.ended;

update timingwheel.format set version = 4, oldest = 3;

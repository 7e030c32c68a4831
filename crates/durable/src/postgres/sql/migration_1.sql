-- Timers of timingwheel-durable on PostgreSQL: the tables of format 1.
--
-- `PostgresStore::connect` runs this file where the schema is missing, and then all later migrations and `functions.sql`. To
-- create the schema by hand, run them in this order, each as `psql --single-transaction --file …`. A program then needs no right
-- to create anything: see "Rights" at the end of `functions.sql`.
--
-- Times are milliseconds since 1970, UTC. A timer is named by the time at which it was first due and its number. The last
-- bits of the number say in which shard it is: six bits of 64 shards. Each shard belongs to one instance: a running program,
-- named by its epoch. Epochs come from a sequence.

-- Whoever has a schema to use may lack the right to create one.
do $$ begin
    if not exists (select from pg_catalog.pg_namespace where nspname = 'timingwheel') then
        create schema timingwheel;
    end if;
end $$;

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

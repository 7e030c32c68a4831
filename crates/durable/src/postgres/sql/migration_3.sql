-- Format 3 of timingwheel-durable on PostgreSQL: instances tell their kinds, the number of shards is chosen.
--
-- Programs of format 2 stop: their statements are refused, and others take their timers over when their leases end.

-- Kinds, shards and marks ----------------------------------------------------------------------------------------------

-- The kinds that the instance has handlers for, sorted. Null for an instance of an older format, which begins nothing more.
alter table timingwheel.instances add column kinds text[];

-- When a timer of this shard was first due, as far as its owners have seen. A start loads from here, and then what is before.
alter table timingwheel.shards add column low_ms bigint;

-- More shards, where `PostgresOptions::shards` asks for them and no timer has a shard yet.
insert into timingwheel.shards (shard)
    select generate_series(64, 64 - 1) where not exists (select from timingwheel.timers);

-- Series are read shard by shard.
drop index timingwheel.timers_series;
create index timers_series on timingwheel.timers (shard, due_ms, number) where rule is not null;

update timingwheel.format set version = 3, oldest = 3;

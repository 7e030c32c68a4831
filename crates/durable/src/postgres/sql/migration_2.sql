-- Format 2 of timingwheel-durable on PostgreSQL: instances have a token, and crashes are counted apart from tries.
--
-- Programs of format 1 stop: their statements are refused, and others take their timers over when their leases end.

-- Drawn at random by each instance. After a restore another instance may have the same epoch, and never the same token.
alter table timingwheel.instances add column token bigint;

-- How many attempts ended without an answer, because their instance died or stopped.
alter table timingwheel.timers add column crashes int not null default 0;
alter table timingwheel.buried add column crashes int not null default 0;

update timingwheel.format set version = 2, oldest = 2;


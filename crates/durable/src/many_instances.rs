//! Many instances on one PostgreSQL: how the timers are shared, what may go wrong, and how to set it up. Feature `postgres`.
//!
//! # How it goes
//!
//! The timers are divided into 64 **shards**. Each shard belongs to one **instance**: a running program. Each instance
//! is named by its **epoch**: a number from a sequence of the database, which is used only once. An instance loads the
//! timers of its shards ahead of their time; loading writes nothing. Each later write names the epoch. A begin, the
//! write before a handler is called, holds a lock on the shard's row. If an instance was taken for dead but goes on, it
//! changes nothing: the database refuses its begins and its results.
//!
//! | when | what happens |
//! |---|---|
//! | an instance with handlers joins | it has its shards at once. Attempts that others have begun stay theirs until they end |
//! | an instance stops | its shards go to the others, who are told |
//! | an instance is silent for longer than its [lease](crate::Builder::lease) | its shards go to the others, which attempt its begun timers again |
//! | an instance was stopped past its lease, and goes on | its handlers are [told](crate::Run::lost), and it joins again |
//! | the database is gone | handlers that run go on; no timer begins after four fifths of the lease; results wait |
//!
//! The clock of the database decides whether an instance is silent. An instance measures its own lease by a monotonic clock,
//! from the moment before it asked the database for the lease. Timers are due by the clock of the database, too:
//! [`clock_offset`](crate::Stats::clock_offset) tells how far the clock of an instance is off.
//!
//! A timer that is due within two minutes is put into a shard of the instance that saves it, if that instance has a
//! handler for it. So the timer is on time without a message to another instance. But if a program saves such timers in
//! one instance only, that instance handles them all. All other timers are spread over all shards.
//!
//! If another program or instance saves a timer that is due soon, the instance that has the timer's shard gets a hint
//! by `NOTIFY`. If a hint is lost, or a pooler does not support [listening](crate::PostgresOptions::listen), the timer
//! may be late, but is not lost: each instance looks for new timers in its shards after each third of its lease. Once a
//! minute it also finds timers that were saved more than a minute after their due time.
//!
//! An idle instance sends one statement for each third of its lease, one each minute, and one every five minutes: about
//! three a minute with the default lease. With a shorter lease the others take over sooner, and an idle instance sends
//! more statements.
//!
//! # Which instances have which handlers
//!
//! **All instances of a schema that have handlers need the same handlers.** Each timer belongs to one instance. If that
//! instance has no handler for its kind, the timer waits, and no other instance gets it. So give each program with
//! other handlers its own [schema](crate::PostgresOptions::schema). While a version with a new kind replaces an old
//! one, timers of that kind may wait until the last old instance has ended.
//!
//! A program that only saves, cancels and moves has two choices. It can start a [`Durable`](crate::Durable) without
//! handlers, which gets no shards. Or it can start no `Durable`, and call `PostgresStore::save_in` or
//! `timingwheel.save_timer`.
//!
//! Each instance looks every five minutes for overdue timers that it has no handler for: see
//! [`Stats::unhandled`](crate::Stats::unhandled). This SQL finds them too:
//!
//! ```sql
//! select kind, count(*), min(due) from timingwheel.pending where due < now() - interval '5 minutes' group by kind;
//! ```
//!
//! # In your transactions
//!
//! `PostgresStore::save_in`, `cancel_in` and [`Run::finish_in`](crate::Run) work in your own transaction of
//! [`tokio-postgres`](https://docs.rs/tokio-postgres). If a handler calls `finish_in` in a transaction, everything in that
//! transaction happens exactly once. With another client, or in another language, call the SQL functions. In `psql`:
//!
//! ```sql
//! begin;
//! insert into orders (id) values (42);
//! select timingwheel.save_timer(now() + interval '30 days', 'cancel-order', '{"order": 42}', 'order-42');
//! commit;
//!
//! select timingwheel.move_timer('order-42', now() + interval '60 days');  -- moved, running or not found
//! select timingwheel.cancel_timer('order-42');                            -- removed, running or not found
//! select * from timingwheel.pending where key = 'order-42';
//! ```
//!
//! Keep transactions that cancel short: the timer's row is locked until they end.
//!
//! # Tables and rights
//!
//! `PostgresStore::connect` creates the tables, in the schema `timingwheel`, where they are missing.
//! `PostgresStore::tables` is the SQL for this, if you want to create them by hand. The end of this SQL lists the
//! rights that an instance needs, and the rights of a program that only saves. The tables store the number of their
//! format. A newer format also says which older programs can still use it, so two versions of a program can run side by
//! side during an update.
//!
//! [`PostgresOptions::schema`](crate::PostgresOptions::schema) sets another schema. Two schemas in one database are two
//! separate stores. The SQL functions are in that schema too: for example, `timers_of_shop.save_timer`.
//!
//! [The page about sizing](crate::sizing) says how many timers a database can take, and when one schema is not enough.
//!
//! # TLS
//!
//! `PostgresStore::connect_with` takes a TLS connector of the client, such as `tokio-postgres-rustls` or `postgres-native-tls`.
//!
//! # What to watch
//!
//! [`Health`](crate::Health) checks these figures, and says in words what is wrong.
//!
//! | in [`Stats`](crate::Stats) | means |
//! |---|---|
//! | `lease_margin` near zero | the database answers so slowly that the instance is about to be taken for dead: set a longer lease |
//! | `rejoined` | how many times the instance was taken for dead though it was alive |
//! | `takeovers` | shards that were taken from instances that died |
//! | `fenced` | results that came too late |
//! | `clock_offset` above a second | the clock of the machine, or of the database, is wrong |
//!
//! # What it does not do
//!
//! - Stop the handlers of an instance that is suspended from outside. When such an instance is continued, its handlers
//!   go on too. They are told, and their results are refused, but their effects outside of the database still happen.
//! - Use more than 64 instances: the 65th has nothing to do until another one ends.
//! - Take more than 67,108,863 starts for each schema: one each second for two years. If a program starts once for each
//!   request, let it save its timers with [`save_in`](crate::PostgresStore::save_in) or in SQL: both need no start.

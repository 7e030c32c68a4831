//! The load of timers on a PostgreSQL database: processors, log, files, and when one schema is not enough. Feature
//! `postgres`.
//!
//! The **measured** figures come from `cargo bench -p timingwheel-durable-programs --features postgres --bench postgres`: 200,000
//! timers that are due at once, with 100 bytes of payload and no key, saved in one statement; four instances; PostgreSQL 15
//! with its files in memory, on two cores that it shared with the instances. The figures are the middle one of three runs,
//! which differed by up to 15 %. After that come two million far timers, due in random order within 50 days. *Computed* figures
//! follow from the measured ones. Measure again on your own machine.
//!
//! # For each timer
//!
//! | what | measured |
//! |---|---|
//! | time of the database's processors, save | 2.1 µs |
//! | time of the database's processors, begin and end, with vacuum | 14.5 µs |
//! | bytes of its log (WAL), save | 292 |
//! | bytes of its log, begin and end | 474 |
//! | bytes in the files while it is stored, table and index | 299 |
//! | timers a second that vacuum clears of their dead rows, one process | 2,997,909 |
//! | timers a second, four instances beside the database on those two cores | 97,233 |
//!
//! A key adds an entry to a second index. A payload adds its length to the log twice: when it is saved, and when a
//! begin writes the row again. A timer that is moved, tried again or saved alone costs more: each commit needs a sync
//! of the disk. Saves of tasks that wait at the same time share one.
//!
//! # Timers a second
//!
//! *Computed:* 2.1 + 14.5 = 16.6 µs for each timer are 1,000,000 / 16.6 = **60,000 timers a second for each core** of the
//! database, at the most. Plan for half.
//!
//! | timers a second | cores of the database at 60,000 each | with half in reserve | log: 292 + 474 = 766 bytes each |
//! |---|---|---|---|
//! | 1,000 | 0.02 | 1 | 0.8 MB/s, 66 GB a day |
//! | 10,000 | 0.2 | 1 | 7.7 MB/s, 662 GB a day |
//! | 100,000 | 1.7 | 4 | 77 MB/s, 6.6 TB a day |
//!
//! So at 100,000 a second the log is the first limit: the disk that it is written to, the network to standbys, and the
//! place that keeps it for recovery. Nothing was measured at that rate.
//!
//! # Timers that are stored
//!
//! | two million stored, far and due in no order | measured |
//! |---|---|
//! | bytes in the table, a timer | 228 |
//! | bytes in the indexes, a timer | 52 |
//! | time of the database's processors, begin and end of another timer | 18.2 µs, and 14.5 µs without them in the same run |
//! | bytes of the log, begin and end of another timer | 568, and 474 without them |
//! | a vacuum that clears a fiftieth of them, one process | 0.53 s |
//!
//! So a begin and an end cost a quarter more with two million stored. The files hold 280 bytes a timer, and 299 above,
//! where timers were saved in the order of their due times. *Computed* from the 280:
//!
//! | stored | files | the indexes of them |
//! |---|---|---|
//! | a million | 0.28 GB | 52 MB |
//! | 100 million | 28 GB | 5.2 GB |
//! | a billion | 280 GB | 52 GB |
//!
//! A look reads the first rows of each shard by the index, however many rows follow. So far timers take disk, and hardly any
//! memory. But they make vacuum slow, because each run of vacuum reads the whole index once. The
//! tables ask for a vacuum when a fiftieth of the rows is dead. With a billion stored, a fiftieth is 20 million ended
//! timers. At 100,000 a second that comes every 200 s, and reading 52 GB in 200 s takes 260 MB/s. Nothing was measured
//! with more than two million stored.
//!
//! # What to partition, and when
//!
//! The table itself cannot be partitioned: a key is unique over all of it, and a partitioned table has no such index.
//! Instead divide the timers, by a hash of the business key, over several **schemas**
//! ([`PostgresOptions::schema`](crate::PostgresOptions::schema)), in one database or in several. Each schema has
//! instances of its own. A timer stays where it was saved. Divide when one of these signs holds, into as many schemas
//! as it takes:
//!
//! | sign | then |
//! |---|---|
//! | the index (52 bytes for each stored timer) does not fit into half of the memory, and saves are spread over all of it | more schemas, on more servers |
//! | vacuum of `timers` takes longer than the time in which a fiftieth of the rows ends: see `pg_stat_progress_vacuum` | more schemas: each has a vacuum process of its own, if `autovacuum_max_workers` allows it |
//! | more timers a second than half of 60,000 for each core, or more log than the disk syncs | more servers |
//! | more than 64 instances | more schemas: each has 64 shards |
//!
//! For a billion stored and 100,000 a second that is, *computed*, four servers of 2 cores, with 70 GB of files, 13 GB of
//! index and 19 MB/s of log each.
//!
//! # Instances
//!
//! An instance takes four connections and one that listens, and its memory is that of its
//! [timers in memory](crate::Builder::in_memory). With nothing to do it makes a statement for each third of its lease, one a
//! minute, and one each five minutes.

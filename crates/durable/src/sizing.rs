//! What a PostgreSQL takes that has timers in it: processors, log, files, and when one schema is not enough. Feature
//! `postgres`.
//!
//! What is **measured** comes from `cargo bench -p timingwheel-durable --features postgres --bench postgres`: 200,000 timers
//! that are due at once, with 100 bytes of payload and no key, saved in one statement; four instances; PostgreSQL 15 with its
//! files in memory, on two cores that it shared with the instances and with other work. So times of processors and bytes are
//! firm, and rates are not. Then come two million that are far, due in no order within 50 days. What is *computed* follows
//! from that. Measure again on a machine of yours.
//!
//! # For each timer
//!
//! | what | measured |
//! |---|---|
//! | time of the database's processors, save | 4.2 µs |
//! | time of the database's processors, begin and end, with vacuum | 37.1 µs |
//! | bytes of its log (WAL), save | 292 |
//! | bytes of its log, begin and end | 380 |
//! | bytes in the files while it is stored, table and index | 299 |
//! | timers a second that vacuum clears of their dead rows, one process | 1,146,922 |
//! | timers a second, four instances beside the database on those two cores | 33,013 |
//!
//! A key adds an entry to a second index, and a payload its length, to the log twice: when it is saved, and when the row is
//! written again by the begin. A timer that is moved, tried again or saved alone costs more: each commit takes a sync of the
//! disk, which the saves of all tasks that wait at a time share.
//!
//! # Timers a second
//!
//! *Computed:* 4.2 + 37.1 = 41.3 µs for each timer are 1,000,000 / 41.3 = **24,000 timers a second for each core** of the
//! database, at the most. Plan for half.
//!
//! | timers a second | cores of the database at 24,000 each | with half in reserve | log: 292 + 380 = 672 bytes each |
//! |---|---|---|---|
//! | 1,000 | 0.04 | 1 | 0.7 MB/s, 58 GB a day |
//! | 10,000 | 0.4 | 1 | 6.7 MB/s, 581 GB a day |
//! | 100,000 | 4.2 | 9 | 67 MB/s, 5.8 TB a day |
//!
//! So 100,000 a second are a matter of the log first: of the disk that it is written to, of the network to standbys, and of
//! what keeps it for recovery. Nothing was measured at that rate.
//!
//! # Timers that are stored
//!
//! | two million stored, far and due in no order | measured |
//! |---|---|
//! | bytes in the table, a timer | 228 |
//! | bytes in the indexes, a timer | 52 |
//! | time of the database's processors, begin and end of another timer | 30.6 µs, and 30.1 µs without them in the same run |
//! | bytes of the log, begin and end of another timer | 377, and 375 without them |
//! | a vacuum that clears a fiftieth of them, one process | 1.06 s |
//!
//! So a begin costs no more with two million stored. The files hold 280 bytes a timer, and 299 above, where timers were
//! saved in the order of their due times. *Computed* from the 280:
//!
//! | stored | files | the indexes of them |
//! |---|---|---|
//! | a million | 0.28 GB | 52 MB |
//! | 100 million | 28 GB | 5.2 GB |
//! | a billion | 280 GB | 52 GB |
//!
//! A look reads the first rows of each shard by the index, however many lie behind them. So what is far takes disk and
//! hardly any memory. Vacuum is what it takes time for: each run reads the whole index once. The tables ask for it when a
//! fiftieth of the rows is dead. With a billion stored that is 20 million timers that have ended: at 100,000 a second,
//! each 200 s, and to read 52 GB in 200 s takes 260 MB/s. Nothing was measured with more than two million stored.
//!
//! # What to partition, and when
//!
//! The table itself cannot be partitioned: a key is unique over all of it, and a partitioned table has no such index. What is
//! divided is the timers, by a hash of the business key, over several **schemas**
//! ([`PostgresOptions::schema`](crate::PostgresOptions::schema)), in one database or in several, each with instances
//! of its own. A timer stays where it was saved. Do so when one of these holds, and as many times as it takes:
//!
//! | sign | then |
//! |---|---|
//! | the index (52 bytes for each stored timer) does not fit into half of the memory, and saves are spread over all of it | more schemas, on more servers |
//! | vacuum of `timers` takes longer than the time in which a fiftieth of the rows ends: see `pg_stat_progress_vacuum` | more schemas: each has a vacuum process of its own, if `autovacuum_max_workers` allows it |
//! | more timers a second than half of 24,000 for each core, or more log than the disk syncs | more servers |
//! | more than 64 instances | more schemas: each has 64 shards |
//!
//! For a billion stored and 100,000 a second that is, *computed*, four servers of 4 cores, with 70 GB of files, 13 GB of
//! index and 17 MB/s of log each.
//!
//! # Instances
//!
//! An instance takes four connections and one that listens, and its memory is that of its
//! [window](crate::Builder::window). With nothing to do it makes a statement for each third of its lease.

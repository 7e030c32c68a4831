//! How much load timers put on a PostgreSQL database (processors, log, files), and when one schema is not enough.
//! Feature `postgres`.
//!
//! The **measured** figures come from
//! `cargo bench -p timingwheel-durable-programs --features postgres --bench postgres`. The benchmark first saves
//! 200,000 timers in one statement. They are due at once, with 100 bytes of payload and no key, and four instances run
//! them. PostgreSQL 15 has its files in memory, on two cores that it shares with the instances. Then the benchmark adds
//! two million far timers, due in random order within 50 days. Each figure is the middle one of three runs, which
//! differed by up to 15 %. *Computed* figures follow from the measured ones. Measure again on your own machine.
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
//! A key adds an entry to a second index. A payload adds its length to the log twice: at the save, and at the begin,
//! which writes the row again. A timer that is moved, tried again or saved alone costs more: each commit needs a sync
//! of the disk. Concurrent saves share one sync.
//!
//! # Timers a second
//!
//! *Computed:* 2.1 + 14.5 = 16.6 µs for each timer allow at most 1,000,000 / 16.6 = **60,000 timers a second for each
//! core** of the database. Plan for half of that.
//!
//! | timers a second | cores of the database at 60,000 each | with half in reserve | log: 292 + 474 = 766 bytes each |
//! |---|---|---|---|
//! | 1,000 | 0.02 | 1 | 0.8 MB/s, 66 GB a day |
//! | 10,000 | 0.2 | 1 | 7.7 MB/s, 662 GB a day |
//! | 100,000 | 1.7 | 4 | 77 MB/s, 6.6 TB a day |
//!
//! So at 100,000 a second the log is the first limit. It loads the disk, the network to standbys, and the storage that
//! keeps the log for recovery. Nothing was measured at that rate.
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
//! So a begin and an end cost a quarter more with two million stored. A far timer takes 280 bytes in the files. In the
//! first table a timer takes 299 bytes: there, timers were saved in the order of their due times. *Computed* from the
//! 280 bytes:
//!
//! | stored | files | the indexes of them |
//! |---|---|---|
//! | a million | 0.28 GB | 52 MB |
//! | 100 million | 28 GB | 5.2 GB |
//! | a billion | 280 GB | 52 GB |
//!
//! When an instance looks for near timers, it reads only the first rows of each shard by the index. So far timers take
//! disk space, and hardly any memory. But far timers make vacuum slow, because each run of vacuum reads the whole index
//! once. The tables are set to be vacuumed when a fiftieth of the rows is dead. With a billion stored, a fiftieth is 20
//! million ended timers. At 100,000 a second, that many end every 200 s. Reading 52 GB of index in 200 s takes 260
//! MB/s. Nothing was measured with more than two million stored.
//!
//! # What to partition, and when
//!
//! The table itself cannot be partitioned: a key is unique over all of it, and a partitioned table has no such index.
//! Instead divide the timers over several **schemas** ([`PostgresOptions::schema`](crate::PostgresOptions::schema)), in
//! one database or in several, by a hash of the business key. Each schema has instances of its own. A timer stays in
//! the schema in which it was saved. Divide as soon as one of these signs holds, into as many schemas as are needed to
//! end it:
//!
//! | sign | then |
//! |---|---|
//! | the index (52 bytes for each stored timer) does not fit into half of the memory, and saves are spread over all of it | more schemas, on more servers |
//! | a vacuum of `timers` takes longer than it takes for a fiftieth of the rows to end: see `pg_stat_progress_vacuum` | more schemas: each has a vacuum process of its own, if `autovacuum_max_workers` allows it |
//! | more timers a second than half of 60,000 for each core, or more log than the disk can sync | more servers |
//! | more than 64 instances | more schemas: each has 64 shards |
//!
//! *Computed:* a billion stored timers and 100,000 a second need four servers of 2 cores, with 70 GB of files, 13 GB of
//! index and 19 MB/s of log each.
//!
//! # Instances
//!
//! An instance takes four connections, and a fifth one that listens. Its memory depends on its number of [timers in
//! memory](crate::Builder::in_memory). An idle instance sends one statement for each third of its lease, one each
//! minute, and one every five minutes.

//! A guard beside a `tokio::time::timeout` round each operation: whatever the peer and the caller do, both give the same
//! results at the same instants.

use std::io;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use timingwheel::TimingWheel;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::runtime::Builder;
use tokio::time::{Instant, sleep, timeout};

use super::by_hand::Scripted;
use super::ms;

/// The result of an operation (bytes, or `None` if its limit passed), and its time.
type Outcome = (Option<usize>, Duration);

#[derive(Clone, Debug)]
struct Plan {
    arrives: Vec<(Duration, usize)>,
    room: Vec<(Duration, usize)>,
    /// Pauses before each operation, and how many bytes it asks for.
    reads: Vec<(Duration, usize)>,
    writes: Vec<(Duration, usize)>,
    read_limit: Option<Duration>,
    write_limit: Option<Duration>,
}

/// Short times, so that many things happen at the same instant, and some long ones.
fn time() -> impl Strategy<Value = Duration> {
    prop_oneof![4 => 0..6_u64, 1 => 0..100_u64].prop_map(ms)
}

fn steps() -> impl Strategy<Value = Vec<(Duration, usize)>> {
    proptest::collection::vec((time(), 1..6_usize), 0..20)
}

fn plan() -> impl Strategy<Value = Plan> {
    let limit = || proptest::option::weighted(0.9, time());
    (steps(), steps(), steps(), steps(), limit(), limit()).prop_map(
        |(arrives, room, reads, writes, read_limit, write_limit)| Plan {
            arrives,
            room,
            reads,
            writes,
            read_limit,
            write_limit,
        },
    )
}

/// Reads and writes in turn, or at the same time, each operation within its limit if `limits` are given.
async fn follow(
    plan: &Plan,
    stream: impl AsyncRead + AsyncWrite,
    limits: Option<(Option<Duration>, Option<Duration>)>,
) -> [Vec<Outcome>; 2] {
    async fn timed(
        limit: Option<Duration>,
        operation: impl Future<Output = io::Result<usize>>,
        start: Instant,
    ) -> Outcome {
        let result = match limit {
            None => operation.await,
            Some(limit) => timeout(limit, operation).await.unwrap_or_else(|elapsed| Err(elapsed.into())),
        };
        let bytes = match result {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => None,
            Err(error) => panic!("{error}"),
        };
        (bytes, start.elapsed())
    }

    let (read_limit, write_limit) = limits.unwrap_or_default();
    let start = Instant::now();
    let (mut read, mut write) = split(stream);
    let reads = async {
        let mut outcomes = Vec::new();
        for &(pause, most) in &plan.reads {
            sleep(pause).await;
            outcomes.push(timed(read_limit, read.read(&mut vec![0; most]), start).await);
        }
        outcomes
    };
    let writes = async {
        let mut outcomes = Vec::new();
        for &(pause, most) in &plan.writes {
            sleep(pause).await;
            outcomes.push(timed(write_limit, write.write(&vec![0; most]), start).await);
        }
        outcomes
    };
    tokio::join!(reads, writes).into()
}

fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_guard_does_what_a_timeout_round_each_operation_does(plan in plan()) {
        let runtime = Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let (guarded, plain) = runtime.block_on(async {
            let stream = Scripted::new(&plan.arrives, &plan.room);
            let mut guard = TimingWheel::new().idle_guard(stream);
            guard.set_read_limit(plan.read_limit);
            guard.set_write_limit(plan.write_limit);
            let guarded = follow(&plan, guard, None).await;
            let stream = Scripted::new(&plan.arrives, &plan.room);
            let limits = (plan.read_limit, plan.write_limit);
            (guarded, follow(&plan, stream, Some(limits)).await)
        });
        prop_assert_eq!(guarded, plain);
    }
}

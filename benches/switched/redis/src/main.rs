//! Loads a Redis server by one process, and prints what a request costs that process.
//!
//! `ADDRESS WORKERS CONNECTIONS TASKS SECONDS limited|unlimited`. Each task sends a `GET`, awaits the answer, and goes on.
//! With `limited`, as is the client's default, each answer has a limit of half a second. One line is printed:
//! requests a second, CPU time in ns and context switches for each request, and in µs the median and the 99th percentile of
//! the time to an answer.

use std::time::{Duration, Instant};

use nix::sys::resource::{Usage, UsageWho, getrusage};
use redis::{AsyncConnectionConfig, Client};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, workers, connections, tasks, seconds, limit] = &arguments[..] else {
        panic!(
            "six arguments: ADDRESS WORKERS CONNECTIONS TASKS SECONDS limited|unlimited; got {arguments:?}"
        );
    };
    let number = |text: &String| text.parse::<usize>().unwrap_or_else(|_| panic!("{text:?} is no number"));
    let limited = match limit.as_str() {
        "limited" => true,
        "unlimited" => false,
        other => panic!("limited or unlimited, got {other:?}"),
    };
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(number(workers))
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(load(address, number(connections), number(tasks), number(seconds), limited));
}

async fn load(address: &str, connections: usize, tasks: usize, seconds: usize, limited: bool) {
    let client = Client::open(address).expect("an address");
    let mut config = AsyncConnectionConfig::new();
    if !limited {
        config = config.set_response_timeout(None);
    }
    let mut all = Vec::new();
    for _ in 0..connections {
        all.push(client.get_multiplexed_async_connection_with_config(&config).await.expect("a connection"));
    }
    let () = redis::cmd("SET")
        .arg("key")
        .arg("a value of some length")
        .query_async(&mut all[0])
        .await
        .expect("an answer");

    // The first second warms up: connections, the allocator, the server.
    let warm = Instant::now() + Duration::from_secs(1);
    let end = warm + Duration::from_secs(seconds as u64);
    let running: Vec<_> = (0..tasks)
        .map(|task| {
            let mut connection = all[task % all.len()].clone();
            tokio::spawn(async move {
                let mut answers = Vec::new();
                loop {
                    let begun = Instant::now();
                    if begun >= end {
                        return answers;
                    }
                    let value: String =
                        redis::cmd("GET").arg("key").query_async(&mut connection).await.expect("an answer");
                    assert_eq!(value.len(), 22);
                    if begun >= warm {
                        answers.push(u32::try_from(begun.elapsed().as_micros()).unwrap_or(u32::MAX));
                    }
                }
            })
        })
        .collect();
    tokio::time::sleep_until(warm.into()).await;
    let before = usage();
    let mut answers = Vec::new();
    for task in running {
        answers.extend(task.await.expect("no panic"));
    }
    let after = usage();
    let requests = answers.len();
    answers.sort_unstable();
    println!(
        "{} {} {:.3} {} {}",
        requests / seconds,
        (after.0 - before.0).as_nanos() / requests as u128,
        (after.1 - before.1) as f64 / requests as f64,
        answers[requests / 2],
        answers[requests * 99 / 100],
    );
}

/// The CPU time and the context switches of this process so far.
fn usage() -> (Duration, i64) {
    let usage: Usage = getrusage(UsageWho::RUSAGE_SELF).expect("every Unix has it");
    let time = |t: nix::sys::time::TimeVal| Duration::new(t.tv_sec() as u64, t.tv_usec() as u32 * 1000);
    (
        time(usage.user_time()) + time(usage.system_time()),
        usage.voluntary_context_switches() + usage.involuntary_context_switches(),
    )
}

//! What do limits cost a client of a key-value server: one deadline for an operation, and a limit for each of its I/Os?
//!
//! The work is that of a client of a key-value server, in memory, so that limits are as much of it as they can be.

mod bystander;
mod server;
mod task;
mod ways;

use std::io;
use std::time::Duration;

use timingwheel_deadline::Deadline;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::sides::{Rig, multi_thread};
use crate::support::{Case, Findings, Scale, Table, Unit, cpu_time, median, number, target, warm_rounds};
use server::{Connection, Stream, in_memory};
use ways::Way;

pub(crate) fn cases() -> Vec<Case> {
    vec![
        Case::new("deadlines", "What do a deadline for an operation and limits for its I/Os cost?", run),
        Case::new(
            "deadline_bystander",
            "How late is another timer while all calls of a request time out?",
            |scale| Findings { tables: bystander::tables(scale).into() },
        ),
    ]
}

const OPERATION: Duration = Duration::from_secs(10);
const EACH: Duration = Duration::from_secs(5);
const CONNECTIONS: usize = 256;
const WORKERS: [usize; 3] = [1, 2, 8];
/// For how long each way runs in a round.
const LENGTH: Duration = Duration::from_millis(300);

async fn get<S: Stream>(deadline: &Deadline, server: &mut Connection<S>) -> io::Result<()> {
    deadline.run_within(EACH, server.write_header()).await??;
    deadline.run_within(EACH, server.write_key()).await??;
    deadline.run_within(EACH, server.read_header()).await??;
    deadline.run_within(EACH, server.read_value()).await??;
    Ok(())
}

/// What a way's operations took in a round.
#[derive(Clone, Copy)]
struct Cost {
    per_second: f64,
    /// The CPU time of one, of its server too, in nanoseconds.
    cpu: f64,
}

/// The wheel is the one that `timingwheel::time::timeout` takes.
fn cost(Rig { wheel, runtime }: &Rig, length: Duration, way: Way) -> Cost {
    let (before, cpu, start) = (wheel.stats(), cpu_time(), Instant::now());
    let operations = runtime.block_on(async {
        let mut clients = JoinSet::new();
        for connection in in_memory(CONNECTIONS) {
            let (wheel, until) = (wheel.clone(), start + length);
            clients.spawn(async move { way.operate(&wheel, connection, until).await });
        }
        let counts = clients.join_all().await.into_iter();
        counts.map(|count| count.expect("no limit is reached")).sum::<u64>()
    });
    let (took, cpu) = (start.elapsed(), cpu_time() - cpu);
    let armed = wheel.stats().armed - before.armed;
    let is_right = match way {
        Way::NoLimits | Way::Tokio => armed == 0,
        Way::ByName | Way::Deadline => armed >= operations / 2,
        Way::ByHand | Way::WithToken => (1..=CONNECTIONS as u64).contains(&armed),
    };
    assert!(is_right, "{}: the wheel saw {armed} timers of {operations} operations", way.name());
    let count = operations as f64;
    Cost { per_second: count / took.as_secs_f64(), cpu: cpu.as_nanos() as f64 / count }
}

fn run(scale: Scale) -> Findings {
    let header = WORKERS.map(|workers| format!("{workers} worker{}", if workers == 1 { "" } else { "s" }));
    let header = || ["limits by".to_owned()].into_iter().chain(header.clone());
    let mut rates = Table::new("Operations a second with limits in memory", header());
    let mut shares = Table::new("CPU time of an operation with limits in memory", header())
        .note("Divided by that without limits of the same round, the median. It holds the server's too.");
    let length = scale.length(LENGTH);
    let found: Vec<Vec<Vec<Cost>>> = WORKERS
        .iter()
        .map(|&workers| {
            eprintln!("{workers} workers");
            let rig = Rig::by_name(multi_thread(workers));
            let mut sides = Way::ALL.map(|way| {
                let rig = &rig;
                move || cost(rig, length, way)
            });
            let mut sides: Vec<&mut dyn FnMut() -> Cost> =
                sides.iter_mut().map(|side| side as &mut dyn FnMut() -> Cost).collect();
            warm_rounds(scale.few_rounds(), &mut sides)
        })
        .collect();
    for (i, way) in Way::ALL.iter().enumerate() {
        let typical = |of: &dyn Fn(&[Cost]) -> f64| {
            found.iter().map(|found| median(found.iter().map(|round| of(round)))).collect::<Vec<f64>>()
        };
        let rate = typical(&|round| round[i].per_second);
        let share = typical(&|round| round[i].cpu / round[0].cpu);
        let row = |cells: Vec<String>| [way.name().to_owned()].into_iter().chain(cells);
        rates = rates.row(row(rate.into_iter().map(|rate| Unit::PerSecond.show(rate)).collect()));
        shares = shares.row(row(share.into_iter().map(number).collect()));
    }
    // In pairs, on one worker: the one number that no lock disturbs.
    let place = |way: Way| Way::ALL.iter().position(|it| *it == way).expect("it is one of all");
    let beside = |other: Way| {
        median(found[0].iter().map(|round| round[place(Way::Deadline)].cpu / round[place(other)].cpu))
    };
    let (with_token, by_hand) = (beside(Way::WithToken), beside(Way::ByHand));
    let shares = shares.note(format!(
        "A deadline each beside one timer moved by hand and a token, which can do the same, on one worker: {}. Beside the \
         timer alone, which nobody can cancel: {}.",
        target(format!("{}, at most 1", number(with_token)), with_token <= 1.0),
        number(by_hand)
    ));
    Findings { tables: vec![rates, shares, task::table(scale)] }
}

//! What share of an operation is under a lock that all workers share, and what ceiling that means on more cores.

use std::pin::Pin;
use std::task::{Context, Waker};

use tokio::runtime::Builder;
use tokio::time::sleep;

use super::ways::Way;
use super::{Cost, EACH};
use crate::support::{Scale, Table, Unit, median, number, time};

const CORES: [u32; 3] = [8, 32, 128];
/// So few that they stay in the cache, as those of an operation do.
const TIMERS: usize = 2_000;

/// `cost` is that of each way on one worker, by its place in [`Way::ALL`].
pub(super) fn table(scale: Scale, cost: impl Fn(usize) -> Cost) -> Table {
    let place = |way| Way::ALL.iter().position(|it| *it == way).expect("it is one of all");
    // Both ways make the same polls, and the wheel counts its timers.
    let timers = cost(place(Way::ByName)).armed;
    let limits = (cost(place(Way::Tokio)).cpu - cost(place(Way::NoLimits)).cpu).max(0.0);
    let under_lock = (tokios_lock(scale) * timers).min(limits);
    let header = ["limits by", "an operation", "under the lock", "share"].map(str::to_owned);
    let header = header.into_iter().chain(CORES.map(|cores| format!("at most on {cores} cores")));
    let mut table = Table::new("Reckoned: the lock that all workers share", header)
        .note(format!(
            "Reckoned, not measured: nobody ran it on so many cores. An operation takes what it took of CPU on one worker, \
             and registers {} timers, as the wheel counted by name. Of tokio's timers the time to register and to drop one \
             was measured alone, and all of it is counted as under its lock, which is a little too much, but never more than all that \
             its limits cost an operation. The ceiling is \
             the lesser of all cores at work without waiting, and of one thread after the other under the lock.",
            number(timers)
        ))
        .note(
            "The wheel has a lock for each worker, and a token one for each request, so no lock is shared by all. Memory \
             that cores pass to each other slows every row down, and is not in it.",
        );
    for (i, way) in Way::ALL.iter().enumerate() {
        let Cost { cpu, .. } = cost(i);
        let locked = if *way == Way::Tokio { under_lock } else { 0.0 };
        let ceilings = CORES.map(|cores| {
            let all = f64::from(cores) * 1e9 / cpu;
            Unit::PerSecond.show(if locked > 0.0 { all.min(1e9 / locked) } else { all })
        });
        let cells =
            [way.name().into(), Unit::Nanos.show(cpu), Unit::Nanos.show(locked), number(locked / cpu)];
        table = table.row(cells.into_iter().chain(ceilings));
    }
    table
}

/// The time to register and to drop a timer of tokio's, in nanoseconds.
fn tokios_lock(scale: Scale) -> f64 {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let _guard = runtime.enter();
    let count = scale.of(TIMERS);
    let mut cx = Context::from_waker(Waker::noop());
    // An earlier one, because a timer that is the first wakes the driver too.
    let mut earlier = Box::pin(sleep(EACH / 2));
    assert!(earlier.as_mut().poll(&mut cx).is_pending());
    let rounds = (0..scale.rounds()).map(|_| {
        let mut sleeps: Vec<_> = (0..count).map(|_| Box::pin(sleep(EACH))).collect();
        let took = time(|| {
            // One after the other, as operations have them.
            for mut sleep in sleeps.drain(..) {
                assert!(Pin::as_mut(&mut sleep).poll(&mut cx).is_pending());
            }
        });
        took.as_nanos() as f64 / count as f64
    });
    median(rounds)
}

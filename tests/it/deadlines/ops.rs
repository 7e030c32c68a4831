//! Operations on a wheel and its timers, as plain data, and decoded from bytes.

use std::time::Duration;

use tokio::time::Instant;

use crate::bytes::Bytes;

const DAY: Duration = Duration::from_secs(86_400);
/// So that all of them together end before a wheel's time does.
const MOST_OPS: usize = 100;

/// The settings of a wheel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) tick: Duration,
    pub(crate) wheel_size: usize,
    pub(crate) shards: usize,
    pub(crate) max_pending: Option<usize>,
}

/// Timers are named by any number, taken modulo how many there are.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Sleep(Duration),
    Timeout(Duration),
    TrySleep(Duration),
    /// Made and dropped.
    Churn(Duration),
    /// Moved so often before its task runs.
    Reset(usize, Vec<Move>),
    /// The future in a timeout becomes ready.
    Answer(usize),
    Drop(usize),
    /// The clock jumps.
    Advance(Duration),
    /// The clock goes from timer to timer.
    Idle(Duration),
    Shutdown,
}

/// From now.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Move {
    After(Duration),
    Before(Duration),
}

/// When a timer of that delay is due, unless that is beyond a wheel's time.
pub(crate) fn after_now(delay: Duration) -> Option<Instant> {
    (delay < Duration::MAX).then(|| Instant::now() + delay)
}

/// A wheel, and what is to be done to it.
pub(crate) fn decode(bytes: &[u8]) -> (Shape, Vec<Op>) {
    let mut bytes = Bytes::new(bytes);
    let shape = shape(&mut bytes);
    let mut ops = Vec::new();
    while !bytes.is_empty() && ops.len() < MOST_OPS {
        ops.push(op(&mut bytes));
    }
    (shape, ops)
}

fn shape(bytes: &mut Bytes<'_>) -> Shape {
    let tick = match bytes.below(8) {
        0 => Duration::from_micros(1),
        1 => Duration::from_micros(100),
        2..5 => Duration::from_millis(1),
        5 => Duration::from_millis(7),
        6 => Duration::from_micros(1 + bytes.number(3)),
        _ => DAY,
    };
    let wheel_size = [2, 3, 64, 256][usize::from(bytes.byte() % 4)];
    let shards = 1 + usize::from(bytes.byte() % 3);
    let max_pending = match bytes.byte() {
        bound @ 0..8 => Some(usize::from(bound)),
        _ => None,
    };
    Shape { tick, wheel_size, shards, max_pending }
}

fn op(bytes: &mut Bytes<'_>) -> Op {
    match bytes.below(16) {
        0..3 => Op::Sleep(delay(bytes)),
        3 | 4 => Op::Timeout(delay(bytes)),
        5 => Op::TrySleep(delay(bytes)),
        6 => Op::Churn(delay(bytes)),
        7..10 => Op::Reset(which(bytes), (0..=bytes.below(3)).map(|_| change(bytes)).collect()),
        10 => Op::Answer(which(bytes)),
        11 => Op::Drop(which(bytes)),
        12 => Op::Advance(time(bytes)),
        13 | 14 => Op::Idle(time(bytes)),
        // Once in a while: what comes after it is of less interest.
        _ => match bytes.below(8) {
            0 => Op::Shutdown,
            _ => Op::Idle(Duration::from_millis(bytes.below(8))),
        },
    }
}

fn change(bytes: &mut Bytes<'_>) -> Move {
    match bytes.below(4) {
        0 => Move::Before(Duration::from_nanos(bytes.number(3))),
        _ => Move::After(delay(bytes)),
    }
}

fn delay(bytes: &mut Bytes<'_>) -> Duration {
    match bytes.below(16) {
        0 => Duration::MAX,
        1 => 365 * DAY * (1 + u32::from(bytes.byte() % 99)),
        _ => time(bytes),
    }
}

/// At most some two years.
fn time(bytes: &mut Bytes<'_>) -> Duration {
    match bytes.below(8) {
        0 => Duration::ZERO,
        1 => Duration::from_nanos(bytes.number(2)),
        2 => Duration::from_micros(bytes.number(2)),
        3 | 4 => Duration::from_millis(bytes.number(1)),
        5 => Duration::from_millis(bytes.number(2)),
        6 => Duration::from_secs(bytes.number(2)),
        _ => Duration::from_secs(60 * bytes.number(2) * 16),
    }
}

fn which(bytes: &mut Bytes<'_>) -> usize {
    usize::from(bytes.byte())
}
